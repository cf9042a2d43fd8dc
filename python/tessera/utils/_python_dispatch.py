"""Modes and subclasses that see every operator below autograd."""

import contextlib

from tessera import _C

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "return_and_correct_aliasing"]


class TorchDispatchMode:
    """A context in which `__torch_dispatch__(self, func, types, args=(), kwargs=None)` is called for every operator.

    `func` is an OpOverload; the handler returns its results, mostly by calling it. While a handler runs its mode is
    off, so that what it
    calls goes to the modes around it. Autograd has run already. Composite operators arrive as what they are made of.
    """

    def __init__(self, _dispatch_key=None):
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} has to define __torch_dispatch__")

    def __enter__(self):
        _C._push_on_torch_dispatch_stack(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _C._pop_torch_dispatch_stack()

    @classmethod
    def push(cls, *args, **kwargs):
        """The old way to make a mode: `with Mode.push():`."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        return False


def _get_current_dispatch_mode():
    """The innermost mode, or None."""
    count = _C._len_torch_dispatch_stack()
    return _C._get_dispatch_stack_at(count - 1) if count else None


def _get_current_dispatch_mode_stack():
    """All active modes, the innermost last."""
    return [_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack())]


@contextlib.contextmanager
def _disable_current_modes():
    """Inside the block no mode is active."""
    modes = [_C._pop_torch_dispatch_stack() for _ in range(_C._len_torch_dispatch_stack())]
    try:
        yield list(reversed(modes))
    finally:
        for mode in reversed(modes):
            _C._push_on_torch_dispatch_stack(mode)


def is_traceable_wrapper_subclass(t):
    """True for a tensor of a subclass that has `__tensor_flatten__` and `__tensor_unflatten__`."""
    cls = type(t)
    return (
        isinstance(t, _C.TensorBase)
        and cls is not _C.TensorBase
        and hasattr(cls, "__tensor_flatten__")
        and hasattr(cls, "__tensor_unflatten__")
    )


def return_and_correct_aliasing(func, args, kwargs, out):
    """For handlers of wrapper subclasses: what an operator writes to comes back as the argument itself, not as a new
    wrapper.
    """
    written = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.is_write:
            written.append(args[position] if position < len(args) else (kwargs or {}).get(argument.name))
    if not written:
        return out
    results = [
        written.pop(0) if result.is_write and written else value
        for result, value in zip(func._schema.returns, out if isinstance(out, (list, tuple)) else (out,))
    ]
    return tuple(results) if len(func._schema.returns) > 1 else results[0] if results else out
