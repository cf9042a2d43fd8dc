"""Functions that run captured: torch.compile and torch._dynamo.optimize, and what keeps functions out of them."""

import functools
import inspect
import types

import tessera
from tessera.compiler import _stance

from . import (
    _calls,
    _checks,  # noqa: F401 - says how some functions are called
    _points,
    _transforms,
    _trees,  # noqa: F401 - says how some functions are called
    config,
    exc,
)
from .backends.registry import lookup_backend
from .eval_frame import OptimizedModule, innermost_fn


def reset():
    """Forgets all that was compiled."""
    _points.reset()


reset_code_caches = reset  # nothing else is kept


class Optimizing:
    """Compiles what it is called with: functions, methods, modules, classes of modules.

    Args:
        backend: name or callable. The others: as of torch.compile.
    """

    def __init__(self, backend, fullgraph=False, dynamic=None, mode=None, options=None, hooks=None):
        self.backend_name = backend if isinstance(backend, str) else getattr(backend, "__name__", "?")
        self.asked = (backend, fullgraph, dynamic, mode, options)
        self.settings = _points.Settings(lookup_backend(backend), fullgraph, dynamic, hooks, self.backend_name)

    def __reduce__(self):
        return Optimizing, self.asked

    def __call__(self, fn):
        if isinstance(fn, tessera.nn.Module):
            made = OptimizedModule(fn, self)
            made._torchdynamo_orig_callable = fn.forward
            return made
        if inspect.isclass(fn):
            if issubclass(fn, tessera.nn.Module):
                return self._compiled_class(fn)
            raise TypeError(f"torch.compile: expected a function or module, but got the class {fn.__name__}")
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
        return self.wrap(fn)

    def _compiled_class(self, cls):
        before = cls.__call__
        cls.__call__ = self.wrap(before)
        return cls

    def wrap(self, fn):
        """The function that runs `fn` captured."""
        fn = innermost_fn(fn)
        settings = self.settings

        @functools.wraps(fn, assigned=[a for a in functools.WRAPPER_ASSIGNMENTS if hasattr(fn, a)])
        def compiled(*args, **kwargs):
            return call(settings, fn, args, kwargs)

        compiled._torchdynamo_orig_callable = fn
        compiled._torchdynamo_inline = fn
        compiled._settings = settings
        return compiled


def _target(fn):
    """(function of Python, arguments in front) of something that can be called, or None."""
    front = ()
    owner = fn.__self__ if isinstance(fn, types.MethodType) and fn.__name__ == "__call__" else fn
    if _calls.scripted(owner) or _transforms.is_transformed(fn):
        return _calls.run_scripted, (owner,)
    if isinstance(fn, functools.partial):
        return None
    if isinstance(fn, types.MethodType):
        if fn.__func__ is tessera.nn.Module._call_impl and _calls.plain(fn.__self__) and not _calls.global_hooks():
            return _target(fn.__self__.forward)  # calling the module is nothing else
        front, fn = (fn.__self__,), fn.__func__
    elif not isinstance(fn, types.FunctionType):
        method = type(fn).__call__ if callable(fn) else None
        if not isinstance(method, types.FunctionType):
            return None
        front, fn = (fn,), method
    return fn, front


def call(settings, fn, args, kwargs):
    """Calls `fn` as the stance says: captured, or as it is."""
    stance = _stance.current[0]
    if stance == "force_eager" or config.disable or _points.capturing() or disabled() or _modes_on():
        return fn(*args, **kwargs)
    if stance.endswith("then_compile") and not settings.seen(fn):
        if stance == "eager_then_compile":
            return fn(*args, **kwargs)
        settings = settings.with_backend("aot_eager")
    found = _target(fn)
    if found is None:
        if isinstance(fn, functools.partial):
            return call(settings, fn.func, (*fn.args, *args), {**fn.keywords, **kwargs})
        if settings.fullgraph:
            raise exc.Unsupported(f"a function that is not written in Python: {getattr(fn, '__name__', fn)}")
        return fn(*args, **kwargs)
    function, front = found
    forced = _stance.current[2]
    if forced is not None:
        settings = settings.with_backend(forced)
    if function.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        if settings.fullgraph:
            raise exc.Unsupported(f"the generator or coroutine {function.__qualname__}")
        return fn(*args, **kwargs)
    return _points.run_function(settings, function, (*front, *args), kwargs)


def _modes_on():
    """Whether something looks at operators from outside: a function transform, or a mode of the program."""
    c = tessera._C
    return c._len_torch_dispatch_stack() or c._len_torch_function_stack() or c._func._levels()


# --- what is kept out -------------------------------------------------------------------------------------------------


def disabled():
    """Whether this thread runs a function that `disable` keeps out."""
    return getattr(_points._local, "disabled", 0) > 0


def disable(fn=None, recursive=True, *, reason=None, wrapping=True):
    """Keeps a function, class or module out of compilation. A decorator, with or without arguments.

    Args:
        fn: what to keep out.
        recursive: what it calls as well; otherwise the function's own code alone.
        reason: a text for those who ask why it is not compiled.
        wrapping: False: marks the function itself instead of making one that calls it.

    Returns: a function that calls `fn`; classes and modules themselves. Raises: TypeError for what cannot be called.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    if not callable(fn):
        raise TypeError(f"disable expects something that can be called, but got {type(fn).__name__}")
    if isinstance(fn, OptimizedModule):
        fn = fn._orig_mod
    target = fn = innermost_fn(fn) if recursive else fn
    if not isinstance(fn, (type, tessera.nn.Module)) and wrapping:

        @functools.wraps(fn, assigned=[a for a in functools.WRAPPER_ASSIGNMENTS if hasattr(fn, a)])
        def target(*args, **kwargs):
            if not recursive:
                return fn(*args, **kwargs)
            local = _points._local
            local.disabled = getattr(local, "disabled", 0) + 1
            try:
                return fn(*args, **kwargs)
            finally:
                local.disabled -= 1

        target._torchdynamo_orig_callable = fn
    target._torchdynamo_disable = bool(recursive)
    target._torchdynamo_disable_msg = reason
    return target


# --- torch._dynamo.optimize and torch.compile -------------------------------------------------------------------------


def optimize(backend="inductor", *, nopython=False, guard_export_fn=None, guard_fail_fn=None, guard_filter_fn=None,
             disable=False, dynamic=None):  # fmt: skip
    """The decorator under torch.compile.

    Args:
        backend: name or callable. nopython: as fullgraph of torch.compile.
        guard_export_fn, guard_fail_fn: not supported; guard_filter_fn: function of guards that gives bools.
        disable, dynamic: as of torch.compile.

    Raises: InvalidBackend, NotImplementedError.
    """
    if guard_export_fn is not None or guard_fail_fn is not None:
        raise NotImplementedError("optimize: guard_export_fn and guard_fail_fn are not supported; leave them out")
    if disable or config.disable:
        return lambda fn: fn
    return Optimizing(backend, nopython, dynamic, hooks={"guard_filter_fn": guard_filter_fn})


def optimize_assert(backend, **kwargs):
    """optimize with nopython=True."""
    return optimize(backend, nopython=True, **kwargs)


def compile_with(model, fullgraph, dynamic, backend, mode, options, disable):
    """torch.compile without its defaults: see there."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"torch.compile: expected options as a dict, but got {type(options).__name__}")
    if dynamic not in (None, True, False):
        raise TypeError(f"torch.compile: expected dynamic as a bool or None, but got {dynamic!r}")
    options = dict(options or {})
    hooks = {"guard_filter_fn": options.pop("guard_filter_fn", None)}
    if hooks["guard_filter_fn"] is not None and not callable(hooks["guard_filter_fn"]):
        raise TypeError("torch.compile: guard_filter_fn has to be a function")
    if disable or config.disable:
        return model
    chosen = lookup_backend(backend)
    chosen = _with_options(backend, chosen, mode, options)
    context = Optimizing(chosen, bool(fullgraph), dynamic, hooks=hooks)
    context.asked = (backend, fullgraph, dynamic, mode, options)
    context.settings.name = context.backend_name = (
        backend if isinstance(backend, str) else getattr(backend, "__name__", "?")
    )
    return context(model)


def _with_options(name, function, mode, options):
    if name == "inductor":
        from .backends.inductor import MODES
        from tessera._inductor import config as inductor_config

        if mode is not None and mode not in MODES:
            raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
        for key in options:
            if not inductor_config.has_setting(key):
                raise RuntimeError(f"Unexpected optimization option {key}, known options are {inductor_config.names()}")
        return function
    if mode is not None and mode != "default":
        more = {"mode": mode}
    else:
        more = {}
    if options:
        more["options"] = options
    if not more:
        return function
    return functools.wraps(function)(functools.partial(function, **more)) if hasattr(function, "__name__") else (
        functools.partial(function, **more)
    )  # fmt: skip
