"""What is behind a SymInt, SymFloat or SymBool: an expression of a ShapeEnv."""

import math
import operator
import sys

from tessera.fx.experimental._expressions import Condition, Expr, combined, condition, constant, function

tessera = sys.modules["tessera"]  # the package, which imports this

__all__ = ["SymNode", "magic_methods", "method_to_operator"]


class SymNode:
    """A number that is known as an expression over the symbols of a ShapeEnv.

    Args:
        expr: Expr, or Condition for bools.
        shape_env: ShapeEnv.
        pytype: int, float or bool.
        hint: the number in the run under way (default: computed); None for symbols without one.
        fx_node: of no effect: nodes of graphs are made from expressions.
    """

    __slots__ = ("_expr", "shape_env", "pytype", "fx_node", "_hint", "constant")

    def __init__(self, expr, shape_env, pytype, hint=None, constant=None, fx_node=None):
        self._expr, self.shape_env, self.pytype, self.fx_node = expr, shape_env, pytype, fx_node
        self._hint, self.constant = hint, constant

    @property
    def expr(self):
        """The expression, with what is known of its symbols by now."""
        return self.shape_env.replace(self._expr)

    @property
    def hint(self):
        """The number in the run under way, or None."""
        if self._hint is None:
            self._hint = self.shape_env.size_hint(self._expr, allow_none=True)
        return self._hint

    def has_hint(self):
        return self.hint is not None

    def require_hint(self, fallback=None):
        """The hint, or the fallback. Raises: GuardOnDataDependentSymNode without both."""
        if self.hint is None and fallback is None:
            self.shape_env._refuse(self._expr)
        return fallback if self.hint is None else self.hint

    def _fixed(self, kind):
        expr = self.expr
        if isinstance(expr, bool):
            return kind(expr)
        return kind(expr.value()) if isinstance(expr, Expr) and expr.is_number else None

    def maybe_as_int(self):
        """The number, where it is always the same; else None."""
        return self._fixed(int)

    def maybe_as_float(self):
        """As maybe_as_int, a float."""
        return self._fixed(float)

    def maybe_as_bool(self):
        """As maybe_as_int, a bool."""
        return self._fixed(bool)

    # --- numbers and nodes ---

    def _as_number(self):
        """The SymInt, SymFloat or SymBool; a plain number where it is always the same."""
        known = self._fixed(self.pytype)
        if known is not None:
            return known
        return {int: tessera.SymInt, float: tessera.SymFloat, bool: tessera.SymBool}[self.pytype](self)

    def _as_node(self, value):
        """The node of a number, plain or symbolic."""
        return getattr(value, "node", None) or SymNode(constant(value), self.shape_env, type(value), value)

    def wrap_int(self, num):
        """The node of an int."""
        return self._as_node(int(num))

    def wrap_float(self, num):
        """The node of a float."""
        return self._as_node(float(num))

    def wrap_bool(self, num):
        """The node of a bool."""
        return self._as_node(bool(num))

    def clone(self):
        """This node: nodes do not change."""
        return self

    def with_shape_env(self, shape_env):
        """The same expression in another ShapeEnv."""
        return SymNode(self._expr, shape_env, self.pytype, self._hint, self.constant, self.fx_node)

    def str(self):
        """The expression as text."""
        return f"{self.expr}"

    def round(self, ndigits=None):
        """The node of round(number, ndigits)."""
        return self._as_node(round(self._as_number(), ndigits))

    def sym_ite(self, then_val, else_val):
        """The node of `then_val if this else else_val`."""
        return self._as_node(tessera.sym_ite(self._as_number(), then_val._as_number(), else_val._as_number()))

    def sym_sum(self, args):
        """The node of the sum of nodes."""
        return self._as_node(tessera.sym_sum([a._as_number() for a in args]))

    def is_constant(self):
        return False

    def is_symbolic(self):
        return True

    def is_nested_int(self):
        return False

    def is_int(self):
        return self.pytype is int

    def is_float(self):
        return self.pytype is float

    def is_bool(self):
        return self.pytype is bool

    # --- deciding ---

    def guard_int(self, file=None, line=None):
        """The int; from now on it is always this one. file, line: of no effect, the user's line is found."""
        return self.shape_env.evaluate_expr(self._expr)

    def guard_float(self, file=None, line=None):
        """The float; from now on it is always this one."""
        return float(self.shape_env.evaluate_expr(self._expr))

    def guard_bool(self, file=None, line=None):
        """True or False; from now on it is always that."""
        return bool(self.shape_env.evaluate_expr(self._expr))

    def expect_true(self, file=None, line=None):
        """Whether it holds, which is assumed where nothing is known yet and checked at run time."""
        return self.shape_env._expect(self._expr)

    def guard_size_oblivious(self, file=None, line=None):
        """guard_bool(), where sizes without a hint are taken for 2 or more."""
        return self.shape_env.evaluate_expr(self._expr, size_oblivious=True)

    def guard_or_false(self, file=None, line=None):
        """guard_bool(), False where it is not known while tracing."""
        return bool(self.shape_env.evaluate_expr(self._expr, fallback_value=False))

    def guard_or_true(self, file=None, line=None):
        """guard_bool(), True where it is not known while tracing."""
        return bool(self.shape_env.evaluate_expr(self._expr, fallback_value=True))

    def statically_known_true(self, file=None, line=None):
        """Whether it holds whatever the sizes are."""
        return self.shape_env._static(self.expr) is True

    def evaluate(self):
        """The plain number; from now on it is always this one."""
        return self.pytype(self.shape_env.evaluate_expr(self._expr))

    int_, bool_ = guard_int, guard_bool

    def __str__(self):
        return f"{self.expr}"

    __repr__ = __str__


def as_number(expr, kind):
    """An expression that may be a condition as one of numbers."""
    if isinstance(expr, Condition):
        return function("ite", expr, constant(1), constant(0))
    return expr if kind is not bool else constant(int(expr))


def arithmetic(name, a, b):
    """(expression, type) of `a name b` for expressions with the types of the numbers: (expr, type) each."""
    (x, kind_x), (y, kind_y) = (as_number(a[0], a[1]), a[1]), (as_number(b[0], b[1]), b[1])
    real = float in (kind_x, kind_y)
    if name in ("truediv", "pow") and not (name == "pow" and not real and y.is_number and y.value() >= 0):
        return function("truediv" if name == "truediv" else "fpow", x, y), float
    if name in ("floordiv", "mod", "max", "min"):
        return function(name, x, y), float if real else int
    if name == "pow":
        return x ** y.value(), int
    if real and any(s.name[0] == "z" for s in x.free_symbols | y.free_symbols):
        return function("f" + name, x, y), float
    return {"add": x.__add__, "sub": x.__sub__, "mul": x.__mul__}[name](y), float if real else int


def comparison(name, a, b):
    """The condition `a name b`, or a bool where there is nothing to decide."""
    if isinstance(a[0], Condition) and isinstance(b[0], Condition) and name in ("eq", "ne"):
        same = combined("or", [combined("and", [a[0], b[0]]), combined("and", [~a[0], ~b[0]])])
        return same if name == "eq" else negated(same)
    x, y = as_number(*a), as_number(*b)
    if name in ("eq", "ne"):
        return condition("==" if name == "eq" else "!=", x - y)
    if name in ("lt", "le"):
        x, y = y, x
    return condition(">" if name in ("lt", "gt") else ">=", x - y)


def negated(c):
    """Not, of a condition or a bool."""
    return not c if isinstance(c, bool) else ~c


def trunc_of_division(expr):
    """int(a / b) of two sizes, which are not negative, is a // b."""
    atom = expr.atom()
    if atom is not None and getattr(atom, "name", "") == "truediv":
        a, b = atom.args
        if not a.is_real and not b.is_real:
            return a // b
    return None


def rounding(name, expr):
    """The expression of math.trunc, floor, ceil or round of an expression."""
    if name in ("trunc", "floor"):
        whole = trunc_of_division(expr)
        if whole is not None:
            return whole
    if name == "ceil" and trunc_of_division(expr) is not None:
        a, b = expr.atom().args
        return -((-a) // b)
    return function(name, expr)


ROUNDINGS = {"trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": round}


def _xor(a, b):
    return int(a) ^ int(b)


# What nodes compute: the name of the method, and the function of numbers.
_UNARY = {
    "neg": operator.neg, "pos": operator.pos, "abs": abs, "ceil": math.ceil, "floor": math.floor, "trunc": math.trunc,
    **{n: getattr(tessera, n) for n in "sym_not sym_float sym_int sym_sqrt".split()},
    "is_integer": lambda a: math.trunc(a) == a,
}  # fmt: skip
_BINARY = {
    **{n: getattr(operator, n) for n in "add sub mul truediv floordiv mod pow lt le gt ge eq ne".split()},
    **{n: getattr(operator, n) for n in "and_ or_ lshift rshift".split()}, "sym_and": operator.and_,
    "sym_or": operator.or_, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": _xor,
    "float_truediv": operator.truediv, "int_truediv": operator.truediv, "int_floordiv": operator.floordiv,
    "float_pow": operator.pow, "pow_by_natural": operator.pow,
    **{n: getattr(tessera, n) for n in ("sym_max", "sym_min")},
}  # fmt: skip
magic_methods = {**_UNARY, **_BINARY}


def method_to_operator(method):
    """The function of numbers that a node's method computes. KeyError for other names."""
    return magic_methods[method]


def _unary(name, compute):
    def method(self):
        return self._as_node(compute(self._as_number()))

    method.__name__, method.__doc__ = name, f"The node of {name} of the number."
    return method


def _binary(name, compute):
    def method(self, other):
        return self._as_node(compute(self._as_number(), other._as_number()))

    method.__name__, method.__doc__ = name, f"The node of {name} of the number and another node's."
    return method


for _name, _compute in _UNARY.items():
    setattr(SymNode, _name, _unary(_name, _compute))
for _name, _compute in _BINARY.items():
    setattr(SymNode, _name, _binary(_name, _compute))
