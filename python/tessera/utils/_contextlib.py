"""Context managers that are decorators as well; a decorated generator runs inside the context, its caller does not."""

import functools
import types
import warnings

_GENERATOR_FLAGS = 0x20  # CO_GENERATOR; the inspect module is slow to import


def _is_generator_function(func):
    while isinstance(func, functools.partial):
        func = func.func
    func = getattr(func, "__func__", func)
    code = getattr(func, "__code__", None)
    return isinstance(func, types.FunctionType) and bool(code.co_flags & _GENERATOR_FLAGS)


def _wrap_generator(ctx_factory, func):
    """Each step of the generator runs in a fresh context; between the steps the caller's state holds."""

    @functools.wraps(func)
    def generator_context(*args, **kwargs):
        source = func(*args, **kwargs)
        go_on, with_what = source.send, None
        while True:
            try:
                with ctx_factory():
                    value = go_on(with_what)
            except StopIteration as stop:
                return stop.value
            go_on = source.send
            try:
                with_what = yield value
            except GeneratorExit:
                with ctx_factory():
                    source.close()
                raise
            except BaseException as error:
                go_on, with_what = source.throw, error

    return generator_context


def context_decorator(ctx, func):
    """Wraps `func` so that each call runs inside a context: `ctx` is a factory, or a context manager with `clone()`."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), "
            "making it ambiguous which interface to use."
        )
    ctx_factory = ctx if callable(ctx) else (lambda: ctx)
    if isinstance(func, type):
        raise RuntimeError(
            "Cannot decorate classes; it is ambiguous whether or not only the constructor or all methods should "
            "have the context manager applied; additionally, decorating a class at definition-site will prevent "
            "use of the identifier as a conventional type. To specify which methods to decorate, decorate each "
            "of them individually."
        )
    if _is_generator_function(func):
        return _wrap_generator(ctx_factory, func)

    @functools.wraps(func)
    def decorate_context(*args, **kwargs):
        with ctx_factory():
            return func(*args, **kwargs)

    return decorate_context


class _DecoratorContextManager:
    """Base class: `@ctx(...)` wraps functions and generators; classes with a deprecation warning (their constructor
    only).
    """

    def __call__(self, orig_func):
        if isinstance(orig_func, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
            clone = self.clone

            @functools.wraps(orig_func)
            def construct(*args, **kwargs):
                with clone():
                    return orig_func(*args, **kwargs)

            return construct
        return context_decorator(self.clone, orig_func)

    def __enter__(self):
        raise NotImplementedError

    def __exit__(self, exc_type, exc_value, traceback):
        raise NotImplementedError

    def clone(self):
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """Also usable without parentheses: `@no_grad`."""

    def __new__(cls, orig_func=None):
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
