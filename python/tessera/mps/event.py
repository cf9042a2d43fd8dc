"""Events of Apple's devices."""

from tessera import _absent

Event = _absent.make_class(
    __name__,
    "mps",
    "Event(enable_timing=False)",
    "A point in the device's work.",
    """
    elapsed_time(end_event)
    query()
    record()
    synchronize()
    wait()
    """,
)
