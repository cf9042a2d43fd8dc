"""The accelerator of this machine, whichever kind it is: CUDA, if there is a device. Without one the questions are
answered, what needs one raises RuntimeError.
"""

import tessera
from tessera._lazy import attach as _attach

_memory = (
    "empty_cache get_memory_info max_memory_allocated max_memory_reserved memory_allocated memory_reserved "
    "memory_stats reset_accumulated_memory_stats reset_peak_memory_stats"
).split()
__getattr__, __dir__ = _attach(__name__, {name: "memory" for name in _memory})

__all__ = [  # noqa: PLE0604
    *_memory,
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "get_device_capability",
    "is_available",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]

_DTYPES = ("bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128").split()
_MISSING = "Cannot access accelerator device when none is available."


def _cuda():
    """The module of the accelerator. Raises: RuntimeError without one."""
    if not is_available():
        raise RuntimeError(_MISSING)
    return tessera.cuda


def _index(device):
    """The number of a device given as a number, a name or a device; None without one. Raises: ValueError for another
    kind of device.
    """
    if device is None or isinstance(device, int):
        return device
    device = tessera.device(device)
    if device.type != "cuda":
        raise ValueError(f"{device.type} doesn't match the current accelerator cuda.")
    return device.index


def is_available():
    """True if there is an accelerator."""
    return device_count() > 0


def device_count():
    """The number of devices."""
    return tessera.cuda.device_count()


def current_accelerator(check_available=False):
    """The kind of accelerator as a device without index; None if this build can use none, or with `check_available` if
    there is no device.
    """
    from tessera.cuda import _library

    there = is_available() if check_available else _library.path() is not None
    return tessera.device("cuda") if there else None


def current_device_index():
    """The index of the selected device. Raises: RuntimeError without one."""
    return _cuda().current_device()


def set_device_index(device, /):
    """Selects a device; None and negative numbers select none. Raises: RuntimeError without one, ValueError for another
    kind of device.
    """
    index = _index(device)
    module = _cuda()
    if index is not None:
        module.set_device(index)


def get_device_capability(device=None, /):
    """What a device can do: {"supported_dtypes": set of dtypes}. Raises: RuntimeError without one."""
    index = _index(device)
    module = _cuda()
    major, _ = module.get_device_capability(index)
    dtypes = {getattr(tessera, name) for name in _DTYPES}
    return {"supported_dtypes": dtypes if major >= 8 else dtypes - {tessera.bfloat16}}


def current_stream(device=None, /):
    """The selected stream. Raises: RuntimeError without a device."""
    return _cuda().current_stream(_index(device))


def set_stream(stream):
    """Selects a stream. Raises: RuntimeError without a device."""
    _cuda().set_stream(stream)


def synchronize(device=None, /):
    """Waits for all work of a device. Raises: RuntimeError without one."""
    _cuda().synchronize(_index(device))


current_device_idx = current_device_index
set_device_idx = set_device_index


class device_index:
    """Context manager that selects a device by index; None does nothing."""

    def __init__(self, device, /):
        self.idx = device
        self._selection = None

    def __enter__(self):
        if self.idx is not None:
            self._selection = _cuda().device(self.idx)
            self._selection.__enter__()

    def __exit__(self, exc_type, exc_value, traceback):
        if self._selection is not None:
            self._selection.__exit__(exc_type, exc_value, traceback)
        return False
