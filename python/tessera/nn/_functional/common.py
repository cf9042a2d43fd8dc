"""What the parts of nn.functional share."""

import functools

from tessera import _C
from tessera.amp import autocast_mode
from tessera.overrides import handle_torch_function, has_torch_function


def overridable(fn):
    """Lets a tensor-like argument or a function mode take over the call (`__torch_function__`), with `fn` as the
    function it sees.
    """

    def wrapper(*args, **kwargs):
        relevant = (*args, *kwargs.values()) if kwargs else args
        if has_torch_function(relevant):
            return handle_torch_function(wrapper, relevant, *args, **kwargs)
        return fn(*args, **kwargs)

    wrapper.__name__ = fn.__name__
    wrapper.__qualname__ = fn.__qualname__
    wrapper.__doc__ = fn.__doc__
    wrapper.__module__ = fn.__module__
    wrapper.__wrapped__ = fn
    return wrapper


def autocasts(**policies):
    """For functions of several operators, what the op tables' `autocast` is for one: the policy ("fp32" or "promote")
    by type of device.
    """

    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            if _C._is_any_autocast_enabled():
                return autocast_mode._call_with_policy(fn, policies, args, kwargs)
            return fn(*args, **kwargs)

        return wrapper

    return decorate


def tuple_of(n, value):
    """`value` repeated n times if it is a number, else as a tuple."""
    return (value,) * n if isinstance(value, int) else tuple(value)


def reduce_loss(loss, reduction):
    """Applies 'none', 'mean' or 'sum'. ValueError for another name."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")
