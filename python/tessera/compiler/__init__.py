"""What programs say to a compiler about themselves. Nothing is compiled here yet: functions run as they are written, so
these marks and questions have the meaning that they have outside of compiled code.

>>> tessera.compiler.is_compiling()
False
"""

import functools
import inspect

import tessera
from tessera._lazy import attach as _attach
from tessera._lazy import require

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe",
    "list_backends",
    "nested_compile_region",
    "reset",
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
__getattr__, __dir__ = _attach(__name__, {**{name: "_guards" for name in _guards}, "set_stance": "_stance"})

_guard_collectives = False


def compile(*args, **kwargs):
    """The same as the function of this name in the root."""
    return require("compile", "compiler.compile()")(*args, **kwargs)


_exporting = 0  # how many exports are under way


def is_compiling():
    """Whether a compiler or an export traces this code: False while it runs."""
    return _exporting > 0


def is_dynamo_compiling():
    """Whether the capture of Python's bytecode runs this code: False while it runs by itself."""
    return False


def is_exporting():
    """Whether an export traces this code: False while it runs."""
    return _exporting > 0


def reset():
    """Forgets all that was compiled, and takes the stance back to "default"."""
    from tessera.compiler import _stance

    _stance.current = _stance.DEFAULT


def list_backends(exclude_tags=("debug", "experimental")):
    """Names of the compilers that can be chosen, without those that have one of the given tags: a sorted list. There
    are none.

    Raises: TypeError for tags that are no strings.
    """
    if any(not isinstance(tag, str) for tag in exclude_tags or ()):
        raise TypeError(f"list_backends: expected tags as strings, but got {exclude_tags!r}")
    return []


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
    return _each(fn, "allow_in_graph", lambda function: function)


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
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise TypeError(f"disable expects something that can be called, but got {type(fn).__name__}")
    if isinstance(fn, (type, tessera.nn.Module)):
        target = fn
    else:

        @functools.wraps(fn)
        def target(*args, **kwargs):
            return fn(*args, **kwargs)

        target._torchdynamo_orig_callable = fn
    target._torchdynamo_disable = bool(recursive)
    target._torchdynamo_disable_msg = reason
    return target


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
