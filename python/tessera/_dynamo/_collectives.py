"""Calls of tessera.distributed: collectives are nodes of the graph; what groups and meshes say is known."""

import functools

from tessera.utils._pytree import tree_map_only

from . import _objects
from ._builtins import result_constant
from ._values import NONE, Const, Obj, Seq
from .exc import Unsupported

HOMES = ("tessera.distributed.", "torch.distributed.")  # by either name
# Collectives that write into what they are given -> the names of their arguments, and their names over operators.
_WRITING = {
    "all_reduce": ("all_reduce_inplace", ("tensor", "op", "group", "async_op")),
    "all_gather_into_tensor": ("all_gather_tensor_inplace", ("output_tensor", "input_tensor", "group", "async_op")),
    "reduce_scatter_tensor": ("reduce_scatter_tensor_inplace", ("output", "input", "op", "group", "async_op")),
    "reduce_scatter": ("reduce_scatter_inplace", ("output", "input_list", "op", "group", "async_op")),
    "all_gather": ("all_gather_inplace", ("tensor_list", "tensor", "group", "async_op")),
    "broadcast": ("broadcast_inplace", ("tensor", "src", "group", "async_op", "group_src")),
    "all_to_all_single": (
        "all_to_all_inplace",
        ("output", "input", "output_split_sizes", "input_split_sizes", "group", "async_op"),
    ),
}
_WRITING["_all_gather_base"], _WRITING["_reduce_scatter_base"] = (
    _WRITING["all_gather_into_tensor"],
    _WRITING["reduce_scatter_tensor"],
)
_RETURNING = frozenset(
    "all_reduce broadcast all_gather_tensor reduce_scatter_tensor all_gather_tensor_autograd all_to_all_single "
    "reduce_scatter_tensor_autograd all_to_all_single_autograd permute_tensor all_reduce_coalesced wait_tensor "
    "all_gather_into_tensor_coalesced reduce_scatter_tensor_coalesced".split()
)
# What groups and meshes are asked for.
_ASKED = frozenset(
    "is_available is_initialized is_backend_available get_rank get_world_size get_backend get_group_rank "
    "get_global_rank get_process_group_ranks get_node_local_rank _get_default_group _resolve_process_group size rank "
    "name group_name group_desc get_group get_all_groups get_local_rank get_coordinate ndim shape device_type "
    "mesh_dim_names _get_process_group_name __getitem__ _is_current_rank_part_of_mesh".split()
)


def _is_ours(value):
    return (type(value).__module__ or "").startswith(HOMES)


def _known(tracer, var):
    """The value of a group, a mesh, a reduction, a constant, or a container of such."""
    if isinstance(var, Seq) and var.cls in (tuple, list):
        return var.cls([_known(tracer, item) for item in var.items])
    if isinstance(var, Obj) and _is_ours(var.value):
        if var.source is not None and var.source.kind != "object":
            tracer.guard(var.source, "ID_MATCH", var.value, var.value)
        return var.value
    return _objects.constant(var, "an argument of a collective")


def _answer(tracer, value):
    """The Var of what a group or a mesh says."""
    if type(value) in (tuple, list):
        return Seq([_answer(tracer, item) for item in value], type(value))
    if _is_ours(value):
        return tracer.trusted(value)
    return result_constant(tracer, value)


def _named(tracer, var, functional):
    """A group as its name, which a graph can hold."""
    group = _known(tracer, var)
    return Const(None if group is None else functional._resolve_group_name(group))


def _written(tracer, name, args, kwargs, functional):
    target, names = _WRITING[name]
    given = dict(zip(names, args)) | kwargs
    if set(given) - set(names) or len(args) > len(names):
        raise Unsupported(f"a call of {name} with other arguments than {', '.join(names)}")
    if _known(tracer, given.pop("async_op", Const(False))):
        raise Unsupported(
            "async_op=True for distributed collectives", case_name="collective", context=name,
            explanation=f"`torch.compile` doesn't support `async_op=True` for {name}",
            hints=["Call the collective without `async_op`, or the one of torch.distributed._functional_collectives"],
        )  # fmt: skip
    if "group" in given:
        given["group"] = _named(tracer, given["group"], functional)
    if "op" in given:
        given["op"] = Const(functional._op_name(_known(tracer, given["op"])))
    tracer.call("call_function", getattr(functional, target), [], given)
    return NONE


@functools.cache
def _at_once(function):
    """A functional collective whose result is a plain tensor, as graphs were captured with."""
    from tessera.distributed import _functional_collectives as functional

    @functools.wraps(function)
    def call(*args, **kwargs):
        results = function(*args, **kwargs)
        return tree_map_only(functional.AsyncCollectiveTensor, functional.wait_tensor, results)

    return call


def _returned(tracer, function, args, kwargs, functional):
    code = function.__code__
    given = dict(zip(code.co_varnames[: code.co_argcount], args)) | kwargs
    if "group" in given:
        given["group"] = _named(tracer, given["group"], functional)
        given.pop("tag", None)
    if "reduceOp" in given:
        given["reduceOp"] = Const(functional._op_name(_known(tracer, given["reduceOp"])))
    return tracer.call("call_function", _at_once(function), [], given)


def call(tracer, function, args, kwargs):
    """The Var of a call of a function of tessera.distributed; None for one that has no rule here."""
    from tessera.distributed import _functional_collectives

    module, name = function.__globals__["__name__"].partition(".distributed.")[2], function.__name__
    if module == "_functional_collectives" and name in _RETURNING:
        return _returned(tracer, function, args, kwargs, _functional_collectives)
    if module == "_collectives" and name in _WRITING:
        return _written(tracer, name, args, kwargs, _functional_collectives)
    places = ("_groups", "_process_group", "device_mesh", "_native_group", "_gloo", "_fake")
    if name in _ASKED and module in places:
        values = [_known(tracer, var) for var in args], {key: _known(tracer, var) for key, var in kwargs.items()}
        return _answer(tracer, function(*values[0], **values[1]))
    return None
