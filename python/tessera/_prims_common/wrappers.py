"""Decorators and helpers of functions that stand for operators."""

import functools
import inspect

import tessera
from tessera._prims_common import elementwise_dtypes
from tessera.utils import _pytree as pytree

__all__ = ["elementwise_type_promotion_wrapper"]


def _maybe_convert_to_dtype(a, dtype):
    """A tensor in that dtype, a number as one of its kind; lists of them likewise, None as it is.

    Raises: ValueError for others.
    """
    if isinstance(a, tessera.Tensor):
        return a if a.dtype == dtype else a.to(dtype)
    if a is None:
        return None
    if isinstance(a, (bool, int, float, complex)):
        return tessera._prims_common.dtype_to_type(dtype)(a)
    if isinstance(a, (list, tuple)):
        return tuple(_maybe_convert_to_dtype(x, dtype) for x in a)
    raise ValueError(f"expected a tensor, a number or a list of them to convert to {dtype}, got {type(a).__name__}")


def elementwise_type_promotion_wrapper(*, type_promotion_kind, type_promoting_args=None):
    """Decorator: a function gets these arguments in the dtype that is computed in, its results the operator's dtype.

    Args:
        type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND.
        type_promoting_args: names of the arguments that decide; none if None.
    """

    def decorate(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            names = [n for n in type_promoting_args or () if n in bound.arguments]
            if not names:
                return function(*args, **kwargs)
            deciding = pytree.tree_leaves([bound.arguments[n] for n in names])
            computed, result = elementwise_dtypes(*deciding, type_promotion_kind=type_promotion_kind)
            for name in names:
                bound.arguments[name] = _maybe_convert_to_dtype(bound.arguments[name], computed)
            made = function(*bound.args, **bound.kwargs)
            return pytree.tree_map_only(tessera.Tensor, lambda t: _maybe_convert_to_dtype(t, result), made)

        return wrapped

    return decorate
