"""Symbolic numbers in graphs: nodes that compute the expressions that sizes are."""

import functools
import operator

import tessera


@functools.cache
def _symbolic_types():
    return tuple(getattr(tessera, name) for name in ("SymInt", "SymFloat", "SymBool") if hasattr(tessera, name))


def is_symbolic(value):
    """Whether a value is a SymInt, SymFloat or SymBool."""
    return isinstance(value, _symbolic_types())


class SymbolNodes:
    """The nodes of symbols and of what is computed from them.

    Args:
        graph: Graph that gets the nodes.
        annotate: function of a new node.
    """

    def __init__(self, graph, annotate):
        self._graph, self._annotate = graph, annotate
        self._sizes = {}  # symbol -> (node of a tensor, dimension, SymInt)
        self._known = {}  # expression -> node

    def add_tensor(self, node, tensor):
        """Notes where a symbol that is a size of an input can be read."""
        for dim, size in enumerate(tensor.shape):
            if is_symbolic(size) and size.node.expr.is_symbol:
                self._sizes.setdefault(size.node.expr, (node, dim, size))

    def add(self, node, value):
        """Notes the node of a symbolic number."""
        self._known[value.node.expr] = node

    def node_of(self, value):
        """The node that computes a symbolic number; the number itself if it is fixed."""
        expr = value.node.expr
        return self._of(expr, value.node.shape_env)

    def _of(self, expr, env):
        if expr.is_number or getattr(expr, "is_Boolean", False) and not expr.free_symbols:
            return bool(expr) if not hasattr(expr, "is_integer") else int(expr) if expr.is_integer else float(expr)
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._make(expr, env)
        return known

    def _make(self, expr, env):
        if expr.is_symbol:
            node = self._symbol(expr)
        else:
            function, parts = _call_of(expr)
            values = [self._of(part, env) for part in parts]
            node = (
                functools.reduce(lambda a, b: self._call(function, a, b), values)
                if len(values) > 1
                else (self._graph.call_function(function, tuple(values)))
            )
        self._annotate(node)
        node.meta["val"] = env.create_symintnode(expr, hint=None) if hasattr(env, "create_symintnode") else None
        return node

    def _call(self, function, a, b):
        node = self._graph.call_function(function, (a, b))
        self._annotate(node)
        return node

    def _symbol(self, symbol):
        if symbol not in self._sizes:
            raise RuntimeError(f"export: no input and no operator gives the size {symbol}")
        tensor, dim, _ = self._sizes[symbol]
        return self._graph.call_function(tessera.ops.aten.sym_size.int, (tensor, dim))


def _call_of(expr):
    """(function of two values, arguments) that computes an expression of SymPy."""
    by_name = {
        "Add": operator.add, "Mul": operator.mul, "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv,
        "Mod": operator.mod, "PythonMod": operator.mod, "Max": tessera.sym_max, "Min": tessera.sym_min,
        "PowByNatural": operator.pow, "Pow": operator.pow, "IntTrueDiv": operator.truediv,
        "FloatTrueDiv": operator.truediv, "Equality": operator.eq, "Unequality": operator.ne,
        "StrictGreaterThan": operator.gt, "GreaterThan": operator.ge, "StrictLessThan": operator.lt,
        "LessThan": operator.le, "ToFloat": tessera.sym_float, "Not": tessera.sym_not,
    }  # fmt: skip
    name = type(expr).__name__
    if name not in by_name:
        raise RuntimeError(f"export: the expression {expr} ({name}) of a size cannot be a node")
    return by_name[name], expr.args
