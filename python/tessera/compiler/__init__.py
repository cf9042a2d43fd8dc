"""What programs say to the compiler about themselves, and what they ask it. `tessera.compile` compiles.

>>> tessera.compiler.is_compiling()
False
"""

import functools
import inspect
import sys

import tessera
from tessera._lazy import attach as _attach

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "load_cache_artifacts",
    "load_compiled_function",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_enable_guard_collectives",
    "set_stance",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "substitute_in_graph",
    "wrap_numpy",
]

_guards = (
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "skip_guard_on_inbuilt_nn_modules_unsafe",
)
_caches = ("load_cache_artifacts", "load_compiled_function", "save_cache_artifacts")
__getattr__, __dir__ = _attach(
    __name__,
    {
        **{name: "_guards" for name in _guards},
        **{name: "_cache" for name in _caches},
        "set_stance": "_stance",
    },
)

_guard_collectives = False
_exporting = 0  # how many exports trace


def compile(*args, **kwargs):
    """The same as the function of this name in the root."""
    return tessera.compile(*args, **kwargs)


def _busy():
    points = sys.modules.get("tessera._dynamo._points")
    return points is not None and points.capturing()


def is_compiling():
    """Whether this code is compiled or exported: False while it runs by itself.

    In a compiled function the answer is True, and what hangs on it is decided when the function is captured.
    """
    return _exporting > 0 or _busy()


def is_dynamo_compiling():
    """Whether the capture of Python's bytecode looks at this code: False while it runs by itself."""
    return _busy()


def is_exporting():
    """Whether an export traces this code: False while it runs."""
    return _exporting > 0


def reset():
    """Forgets all that was compiled, and takes the stance back to "default"."""
    from tessera.compiler import _stance

    _stance.current = _stance.DEFAULT
    points = sys.modules.get("tessera._dynamo._points")
    if points is not None:
        points.reset()


def list_backends(exclude_tags=("debug", "experimental")):
    """Names of the backends that can be chosen, without those that have one of the given tags: a sorted list.

    Raises: TypeError for tags that are no strings.
    """
    from tessera._dynamo.backends.registry import list_backends as names

    return names(exclude_tags)


def _each(fn, name, mark):
    """`mark` applied to a function, or to each of a list of them. Raises: TypeError for what cannot be called."""
    if isinstance(fn, (list, tuple)):
        return [_each(one, name, mark) for one in fn]
    if not callable(fn):
        raise TypeError(f"{name} expects something that can be called, but got {type(fn).__name__}")
    return mark(fn)


def allow_in_graph(fn):
    """Marks a function (or each of a list) that goes into captured graphs as one call, without being looked into.

    Returns: the function. Raises: TypeError for what cannot be called.
    """

    def mark(function):
        from tessera._dynamo import _registry

        _registry.ALLOWED.add(function)
        return function

    return _each(fn, "allow_in_graph", mark)


def assume_constant_result(fn):
    """Marks a function that always gives the same result, so that a captured graph may hold that as a constant.

    Returns: the function. Raises: TypeError for what cannot be called.
    """

    def mark(function):
        function._dynamo_marked_constant = True
        return function

    return _each(fn, "assume_constant_result", mark)


def disable(fn=None, recursive=True, *, reason=None):
    """Keeps a function, class or module out of compilation. A decorator, with or without arguments.

    Args:
        fn: what to keep out.
        recursive: what it calls as well; otherwise the function's own code alone.
        reason: a text for those who ask why it is not compiled.

    Returns: a function that calls `fn`; classes and modules themselves. Raises: TypeError for what cannot be called.
    """
    from tessera._dynamo import _running

    return _running.disable(fn, recursive, reason=reason)


def nested_compile_region(fn=None, options=None):
    """Marks a function that is compiled once and called wherever it is met in captured code. A decorator.

    Args:
        fn: the function.
        options: how the region is compiled.

    Returns: a function that calls it. Raises: TypeError for what cannot be called.
    """
    if fn is None:
        return functools.partial(nested_compile_region, options=options)
    if not callable(fn):
        raise TypeError(f"nested_compile_region expects something that can be called, but got {type(fn).__name__}")

    @functools.wraps(fn)
    def region(*args, **kwargs):
        return fn(*args, **kwargs)

    region._nested_compile_options = options
    region._torchdynamo_orig_callable = fn  # captured code looks into it
    return region


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """Decorator: a function in Python that stands for another one, mostly of C, where code is captured.

    Args:
        original_fn: what it stands for.
        can_constant_fold_through: calls with constants are computed when code is captured.
        skip_signature_check: do not compare the parameters.

    Raises: TypeError for what cannot be called, or for other parameters than those of `original_fn`.
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function, but got {type(original_fn).__name__}")

    def register(traceable_fn):
        if not callable(traceable_fn):
            raise TypeError(f"substitute_in_graph expects a function, but got {type(traceable_fn).__name__}")
        if not skip_signature_check:
            _check_same_parameters(original_fn, traceable_fn)

        @functools.wraps(traceable_fn)
        def substitute(*args, **kwargs):
            return original_fn(*args, **kwargs)

        from tessera._dynamo import _registry

        _registry.POLYFILLS[original_fn] = traceable_fn
        substitute.__torch_dynamo_original__ = original_fn  # type: ignore[attr-defined]
        substitute.__torch_dynamo_polyfill__ = traceable_fn  # type: ignore[attr-defined]
        substitute.__torch_dynamo_can_constant_fold_through__ = bool(can_constant_fold_through)  # type: ignore
        return substitute

    return register


def _check_same_parameters(original, substitute):
    try:
        theirs = inspect.signature(original).parameters.values()
    except ValueError:  # a function of C that does not tell
        return
    ours = inspect.signature(substitute).parameters.values()
    if [(p.name, p.kind) for p in theirs] != [(p.name, p.kind) for p in ours]:
        raise TypeError(
            f"substitute_in_graph: expected the parameters of the original, ({', '.join(map(str, theirs))}), but got "
            f"({', '.join(map(str, ours))})"
        )


def wrap_numpy(fn):
    """Makes a function of NumPy's arrays one of tensors: tensors among its arguments become arrays, arrays among its
    results tensors.

    Raises: TypeError for what cannot be called.
    """
    if not callable(fn):
        raise TypeError(f"wrap_numpy expects a function, but got {type(fn).__name__}")

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        import numpy
        from tessera.utils._pytree import tree_map

        def to_array(value):
            return value.numpy() if isinstance(value, tessera.Tensor) else value

        def to_tensor(value):
            return tessera.as_tensor(value) if isinstance(value, (numpy.ndarray, numpy.generic)) else value

        args, kwargs = tree_map(to_array, (args, kwargs))
        return tree_map(to_tensor, fn(*args, **kwargs))

    return wrapped


def cudagraph_mark_step_begin():
    """Says that a step of inference or training begins: what captured graphs of the last one hold may be overwritten.
    There are none, so nothing happens.
    """


def set_enable_guard_collectives(enabled):
    """Whether the processes of a distributed program compile again together, if one has to. Returns: what it was."""
    global _guard_collectives
    before, _guard_collectives = _guard_collectives, bool(enabled)
    return before
