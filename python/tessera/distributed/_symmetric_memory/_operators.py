"""The operators of `tessera.ops.symm_mem`. All ranks of the group call them, in the same order.

Each begins and ends with a barrier: nobody reads what is not there, or writes what is still read. Sums go from rank 0
on, in float32 or wider: they have the same bits everywhere.
"""

import tessera
from tessera.distributed import _functional_collectives as functional
from tessera.distributed._symmetric_memory._blocks import rendezvous
from tessera.library import Library


def _check_sum(reduce_op):
    if reduce_op != "sum":
        raise RuntimeError(f"operators on symmetric memory reduce by 'sum', but got {reduce_op!r}")


def _sum(memory, tensor, out):
    """The sum over ranks of what lies where `tensor` does, in `out`."""
    total = memory.like(tensor, 0)
    wide = tessera.float32 if tensor.dtype.is_floating_point and tensor.itemsize < 4 else tensor.dtype
    total = total.to(wide, copy=True)
    for rank in range(1, memory.world_size):
        total += memory.like(tensor, rank)
    return out.copy_(total.view(out.shape))


def _one_shot_out(input, reduce_op, group_name, out):
    _check_sum(reduce_op)
    memory = rendezvous(input, group_name)
    memory.meet()
    _sum(memory, input, out)
    memory.meet()
    return out


def _one_shot(input, reduce_op, group_name):
    return _one_shot_out(input, reduce_op, group_name, input.new_empty(input.shape))


def _one_shot_copy_out(symm_buffer, local_input, reduce_op, group_name, out):
    target = symm_buffer.view(-1)[: local_input.numel()].view(local_input.shape)
    return _one_shot_out(target.copy_(local_input), reduce_op, group_name, out)


def _one_shot_copy(symm_buffer, local_input, reduce_op, group_name):
    out = local_input.new_empty(local_input.shape)
    return _one_shot_copy_out(symm_buffer, local_input, reduce_op, group_name, out)


def _two_shot_(input, reduce_op, group_name):
    """Each rank sums its part, and takes those of the others."""
    _check_sum(reduce_op)
    memory = rendezvous(input, group_name)
    parts = input.view(-1).tensor_split(memory.world_size)
    memory.meet()
    _sum(memory, parts[memory.rank], parts[memory.rank])
    memory.meet()
    for rank, part in enumerate(parts):
        if rank != memory.rank:
            part.copy_(memory.like(part, rank))
    memory.meet()
    return input


def _two_shot_out(input, reduce_op, group_name, output):
    return output.copy_(_two_shot_(input, reduce_op, group_name))


def _reduce_scatter_out(input, group_name, split_last_dim, output):
    memory = rendezvous(input, group_name)
    dim = input.dim() - 1 if split_last_dim else 0
    if input.dim() == 0 or input.shape[dim] % memory.world_size:
        raise RuntimeError(f"shape {tuple(input.shape)} cannot be cut in {memory.world_size} equal parts along {dim}")
    memory.meet()
    _sum(memory, input.chunk(memory.world_size, dim)[memory.rank], output)
    memory.meet()
    return output


def _tile_reduce(in_tile, out_tile, root, group_name, reduce_op="sum"):
    _multi_root_tile_reduce([in_tile], out_tile, [root], group_name, reduce_op)


def _multi_root_tile_reduce(in_tiles, out_tile, roots, group_name, reduce_op="sum"):
    _check_sum(reduce_op)
    if len(set(roots)) != len(roots) or len(roots) != len(in_tiles):
        raise RuntimeError(f"each of the {len(in_tiles)} tiles has a root of its own, but roots are {list(roots)}")
    memories = [rendezvous(tile, group_name) for tile in in_tiles]
    memories[0].meet()
    for tile, root, memory in zip(in_tiles, roots, memories):
        if root == memory.rank:
            _sum(memory, tile, out_tile)
    memories[0].meet()


def _exchange(input, out, splits, group_name, wanted):
    """Rows from all ranks. `wanted(splits of each rank, rank)` gives (source, its first row, rows, first row here)."""
    memory, known = rendezvous(input, group_name), rendezvous(splits, group_name)
    memory.meet()
    plan = wanted([known.like(splits, rank).tolist() for rank in range(memory.world_size)], memory.rank)
    needed = max((at + rows for *_, rows, at in plan), default=0)
    for source, first, rows, at in plan if needed <= len(out) else ():
        out[at : at + rows].copy_(memory.like(input, source)[first : first + rows])
    memory.meet()
    if needed > len(out):
        raise RuntimeError(f"{needed} rows come, but the output has {len(out)}")
    return plan


def _write_plan(out_splits_offsets, plan):
    out_splits_offsets.copy_(tessera.tensor([[rows for *_, rows, _ in plan], [at for *_, at in plan]]))


def _all_to_all_vdev(input, out, in_splits, out_splits_offsets, group_name):
    def wanted(splits, rank):
        plan, at = [], 0
        for source, row in enumerate(splits):
            plan.append((source, sum(row[:rank]), row[rank], at))
            at += row[rank]
        return plan

    _write_plan(out_splits_offsets, _exchange(input, out, in_splits, group_name, wanted))


def _all_to_all_vdev_2d(input, out, in_splits, out_splits_offsets, group_name, major_align=None):
    """From the order of ranks to the order of experts, each of which begins at a multiple of `major_align`."""

    def wanted(splits, rank):
        plan, at, own = [], 0, len(splits[0]) // len(splits)
        for expert in range(rank * own, (rank + 1) * own):
            start = at
            for source, row in enumerate(splits):
                plan.append((source, sum(row[:expert]), row[expert], at))
                at += row[expert]
            if major_align is not None:
                at = start + max(-(-(at - start) // major_align), 1) * major_align
        return plan

    _write_plan(out_splits_offsets, _exchange(input, out, in_splits, group_name, wanted))


def _all_to_all_vdev_2d_offset(input, out, in_splits_offsets, out_splits_offsets, group_name):
    """From the order of experts back to the order of ranks."""

    def wanted(known, rank):
        plan, at, world = [], 0, len(known)
        for source, (splits, offsets) in enumerate(known):
            for place in range(rank, len(splits), world):
                plan.append((source, offsets[place], splits[place], at))
                at += splits[place]
        return plan

    _write_plan(out_splits_offsets, _exchange(input, out, in_splits_offsets, group_name, wanted))


def _get_remote_tensors(x, group_name):
    memory = rendezvous(x, group_name)
    return [memory.like(x, rank) for rank in range(memory.world_size)]


def _memset32_(input, offset, val, count=1):
    if input.dim() != 1 or input.itemsize != 4 or offset < 0 or count < 1 or offset + count > input.numel():
        raise RuntimeError(
            f"a flat tensor of {offset + count} or more elements of 4 bytes is needed to write {count} at {offset}, "
            f"but got {input.dtype} of shape {tuple(input.shape)}"
        )
    input.view(tessera.int32)[offset : offset + count] = val - (1 << 32) if val >= 1 << 31 else val
    return input


def _multimem(*args, **kwargs):
    raise RuntimeError("operators `multimem_*` need GPUs whose links multicast; use one_shot_all_reduce and others")


def _of_gpus(*args, **kwargs):
    raise RuntimeError("operators `nccl_*` and `nvshmem_*` need GPUs; get_remote_tensors gives the memory of others")


# ---- products whose operands or results are spread over the ranks, for tensors in any memory


def _check_dim(what, dim, tensor):
    if not 0 <= dim < tensor.dim():
        raise RuntimeError(
            f"{what} has to be from 0 to {tensor.dim() - 1} for {tensor.dim()} dimensions, but got {dim}"
        )


def _gathered(tensor, dim, group_name):
    return functional.wait_tensor(functional.all_gather_tensor(tensor.detach(), dim, group_name))


def _scattered(tensor, reduce_op, dim, group_name):
    parts = functional._resolve_group(group_name).size()
    if tensor.shape[dim] % parts:
        raise RuntimeError(f"shape {tuple(tensor.shape)} cannot be cut in {parts} equal parts along {dim}")
    return functional.wait_tensor(functional.reduce_scatter_tensor(tensor.detach(), reduce_op, dim, group_name))


def _gather_matmul(A, Bs, gather_dim, group_name, *, return_A=True):
    _check_dim("gather_dim", gather_dim, A)
    whole = _gathered(A, gather_dim, group_name)
    return whole if return_A else None, [whole @ B for B in Bs]


def _matmul_scatter(A, B, reduce_op, scatter_dim, group_name):
    _check_dim("scatter_dim", scatter_dim, A)
    return _scattered(A @ B, reduce_op, scatter_dim, group_name)


# What the extension gives for the elements of `ScalarType?[]`.
_DTYPES = {
    5: tessera.float16,
    6: tessera.float32,
    15: tessera.bfloat16,
    23: tessera.float8_e5m2,
    24: tessera.float8_e4m3fn,
}


def _scaled(A, B, A_scale, B_scale, bias, result_scale, out_dtype, use_fast_accum):
    rows = A_scale.reshape(-1, 1) if A_scale.numel() > 1 else A_scale
    more = {"bias": bias, "scale_result": result_scale, "out_dtype": out_dtype, "use_fast_accum": use_fast_accum}
    product = tessera._scaled_mm(A.reshape(-1, A.shape[-1]), B, rows, B_scale, **more)
    return product.view(*A.shape[:-1], B.shape[1])


def _gather_scaled_matmul(
    A, Bs, A_scale, B_scales, gather_dim, group_name, biases, result_scales, out_dtypes, use_fast_accum
):
    _check_dim("gather_dim", gather_dim, A)
    options = (Bs, B_scales, biases, result_scales, out_dtypes, use_fast_accum)
    if len({len(one) for one in options}) > 1:
        raise RuntimeError(f"each of the {len(Bs)} matrices needs a scale and options of its own")
    whole = _gathered(A, gather_dim, group_name)
    if A_scale.numel() > 1 and A_scale.shape[:-1] == A.shape[:-1]:
        A_scale = _gathered(A_scale, gather_dim, group_name)
    if A_scale.numel() > 1 and A_scale.numel() * A.shape[-1] != whole.numel():
        raise RuntimeError(f"a scale of shape {tuple(A_scale.shape)} has no place for each row of {tuple(A.shape)}")
    return whole, [
        _scaled(whole, B, A_scale, scale, bias, factor, _DTYPES.get(dtype, dtype), fast)
        for B, scale, bias, factor, dtype, fast in zip(*options)
    ]


def _scaled_matmul_scatter(
    A,
    B,
    A_scale,
    B_scale,
    reduce_op,
    orig_scatter_dim,
    scatter_dim_after_maybe_reshape,
    group_name,
    output_shape,
    bias=None,
    result_scale=None,
    out_dtype=None,
    use_fast_accum=False,
):
    _check_dim("scatter_dim_after_maybe_reshape", scatter_dim_after_maybe_reshape, A)
    product = _scaled(A, B, A_scale, B_scale, bias, result_scale, out_dtype, use_fast_accum)
    product = product if output_shape is None else product.view(*output_shape[:-1], B.shape[1])
    _check_dim("orig_scatter_dim", orig_scatter_dim, product)
    return _scattered(product, reduce_op, orig_scatter_dim, group_name)


_REDUCE, _OUT = "str reduce_op, str group_name", "Tensor(a!) out) -> Tensor(a!)"
_SPLITS = "Tensor(b!) out_splits_offsets, str group_name"
_TABLE = {
    f"one_shot_all_reduce(Tensor input, {_REDUCE}) -> Tensor": _one_shot,
    f"one_shot_all_reduce_out(Tensor input, {_REDUCE}, {_OUT}": _one_shot_out,
    f"one_shot_all_reduce_copy(Tensor symm_buffer, Tensor local_input, {_REDUCE}) -> Tensor": _one_shot_copy,
    f"one_shot_all_reduce_copy_out(Tensor symm_buffer, Tensor local_input, {_REDUCE}, {_OUT}": _one_shot_copy_out,
    f"two_shot_all_reduce_(Tensor(a!) input, {_REDUCE}) -> Tensor(a!)": _two_shot_,
    f"two_shot_all_reduce_out(Tensor(a!) input, {_REDUCE}, Tensor(b!) output) -> Tensor(b!)": _two_shot_out,
    "reduce_scatter_out(Tensor(a!) input, str group_name, bool split_last_dim, Tensor(b!) output) "
    "-> Tensor(b!)": _reduce_scatter_out,
    'tile_reduce(Tensor in_tile, Tensor(a!) out_tile, int root, str group_name, str reduce_op="sum") '
    "-> ()": _tile_reduce,
    "multi_root_tile_reduce(Tensor[] in_tiles, Tensor(a!) out_tile, int[] roots, str group_name, "
    'str reduce_op="sum") -> ()': _multi_root_tile_reduce,
    f"all_to_all_vdev(Tensor input, Tensor(a!) out, Tensor in_splits, {_SPLITS}) -> ()": _all_to_all_vdev,
    f"all_to_all_vdev_2d(Tensor input, Tensor(a!) out, Tensor in_splits, {_SPLITS}, int? major_align=None) "
    "-> ()": _all_to_all_vdev_2d,
    f"all_to_all_vdev_2d_offset(Tensor input, Tensor(a!) out, Tensor in_splits_offsets, {_SPLITS}) "
    "-> ()": _all_to_all_vdev_2d_offset,
    "get_remote_tensors(Tensor x, str group_name) -> Tensor[]": _get_remote_tensors,
    "memset32_(Tensor(a!) input, int offset, int val, int count) -> Tensor(a!)": _memset32_,
    "stream_write_value32_(Tensor(a!) input, int offset, int val) -> Tensor(a!)": _memset32_,
    f"multimem_all_reduce_(Tensor(a!) input, {_REDUCE}) -> Tensor(a!)": _multimem,
    f"multimem_all_gather_out(Tensor input, str group_name, {_OUT}": _multimem,
    f"multimem_one_shot_all_reduce(Tensor input, {_REDUCE}) -> Tensor": _multimem,
    f"multimem_one_shot_all_reduce_out(Tensor input, {_REDUCE}, {_OUT}": _multimem,
    f"multimem_one_shot_reduce_out(Tensor input, str reduce_op, int root, str group_name, {_OUT}": _multimem,
    "fused_all_gather_matmul(Tensor A, Tensor[] Bs, int gather_dim, str group_name, *, bool return_A=True) "
    "-> (Tensor?, Tensor[])": _gather_matmul,
    "fused_all_gather_scaled_matmul(Tensor A, Tensor[] Bs, Tensor A_scale, Tensor[] B_scales, int gather_dim, "
    "str group_name, Tensor?[] biases, Tensor?[] result_scales, ScalarType?[] out_dtypes, bool[] use_fast_accum) "
    "-> (Tensor, Tensor[])": _gather_scaled_matmul,
    "fused_matmul_reduce_scatter(Tensor A, Tensor B, str reduce_op, int scatter_dim, str group_name) "
    "-> Tensor": _matmul_scatter,
    "fused_scaled_matmul_reduce_scatter(Tensor A, Tensor B, Tensor A_scale, Tensor B_scale, str reduce_op, "
    "int orig_scatter_dim, int scatter_dim_after_maybe_reshape, str group_name, SymInt[]? output_shape, "
    "Tensor? bias=None, Tensor? result_scale=None, ScalarType? out_dtype=None, bool use_fast_accum=False) "
    "-> Tensor": _scaled_matmul_scatter,
    "_low_contention_all_gather(Tensor tensor, str group_name) -> Tensor": lambda x, name: _gathered(x, 0, name),
    f"_low_contention_reduce_scatter(Tensor tensor, {_REDUCE}) -> Tensor": lambda x, op, name: _scattered(
        x, op, 0, name
    ),
    "nccl_put(Tensor(a!) tensor, int peer) -> ()": _of_gpus,
    "nccl_get(Tensor(a!) tensor, int peer) -> ()": _of_gpus,
    "nccl_put_with_signal(Tensor(a) tensor, int signal, int peer) -> ()": _of_gpus,
    "nccl_wait_for_signal(Tensor sigpad, int signal) -> ()": _of_gpus,
    "nvshmem_put(Tensor(a!) tensor, int peer) -> ()": _of_gpus,
    "nvshmem_get(Tensor(a!) tensor, int peer) -> ()": _of_gpus,
    "nvshmem_put_with_signal(Tensor(a) tensor, Tensor(a) sigpad, int signal, int peer) -> ()": _of_gpus,
    "nvshmem_wait_for_signal(Tensor sigpad, int signal, int peer) -> ()": _of_gpus,
    "nvshmem_broadcast(Tensor(a!) input, int root, str group_name) -> Tensor(a!)": _of_gpus,
    f"nvshmem_all_to_all(Tensor input, {_OUT.replace('out)', 'out, str group_name)')}": _of_gpus,
}


def defined():
    """The library of operators; they exist as long as it does."""
    library = Library("symm_mem", "DEF")
    for schema, kernel in _TABLE.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], kernel, "CompositeExplicitAutograd")
    return library
