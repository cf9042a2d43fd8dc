"""Streams and events of the accelerator, whichever kind it is."""

import tessera

_MISSING = "Cannot access accelerator device when none is available."


def _cuda(device=None):
    """The accelerator's module. Raises: RuntimeError without one or for another kind of device."""
    if not tessera.accelerator.is_available():
        raise RuntimeError(_MISSING)
    if device is not None and not isinstance(device, int) and tessera.device(device).type != "cuda":
        raise RuntimeError(f"Expected a device of the accelerator cuda, but got {device}")
    return tessera.cuda


class Stream:
    """A queue of work on a device.

    Args:
        device: by default the selected one.
        priority: 0, or lower for work that goes first.

    Raises: RuntimeError without an accelerator.
    """

    def __new__(cls, device=None, *args, **kwargs):
        if cls is Stream:
            return object.__new__(_cuda(device).Stream)
        return object.__new__(cls)

    def query(self):
        """Whether everything that was put into the queue is done."""
        return self.record_event().query()

    def synchronize(self):
        """Waits until everything that was put into the queue is done."""
        self.record_event().synchronize()

    def record_event(self, event=None):
        """Records an event (a new one without `event`) behind what is in the queue, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        """What is put into the queue from now on waits for the event."""
        event.wait(self)

    def wait_stream(self, stream):
        """What is put into the queue from now on waits for what is in the other one's now."""
        self.wait_event(stream.record_event())


class Event:
    """A point in a stream.

    Args:
        device: whose streams record it; by default those of the accelerator.
        enable_timing: it can measure time.
        blocking: waiting sleeps instead of polling.
        interprocess: other processes can wait for it.

    Raises: RuntimeError without an accelerator.
    """

    def __new__(cls, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        return _cuda(device).Event(enable_timing, blocking, interprocess)
