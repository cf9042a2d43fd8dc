"""Symbolic numbers in graphs and in texts: nodes and Python expressions that compute the expressions that sizes are."""

import ast
import functools
import math
import operator

import tessera
from tessera.library import Library

# Operators that answer with a number; tensors' own attributes do so while a program is traced.
_library = Library("aten", "FRAGMENT")
for _schema, _function in (
    ("sym_size.int(Tensor self, int dim) -> SymInt", lambda self, dim: self.size(dim)),
    ("sym_stride.int(Tensor self, int dim) -> SymInt", lambda self, dim: self.stride(dim)),
    ("sym_numel(Tensor self) -> SymInt", lambda self: self.numel()),
    ("sym_storage_offset(Tensor self) -> SymInt", lambda self: self.storage_offset()),
):
    if _schema.partition("(")[0] not in {name.partition("::")[2] for name in tessera._C._op_names()}:
        _library.define(_schema)
        _library.impl(_schema.partition("(")[0], _function, "CompositeExplicitAutograd")


def _assert_scalar(condition, message):
    if not condition:
        raise RuntimeError(message)


_library.define("_assert_scalar(Scalar self, str assert_msg) -> ()")
_library.impl("_assert_scalar", _assert_scalar, "CompositeExplicitAutograd")


@functools.cache
def _symbolic_types():
    return tuple(getattr(tessera, name) for name in ("SymInt", "SymFloat", "SymBool") if hasattr(tessera, name))


def is_symbolic(value):
    """Whether a value is a SymInt, SymFloat or SymBool."""
    return isinstance(value, _symbolic_types())


# Functions in expressions, by the names that they have there.
_FUNCTIONS = {
    "floordiv": operator.floordiv, "mod": operator.mod, "truediv": operator.truediv, "pow": operator.pow,
    "fpow": operator.pow, "max": "sym_max", "min": "sym_min", "float": "sym_float", "ite": "sym_ite",
    "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": round, "sqrt": math.sqrt,
}  # fmt: skip
_RELATIONS = {"==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt}


def _function(name):
    found = _FUNCTIONS[name]
    return getattr(tessera, found) if isinstance(found, str) else found


def _sides(condition):
    """(left, right) of `expr op 0` with positive terms on either side."""
    kind = type(condition.expr)
    left = {m: c for m, c in condition.expr.terms.items() if c > 0}
    return kind(left), kind({m: -c for m, c in condition.expr.terms.items() if c <= 0})


class SymbolNodes:
    """The nodes of symbols and of what is computed from them.

    Args:
        graph: Graph that gets the nodes.
        annotate: function of a new node.
    """

    def __init__(self, graph, annotate):
        self._graph, self._annotate = graph, annotate
        self._sizes = {}  # symbol -> (node of a tensor, dimension)
        self._known = {}  # expression -> node
        self.env = None

    def add_tensor(self, node, tensor):
        """Notes where the symbols that are sizes of a tensor can be read."""
        for dim, size in enumerate(tensor.shape):
            if is_symbolic(size):
                self.env = size.node.shape_env
                if size.node.expr.is_symbol:
                    self._sizes.setdefault(size.node.expr, (node, dim))
                    self._sizes.setdefault(size.node._expr, (node, dim))

    def add(self, node, value):
        """Notes the node of a symbolic number."""
        self.env = value.node.shape_env
        if not isinstance(value.node.expr, bool):
            self._known[value.node.expr] = node

    def node_of(self, value):
        """The node that computes a symbolic number; the number itself if it is fixed."""
        self.env = value.node.shape_env
        return self.of_expression(value.node.expr)

    def of_expression(self, expr):
        """The node that computes an expression or condition."""
        if isinstance(expr, (bool, int, float)):
            return expr
        if expr.is_number:
            return expr.value()
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._make(expr)
        return known

    def _call(self, function, *values):
        if not any(isinstance(v, tessera.fx.Node) for v in values):
            return function(*values)
        node = self._graph.call_function(function, values)
        self._annotate(node)
        return node

    def _make(self, expr):
        if hasattr(expr, "op"):
            node = self._condition(expr)
        elif expr.is_symbol:
            node = self._symbol(expr)
        else:
            node = self._polynomial(expr)
        if isinstance(node, tessera.fx.Node) and self.env is not None:
            make = self.env.create_symboolnode if hasattr(expr, "op") else self._number
            node.meta["val"] = make(expr)
        return node

    def _number(self, expr):
        if expr.is_real:
            return self.env.create_symfloatnode(expr, hint=None)
        return self.env.create_symintnode(expr, hint=None)

    def _condition(self, condition):
        if condition.parts:
            function = operator.and_ if condition.op == "and" else operator.or_
            values = [self.of_expression(p) for p in condition.parts]
            return functools.reduce(lambda a, b: self._call(function, a, b), values)
        left, right = _sides(condition)
        return self._call(_RELATIONS[condition.op], self.of_expression(left), self.of_expression(right))

    def _polynomial(self, expr):
        total = None
        for monomial, coefficient in sorted(expr.terms.items(), key=lambda t: not t[0]):
            part = None
            for atom, power in monomial:
                value = self._atom(atom, expr)
                for _ in range(power):
                    part = value if part is None else self._call(operator.mul, part, value)
            if part is None:
                part = coefficient
            elif coefficient == -1 and total is not None:
                total = self._call(operator.sub, total, part)
                continue
            elif coefficient != 1:
                part = self._call(operator.mul, part, coefficient)
            total = part if total is None else self._call(operator.add, total, part)
        return total

    def _atom(self, atom, expr):
        single = type(expr)({((atom, 1),): 1})
        if hasattr(atom, "args") and single == expr:
            return self._call(_function(atom.name), *map(self.of_expression, atom.args))
        return self.of_expression(single)

    def _symbol(self, symbol):
        if symbol not in self._sizes:
            raise RuntimeError(f"export: no input and no operator gives the size {symbol}")
        return self._call(tessera.ops.aten.sym_size.int, *self._sizes[symbol])


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
