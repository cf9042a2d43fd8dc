"""What is behind a SymInt, SymFloat or SymBool: an expression of a ShapeEnv."""

import math

from tessera.fx.experimental._expressions import Condition, Expr, combined, condition, constant, function

__all__ = ["SymNode"]


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

    def maybe_as_int(self):
        """The number, where it is always the same; else None."""
        expr = self.expr
        if isinstance(expr, bool):
            return int(expr)
        return int(expr.value()) if isinstance(expr, Expr) and expr.is_number else None

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

    def __str__(self):
        return str(self.expr)

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
