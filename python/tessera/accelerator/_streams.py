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

    def __new__(cls, device=None, *, priority=0, **kwargs):
        return object.__new__(_cuda(device).Stream)  # whose __init__ gets all of these

    @property
    def device_index(self):
        """Which of the devices it is on."""
        return self._index

    @property
    def device_type(self):
        """The kind of device by its number: 1 is cuda."""
        return 1

    @property
    def device(self):
        """Where the stream is."""
        return tessera.device("cuda", self._index)

    @property
    def stream_id(self):
        """A number that tells the device's streams apart."""
        return self._handle

    @property
    def native_handle(self):
        """The address of the runtime's stream."""
        return self._handle

    def query(self):
        """Whether everything that was put into the queue is done."""
        return self.record_event().query()

    def synchronize(self):
        """Waits until everything that was put into the queue is done."""
        self.record_event().synchronize()

    def record_event(self, event=None):
        """Records an event (a new one without `event`) behind what is in the queue, and returns it."""
        event = _cuda().Event() if event is None else event
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

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        _cuda(device)
        self._begin(enable_timing, blocking, interprocess, False)

    def _begin(self, enable_timing, blocking, interprocess, external):
        if enable_timing and interprocess:
            raise ValueError("an event for other processes can't measure time")
        self._library = tessera.cuda._lazy_init()
        self._event = self._library.new_event(bool(enable_timing), bool(blocking), bool(interprocess), bool(external))

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """The event of another process, by the bytes of its `ipc_handle()`."""
        event = cls.__new__(cls)
        event._library = _cuda()._lazy_init()
        event._event = event._library.event_from_handle(tessera.cuda._device_index(device), handle)
        return event

    def record(self, stream=None):
        """The point is after all work that the stream, by default the selected one, holds now. The event takes the
        stream's device.
        """
        stream = tessera.cuda.current_stream() if stream is None else stream
        self._library.event_record(self._event, stream.device_index, stream.stream_id)

    def wait(self, stream=None):
        """Later work of the stream, by default the selected one, waits for the point."""
        stream = tessera.cuda.current_stream() if stream is None else stream
        self._library.event_wait(self._event, stream.device_index, stream.stream_id)

    def query(self):
        """True if the point was reached, or the event never recorded."""
        return self._library.event_query(self._event)

    def synchronize(self):
        """Waits for the point."""
        self._library.event_synchronize(self._event)

    def elapsed_time(self, end_event):
        """Milliseconds between the points of this event and `end_event`. Raises: ValueError for events without timing,
        not recorded or not reached yet.
        """
        return self._library.event_elapsed(self._event, end_event._event)

    def ipc_handle(self):
        """Bytes by which another process makes an event of it; an event that was not recorded yet belongs to the
        selected device then.
        """
        return self._library.event_ipc_handle(self._event, self._library.current_device())

    @property
    def device(self):
        """Where it was recorded; None before."""
        index = self._library.event_device(self._event)
        return None if index < 0 else tessera.device("cuda", index)

    @property
    def event_id(self):
        """The address of the runtime's event; 0 before it was recorded."""
        return self._library.event_handle(self._event)

    def __repr__(self):
        return f"<{tessera._display_name}.Event device={self.device} event_id={self.event_id:#x}>"
