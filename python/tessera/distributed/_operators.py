"""The operators `tessera.ops.c10d`: what collectives are to modes and subclasses of tensors, which see them go by.

Where nobody looks on, groups call their backends themselves.

>>> import tessera.distributed as dist
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> tensors, work = tessera.ops.c10d.broadcast_([tessera.ones(2)], dist.group.WORLD, 0, 0)
>>> work.wait()
True
>>> dist.destroy_process_group()
"""

from datetime import timedelta

import tessera
from tessera import _C
from tessera._ops import OpOverload, OpOverloadPacket
from tessera.distributed import _kinds as kinds
from tessera.distributed._process_group import has_values
from tessera.distributed._work import DoneWork
from tessera.library import Library
from tessera.utils._pytree import tree_leaves

_CLASS = "__torch__.torch.classes.c10d."
_GROUP, _OP, _WORK = f"{_CLASS}ProcessGroup process_group", f"{_CLASS}ReduceOp reduce_op", f"{_CLASS}Work"
_SYNC = "bool async_op=True"
_END = f"{_SYNC}, int timeout=-1)"
_TO_ONE, _TO_MANY = "Tensor output_tensor, Tensor input_tensor", "Tensor[] outputs, Tensor[] inputs"
_LISTS = "Tensor[] output_tensors, Tensor[][] input_tensors"
# Each with the method of a group, and its options.
_TABLE = (
    (
        f"allreduce_(Tensor[] tensors, {_GROUP}, {_OP}, Tensor? sparse_indices, {_END} -> (Tensor[], {_WORK})",
        "Allreduce",
    ),
    (f"allreduce_coalesced_(Tensor[] tensors, {_GROUP}, {_OP}, {_END} -> {_WORK}", "AllreduceCoalesced"),
    (
        f"broadcast_(Tensor[] tensors, {_GROUP}, int root_rank, int root_tensor, {_END} -> (Tensor[], {_WORK})",
        "Broadcast",
    ),
    (f"reduce_(Tensor[] tensors, {_GROUP}, {_OP}, int root_rank, int root_tensor, {_END} -> {_WORK}", "Reduce"),
    (
        f"allgather_(Tensor[][] output_tensors, Tensor[] input_tensors, {_GROUP}, {_END} -> (Tensor[][], {_WORK})",
        "Allgather",
    ),
    (f"_allgather_base_({_TO_ONE}, {_GROUP}, {_END} -> (Tensor, {_WORK})", "Allgather"),
    (f"allgather_coalesced_(Tensor[][] output_lists, Tensor[] input_list, {_GROUP}, {_SYNC}) -> {_WORK}", "Allgather"),
    (f"allgather_into_tensor_coalesced_({_TO_MANY}, {_GROUP}, {_SYNC}) -> {_WORK}", "Allgather"),
    (
        f"gather_(Tensor[][] output_tensors, Tensor[] input_tensors, {_GROUP}, int root_rank, {_END} -> {_WORK}",
        "Gather",
    ),
    (f"scatter_({_LISTS}, {_GROUP}, int root_rank, {_END} -> (Tensor[], {_WORK})", "Scatter"),
    (f"reduce_scatter_({_LISTS}, {_GROUP}, {_OP}, {_END} -> (Tensor[], {_WORK})", "ReduceScatter"),
    (f"_reduce_scatter_base_({_TO_ONE}, {_GROUP}, {_OP}, {_END} -> (Tensor, {_WORK})", "ReduceScatter"),
    (f"reduce_scatter_tensor_coalesced_({_TO_MANY}, {_GROUP}, {_OP}, {_END} -> {_WORK}", "ReduceScatter"),
    (
        f"alltoall_base_(Tensor output, Tensor input, {_GROUP}, int[] output_split_sizes, int[] input_split_sizes, "
        f"{_END} -> {_WORK}",
        "AllToAll",
    ),
    (
        f"alltoall_(Tensor[] output_tensors, Tensor[] input_tensors, {_GROUP}, {_END} -> (Tensor[], {_WORK})",
        "AllToAll",
    ),
    (f"barrier(Tensor tensor, {_GROUP}, int[] device_ids, {_END} -> {_WORK}", "Barrier"),
    (f"monitored_barrier_(Tensor tensor, {_GROUP}, int[] device_ids, int timeout, bool wait_all_ranks) -> ()", ""),
    (f"send(Tensor[] tensors, {_GROUP}, int dst, int tag) -> {_WORK}", ""),
    (f"recv_(Tensor[] tensors, {_GROUP}, int src, int tag) -> {_WORK}", ""),
    (f"recv_any_source_(Tensor[] tensors, {_GROUP}, int tag) -> {_WORK}", ""),
)
_METHODS = {"recv_any_source_": "recv_anysource"}
# Arguments that are options of the method, by the names that they have there.
_FIELDS = {
    "reduce_op": "reduceOp",
    "root_rank": "rootRank",
    "root_tensor": "rootTensor",
    "device_ids": "device_ids",
    "async_op": "asyncOp",
    "timeout": "timeout",
}
_LEFT_OUT = ("process_group", "sparse_indices", "tensor")  # `tensor` says which device a barrier is for


def _milliseconds(timeout):
    return round(timeout.total_seconds() * 1000) if timeout and timeout.days >= 0 else -1


class _Operator(OpOverload):
    """An operator some of whose arguments are groups and reductions, which dispatch below Python does not know."""

    def __init__(self, packet, overload):
        super().__init__(packet, overload)
        name = packet.__name__
        self._method = _METHODS.get(name, name.rstrip("_"))

    def _named(self, args, kwargs):
        """{name: value} of a call. Raises: RuntimeError if it does not fit the schema."""
        wanted = self._schema.arguments
        values = dict(zip([argument.name for argument in wanted], args))
        both = values.keys() & kwargs.keys()
        values.update(kwargs)
        for argument in wanted:
            if argument.has_default_value():
                values.setdefault(argument.name, argument.default_value)
        names = [argument.name for argument in wanted]
        if both or len(args) > len(wanted) or set(values) != set(names):
            raise RuntimeError(
                f"{self._name}() takes {', '.join(names)}, but got {len(args)} arguments and {sorted(kwargs)}.\n"
                f"Declaration: {self._schema}"
            )
        return {name: values[name] for name in names}

    def __call__(self, /, *args, **kwargs):
        values = self._named(args, kwargs)
        leaves = tree_leaves(list(values.values()))
        subclasses = tuple({type(leaf): None for leaf in leaves if _dispatches(leaf)})
        if (
            _C._len_torch_dispatch_stack()
            and not _C._get_dispatch_stack_at(_C._len_torch_dispatch_stack() - 1).is_infra_mode()
        ):
            mode = _C._pop_torch_dispatch_stack()
            try:
                return mode.__torch_dispatch__(self, subclasses, args, kwargs)
            finally:
                _C._push_on_torch_dispatch_stack(mode)
        if any(isinstance(leaf, _C.TensorBase) and not has_values(leaf) for leaf in leaves):
            work = DoneWork(leaves[:1])
            return work if len(self._schema.returns) == 1 else (next(iter(values.values())), work)
        for cls in subclasses:
            result = cls.__torch_dispatch__(self, subclasses, args, kwargs)
            if result is not NotImplemented:
                return result
        return self._run(values)

    def _run(self, values):
        group = values["process_group"]
        given = [value for name, value in values.items() if name not in _LEFT_OUT and name not in _FIELDS]
        if self._method == "monitored_barrier":
            left = values["timeout"]
            return group.monitored_barrier(timedelta(milliseconds=left) if left >= 0 else None, *given)
        if self._options:
            options = getattr(kinds, self._options + "Options")()
            for name, field in _FIELDS.items():
                if name in values and (name != "timeout" or values[name] >= 0):
                    value = timedelta(milliseconds=values[name]) if name == "timeout" else values[name]
                    setattr(options, field, value)
            given.append(options)
        work = getattr(group, self._method)(*given)
        return work if len(self._schema.returns) == 1 else (next(iter(values.values())), work)

    def _shown(self, group, args, options):
        """The call of a group's method as one of this operator; trailing defaults are left out."""
        given, values = iter(args), []
        for argument in self._schema.arguments:
            name = argument.name
            if name == "process_group":
                values.append(group)
            elif name == "tensor":
                values.append(tessera.empty([0], dtype=tessera.uint8))
            elif name == "sparse_indices":
                values.append(None)
            elif name == "timeout":
                values.append(_milliseconds(options.timeout))
            elif name in _FIELDS:
                value = getattr(options, _FIELDS[name])
                values.append([] if value is None and name == "device_ids" else value)
            else:
                values.append(next(given))
        wanted = self._schema.arguments
        while values and wanted[len(values) - 1].has_default_value():
            if values[-1] != wanted[len(values) - 1].default_value:
                break
            values.pop()
        result = self(*values)
        return result[-1] if isinstance(result, (tuple, list)) else result


def _dispatches(leaf):
    """Whether a tensor is of a class that sees operators."""
    if not isinstance(leaf, _C.TensorBase) or type(leaf) is tessera.Tensor:
        return False
    return getattr(type(leaf), "__torch_dispatch__", None) is not getattr(tessera.Tensor, "__torch_dispatch__", None)


def looks_on(tensor):
    """Whether a mode of a program, or the class of a tensor, is to see a collective."""
    count = _C._len_torch_dispatch_stack()
    if count and not _C._get_dispatch_stack_at(count - 1).is_infra_mode():
        return True
    return tensor is not None and (not has_values(tensor) or (not count and _dispatches(tensor)))


class Shown:
    """In a backend's place: its methods as operators.

    Args:
        group: whose backend it is.
    """

    def __init__(self, group):
        self._group = group

    def __getattr__(self, name):
        operator = _by_method[name]
        with_options = bool(operator._options)

        def method(*args):
            return operator._shown(self._group, args[:-1] if with_options else args, args[-1] if with_options else None)

        return method


def _defined():
    library, by_method = Library("c10d", "DEF"), {}
    for schema, options in _TABLE:
        name = schema.partition("(")[0]
        library.define(schema)
        packet = OpOverloadPacket("c10d", name)
        packet._overloads[""] = operator = _Operator(packet, "")
        operator._options = options
        setattr(tessera.ops.c10d, name, packet)
        by_method[operator._method] = operator
    return library, by_method


_library, _by_method = _defined()
