"""Memory of the accelerator. Without one nothing is in use: counts are 0, statistics empty."""

from tessera import accelerator

__all__ = [
    "empty_cache",
    "get_memory_info",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


def _ask(name, device_index, without):
    """What the accelerator's module answers; `without` where there is none."""
    index = accelerator._index(device_index)
    return getattr(accelerator._cuda(), name)(index) if accelerator.is_available() else without


def empty_cache():
    """Gives memory that is kept for later back to the system."""
    if accelerator.is_available():
        accelerator._cuda().empty_cache()


def get_memory_info(device_index=None, /):
    """(free, total) bytes of a device. Raises: RuntimeError without one."""
    index = accelerator._index(device_index)
    return accelerator._cuda().mem_get_info(index)


def memory_stats(device_index=None, /):
    """The counters of a device's allocator: an ordered dict, empty without a device."""
    from collections import OrderedDict

    return OrderedDict(_ask("memory_stats", device_index, {}))


def memory_allocated(device_index=None, /):
    """Bytes that tensors of a device take up; 0 without one."""
    return _ask("memory_allocated", device_index, 0)


def max_memory_allocated(device_index=None, /):
    """The most bytes that tensors of a device took up; 0 without one."""
    return _ask("max_memory_allocated", device_index, 0)


def memory_reserved(device_index=None, /):
    """Bytes that a device's allocator holds; 0 without a device."""
    return _ask("memory_reserved", device_index, 0)


def max_memory_reserved(device_index=None, /):
    """The most bytes that a device's allocator held; 0 without a device."""
    return _ask("max_memory_reserved", device_index, 0)


def reset_accumulated_memory_stats(device_index=None, /):
    """Sets the sums of a device's counters to zero."""
    _ask("reset_accumulated_memory_stats", device_index, None)


def reset_peak_memory_stats(device_index=None, /):
    """Forgets the highest values of a device's counters."""
    _ask("reset_peak_memory_stats", device_index, None)
