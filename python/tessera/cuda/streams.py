"""Streams of work on devices, and points in them."""

import ctypes

import tessera
from tessera.cuda import StreamContext, _device_index, _lazy_init, current_stream


class Stream(tessera.Stream):  # type: ignore[valid-type, misc]
    """A queue of work on a device: what is put into one is done in order, several run side by side.

    Args:
        device: the device, by default the selected one.
        priority: 0, or lower (down to `priority_range()[1]`) for work that goes first.
        stream_ptr, or stream_id and device_index: the address of an existing stream.

    Streams come from a pool of 32 for each priority. Raises: RuntimeError without a device.
    """

    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)

    def __init__(self, device=None, priority=0, **kwargs):
        if unknown := sorted(set(kwargs) - {"stream_ptr", "stream_id", "device_index", "device_type"}):
            raise TypeError(f"Stream() got an unexpected keyword argument '{unknown[0]}'")
        handle = kwargs.get("stream_ptr", kwargs.get("stream_id"))
        library = _lazy_init()
        if handle is not None:
            index = kwargs.get("device_index")
            self._index = _device_index(device) if index is None else index
            self._handle = handle
        else:
            self._index = _device_index(device)
            self._handle = library.stream_from_pool(self._index, priority)
        self._library = library

    @property
    def cuda_stream(self):
        """The address of the runtime's stream."""
        return self._handle

    @property
    def priority(self):
        """0 or lower."""
        return self._library.stream_priority(self.device_index, self.cuda_stream)

    @staticmethod
    def priority_range():
        """(least, greatest): 0 and a negative number."""
        return _lazy_init().stream_priority_range()

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_stream)

    def wait_event(self, event):
        """Later work of the stream waits for the event."""
        event.wait(self)

    def record_event(self, event=None):
        """Records an event, a new one by default, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self):
        """True if all work is done."""
        return self._library.stream_query(self.device_index, self.cuda_stream)

    def synchronize(self):
        """Waits for all work."""
        self._library.stream_synchronize(self.device_index, self.cuda_stream)

    def is_capturing(self):
        """True while work is recorded into a graph."""
        return self._library.stream_is_capturing(self.device_index, self.cuda_stream)

    def __enter__(self):
        self._contexts = [*getattr(self, "_contexts", ()), StreamContext(self)]
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        return self._contexts.pop().__exit__(exc_type, exc_value, traceback)

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device_index, self.cuda_stream) == (
            other.device_index,
            other.cuda_stream,
        )

    def __hash__(self):
        return hash((self.device_index, self.cuda_stream))

    def __repr__(self):
        return f"<{tessera._display_name}.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made, by its address; it must live as long as this object is used. Raises:
    RuntimeError without a device.
    """

    def __init__(self, stream_ptr, device=None, **kwargs):
        super().__init__(device, stream_ptr=stream_ptr, **kwargs)


class Event(tessera.Event):  # type: ignore[valid-type, misc]
    """A point in a stream to wait for, and to measure time.

    Args:
        enable_timing: the event knows when it was reached.
        blocking: `wait` and `synchronize` sleep instead of polling.
        interprocess: other processes can wait for it.
        external: in a captured graph it is a node that waits for, or records, the event outside.

    Raises: RuntimeError without a device.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self._begin(enable_timing, blocking, interprocess, external)

    @property
    def cuda_event(self):
        """The address of the runtime's event; 0 before it was recorded."""
        return self.event_id

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self):
        return (
            f"<{tessera._display_name}.cuda.Event {self.cuda_event:#x}>"
            if self.cuda_event
            else f"<{tessera._display_name}.cuda.Event uninitialized>"
        )
