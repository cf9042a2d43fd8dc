"""Recording what Apple's devices do."""

from tessera import _absent

_absent.install(
    __name__,
    "mps",
    """
    is_capturing_metal() -> False | Whether a capture is running.
    is_metal_capture_enabled() -> False | Whether captures can be made.
    metal_capture(fname) | Context manager that captures into a file.
    profile(mode='interval', wait_until_completed=False) | Context manager between start and stop.
    start(mode='interval', wait_until_completed=False) | Starts emitting signposts.
    stop() | Stops emitting signposts.
    """,
)
