"""Ranges and marks on the timeline of Intel's VTune (Instrumentation and Tracing Technology).

The collector is a shared library that VTune names in the environment (INTEL_LIBITTNOTIFY64) when it starts a program;
without one these functions do nothing, as the technology has it.
"""

import contextlib
import ctypes
import functools
import os

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]

_DOMAIN = b"PyTorch"


class _Id(ctypes.Structure):
    _fields_ = [("d1", ctypes.c_ulonglong), ("d2", ctypes.c_ulonglong), ("d3", ctypes.c_ulonglong)]


@functools.lru_cache(maxsize=1)
def _collector():
    """The collector's functions, or None."""
    path = os.environ.get("INTEL_LIBITTNOTIFY64")
    if not path:
        return None
    try:
        library = ctypes.CDLL(path)
        for name, result in (("domain_create", ctypes.c_void_p), ("string_handle_create", ctypes.c_void_p)):
            function = getattr(library, f"__itt_{name}")
            function.restype, function.argtypes = result, [ctypes.c_char_p]
        library.__itt_task_begin.argtypes = [ctypes.c_void_p, _Id, _Id, ctypes.c_void_p]
        library.__itt_task_end.argtypes = [ctypes.c_void_p]
        library.__itt_marker.argtypes = [ctypes.c_void_p, _Id, ctypes.c_void_p, ctypes.c_int]
    except (OSError, AttributeError) as error:
        raise RuntimeError(f"INTEL_LIBITTNOTIFY64={path}: not a collector of ITT ({error})") from None
    return _Functions(library)


class _Functions:
    def __init__(self, library):
        self._begin, self._end = library["__itt_task_begin"], library["__itt_task_end"]
        self._marker, self._make_handle = library["__itt_marker"], library["__itt_string_handle_create"]
        self._domain = library["__itt_domain_create"](_DOMAIN)
        self._handle = functools.lru_cache(maxsize=None)(self._new_handle)

    def _new_handle(self, msg):
        return self._make_handle(msg.encode())

    def push(self, msg):
        self._begin(self._domain, _Id(), _Id(), self._handle(msg))

    def pop(self):
        self._end(self._domain)

    def mark(self, msg):
        self._marker(self._domain, _Id(), self._handle(msg), 3)  # 3: the scope of a task


def is_available():
    """Whether these functions can be called: True. Whether anybody listens, the environment says."""
    return True


def range_push(msg):
    """Begins a range inside of the present one."""
    if (collector := _collector()) is not None:
        collector.push(msg)


def range_pop():
    """Ends the innermost range."""
    if (collector := _collector()) is not None:
        collector.pop()


def mark(msg):
    """Marks a moment."""
    if (collector := _collector()) is not None:
        collector.mark(msg)


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """Context manager or decorator: a range around a block; `msg.format(*args, **kwargs)` is its name."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
