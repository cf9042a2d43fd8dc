"""What the caching allocator of the devices holds. Without a device: nothing."""

import collections
import warnings

import tessera


def _no_device(*args, **kwargs):
    tessera.cuda._no_device()


def empty_cache():
    """Gives unused memory back to the system."""


def memory_stats(device=None):
    """Counters of the allocator: an OrderedDict, empty without a device."""
    return collections.OrderedDict()


def memory_stats_as_nested_dict(device=None):
    """The counters as nested dicts."""
    return {}


def host_memory_stats():
    """Counters of the allocator of pinned memory."""
    return collections.OrderedDict()


def host_memory_stats_as_nested_dict():
    """The counters of pinned memory as nested dicts."""
    return {}


def _counter(name, doc):
    def function(device=None):
        return 0

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


memory_allocated = _counter("memory_allocated", "Bytes that tensors use on a device.")
max_memory_allocated = _counter("max_memory_allocated", "The most bytes that tensors used on a device.")
memory_reserved = _counter("memory_reserved", "Bytes that the allocator holds on a device.")
max_memory_reserved = _counter("max_memory_reserved", "The most bytes that the allocator held on a device.")


def memory_cached(device=None):
    """Deprecated: `memory_reserved`."""
    warnings.warn("`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device=None):
    """Deprecated: `max_memory_reserved`."""
    warnings.warn("`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def memory_snapshot(mempool_id=None):
    """The segments of the allocator: a list."""
    return []


def _snapshot(device=None):
    return {"segments": [], "device_traces": [], "allocator_settings": {}, "external_annotations": []}


def get_allocator_backend():
    """The name of the allocator: 'native'."""
    return "native"


mem_get_info = memory_summary = list_gpu_processes = caching_allocator_alloc = caching_allocator_delete = _no_device
get_per_process_memory_fraction = set_per_process_memory_fraction = reset_peak_memory_stats = reset_accumulated_memory_stats = _no_device
reset_max_memory_allocated = reset_max_memory_cached = _no_device


def reset_peak_host_memory_stats():
    """Sets the peaks of pinned memory to the present values."""


def reset_accumulated_host_memory_stats():
    """Sets the sums over time of pinned memory to zero."""
