"""Switches for gradient recording, as context managers, decorators and functions. All of them are local to a thread."""

from tessera import _C
from tessera.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled"]


class no_grad(_NoParamDecoratorContextManager):
    """Turns recording off inside the block: results have `requires_grad=False` even if an input requires grad.

    Factory functions that are told `requires_grad=True` are not affected. Works as a decorator, for generators too.

        >>> x = tessera.ones(1, requires_grad=True)
        >>> with tessera.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __init__(self):
        self.prev = False

    def __enter__(self):
        self.prev = _C._is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)


class enable_grad(_NoParamDecoratorContextManager):
    """Turns recording on inside the block, also within `no_grad`; `enable_grad(f)` is f, run in such a block."""

    prev = False

    def __enter__(self):
        self.prev = _C._is_grad_enabled()
        _C._set_grad_enabled(True)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)


class set_grad_enabled(_DecoratorContextManager):
    """Sets recording to `mode` at once; as a context manager the old state returns at the end of the block."""

    def __init__(self, mode):
        self.prev = _C._is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, orig_func):
        # As a decorator the switch belongs to the calls of the function, not to the line of the decorator.
        _C._set_grad_enabled(self.prev)
        return super().__call__(orig_func)

    def __enter__(self):
        _C._set_grad_enabled(self.mode)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)

    def __str__(self):
        return f"{type(self).__module__}.{type(self).__name__}(mode={self.mode})"

    __repr__ = __str__

    def clone(self):
        return self.__class__(self.mode)


class inference_mode(_DecoratorContextManager):
    """`no_grad` that also leaves out version counters and view tracking.

    Tensors made inside are inference tensors: outside, they can't be saved for backward nor changed in place. With
    `mode=False` the block has the normal mode.
    """

    def __init__(self, mode=True):
        self.mode = mode

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)  # used as a decorator without parentheses

    def __enter__(self):
        _C._inference_mode_push(self.mode)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._inference_mode_pop()

    def clone(self):
        return self.__class__(self.mode)


class set_multithreading_enabled(_DecoratorContextManager):
    """Sets whether the backward pass may use threads; a function and a context manager."""

    def __init__(self, mode):
        self.prev = _C._is_multithreading_enabled()
        self.mode = mode
        _C._set_multithreading_enabled(mode)

    def __enter__(self):
        _C._set_multithreading_enabled(self.mode)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_multithreading_enabled(self.prev)

    def clone(self):
        return self.__class__(self.mode)
