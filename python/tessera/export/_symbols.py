"""Symbolic numbers in graphs and in texts: nodes and Python expressions that compute the expressions that sizes are."""

import ast
import contextlib
import functools
import operator

import tessera
from tessera._symbolic import OF_MATH
from tessera.library import Library

# The check of what a program says of numbers that it finds itself.
_library = Library("aten", "FRAGMENT")


def _assert_scalar(condition, message):
    if not condition:
        raise RuntimeError(message)


_library.define("_assert_scalar(Scalar self, str assert_msg) -> ()")
_library.impl("_assert_scalar", _assert_scalar, "CompositeExplicitAutograd")


_library.define("_assert_async(Tensor self) -> ()")
_library.define("_assert_async.msg(Tensor self, str assert_msg) -> ()")
for _name in ("_assert_async", "_assert_async.msg"):
    _library.impl(_name, lambda *args: tessera._assert_async(*args), "CompositeExplicitAutograd")
    _library.impl(_name, lambda *args: None, "Meta")


def assert_async(tensor, message=None):
    """A check of a tensor's number while the graph runs, as a node."""
    op = tessera.ops.aten._assert_async
    op.default(tensor) if message is None else op.msg(tensor, message)


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
        self._sizes = {}  # symbol -> (node of a tensor, dimension)
        self._read = {}  # expression -> node of the tensor that has the number
        self._linear = {}  # symbol -> (node of a tensor, dimension, a, b) where the size is a * symbol + b
        self._numbers = self._new_numbers()
        self.env = None

    def add_tensor(self, node, tensor):
        """Notes where the symbols that are sizes of a tensor can be read."""
        for dim, size in enumerate(tensor.shape):
            if is_symbolic(size):
                self.env = size.node.shape_env
                if size.node.expr.is_symbol:
                    self._sizes.setdefault(size.node.expr, (node, dim))
                    self._sizes.setdefault(size.node._expr, (node, dim))
                else:
                    self._add_linear(size.node.expr, node, dim)

    def add_found(self, node, tensor):
        """Notes where the sizes that an operator found in its data can be read."""
        shape = tessera._C._symbolic_shape(tensor)
        if shape is None:
            return
        for dim, expr in enumerate(shape.sizes):
            if expr.is_symbol and expr.atom().unbacked:
                self.env = shape.env
                self._sizes.setdefault(expr, (node, dim))

    def add_known(self, node, before, shape):
        """Notes that the sizes of a tensor that were found in data are those that had other symbols before."""
        from tessera.fx.experimental._expressions import condition

        for dim, (old, new) in enumerate(zip(before.sizes, shape.sizes)):
            if old.is_symbol and new.is_symbol and old != new and old.atom().unbacked and new.atom().unbacked:
                self._sizes.setdefault(old, (node, dim))
                shape.env._facts.learn(condition("==", new - old))

    def _add_linear(self, expr, node, dim):
        """Notes where a symbol of which an input's size is a * s + b can be computed."""
        if len(expr.free_symbols) == 1 and set(expr.terms) <= {(), *(m for s in expr.free_symbols for m in s.terms)}:
            (symbol,) = expr.free_symbols
            offset = expr.subs({symbol: 0}).value()
            self._linear.setdefault(symbol, (node, dim, expr.subs({symbol: 1}).value() - offset, offset))

    def add(self, node, value):
        """Notes the node of a symbolic number."""
        self.env = value.node.shape_env
        for expr in (value.node.expr, value.node._expr):
            if not isinstance(expr, bool):
                self._numbers.known.setdefault(expr, node)

    def add_reading(self, node, value):
        """Notes that a symbolic number is that of a tensor, whose node this is."""
        self._read[value.node._expr] = node

    def gives(self, expr):
        """Whether there are nodes for an expression's symbols; those that read numbers of tensors are made here."""
        for part in (expr, *expr.free_symbols):
            if part in self._read and part not in self._numbers.known:
                self._numbers.known[part] = self._call(tessera.ops.aten.item.default, (self._read[part],), part)
        known = (self._numbers.known, self._sizes, self._linear)
        return expr in known[0] or all(any(s in table for table in known) for s in expr.free_symbols)

    def node_of(self, value):
        """The node that computes a symbolic number; the number itself if it is fixed."""
        self.env = value.node.shape_env
        return self.of_expression(value.node.expr)

    @contextlib.contextmanager
    def as_early_as_can_be(self, expr):
        """Context manager: nodes are made right behind those that an expression's numbers are read from."""
        tables = (self._numbers.known, self._read, self._sizes, self._linear)
        found = [next((t[s] for t in tables if s in t), None) for s in (expr, *expr.free_symbols)]
        found = [f[0] if isinstance(f, tuple) else f for f in found]
        latest = max((n for n in found if n is not None), default=None)
        if latest is None or latest.op == "placeholder":
            latest = max(self._graph.find_nodes(op="placeholder"), default=None)
        if latest is None:
            yield
            return
        all_of_them, self._numbers = self._numbers, self._new_numbers()
        self._numbers.known.update((e, n) for e, n in all_of_them.known.items() if n <= latest)
        try:
            with self._graph.inserting_before(latest.next):
                yield
        finally:
            self._numbers = all_of_them

    def _new_numbers(self):
        from tessera.fx.experimental._number_nodes import NumberNodes

        return NumberNodes(self._symbol, self._call)

    def of_expression(self, expr):
        """The node that computes an expression or condition; numbers as they are."""
        return self._numbers.of(expr)

    def _call(self, function, values, expr):
        """The node of a function of nodes and numbers, whose result is an expression."""
        if not any(isinstance(v, tessera.fx.Node) for v in values):
            return function(*values)
        node = self._graph.call_function(function, tuple(values))
        self._annotate(node)
        if self.env is not None and not isinstance(expr, bool):
            node.meta["val"] = self.env.create_symboolnode(expr) if hasattr(expr, "op") else self._number(expr)
        return node

    def _number(self, expr):
        make = self.env.create_symfloatnode if expr.is_real else self.env.create_symintnode
        return make(expr, hint=None)

    def _symbol(self, symbol):
        sym_size = tessera.ops.aten.sym_size.int
        if symbol in self._sizes:
            return self._call(sym_size, self._sizes[symbol], symbol)
        if symbol not in self._linear:
            raise RuntimeError(f"export: no input and no operator gives the size {symbol}")
        tensor, dim, factor, offset = self._linear[symbol]
        size = self._call(sym_size, (tensor, dim), symbol * factor + offset)
        if offset:
            size = self._call(operator.sub, (size, offset), symbol * factor)
        return self._call(operator.floordiv, (size, factor), symbol) if factor != 1 else size


def text_of(expr):
    """An expression or condition as Python code of its symbols."""
    from tessera.fx.experimental.symbolic_shapes import _code

    if isinstance(expr, (bool, int, float)):
        return str(expr)
    return _code(expr, {symbol: str(symbol) for symbol in expr.free_symbols})


# --- texts that are read ---

_BINARY = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b, ast.Div: lambda a, b: a / b,
}  # fmt: skip
_COMPARED = {
    ast.Eq: ("==", 1), ast.NotEq: ("!=", 1), ast.GtE: (">=", 1), ast.Gt: (">", 1), ast.LtE: (">=", -1), ast.Lt: (">",
    -1),
}  # fmt: skip
_CALLED = {
    "max": "max", "min": "min", "float": "float", "Max": "max", "Min": "min", "FloorDiv": "floordiv", "Mod": "mod",
    "PythonMod": "mod", "CleanDiv": "floordiv", "IntTrueDiv": "truediv", "ToFloat": "float", "trunc": "trunc",
    "round": "round", "sqrt": "sqrt", "ceil": "ceil", "floor": "floor",
    **{name.removeprefix("_sym_"): name.removeprefix("_sym_") for name in OF_MATH},
}  # fmt: skip


def expression_of(text, symbol):
    """The expression or condition that a text says, as text_of writes it, or as SymPy does.

    Args:
        symbol: function of a name, which gives the symbol.

    Errors: ValueError for other texts.
    """
    if not isinstance(text, str) or len(text) > 10000:
        raise ValueError(f"expected the text of an expression, got {text!r:.80}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"{text!r:.80} is no expression: {error}") from None
    return _read(tree, symbol)


def _read(node, symbol):
    from tessera.fx.experimental import _expressions

    read = lambda n: _read(n, symbol)  # noqa: E731
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _expressions.constant(node.value)
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -read(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](read(node.left), read(node.right))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant):
        return read(node.left) ** node.right.value
    if isinstance(node, ast.BoolOp):
        return _expressions.combined("and" if isinstance(node.op, ast.And) else "or", [read(v) for v in node.values])
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        op, sign = _COMPARED[type(node.ops[0])]
        return _expressions.condition(op, (read(node.left) - read(node.comparators[0])) * sign)
    if isinstance(node, ast.Call):
        return _read_call(node, symbol, read)
    raise ValueError(f"{ast.unparse(node)!r:.80} is no expression of sizes")


def _read_call(node, symbol, read):
    from tessera.fx.experimental import _expressions

    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "Symbol" and node.args and isinstance(node.args[0], ast.Constant):
        return symbol(node.args[0].value)
    if name == "Integer":
        return read(node.args[0])
    values = [read(a) for a in node.args]
    if name in ("Add", "Mul") and values:
        return functools.reduce(_BINARY[ast.Add if name == "Add" else ast.Mult], values)
    if name in ("Eq", "Ne") and len(values) == 2:
        return _expressions.condition("==" if name == "Eq" else "!=", values[0] - values[1])
    if name in _CALLED and values:
        return _expressions.function(_CALLED[name], *values)
    raise ValueError(f"{ast.unparse(node)!r:.80} is no expression of sizes")
