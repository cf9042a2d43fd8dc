"""Collectives that return new tensors, as operators of the namespace `_c10d_functional`.

A group is a ProcessGroup, its name, a list of global ranks, a mesh of one dimension, or a pair of a mesh and a
dimension. Results may still be on their way: an AsyncCollectiveTensor waits when it is first used.

>>> import tessera.distributed as dist
>>> from tessera.distributed import _functional_collectives as funcol
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> funcol.all_reduce(tessera.ones(2), "sum", dist.group.WORLD) + 1
tensor([2., 2.])
>>> dist.destroy_process_group()
"""

import tessera
from tessera import _C
from tessera.autograd import Function
from tessera.distributed import _groups as groups
from tessera.distributed import _kinds as kinds
from tessera.distributed._process_group import ProcessGroup, has_values
from tessera.distributed.device_mesh import DeviceMesh
from tessera._ops import ops as _operators
from tessera.library import Library
from tessera.utils._pytree import tree_map_only

_OPS = {
    "sum": kinds.ReduceOp.SUM,
    "avg": kinds.ReduceOp.AVG,
    "product": kinds.ReduceOp.PRODUCT,
    "min": kinds.ReduceOp.MIN,
    "max": kinds.ReduceOp.MAX,
    "band": kinds.ReduceOp.BAND,
    "bor": kinds.ReduceOp.BOR,
    "bxor": kinds.ReduceOp.BXOR,
}
REDUCE_OP_TO_STR = {op: name for name, op in _OPS.items()}
RANK_TYPES = object


def _op_name(op):
    if isinstance(op, str):
        name = op.lower()
    else:
        name = REDUCE_OP_TO_STR.get(kinds.kind_of(op), "")
    if name not in _OPS:
        raise RuntimeError(f"Unrecognized reduce_op: {op!r}; a reduction is one of {sorted(_OPS)}")
    return name


def _resolve_group(group, tag=""):
    """The ProcessGroup that a caller names, in any of the ways."""
    if group is None:
        return groups._get_default_group()
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, str):
        return groups._resolve_process_group(group)
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)):
        ranks = list(group)
        if ranks and isinstance(ranks[0], (list, tuple)):
            ranks = next((list(row) for row in ranks if groups.get_rank() in row), [])
        found = groups._find_pg_by_ranks_and_tag(tag, ranks)
        if found is None:
            raise ValueError(f"there is no process group of the ranks {ranks}; new_group() makes one")
        return found
    raise ValueError(f"expected a process group, a mesh or ranks, but got {type(group).__name__}")


def _resolve_group_name(group, tag=""):
    return _resolve_group(group, tag).group_name


def _expand_group(group, tag=""):
    """(tag, global ranks, their number) of a group."""
    ranks = groups.get_process_group_ranks(_resolve_group(group, tag))
    return tag, ranks, len(ranks)


# ---- the operators: each starts a collective, and notes its Work with the result


def _started(output, start):
    """The result of a collective, with the Work that `start(options)` gives; nothing is started without values."""
    if has_values(output):
        output._collective_work = start
    return output


def _options(kind, **values):
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _all_reduce_(x, reduce_op, group_name):
    group = groups._resolve_process_group(group_name)
    if not has_values(x):
        return x
    return _started(x, group.allreduce([x], _options(kinds.AllreduceOptions, reduceOp=_OPS[reduce_op])))


def _all_reduce(x, reduce_op, group_name):
    return _all_reduce_(x.clone(memory_format=tessera.contiguous_format), reduce_op, group_name)


def _all_gather(x, group_size, group_name):
    group = groups._resolve_process_group(group_name)
    shape = (x.shape[0] * group_size, *x.shape[1:]) if x.dim() else (group_size,)
    out = x.new_empty(shape)
    return _started(out, group._allgather_base(out, x.contiguous())) if has_values(x) else out


def _reduce_scatter(x, reduce_op, group_size, group_name):
    group = groups._resolve_process_group(group_name)
    if x.dim() == 0 or x.shape[0] % group_size:
        raise RuntimeError(f"a tensor of shape {tuple(x.shape)} cannot be cut in {group_size} equal parts")
    out = x.new_empty((x.shape[0] // group_size, *x.shape[1:]))
    opts = _options(kinds.ReduceScatterOptions, reduceOp=_OPS[reduce_op])
    return _started(out, group._reduce_scatter_base(out, x.contiguous(), opts)) if has_values(x) else out


def _all_to_all(x, output_split_sizes, input_split_sizes, group_name):
    group = groups._resolve_process_group(group_name)
    out = x.new_empty((sum(output_split_sizes), *x.shape[1:]))
    if not has_values(x):
        return out
    return _started(out, group.alltoall_base(out, x.contiguous(), list(output_split_sizes), list(input_split_sizes)))


def _broadcast_(x, src, group_name):
    group = groups._resolve_process_group(group_name)
    if not has_values(x):
        return x
    return _started(x, group.broadcast([x], _options(kinds.BroadcastOptions, rootRank=src)))


def _broadcast(x, src, group_name):
    return _broadcast_(x.clone(memory_format=tessera.contiguous_format), src, group_name)


def _wait(x):
    work = x.__dict__.pop("_collective_work", None) if hasattr(x, "__dict__") else None
    if work is not None:
        work.wait()
    return x


def _each(one):
    """An operator on a list of tensors, from one on a tensor."""
    return lambda tensors, *rest: [one(tensor, *rest) for tensor in tensors]


def _writing(one):
    """An operator that writes its result, once it is there, to `out`."""
    return lambda x, *rest, out: out.copy_(_wait(one(x, *rest)))


def _by_ranks(one, count):
    """The older form of an operator: tag, ranks and their number instead of a name. `count`: whether it takes the
    number of members, too.
    """

    def call(x, *rest):
        *rest, tag, ranks, size = rest
        name = _resolve_group_name(list(ranks), tag)
        return one(x, *rest, size, name) if count else one(x, *rest, name)

    return call


def _all_to_all_by_ranks(x, output_split_sizes, input_split_sizes, tag, ranks, group_size):
    equal = [x.shape[0] // group_size] * group_size
    name = _resolve_group_name(list(ranks), tag)
    return _all_to_all(x, output_split_sizes or equal, input_split_sizes or equal, name)


_TABLE = {
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor": _all_reduce,
    "all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)": _all_reduce_,
    "all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]": _each(_all_reduce),
    "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor": _all_gather,
    "all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]": _each(_all_gather),
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor": _reduce_scatter,
    "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) "
    "-> Tensor[]": _each(_reduce_scatter),
    "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) "
    "-> Tensor": _all_to_all,
    "broadcast(Tensor input, int src, str group_name) -> Tensor": _broadcast,
    "broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)": _broadcast_,
    "all_reduce_coalesced_(Tensor[](a!) inputs, str reduce_op, str group_name) -> Tensor[](a!)": _each(_all_reduce_),
    "all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) "
    "-> Tensor(a!)": _writing(_all_gather),
    "reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, str group_name, *, Tensor(a!) out) "
    "-> Tensor(a!)": _writing(_reduce_scatter),
    "_wrap_tensor_autograd(Tensor input) -> Tensor": lambda x: _maybe_wrap_tensor(x),
}
_RANKS = "str tag, int[] ranks, int group_size"
# The operators before groups had names, which older graphs and programs hold.
_OLDER = {
    f"all_reduce(Tensor self, str reduceOp, {_RANKS}) -> Tensor": _by_ranks(_all_reduce, False),
    f"all_reduce_coalesced(Tensor[] self, str reduceOp, {_RANKS}) -> Tensor[]": _by_ranks(_each(_all_reduce), False),
    f"all_gather_into_tensor(Tensor shard, {_RANKS}) -> Tensor": _by_ranks(_all_gather, True),
    f"all_gather_into_tensor_coalesced(Tensor[] input, {_RANKS}) -> Tensor[]": _by_ranks(_each(_all_gather), True),
    f"reduce_scatter_tensor(Tensor input, str reduceOp, {_RANKS}) -> Tensor": _by_ranks(_reduce_scatter, True),
    f"reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduceOp, {_RANKS}) -> Tensor[]": _by_ranks(
        _each(_reduce_scatter), True
    ),
    f"all_to_all_single(Tensor input, SymInt[]? output_split_sizes, SymInt[]? input_split_sizes, {_RANKS}) "
    "-> Tensor": _all_to_all_by_ranks,
    f"broadcast(Tensor self, int src, {_RANKS}) -> Tensor": _by_ranks(_broadcast, False),
    "wait_tensor(Tensor self) -> Tensor": lambda x: _wait(x),
}


def _defined(namespace, table):
    library = Library(namespace, "DEF")
    for schema, kernel in table.items():
        library.define(schema)
        library.impl(schema.partition("(")[0], kernel, "CompositeExplicitAutograd")
    return library


def _shard_dim_alltoall(x, gather_dim, shard_dim, group_name):
    """What was cut along one dimension, cut along another."""
    size = groups._resolve_process_group(group_name).size()
    given = tessera.cat(x.chunk(size, shard_dim))
    rows = given.shape[0] // size
    return tessera.cat(_wait(_all_to_all(given, [rows] * size, [rows] * size, group_name)).chunk(size), gather_dim)


_dtensor = _defined(
    "_dtensor",
    {"shard_dim_alltoall(Tensor input, int gather_dim, int shard_dim, str group_name) -> Tensor": _shard_dim_alltoall},
)
_library, _older = _defined("_c10d_functional", _TABLE), _defined("c10d_functional", _OLDER)
_library.define("wait_tensor(Tensor tensor) -> Tensor")
_ops = _operators._c10d_functional


class AsyncCollectiveTensor(tessera.Tensor):
    """The result of a collective that may still be on its way. Whatever uses it waits first.

    Args:
        elem: the tensor that is written.
    """

    __torch_function__ = tessera._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem):
        form = {name: getattr(elem, name) for name in ("dtype", "layout", "device", "requires_grad")}
        place = {"strides": elem.stride(), "storage_offset": elem.storage_offset()}
        made = tessera.Tensor._make_wrapper_subclass(cls, elem.size(), **place, **form)
        made.elem, made.completed = elem, False
        return made

    def trigger_wait(self):
        """Waits, and returns the tensor."""
        if not self.completed:
            _wait(self.elem)
            self.completed = True
        return self.elem

    wait = trigger_wait

    def tolist(self):
        """The values, as Tensor.tolist."""
        return self.trigger_wait().tolist()

    def numpy(self, *, force=False):
        """The values, as Tensor.numpy."""
        return self.trigger_wait().numpy(force=force)

    def __repr__(self, *, tensor_contents=None):
        return f"AsyncCollectiveTensor({self.trigger_wait()})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        values = tree_map_only(AsyncCollectiveTensor, lambda one: one.trigger_wait(), (args, kwargs or {}))
        return func(*values[0], **values[1])


def _maybe_wrap_tensor(tensor):
    """A result, so that its first use waits."""
    if _is_traced() or not has_values(tensor):
        return _ops.wait_tensor(tensor)
    if tensor.requires_grad or not hasattr(tensor, "_collective_work"):
        return tensor
    return AsyncCollectiveTensor(tensor)


def _is_traced():
    """Whether operators are written down, so that waiting has to be one of them."""
    modes = [type(_C._get_dispatch_stack_at(i)) for i in range(_C._len_torch_dispatch_stack())]
    return any("ProxyTorchDispatchMode" in (base.__name__ for base in mode.__mro__) for mode in modes)


_library.impl("wait_tensor", _wait, "CompositeExplicitAutograd")


def wait_tensor(tensor):
    """Waits for a result of this module. Returns: the plain tensor."""
    if isinstance(tensor, AsyncCollectiveTensor):
        return tensor.trigger_wait()
    return _ops.wait_tensor(tensor)


class _Exchange(Function):
    """Values that go out and come back changed, and the way back of their gradients."""

    @staticmethod
    def forward(ctx, there, back, x):
        ctx.back = back
        return wait_tensor(there(x.detach()))

    @staticmethod
    def backward(ctx, gradient):
        return None, None, ctx.back(gradient.contiguous())


def _carried(x, there, back):
    """The result of `there(x)`; where a gradient is wanted, `back` brings it home."""
    if tessera.is_grad_enabled() and x.requires_grad:
        return _Exchange.apply(there, back, x)
    return _maybe_wrap_tensor(there(x))


# ---- the functions


def all_reduce(self, reduceOp, group, tag=""):
    """The reduction of a tensor of all members. Gradients are reduced in the same way.

    Args:
        self: of equal size everywhere.
        reduceOp: "sum", "avg", "max" ... or a ReduceOp.
        group: which group.
        tag: of a group that is named by its ranks.
    """
    name, op = _resolve_group_name(group, tag), _op_name(reduceOp)
    call = lambda x: _ops.all_reduce(x, op, name)
    return _carried(self, call, lambda g: wait_tensor(call(g)))


def broadcast(self, src, group, tag=""):
    """A copy of the tensor of the group's rank `src`. Its gradient there is the sum of all."""
    found = _resolve_group(group, tag)
    name, here = found.group_name, found.rank() == src

    def back(gradient):
        total = wait_tensor(_ops.all_reduce(gradient, "sum", name))
        return total if here else tessera.zeros_like(total)

    return _carried(self, lambda x: _ops.broadcast(x, src, name), back)


def _moved(x, dim, size):
    """Parts that lie one after the other, put side by side along a dimension."""
    return tessera.cat(x.chunk(size, 0), dim)


def _gathered(x, dim, size, name):
    out = _ops.all_gather_into_tensor(x, size, name)
    return out if dim == 0 else _moved(wait_tensor(out), dim, size)


def _scattered(x, op, dim, size, name):
    assert x.shape[dim] % size == 0, f"dimension {dim} of length {x.shape[dim]} cannot be cut in {size} equal parts"
    return _ops.reduce_scatter_tensor(x if dim == 0 else tessera.cat(x.chunk(size, dim)), op, size, name)


def all_gather_tensor(self, gather_dim, group, tag=""):
    """The tensors of all members, one after the other along a dimension. Gradients are summed at their origin."""
    found = _resolve_group(group, tag)
    name, size, dim = found.group_name, found.size(), gather_dim % max(self.dim(), 1)
    back = lambda g: wait_tensor(_scattered(g, "sum", dim, size, name))
    return _carried(self, lambda x: _gathered(x, dim, size, name), back)


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """This member's part, along a dimension, of the reduction of a tensor of all. Gradients are gathered.

    Raises: AssertionError if the length cannot be cut in equal parts."""
    found = _resolve_group(group, tag)
    name, size, op = found.group_name, found.size(), _op_name(reduceOp)
    dim = scatter_dim % max(self.dim(), 1)

    def back(gradient):
        gradient = gradient / size if op == "avg" else gradient
        return wait_tensor(_gathered(gradient, dim, size, name))

    return _carried(self, lambda x: _scattered(x, op, dim, size, name), back)


all_gather_tensor_autograd, reduce_scatter_tensor_autograd = all_gather_tensor, reduce_scatter_tensor


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Parts of the tensors of all members, cut along dimension 0: as distributed.all_to_all_single, also for gradients.

    Args:
        self: what this member gives.
        output_split_sizes: rows that come from each; None: equal parts.
        input_split_sizes: rows that go to each; None: equal parts.
        group: which group.
        tag: of a group that is named by its ranks.
    """
    found = _resolve_group(group, tag)
    name, size = found.group_name, found.size()
    equal = [self.shape[0] // size] * size
    outs, ins = list(output_split_sizes or equal), list(input_split_sizes or equal)
    back = lambda g: wait_tensor(_ops.all_to_all_single(g, ins, outs, name))
    return _carried(self, lambda x: _ops.all_to_all_single(x, outs, ins, name), back)


all_to_all_single_autograd = all_to_all_single

_with_gradients = _defined(
    "_c10d_functional_autograd",
    {
        "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor": _all_gather,
        "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor": _reduce_scatter,
        "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) "
        "-> Tensor": _all_to_all,
    },
)
_with_gradients.impl("all_gather_into_tensor", lambda x, size, name: all_gather_tensor(x, 0, name), "Autograd")
_with_gradients.impl(
    "reduce_scatter_tensor", lambda x, op, size, name: reduce_scatter_tensor(x, op, 0, name), "Autograd"
)
_with_gradients.impl("all_to_all_single", lambda x, outs, ins, name: all_to_all_single(x, outs, ins, name), "Autograd")


def permute_tensor(self, src_dst, group, tag=""):
    """The tensor of another member: rank r gives to rank `src_dst[r]`, and each gets one."""
    found = _resolve_group(group, tag)
    size, rank = found.size(), found.rank()
    if sorted(src_dst) != list(range(size)):
        raise ValueError(f"src_dst is an order of the ranks 0 to {size - 1}, but got {src_dst}")
    ins, outs = [0] * size, [0] * size
    ins[src_dst[rank]] = outs[list(src_dst).index(rank)] = self.numel()
    return all_to_all_single(self.reshape(-1), outs, ins, found).view(self.shape)


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    """all_reduce of each tensor of a list."""
    return [all_reduce(x, reduceOp, group, tag) for x in self]


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """all_gather_tensor along dimension 0 of each tensor of a list."""
    return [all_gather_tensor(x, 0, group, tag) for x in self]


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    """reduce_scatter_tensor of each tensor of a list, along the dimension that its place in `scatter_dim` names."""
    if len(scatter_dim) != len(inputs):
        raise ValueError(f"{len(inputs)} tensors need as many dimensions, but got {len(scatter_dim)}")
    return [reduce_scatter_tensor(x, reduceOp, dim, group, tag) for x, dim in zip(inputs, scatter_dim)]


def _into(output, value, async_op):
    if async_op:
        raise AssertionError("a functional collective has no Work; async_op has to be False")
    return output.copy_(wait_tensor(value).view(output.shape))


def all_reduce_inplace(tensor, op="sum", group=None, async_op=False, tag=""):
    """distributed.all_reduce over these operators."""
    return _into(tensor, all_reduce(tensor, op, group, tag), async_op)


def broadcast_inplace(tensor, src=None, group=None, async_op=False, group_src=None, tag=""):
    """distributed.broadcast over these operators."""
    found = _resolve_group(group, tag)
    return _into(tensor, broadcast(tensor, groups.chosen_rank(found, src, group_src, "src"), found), async_op)


def all_gather_tensor_inplace(output_tensor, input_tensor, group=None, async_op=False, tag="", gather_dim=0):
    """distributed.all_gather_into_tensor over these operators."""
    return _into(output_tensor, all_gather_tensor(input_tensor, gather_dim, group, tag), async_op)


def reduce_scatter_tensor_inplace(output, input, op="sum", group=None, async_op=False, scatter_dim=0, tag=""):
    """distributed.reduce_scatter_tensor over these operators."""
    return _into(output, reduce_scatter_tensor(input, op, scatter_dim, group, tag), async_op)


def reduce_scatter_inplace(output, input_list, op="sum", group=None, async_op=False, tag=""):
    """distributed.reduce_scatter over these operators."""
    return reduce_scatter_tensor_inplace(output, tessera.cat(list(input_list)), op, group, async_op, 0, tag)


def all_gather_inplace(tensor_list, tensor, group=None, async_op=False, tag=""):
    """distributed.all_gather over these operators."""
    whole = wait_tensor(all_gather_tensor(tensor.reshape(-1), 0, group, tag))
    for place, value in zip(tensor_list, whole.chunk(len(tensor_list))):
        _into(place, value, async_op)
    return tensor_list


def all_to_all_inplace(
    output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False, tag=""
):
    """distributed.all_to_all_single over these operators."""
    return _into(output, all_to_all_single(input, output_split_sizes, input_split_sizes, group, tag), async_op)
