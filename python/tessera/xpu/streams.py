"""Streams and events of Intel's devices."""

from tessera import _absent

Stream = _absent.make_class(
    __name__,
    "xpu",
    "Stream(device=None, priority=0, **kwargs)",
    "A queue of work on a device.",
    """
    query()
    record_event(event=None)
    synchronize()
    wait_event(event)
    wait_stream(stream)
    """,
)
Event = _absent.make_class(
    __name__,
    "xpu",
    "Event(enable_timing=False)",
    "A point in a stream.",
    """
    elapsed_time(end_event)
    query()
    record(stream=None)
    synchronize()
    wait(stream=None)
    """,
)
