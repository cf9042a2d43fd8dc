"""Operations on sizes that may be symbolic. Plain numbers give plain numbers; any other object answers through the
method named here.
"""

import math

import tessera

__all__ = ["sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum"]


def sym_int(a):
    """`a` without its fraction, as an int."""
    if tessera.overrides.has_torch_function_unary(a):
        return tessera.overrides.handle_torch_function(sym_int, (a,), a)
    return int(a) if not hasattr(a, "__sym_int__") else a.__sym_int__()


def sym_float(a):
    """`a` as a float."""
    if tessera.overrides.has_torch_function_unary(a):
        return tessera.overrides.handle_torch_function(sym_float, (a,), a)
    return a if isinstance(a, float) else a.__sym_float__() if hasattr(a, "__sym_float__") else float(a)


def sym_not(a):
    """The logical negation."""
    if tessera.overrides.has_torch_function_unary(a):
        return tessera.overrides.handle_torch_function(sym_not, (a,), a)
    return a.__sym_not__() if hasattr(a, "__sym_not__") else not a


def _extreme(a, b, name, choose):
    """Python's min and max, but a float if either is one; NaN wins."""
    if tessera.overrides.has_torch_function((a, b)):
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
    if tessera.overrides.has_torch_function(tuple(args)):
        return tessera.overrides.handle_torch_function(sym_sum, tuple(args), args)
    return sum(args[1:], args[0]) if len(args) else 0


def sym_ite(b, t, f):
    """`t` if `b`, else `f`; both must have the same type (AssertionError)."""
    if tessera.overrides.has_torch_function((b, t, f)):
        return tessera.overrides.handle_torch_function(sym_ite, (b, t, f), b, t, f)
    assert isinstance(b, bool) or hasattr(b, "__sym_ite__"), (
        f"sym_ite: the condition must be a bool, got {type(b).__name__}"
    )
    assert type(t) is type(f), f"sym_ite: both values must have one type, got {type(t).__name__} and {type(f).__name__}"
    return b.__sym_ite__(t, f) if hasattr(b, "__sym_ite__") else t if b else f
