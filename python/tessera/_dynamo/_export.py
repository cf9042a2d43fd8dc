"""A whole function as one graph."""

import os
import typing

import tessera
from tessera.fx import Graph, GraphModule
from tessera.fx._code import _PyTreeCodeGen, _PyTreeInfo
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.utils import _pytree as pytree

from . import _points, _running, exc
from .backends.debugging import eager

__all__ = ["ExportResult", "check", "export"]

_PACKAGE = os.path.dirname(tessera.__file__) + os.sep
# Kinds of Unsupported that say what a program does, and not what the capture has yet to learn.
_OF_PROGRAMS = ("branch", "builtin", "disabled")


class ExportResult(typing.NamedTuple):
    """graph_module: GraphModule that is called like the function; guards: what it depends on."""

    graph_module: tessera.fx.GraphModule
    guards: object


def export(f, *extra_args, aten_graph=False, pre_dispatch=False, decomposition_table=None, tracing_mode="symbolic",
           dynamic_shapes=None, specialize_float=True, assume_static_by_default=False, same_signature=True,
           **extra_kwargs):  # fmt: skip
    """Captures all of a function or module as one graph.

    Args:
        f: function or Module. aten_graph: the graph holds operators below autograd (make_fx).
        decomposition_table: {operator: function}, with aten_graph.
        tracing_mode, assume_static_by_default: sizes are numbers in any case. The others: their defaults; others raise
            NotImplementedError.

    Returns: a function of the arguments that gives ExportResult. Its graph module is called like f; parameters and
        buffers are attributes of it.

    Raises: Unsupported with the line of the program where capturing ends.
    """
    if pre_dispatch or dynamic_shapes is not None or not specialize_float or not same_signature:
        raise NotImplementedError("torch._dynamo.export: only aten_graph and decomposition_table are supported")
    if tracing_mode not in ("real", "fake", "symbolic") or not isinstance(assume_static_by_default, bool):
        raise ValueError(f"export: expected tracing_mode 'real', 'fake' or 'symbolic', got {tracing_mode!r}")

    def inner(*args, **kwargs):
        return ExportResult(*_whole(f, args, kwargs, aten_graph, decomposition_table))

    if extra_args or extra_kwargs:
        return inner(*extra_args, **extra_kwargs)
    return inner


class _Whole(_points.Point):
    """A point whose captures leave the results' structure behind."""

    result = tracer = None

    def _write(self, piece, frame, breaks):
        if not frame.returned:
            raise exc.Unsupported("a graph break", case_name="export")
        entry = super()._write(piece, frame, breaks)
        self.result, self.tracer = frame.result, piece.tracer
        if piece.tracer.effects or piece.tracer.calls:
            raise exc.Unsupported("a function that writes to objects of others, which a graph alone does not do")
        return entry


class _Check(_points.Point):
    """A point whose captures are thrown away."""

    def _write(self, *captured):
        _, frame, _ = captured
        if not frame.returned:
            raise exc.Unsupported("a graph break", case_name="export")


def check(module, args, kwargs):
    """Captures a module's call and keeps nothing of it.

    Raises: UserError for a branch on the numbers of a tensor, Unsupported for what a graph can't hold, with the lines
        of the program. What the capture can't follow for reasons of its own is no error of the program.
    """
    try:
        _capture(_Check, module, args, kwargs)
    except exc.InternalTorchDynamoError:
        return
    except exc.Unsupported as error:
        if isinstance(error, exc.UserError):
            raise
        inside = not error.real_stack or error.real_stack[-1].filename.startswith((_PACKAGE, "<frozen"))
        if inside or error.case_name not in _OF_PROGRAMS:
            return
        if error.case_name != "branch":
            raise
        raise exc.UserError(
            exc.UserErrorType.DYNAMIC_CONTROL_FLOW,
            "Dynamic control flow is not supported at the moment. Please use torch.cond to explicitly capture the "
            f"control flow: {error.msg}",
            case_name="cond_operands",
        ) from None


def _capture(kind, f, args, kwargs):
    """(point of that class, Entry) of a call."""
    target = f._call_impl if isinstance(f, tessera.nn.Module) else f
    found = _running._target(target)
    if found is None:
        raise exc.Unsupported(f"{f!r} is not written in Python")
    function, front = found
    settings = _points.Settings(eager, fullgraph=True)
    settings.left_out = (print,) if kind is _Check else ()  # it prints once, while export() runs the program
    point = kind(settings, function.__code__, function.__globals__, 0, (), None, (), ())
    return point, point.capture(_points.flat(function, (*front, *args), kwargs))


def _whole(f, args, kwargs, aten_graph, decompositions):
    """(GraphModule, guards) of a call."""
    f = f._orig_mod if isinstance(f, _running.OptimizedModule) else _running.innermost_fn(f)
    point, entry = _capture(_Whole, f, args, kwargs)
    module = _called_like(f, point, args, kwargs)
    if aten_graph:
        leaves, spec = pytree.tree_flatten((args, kwargs))

        def run(*flat):
            inner_args, inner_kwargs = pytree.tree_unflatten(flat, spec)
            return module(*inner_args, **inner_kwargs)

        module = make_fx(run, decompositions)(*leaves)
    return module, entry.guards


def _names(point, count, is_module):
    """Names of the positional arguments, as the function calls them."""
    code = point.code
    names = code.co_varnames[1 if is_module else 0 : code.co_argcount]
    return [names[i] if i < len(names) else f"arg{i}" for i in range(count)]


def _called_like(f, point, args, kwargs):
    """The captured graph with the call's tensors as inputs, and other tensors as attributes."""
    leaves, spec = pytree.tree_flatten([*args, *kwargs.values()])
    graph, root, made = Graph(), tessera.nn.Module(), {}
    inputs = [graph.placeholder(f"leaf{i}") for i in range(len(leaves))]
    owned = {}
    if isinstance(f, tessera.nn.Module):
        owned = {id(t): name for name, t in [*f.named_parameters(remove_duplicate=False), *f.named_buffers()]}
    for var in point.tracer.inputs:
        place = next((i for i, leaf in enumerate(leaves) if leaf is var.real), None)
        if place is not None:
            made[var.node] = inputs[place]
            continue
        name = owned.get(id(var.real), f"tensor{len(made)}").replace(".", "_")
        setattr(root, name, var.real)
        made[var.node] = graph.get_attr(name)
    for name, value in point.tracer.attributes.items():
        setattr(root, name, value)
    for node in point.tracer.graph.nodes:
        if node.op not in ("placeholder", "output"):
            made[node] = graph.node_copy(node, lambda n: made[n])
    result = tessera.fx.node.map_arg(point.tracer.argument(point.result, True), lambda n: made[n])
    flat, out_spec = pytree.tree_flatten(result)
    graph.output(flat)
    names = [*_names(point, len(args), isinstance(f, tessera.nn.Module)), *kwargs]
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, spec, out_spec)))
    return GraphModule(root, graph)
