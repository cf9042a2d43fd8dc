"""The modules symbolic_opset7 to symbolic_opset20: symbolic functions `f(g, *args)` by the names of operators, from the
table of translations."""

import functools

from tessera.onnx import _table
from tessera.onnx._build import Value


def attach(module_name):
    """(`__getattr__`, `__dir__`) of such a module."""
    short = module_name.rpartition(".")[2]

    def __getattr__(name):
        if not name.startswith("__"):
            found = _table.filled().get("aten::" + name)
            if found is not None:
                return _function(name, found)
        raise AttributeError(f"module '{module_name}' has no symbolic function '{name}': the table of "
                             f"translations has none for aten::{name}")  # fmt: skip

    def __dir__():
        return sorted({k.partition("::")[2] for k in _table.filled() if k.startswith("aten::")} | {"__name__"})

    __getattr__.__qualname__ = short + ".__getattr__"
    return __getattr__, __dir__


@functools.cache
def _function(name, translation):
    def symbolic(g, *args, **kwargs):
        from tessera.onnx.symbolic_helper import Constant, _plain

        graph = getattr(g, "graph", g)
        args = [_plain(a)[1] if isinstance(a, Constant) else a for a in args]
        before = graph.out
        graph.model.out = None
        try:
            made = translation(graph, *args, **kwargs)
        finally:
            graph.model.out = before
        return made if isinstance(made, (Value, tuple)) else graph.value(made)

    symbolic.__name__ = symbolic.__qualname__ = name
    symbolic.__doc__ = f"Writes the nodes of aten::{name} into a graph: the operator's arguments in their order."
    return symbolic
