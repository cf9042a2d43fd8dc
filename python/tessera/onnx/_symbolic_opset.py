"""The modules symbolic_opset7 to symbolic_opset20: symbolic functions `f(g, *args)` by the names of operators, from the
table of translations."""

import functools

import tessera
from tessera.onnx._all import TABLE
from tessera.onnx._build import Value


def attach(module_name):
    """(`__getattr__`, `__dir__`) of such a module."""

    def __getattr__(name):
        if not name.startswith("__") and "aten::" + name in TABLE:
            return _function(module_name, name)
        raise AttributeError(
            f"module '{module_name}' has no symbolic function '{name}': the table of translations "
            f"has none for aten::{name}"
        )

    def __dir__():
        return sorted({k.partition("::")[2] for k in TABLE if k.startswith("aten::")} | {"__name__"})

    return __getattr__, __dir__


@functools.cache
def _function(module_name, name):
    translation = TABLE["aten::" + name]

    def symbolic(g, *args, **kwargs):
        from tessera.onnx.symbolic_helper import Constant, _plain

        graph = getattr(g, "graph", g)
        given = {**dict(zip(_names(name, len(args)), args)), **kwargs}
        given = {k: _plain(a)[1] if isinstance(a, Constant) else a for k, a in given.items()}
        before, graph.model.out = graph.out, None
        try:
            made = translation(graph, **given)
        finally:
            graph.model.out = before
        return made if isinstance(made, (Value, tuple)) else graph.value(made)

    symbolic.__name__ = symbolic.__qualname__ = name
    symbolic.__module__ = module_name
    symbolic.__doc__ = f"Writes the nodes of aten::{name} into a graph: the operator's arguments in their order."
    return symbolic


def _names(name, n):
    """The names of an operator's first arguments, of its first overload that has as many."""
    packet = getattr(tessera.ops.aten, name)
    schemas = [getattr(packet, o)._schema for o in packet.overloads()]
    fitting = next((s for s in schemas if len(s.arguments) >= n), None)
    if fitting is None:
        raise TypeError(f"{name}() takes fewer than {n} arguments behind g")
    return [a.name for a in fitting.arguments]
