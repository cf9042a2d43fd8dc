"""How much memory tensors of the CPU use: counters of the allocator, always on."""

from tessera import _C

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "memory_allocated",
    "memory_cached",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]

_counters = _C._profiler


def memory_stats():
    """The allocator's counters, a dict. Bytes are those of blocks (at least 64, at most a quarter more than was asked
    for), "requested_bytes" what was asked for.

    - "allocation.all.{current, allocated, freed}": blocks;
    - "allocated_bytes.all.{current, peak, allocated, freed}", "requested_bytes.all.{current, allocated, freed}": bytes;
    - "cached_bytes.all.current": kept for the next tensors, in lists that threads share;
    - "num_alloc_retries", "num_ooms": calls that had to empty the cache first, and that found no memory.

    The peak is exact to 256 KiB for each thread that makes tensors.

    >>> before = tessera.cpu.memory_stats()["requested_bytes.all.current"]
    >>> x = tessera.ones(1000)
    >>> tessera.cpu.memory_stats()["requested_bytes.all.current"] - before
    4000
    """
    return _counters.memory_stats()


def memory_allocated():
    """Bytes of the blocks that tensors have now."""
    return memory_stats()["allocated_bytes.all.current"]


def max_memory_allocated():
    """The most bytes that tensors had since the start or `reset_peak_memory_stats`."""
    return memory_stats()["allocated_bytes.all.peak"]


def memory_cached():
    """Bytes that are kept for the next tensors, in lists that threads share."""
    return memory_stats()["cached_bytes.all.current"]


def reset_peak_memory_stats():
    """The peak is what is used now."""
    _counters.reset_peak_memory()


def reset_accumulated_memory_stats():
    """Blocks and bytes that were allocated and freed count from here on."""
    _counters.reset_accumulated_memory()


def empty_cache():
    """Gives what is kept for this thread and in the lists of all threads back to the system."""
    _counters.empty_cache()
