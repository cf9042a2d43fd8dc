"""Memory of Intel's devices, none of which is in use."""

from tessera import _absent

MemPool = _absent.make_class(
    __name__,
    "xpu",
    "MemPool(allocator=None, use_on_oom=False)",
    "A pool of memory.",
    """
    @allocator
    @id
    snapshot()
    use_count()
    """,
)
XPUPluggableAllocator = _absent.make_class(
    __name__,
    "xpu",
    "XPUPluggableAllocator(path_to_lib_file, alloc_fn_name, free_fn_name)",
    "An allocator out of a shared library.",
    "allocator()",
)

_absent.install(
    __name__,
    "xpu",
    """
    change_current_allocator(allocator) | Sets the allocator.
    empty_cache() -> None | Gives cached memory back.
    get_per_process_memory_fraction(device=None) | The part of the memory that this process may use.
    max_memory_allocated(device=None) -> 0 | The most bytes that tensors took up.
    max_memory_reserved(device=None) -> 0 | The most bytes that the allocator held.
    mem_get_info(device=None) | (free, total) bytes of a device.
    memory_allocated(device=None) -> 0 | Bytes that tensors take up.
    memory_reserved(device=None) -> 0 | Bytes that the allocator holds.
    memory_snapshot(mempool_id=None) -> [] | The segments of the allocator.
    memory_stats(device=None) -> {} | Counters of the allocator.
    memory_stats_as_nested_dict(device=None) -> {} | Counters of the allocator.
    reset_accumulated_memory_stats(device=None) -> None | Sets counters to zero.
    reset_peak_memory_stats(device=None) -> None | Forgets the highest values.
    set_per_process_memory_fraction(fraction, device=None) | Limits the memory of this process.
    use_mem_pool(pool, device=None) | Context manager: allocations go to a pool.
    """,
)
