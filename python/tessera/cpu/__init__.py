"""The CPU with the functions that device modules have, so that code for any device runs here."""

from tessera._lazy import attach as _attach

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """A stand-in: work on the CPU is done when a call returns."""

    def __init__(self, priority=-1):
        self.priority = priority

    def wait_stream(self, stream):
        """Nothing to wait for."""

    def wait_event(self, event):
        """Nothing to wait for."""

    def record_event(self, event=None):
        """An event that has happened."""
        return event if event is not None else Event()

    def synchronize(self):
        """Nothing to wait for."""

    def query(self):
        """True: all work is done."""
        return True


class Event:
    """A stand-in: has always happened."""

    def __init__(self, *args, **kwargs):
        pass

    def query(self):
        """True."""
        return True

    def record(self, stream=None):
        """Does nothing."""

    def synchronize(self):
        """Does nothing."""

    def wait(self, stream=None):
        """Does nothing."""


_default_stream = Stream()
_current_stream = _default_stream


class StreamContext:
    """Context manager that makes a stream the current one; None does nothing."""

    def __init__(self, stream):
        self.stream = stream
        self.previous = None

    def __enter__(self):
        global _current_stream
        if self.stream is None:
            return
        self.previous, _current_stream = _current_stream, self.stream

    def __exit__(self, exc_type, exc_value, traceback):
        global _current_stream
        if self.stream is not None:
            _current_stream = self.previous
        return False


def stream(stream):
    """Makes a stream the current one in a block."""
    return StreamContext(stream)


def current_stream(device=None):
    """The current stream."""
    return _current_stream


def synchronize(device=None):
    """Does nothing: all work is done."""


def set_device(device):
    """Does nothing: there is one CPU."""


def current_device():
    """'cpu'."""
    return "cpu"


def device_count():
    """1."""
    return 1


def is_available():
    """True."""
    return True


def is_initialized():
    """True."""
    return True


def get_capabilities():
    """What the processor offers: a dict with its `architecture`, `cpu_name`, counts of sockets, cores and logical
    processors, sizes of caches in bytes, and whether it has each of the known sets of instructions (`avx2` ...).
    """
    from tessera.cpu import _capabilities

    return _capabilities.read()


_names = (
    "empty_cache max_memory_allocated memory_allocated memory_cached memory_stats reset_accumulated_memory_stats "
    "reset_peak_memory_stats"
)
__getattr__, __dir__ = _attach(__name__, dict.fromkeys(_names.split(), "memory"))
