"""Named ranges and marks on the timeline of NVIDIA's profilers."""

import contextlib

from tessera.cuda import _library

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _functions():
    library = _library.load()
    if library is None:
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
    return library


def range_push(msg):
    """Begins a range inside of the present one; returns its depth, from 0. Raises: RuntimeError without the CUDA
    library.
    """
    return _functions().range_push(msg)


def range_pop():
    """Ends the innermost range; returns its depth. Raises: RuntimeError without the CUDA library."""
    return _functions().range_pop()


def range_start(msg):
    """Begins a range that may end on another thread; returns its number. Raises: RuntimeError without the CUDA
    library.
    """
    return _functions().range_start(msg)


def range_end(range_id):
    """Ends a range of `range_start`. Raises: RuntimeError without the CUDA library."""
    _functions().range_end(range_id)


def mark(msg):
    """Marks a moment. Raises: RuntimeError without the CUDA library."""
    _functions().mark(msg)


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """Context manager or decorator: a range around a block; `msg.format(*args, **kwargs)` is its name."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
