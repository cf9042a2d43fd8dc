"""Forward-mode differentiation: tensors that carry a tangent through every operation.

A *dual* tensor has a value, the primal, and a tangent, a direction in which it moves. What is computed from duals are
duals: the tangent of `f(x)` is the Jacobian of `f` at `x` times the tangent of `x`.

>>> import tessera.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     y = fwAD.make_dual(tessera.tensor([1.0, 2.0]), tessera.tensor([1.0, 0.0])) ** 2
...     fwAD.unpack_dual(y).tangent
tensor([2., 0.])

Tangents live as long as the level that they were made in. They are independent of backward: `no_grad` does not switch
forward mode off (`inference_mode` does), primal and tangent may require grad, and gradients computed of duals are
duals.
"""

from typing import NamedTuple, Optional

import tessera
from tessera import _C
from tessera.autograd.grad_mode import _DecoratorContextManager

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives: `primal`, and `tangent` or None."""

    primal: tessera.Tensor
    tangent: Optional[tessera.Tensor]


def enter_dual_level():
    """Opens a level and returns its number, for `exit_dual_level`. Better use `dual_level`.

    Raises: RuntimeError if one is open in this thread: levels do not nest.
    """
    return _C._enter_dual_level()


def exit_dual_level(*, level=None):
    """Closes a level: its tangents vanish.

    Args:
        level: its number; default the open one.

    Raises: RuntimeError if none is open, or another one.
    """
    _C._exit_dual_level(_default_level(level))


def _default_level(level):
    return 0 if level is None else level


def make_dual(tensor, tangent, *, level=None):
    """A dual tensor with the value of `tensor` and a tangent.

    The result is a view of `tensor`, and holds `tangent` itself when its memory has the same layout. It can be
    differentiated with respect to both.

    Args:
        tensor: floating or complex tensor without a tangent of this level.
        tangent: tensor of the same shape, dtype and device.
        level: default the open one.

    Raises: RuntimeError without an open level or for a tangent that does not fit; ValueError for integer tensors;
        TypeError for what is no tensor.
    """
    return _C._make_dual(tensor, tangent, _default_level(level))


def unpack_dual(tensor, *, level=None):
    """The primal and the tangent of a tensor, as a named tuple `UnpackedDualTensor(primal, tangent)`.

    The tangent is None for a tensor that is no dual of this level, and outside of every level; primal is `tensor`
    itself then.
    """
    if level is None and _C._current_dual_level() < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor, _default_level(level)))


class dual_level(_DecoratorContextManager):
    """A block in which dual tensors can be made; gives the level. It can decorate functions as well.

    Raises: RuntimeError inside another one of the same thread.
    """

    def __enter__(self):
        self._level = enter_dual_level()
        return self._level

    def __exit__(self, exc_type, exc_value, traceback):
        exit_dual_level(level=self._level)


class _set_fwd_grad_enabled(_DecoratorContextManager):
    """Switches forward mode on or off in this thread, at once; as a context manager back at the end of the block."""

    def __init__(self, mode):
        self.prev = _C._is_fwd_grad_enabled()
        self.mode = mode
        _C._set_fwd_grad_enabled(mode)

    def __enter__(self):
        _C._set_fwd_grad_enabled(self.mode)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_fwd_grad_enabled(self.prev)

    def clone(self):
        return self.__class__(self.mode)


def _is_fwd_grad_enabled():
    return _C._is_fwd_grad_enabled()


def __getattr__(name):
    if name == "_current_level":  # programs read the open level, -1 without one, as an attribute
        return _C._current_dual_level()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
