"""Collectives of tensors, as users call them."""

import threading

import tessera
from tessera.distributed import _kinds as kinds
from tessera.distributed._groups import chosen_rank, member

ReduceOp = kinds.ReduceOp


class _Together(threading.local):
    works = None  # those of a block that waits for all of them at its end


_together = _Together()


def _tensor(value, name):
    if not isinstance(value, tessera.Tensor):
        raise TypeError(f"expected a tensor for {name}, but got {type(value).__name__}")
    return value


def _tensors(values, name):
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, tessera.Tensor) for value in values):
        raise TypeError(f"expected a list of tensors for {name}, but got {type(values).__name__}")
    return list(values)


def _same_dtype(*tensors):
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        raise ValueError(f"a collective takes tensors of one dtype, but got {sorted(map(str, dtypes))}")


def _check_op(op, tensor):
    kinds.kind_of(op)
    if tensor.is_complex() and not kinds.supports_complex(op):
        raise ValueError(f"complex tensors cannot be reduced by {op!r}: they have no order and no bits")


def _options(kind, async_op, **values):
    options = kind()
    options.asyncOp = async_op
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _result(work, async_op):
    """What the caller gets of a Work: itself, or nothing once it has ended."""
    if async_op:
        return work
    if work is not None:
        work.wait()
    return None


def _begun(start, kind, async_op, **values):
    """What the caller gets of `start(options)`, for which a block may wait at its end."""
    works = _together.works
    work = start(_options(kind, async_op or works is not None, **values))
    if works is None:
        return _result(work, async_op)
    works.append(work)
    return work if async_op else None


def _future(work, async_op):
    """As _result, with a Future of the tensors in place of the Work."""
    work = _result(work, async_op)
    return None if work is None else work.get_future()


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copies the tensor of one rank to all, in place.

    Args:
        tensor: any shape; the number of elements has to be equal everywhere.
        src: the global rank that gives it; or
        group_src: its rank in the group.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.

    Returns: a Work if `async_op`, else None. Raises: TypeError for what is no tensor, ValueError unless one of src and
        group_src is given, RuntimeError (DistBackendError) if a rank does not join in time.
    """
    group = member(group, "broadcast")
    if group is None:
        return None
    root = chosen_rank(group, src, group_src, "src")
    opts = _options(kinds.BroadcastOptions, async_op, rootRank=root)
    return _result(group.broadcast([_tensor(tensor, "tensor")], opts), async_op)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces the tensors of all ranks, in place: all have the same bits then.

    Args:
        tensor: of equal size and dtype everywhere; SUM also takes complex and sparse COO tensors.
        op: how.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.

    Returns: a Work if `async_op`, else None. Raises: TypeError, ValueError for complex numbers that have no such
        reduction, RuntimeError for a dtype that has none or if a rank does not join in time.
    """
    _check_op(op, _tensor(tensor, "tensor"))
    group = member(group, "all_reduce")
    if group is None:
        return None
    return _begun(lambda opts: group.allreduce([tensor], opts), kinds.AllreduceOptions, async_op, reduceOp=op)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces several tensors of one dtype at once, in place. As all_reduce for each of them."""
    tensors = _tensors(tensors, "tensors")
    _same_dtype(*tensors)
    for tensor in tensors:
        _check_op(op, tensor)
    group = member(group, "all_reduce_coalesced")
    if group is None:
        return None
    opts = _options(kinds.AllreduceCoalescedOptions, async_op, reduceOp=op)
    return _future(group.allreduce_coalesced(tensors, opts), async_op)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Reduces the tensors of all ranks, in place at one of them; what others have is as it was.

    Args:
        tensor: of equal size and dtype everywhere.
        dst: the global rank that gets the result; or
        group_dst: its rank in the group.
        op: how.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.
    """
    group = member(group, "reduce")
    if group is None:
        return None
    root = chosen_rank(group, dst, group_dst, "dst")
    _check_op(op, _tensor(tensor, "tensor"))
    return _result(
        group.reduce([tensor], _options(kinds.ReduceOptions, async_op, reduceOp=op, rootRank=root)), async_op
    )


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Collects the tensors of all ranks at all of them.

    Args:
        tensor_list: a tensor for each rank. Sizes may differ between ranks, if each expects what the other gives.
        tensor: what this rank gives.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.

    Returns: a Work if `async_op`, else None. Raises: ValueError for different dtypes, RuntimeError for other sizes than
        what comes, and for another number of tensors than ranks.
    """
    tensor_list = _tensors(tensor_list, "tensor_list")
    _same_dtype(_tensor(tensor, "tensor"), *tensor_list)
    group = member(group, "all_gather")
    if group is None:
        return None
    return _result(group.allgather([tensor_list], [tensor], _options(kinds.AllgatherOptions, async_op)), async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """Collects a list of tensors of every rank: `output_tensor_lists[rank][i]` takes its tensor i."""
    inputs = _tensors(input_tensor_list, "input_tensor_list")
    if not isinstance(output_tensor_lists, (list, tuple)):
        raise TypeError("expected a list of lists of tensors for output_tensor_lists")
    outputs = [_tensors(row, "output_tensor_lists") for row in output_tensor_lists]
    group = member(group, "all_gather_coalesced")
    if group is None:
        return None
    opts = _options(kinds.AllgatherOptions, async_op)
    return _future(group.allgather_coalesced(outputs, inputs, opts), async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Collects the tensors of all ranks in one, one after the other or stacked.

    Args:
        output_tensor: of shape (ranks * n, ...) or (ranks, n, ...).
        input_tensor: what this rank gives, of shape (n, ...).
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.

    Raises: RuntimeError for different dtypes, and for another number of elements.
    """
    _tensor(input_tensor, "input_tensor"), _tensor(output_tensor, "output_tensor")
    group = member(group, "all_gather_into_tensor")
    if group is None:
        return None
    start = lambda opts: group._allgather_base(output_tensor, input_tensor, opts)
    return _begun(start, kinds.AllgatherOptions, async_op)


def _root_of(group, rank, group_rank, name):
    """As chosen_rank, with rank 0 of the group where neither is given."""
    return 0 if rank is None and group_rank is None else chosen_rank(group, rank, group_rank, name)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Collects the tensors of all ranks at one.

    Args:
        tensor: what this rank gives; of equal size everywhere.
        gather_list: at the destination a tensor for each rank, elsewhere None.
        dst: the global rank of the destination (default: the group's rank 0); or
        group_dst: its rank in the group.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.

    Raises: ValueError for a list where there should be none, and the other way round.
    """
    _tensor(tensor, "tensor")
    group = member(group, "gather")
    if group is None:
        return None
    root = _root_of(group, dst, group_dst, "dst")
    if root == group.rank():
        if not gather_list:
            raise ValueError("gather needs gather_list at the destination")
        outputs = [_tensors(gather_list, "gather_list")]
        _same_dtype(tensor, *outputs[0])
    else:
        if gather_list:
            raise ValueError("gather takes gather_list at the destination only")
        outputs = []
    return _result(group.gather(outputs, [tensor], _options(kinds.GatherOptions, async_op, rootRank=root)), async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives each rank one of the tensors of one.

    Args:
        tensor: takes what this rank gets.
        scatter_list: at the source a tensor for each rank, all of the same size; elsewhere None.
        src: the global rank of the source (default: the group's rank 0); or
        group_src: its rank in the group.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.

    Raises: ValueError without a list at the source, and for one elsewhere; RuntimeError for different sizes.
    """
    _tensor(tensor, "tensor")
    group = member(group, "scatter")
    if group is None:
        return None
    root = _root_of(group, src, group_src, "src")
    if root == group.rank():
        if not scatter_list:
            raise ValueError("scatter needs scatter_list at the source")
        inputs = [_tensors(scatter_list, "scatter_list")]
        _same_dtype(tensor, *inputs[0])
    else:
        if scatter_list:
            raise ValueError("scatter takes scatter_list at the source only")
        inputs = []
    return _result(group.scatter([tensor], inputs, _options(kinds.ScatterOptions, async_op, rootRank=root)), async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces lists of tensors of all ranks; rank i gets the reduction of what stands at place i.

    Args:
        output: takes what this rank gets.
        input_list: a tensor for each rank.
        op: how.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.
    """
    inputs = _tensors(input_list, "input_list")
    _same_dtype(_tensor(output, "output"), *inputs)
    _check_op(op, output)
    group = member(group, "reduce_scatter")
    if group is None:
        return None
    opts = _options(kinds.ReduceScatterOptions, async_op, reduceOp=op)
    return _result(group.reduce_scatter([output], [inputs], opts), async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces tensors of all ranks; rank i gets part i.

    Args:
        output: takes what this rank gets, of shape (n, ...).
        input: of shape (ranks * n, ...) or (ranks, n, ...).
        op: how.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.
    """
    _same_dtype(_tensor(output, "output"), _tensor(input, "input"))
    _check_op(op, output)
    group = member(group, "reduce_scatter_tensor")
    if group is None:
        return None
    start = lambda opts: group._reduce_scatter_base(output, input, opts)
    return _begun(start, kinds.ReduceScatterOptions, async_op, reduceOp=op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Cuts a tensor along its first dimension and gives each rank a part.

    Args:
        output: takes the parts that this rank gets, in the order of ranks.
        input: what this rank gives.
        output_split_sizes: rows that come from each rank; None: equal parts.
        input_split_sizes: rows that go to each rank; None: equal parts.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.

    Raises: RuntimeError for split sizes that do not add up to the rows.
    """
    _same_dtype(_tensor(output, "output"), _tensor(input, "input"))
    group = member(group, "all_to_all_single")
    if group is None:
        return None
    outs, ins = output_split_sizes or [], input_split_sizes or []
    work = group.alltoall_base(output, input, list(outs), list(ins), _options(kinds.AllToAllOptions, async_op))
    return _result(work, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Gives each rank the tensor of its place, and takes one from each. Sizes may differ.

    Args:
        output_tensor_list: takes a tensor of each rank.
        input_tensor_list: a tensor for each rank.
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.
    """
    outputs, inputs = (
        _tensors(output_tensor_list, "output_tensor_list"),
        _tensors(input_tensor_list, "input_tensor_list"),
    )
    _same_dtype(*outputs, *inputs)
    group = member(group, "all_to_all")
    if group is None:
        return None
    return _result(group.alltoall(outputs, inputs, _options(kinds.AllToAllOptions, async_op)), async_op)


def barrier(group=None, async_op=False, device_ids=None):
    """Waits until every rank has come.

    Args:
        group: None: the default group.
        async_op: whether to return a Work instead of waiting.
        device_ids: a list of one device's number, for the NCCL backend.

    Raises: ValueError before there is a group, RuntimeError for device_ids that are no list.
    """
    group = member(group, "barrier")
    if group is None:
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError(f"barrier: device_ids is a list of one number, but got {type(device_ids).__name__}")
    opts = _options(kinds.BarrierOptions, async_op)
    if device_ids is not None:
        opts.device_ids = device_ids
    return _result(group.barrier(opts), async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Waits until every rank has come. If one does not, rank 0 raises an error that names it, and the others raise.

    Args:
        group: None: the default group; of the backend gloo.
        timeout: how long (datetime.timedelta); None: as long as the group's collectives.
        wait_all_ranks: whether to wait for all, and name all who do not come, instead of the first.

    Raises: ValueError for another backend, RuntimeError (DistBackendError) if a rank does not come.
    """
    group = member(group, "monitored_barrier")
    if group is None:
        return None
    if "cpu" not in getattr(group, "_backends", {"cpu": None}):
        raise ValueError("monitored_barrier is for groups that have the backend gloo")
    return group.monitored_barrier(timeout, wait_all_ranks)
