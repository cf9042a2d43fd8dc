"""Memory of Meta's devices, none of which is in use."""

from tessera import _absent

_absent.install(
    __name__,
    "mtia",
    """
    max_memory_allocated(device=None) -> 0 | The most bytes that tensors took up.
    memory_allocated(device=None) -> 0 | Bytes that tensors take up.
    memory_stats(device=None) -> {} | Counters of the allocator.
    reset_peak_memory_stats(device=None) -> None | Forgets the highest values.
    """,
)
