"""What programs say about functions and tensors to the capture."""

import functools

import tessera
from tessera.compiler import allow_in_graph, assume_constant_result, is_compiling, substitute_in_graph

from tessera.utils._contextlib import context_decorator

from . import _builtins, _library, _objects, _registry
from ._running import disable
from .eval_frame import innermost_fn

__all__ = [
    "allow_in_graph", "assume_constant_result", "error_on_graph_break", "disable", "disallow_in_graph",
    "forbid_in_graph", "graph_break",
    "is_compiling", "mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked", "maybe_mark_dynamic",
    "nonstrict_trace", "run", "skip_frame", "substitute_in_graph",
]  # fmt: skip


def graph_break(msg=""):
    """Ends the graph here. Outside of compiled code it does nothing. `msg`: a text for the logs."""
    del msg


def skip_frame(msg=""):
    """The function that calls this is left to Python from here. Outside of compiled code it does nothing."""
    del msg


class _BreaksAreErrors:
    def __init__(self, flag):
        self.flag = flag

    def __enter__(self):
        self.before, _registry.STATE.error_on_break = _registry.STATE.error_on_break, self.flag

    def __exit__(self, *error):
        _registry.STATE.error_on_break = self.before

    def __call__(self, func):
        return context_decorator(functools.partial(error_on_graph_break, self.flag), func)


def error_on_graph_break(error_on_graph_break):
    """Context manager and decorator: whether the end of a graph is an error (torch._dynamo.exc.Unsupported) there.

    Inside of compiled functions it holds for what is captured inside of it, around calls of them for what they capture.
    With `fullgraph=True` the end of a graph is an error in any case.
    """
    if not isinstance(error_on_graph_break, bool):
        raise TypeError(f"error_on_graph_break: expected a bool, but got {error_on_graph_break!r}")
    return _BreaksAreErrors(error_on_graph_break)


def _many(fn, mark):
    if isinstance(fn, (list, tuple)):
        return [_many(one, mark) for one in fn]
    if not callable(fn):
        raise TypeError(f"expected a function, but got {type(fn).__name__}")
    return mark(fn)


def disallow_in_graph(fn):
    """The function (or each of a list) ends a graph instead of going into it. Returns: the function."""

    def mark(function):
        _registry.ALLOWED.discard(function)
        _builtins.SPECIAL[function] = _library.refused(f"a call of {getattr(function, '__name__', function)}")
        return function

    return _many(fn, mark)


def forbid_in_graph(fn):
    """Capturing a call of the function (or each of a list) is an error. Returns: the function."""

    def mark(function):
        _builtins.SPECIAL[function] = _library.forbidden(
            f"{getattr(function, '__name__', function)} in a compiled function"
        )
        return function

    return _many(fn, mark)


def nonstrict_trace(traceable_fn):
    """A function that goes into graphs as one call; what it calls is not looked into."""

    @functools.wraps(traceable_fn)
    def wrapped(*args, **kwargs):
        return traceable_fn(*args, **kwargs)

    _registry.ALLOWED.add(wrapped)
    return wrapped


def run(fn=None):
    """Runs what was compiled for a function before, and compiles nothing new."""
    if fn is None:
        return run
    fn = innermost_fn(fn)

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        with tessera.compiler.set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)

    return wrapped


def _dimensions(t, index, name):
    if not isinstance(t, tessera.Tensor):
        raise TypeError(f"{name}: expected a tensor, but got {type(t).__name__}")
    for one in index if isinstance(index, (list, tuple)) else [index]:
        if not isinstance(one, int) or isinstance(one, bool):
            raise AssertionError(f"{name}: expected a dimension, but got {one!r}")
        if not -t.dim() <= one < t.dim():
            raise IndexError(f"{name}: dimension {one} of a tensor with {t.dim()} dimensions")
        yield one % t.dim()


def _mark(t, index, name, extra):
    for one in _dimensions(t, index, name):
        getattr(t, extra, None) or setattr(t, extra, set())
        getattr(t, extra).add(one)


class _DimRange:
    """Bounds of a dimension's size. Pickles of jagged tensors name it."""

    __slots__ = ("dim", "max", "min")

    def __init__(self, dim=None, min=None, max=None):
        self.__setstate__([dim, min, max])

    def __getstate__(self):
        return [self.dim, self.min, self.max]

    def __setstate__(self, state):
        if len(state) != 3 or not all(n is None or isinstance(n, int) for n in state):
            raise TypeError(f"expected a dimension and its bounds, but got {state!r:.100}")
        self.dim, self.min, self.max = state

    def __eq__(self, other):
        return isinstance(other, _DimRange) and self.__getstate__() == other.__getstate__()

    def __hash__(self):
        return hash(tuple(self.__getstate__()))


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Says that a dimension's size will differ: it is a symbol in graphs, and it is an error if it can't be.

    Args:
        t: tensor. index: dimension, or a list of them. min, max: bounds of the size.
        hint_override, specialize_on: sizes to compile for besides; None.
    """
    if hint_override is not None or specialize_on is not None:
        raise NotImplementedError("mark_dynamic: hint_override and specialize_on are not supported; leave them out")
    _mark(t, index, "mark_dynamic", "_dynamo_dynamic_indices")
    if min is not None or max is not None:
        ranges = t.__dict__.setdefault("_dynamo_dynamic_range", set())
        for one in index if isinstance(index, (list, tuple)) else [index]:
            ranges.add(_DimRange(one % t.dim(), min, max))


def mark_unbacked(t, index, hint_override=None, strict=False, specialize_on=None, shape_id=None):
    """Says that nothing is known of a dimension's size while capturing, as of a number that a tensor holds.

    It counts as neither 0 nor 1; a branch that depends on it is an error, and what operators need of it is checked
    when the compiled function is called.

    Args:
        t: tensor. index: dimension, or a list of them.
        strict: it is an error if the size has to be one number.
        shape_id: a name; dimensions with the same one have one size.
        hint_override, specialize_on: None. Errors: NotImplementedError for others.
    """
    if hint_override is not None or specialize_on is not None:
        raise NotImplementedError("mark_unbacked: hint_override and specialize_on are not supported; leave them out")
    for one in _dimensions(t, index, "mark_unbacked"):
        t.__dict__.setdefault("_dynamo_unbacked_indices", {})[one] = (strict, shape_id)


def maybe_mark_dynamic(t, index):
    """As mark_dynamic, without the error."""
    _mark(t, index, "maybe_mark_dynamic", "_dynamo_weak_dynamic_indices")


def mark_static(t, index=None):
    """Says that a dimension's size stays as it is; without an index, of all dimensions."""
    if isinstance(t, tessera.Tensor):
        _mark(t, list(range(t.dim())) if index is None else index, "mark_static", "_dynamo_static_indices")
    elif not (isinstance(t, type) and issubclass(t, tessera.nn.Module)):
        raise TypeError(f"mark_static expects a tensor or a class of modules but received {type(t)}")


def mark_static_address(t, guard=True):
    """Says that the tensor's memory stays where it is. guard: whether that is checked."""
    if not isinstance(t, tessera.Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")
    t._dynamo_static_input_type = "guarded" if guard else "unguarded"


_builtins.SPECIAL[error_on_graph_break] = lambda tracer, args, kwargs: _library.quiet_region(
    functools.partial(error_on_graph_break, _objects.constant([*args, *kwargs.values()][0], "the flag"))
)
for _function in (graph_break, skip_frame):
    _builtins.SPECIAL[_function] = _library.asked_for(f"torch._dynamo.{_function.__name__}")
del _function
