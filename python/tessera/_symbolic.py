"""Numbers that may be symbolic: SymInt, SymFloat and SymBool, and functions of sizes. Plain numbers give plain numbers;
any other object answers through the method named here.
"""

import builtins
import math
import operator

import tessera
from tessera import _C

__all__ = [
    "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all",
    "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "SymBool", "SymFloat", "SymInt", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
    "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


def _part(value):
    """(expression, type) of a plain or symbolic number, or None for other objects."""
    from tessera.fx.experimental._expressions import constant

    if isinstance(value, _Number):
        return value.node.expr, value.node.pytype
    if isinstance(value, (bool, int, float)):
        return constant(value), type(value)
    return None


def _wrapped(env, expr, kind):
    """An expression as a symbolic number; a plain one where it has no symbols."""
    if isinstance(expr, bool):
        return expr
    if expr.is_number:
        return kind(expr.value())
    from tessera.fx.experimental.sym_node import SymNode

    return {int: SymInt, float: SymFloat, bool: SymBool}[kind](SymNode(expr, env, kind))


def _binary(name, swapped=False):
    def method(self, other):
        mine, others = _part(self), _part(other)
        if others is None:
            return NotImplemented
        from tessera.fx.experimental.sym_node import arithmetic

        a, b = (others, mine) if swapped else (mine, others)
        return _wrapped(self.node.shape_env, *arithmetic(name, a, b))

    return method


def _compare(name):
    def method(self, other):
        others = _part(other)
        if others is None:
            return NotImplemented
        from tessera.fx.experimental.sym_node import comparison

        return _wrapped(self.node.shape_env, comparison(name, _part(self), others), bool)

    return method


class _Number:
    """What the three have in common. An operation with plain or symbolic numbers gives a symbolic one."""

    __slots__ = ("node",)

    def __init__(self, node):
        self.node = node

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from tessera._subclasses import _symbolic_calls

        return _symbolic_calls.call_with_symbols(func, args, kwargs or {})

    def _guard(self):
        """The plain number, from now on always this one."""
        return self.node.shape_env.evaluate_expr(self.node.expr)

    def _stand_in(self):
        """A plain number of the same type for code that can't take symbols."""
        return self.node.pytype(self.node.shape_env._stand_in(self.node.expr))

    def __bool__(self):
        return bool(self != 0) if not isinstance(self, SymBool) else self.node.guard_bool()

    def __int__(self):
        return int(sym_int(self)._guard()) if not isinstance(sym_int(self), int) else sym_int(self)

    def __float__(self):
        return float(self._guard())

    def __hash__(self):
        raise TypeError(f"unhashable type: {type(self).__name__} (it is equal to numbers that are not known yet)")

    def __repr__(self):
        return str(self.node)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce_ex__(self, proto):
        raise TypeError(f"{type(self).__name__} {self} can't be pickled: its symbols belong to this trace")

    for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        locals()[f"__{_name}__"] = _binary(_name)
        locals()[f"__r{_name}__"] = _binary(_name, swapped=True)
    for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
        locals()[f"__{_name}__"] = _compare(_name)
    del _name
    __sym_max__, __sym_min__ = _binary("max"), _binary("min")

    def __neg__(self):
        return 0 - self

    def __pos__(self):
        return self

    def __abs__(self):
        bounds = self.node.shape_env.bound_sympy(self.node.expr)
        return self if bounds.lower >= 0 else -self if bounds.upper <= 0 else sym_max(self, -self)

    def _rounded(self, name):
        from tessera.fx.experimental.sym_node import rounding

        return _wrapped(self.node.shape_env, rounding(name, self.node.expr), int)

    def __trunc__(self):
        return self._rounded("trunc")

    def __floor__(self):
        return self._rounded("floor")

    def __ceil__(self):
        return self._rounded("ceil")

    def __sym_int__(self):
        return self._rounded("trunc")

    def __sym_float__(self):
        from tessera.fx.experimental._expressions import function

        return _wrapped(self.node.shape_env, function("float", self.node.expr), float)

    def _of_math(self, name):
        from tessera.fx.experimental._expressions import function

        return _wrapped(self.node.shape_env, function(name, self.node.expr), float)

    def __sym_sqrt__(self):
        return self._of_math("sqrt")

    def conjugate(self):
        return self


class SymInt(_Number):
    """An integer that is known as an expression over sizes. Made by tracing with dynamic shapes.

    Where Python needs the number (int(), range(), if), it is the one of the run under way, and a guard says so.
    """

    __slots__ = ()

    def __index__(self):
        return self.node.guard_int()

    def __round__(self, ndigits=None):
        return self

    def __sym_int__(self):
        return self

    def __trunc__(self):
        return self

    def __floor__(self):
        return self

    def __ceil__(self):
        return self

    def as_integer_ratio(self):
        """(self, 1)"""
        return self, 1

    def bit_length(self):
        """The number of bits, of the number as it is."""
        return int(self).bit_length()

    def __and__(self, other):
        return int(self) & other

    def __or__(self, other):
        return int(self) | other

    def __lshift__(self, other):
        return self * 2 ** operator.index(other)

    def __rshift__(self, other):
        return self // 2 ** operator.index(other)

    def __divmod__(self, other):
        return self // other, self % other


class SymFloat(_Number):
    """A float that is known as an expression over sizes, or not known yet."""

    __slots__ = ()

    def __neg__(self):
        return self * -1

    def __round__(self, ndigits=None):
        return self._rounded("round") if ndigits is None else round(float(self), ndigits)

    def as_integer_ratio(self):
        """Of the number as it is."""
        return float(self).as_integer_ratio()

    def is_integer(self):
        """Whether it has no fraction."""
        return sym_float(sym_int(self)) == self

    def hex(self):
        """Of the number as it is."""
        return float(self).hex()


class SymBool(_Number):
    """A bool that is known as a condition on sizes. `&`, `|` and torch.sym_not keep it symbolic."""

    __slots__ = ()

    def _combined(self, op, other):
        from tessera.fx.experimental._expressions import combined

        if not isinstance(other, (bool, SymBool)):
            return NotImplemented
        parts = [self.node.expr, other.node.expr if isinstance(other, SymBool) else other]
        return _wrapped(self.node.shape_env, combined(op, parts), bool)

    def __and__(self, other):
        return self._combined("and", other)

    def __or__(self, other):
        return self._combined("or", other)

    __rand__, __ror__ = __and__, __or__

    def __sym_not__(self):
        from tessera.fx.experimental.sym_node import negated

        return _wrapped(self.node.shape_env, negated(self.node.expr), bool)

    def __sym_ite__(self, t, f):
        from tessera.fx.experimental._expressions import function

        (a, kind), (b, _) = _part(t), _part(f)
        return _wrapped(self.node.shape_env, function("ite", self.node.expr, a, b), kind)

    def __int__(self):
        return int(self.node.guard_bool())

    __index__ = __int__


_C._set_symbolic_types((SymInt, SymFloat, SymBool))


def sym_int(a):
    """`a` without its fraction, as an int."""
    if isinstance(a, _Number):
        return a.__sym_int__()
    if tessera.overrides.has_torch_function_unary(a):
        return tessera.overrides.handle_torch_function(sym_int, (a,), a)
    return int(a) if not hasattr(a, "__sym_int__") else a.__sym_int__()


def sym_float(a):
    """`a` as a float."""
    if isinstance(a, SymFloat):
        return a
    if isinstance(a, _Number):
        return a.__sym_float__()
    if tessera.overrides.has_torch_function_unary(a):
        return tessera.overrides.handle_torch_function(sym_float, (a,), a)
    return a if isinstance(a, float) else a.__sym_float__() if hasattr(a, "__sym_float__") else float(a)


def sym_not(a):
    """The logical negation."""
    if isinstance(a, SymBool):
        return a.__sym_not__()
    if tessera.overrides.has_torch_function_unary(a):
        return tessera.overrides.handle_torch_function(sym_not, (a,), a)
    return a.__sym_not__() if hasattr(a, "__sym_not__") else not a


def sym_sqrt(a):
    """The square root, as a float."""
    if isinstance(a, _Number):
        return a.__sym_sqrt__()
    if tessera.overrides.has_torch_function_unary(a):
        return tessera.overrides.handle_torch_function(sym_sqrt, (a,), a)
    return a.__sym_sqrt__() if hasattr(a, "__sym_sqrt__") else math.sqrt(a)


_sym_sqrt = sym_sqrt


def _of_math(name):
    function = getattr(math, name)

    def run(a):
        if isinstance(a, _Number):
            return a._of_math(name)
        if tessera.overrides.has_torch_function_unary(a):
            return tessera.overrides.handle_torch_function(run, (a,), a)
        return function(a)

    run.__name__ = run.__qualname__ = f"_sym_{name}"
    run.__doc__ = f"math.{name} of a number that may be symbolic."
    return run


OF_MATH = tuple(f"_sym_{name}" for name in "acos asin atan cos cosh log2 sin sinh tan tanh".split())
for _name in OF_MATH:
    globals()[_name] = _of_math(_name.removeprefix("_sym_"))
del _name


def sym_fresh_size(expr):
    """For operators without a rule for fake tensors. Raises: NotImplementedError: torch.library.get_ctx() has
    new_dynamic_size().
    """
    raise NotImplementedError(
        f"sym_fresh_size({expr}) is not supported: use torch.library.get_ctx().new_dynamic_size()"
    )


def _extreme(a, b, name, choose):
    """Python's min and max, but a float if either is one; NaN wins."""
    symbolic = isinstance(a, _Number) or isinstance(b, _Number)
    if not symbolic and tessera.overrides.has_torch_function((a, b)):
        return tessera.overrides.handle_torch_function(sym_max if choose is max else sym_min, (a, b), a, b)
    for left, right in ((a, b), (b, a)):
        if hasattr(left, name):
            return getattr(left, name)(right)
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
        if math.isnan(a) or math.isnan(b):
            return math.nan
    return choose(a, b)


def sym_max(a, b):
    """The larger number; a float if one of them is."""
    return _extreme(a, b, "__sym_max__", max)


def sym_min(a, b):
    """The smaller number; a float if one of them is."""
    return _extreme(a, b, "__sym_min__", min)


def sym_sum(args):
    """The sum of a sequence of numbers."""
    if any(isinstance(a, _Number) for a in args):
        return builtins.sum(args)
    if tessera.overrides.has_torch_function(tuple(args)):
        return tessera.overrides.handle_torch_function(sym_sum, tuple(args), args)
    return sum(args[1:], args[0]) if len(args) else 0


def sym_ite(b, t, f):
    """`t` if `b`, else `f`; both must have the same type (AssertionError)."""
    symbolic = any(isinstance(v, _Number) for v in (b, t, f))
    if not symbolic and tessera.overrides.has_torch_function((b, t, f)):
        return tessera.overrides.handle_torch_function(sym_ite, (b, t, f), b, t, f)
    assert isinstance(b, bool) or hasattr(b, "__sym_ite__"), (
        f"sym_ite: the condition must be a bool, got {type(b).__name__}"
    )
    assert type(t) is type(f), f"sym_ite: both values must have one type, got {type(t).__name__} and {type(f).__name__}"
    return b.__sym_ite__(t, f) if hasattr(b, "__sym_ite__") else t if b else f


def _check_with(error_type, cond, message=None):
    """Raises error_type(message()) unless cond, which may be symbolic: then it is assumed, and checked at run time."""
    if not isinstance(cond, (bool, SymBool)):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond.node.expect_true() if isinstance(cond, SymBool) else cond:
        return
    if message is None:
        text = "Expected cond to be True, but got False."
    else:
        if not callable(message):
            raise TypeError("message must be a callable")
        text = str(message())
    raise error_type(text)


def _check(cond, message=None):
    """RuntimeError(message()) unless cond."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    """IndexError(message()) unless cond."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """ValueError(message()) unless cond."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """TypeError(message()) unless cond."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """NotImplementedError(message()) unless cond."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond, message=None):
    """RuntimeError(message()) unless all elements of a tensor of bools are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_tensor_all_with(error_type, cond, message=None):
    """error_type(message()) unless all elements of a tensor of bools are True."""
    if not isinstance(cond, tessera.Tensor) or cond.dtype is not tessera.bool:
        raise TypeError(f"cond must be a tensor of bools, but got {type(cond)}")
    _check_with(error_type, cond.all().item(), message)


def _check_is_size(i, message=None, *, max=None):
    """RuntimeError unless i is 0 or more (and at most `max`). A symbolic i is taken for a size from now on."""
    _check(i >= 0, message)
    if isinstance(i, SymInt):
        i.node.shape_env.size_like.update(i.node.expr.free_symbols)
    if max is not None:
        _check(i <= max, message)
