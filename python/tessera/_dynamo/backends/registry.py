"""Backends by name."""

import functools
import importlib

from tessera._dynamo.exc import InvalidBackend

__all__ = ["list_backends", "lookup_backend", "register_backend", "register_debug_backend",
           "register_experimental_backend"]  # fmt: skip

_backends = {}  # name -> (function or "module attribute" to load, tags)
_entry_points_read = False


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a backend a name; a decorator, too.

    Args:
        compiler_fn: function of a GraphModule and a list of example inputs that gives a callable.
        name: default its __name__.
        tags: texts, such as "debug": list_backends leaves those out.

    Returns: the function. Raises: AssertionError if the name is taken.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend: expected a function, but got {type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    assert name not in _backends, f"duplicate name: {name}"
    _backends[name] = (compiler_fn, tuple(tags))
    compiler_fn._tags = tuple(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


def _builtin(name, where, tags=()):
    _backends[name] = (where, tags)


_builtin("inductor", "inductor inductor")
_builtin("eager", "debugging eager", ("debug",))
_builtin("eager_noexcept", "debugging eager_noexcept", ("debug",))
_builtin("aot_eager", "debugging aot_eager", ("debug",))
_builtin("aot_eager_default_partitioner", "debugging aot_eager", ("debug",))
_builtin("aot_eager_decomp_partition", "debugging aot_eager", ("debug",))
_builtin("pre_dispatch_eager", "debugging eager", ("debug",))
_builtin("non_leaf_compile_error_TESTING_ONLY", "debugging error_backend", ("debug",))


def _read_entry_points():
    """Names that installed packages offer in the group torch_dynamo_backends."""
    global _entry_points_read
    if _entry_points_read:
        return
    _entry_points_read = True
    from importlib.metadata import entry_points

    for point in entry_points(group="torch_dynamo_backends"):
        _backends.setdefault(point.name, (point.load, ()))


def lookup_backend(compiler_fn):
    """The function of a backend that is given by name, or itself. Raises: InvalidBackend."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn not in _backends:
        _read_entry_points()
    if compiler_fn not in _backends:
        raise InvalidBackend(name=compiler_fn)
    found, tags = _backends[compiler_fn]
    if isinstance(found, str):
        module, _, attribute = found.partition(" ")
        found = getattr(importlib.import_module(f"tessera._dynamo.backends.{module}"), attribute)
        _backends[compiler_fn] = (found, tags)
    elif getattr(found, "__name__", "") == "load" and hasattr(found, "__self__"):  # an entry point
        found = found()
        _backends[compiler_fn] = (found, tags)
    return found


def list_backends(exclude_tags=("debug", "experimental")):
    """Names of the backends, sorted, without those that have one of the tags.

    Raises: TypeError for tags that are no strings.
    """
    if any(not isinstance(tag, str) for tag in exclude_tags or ()):
        raise TypeError(f"list_backends: expected tags as strings, but got {exclude_tags!r}")
    _read_entry_points()
    left_out = set(exclude_tags or ())
    return sorted(name for name, (_, tags) in _backends.items() if not left_out & set(tags))
