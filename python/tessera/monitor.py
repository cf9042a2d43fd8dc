"""Counters and events of running programs, for whoever wants to log them.

>>> import datetime
>>> seen = []
>>> handle = tessera.monitor.register_event_handler(seen.append)
>>> loss = tessera.monitor.Stat("loss", [tessera.monitor.Aggregation.MEAN], datetime.timedelta(hours=1), 2)
>>> loss.add(1.0); loss.add(2.0)
>>> seen[0].data
{'loss.mean': 1.5}
>>> tessera.monitor.unregister_event_handler(handle)
"""

import datetime
import enum
import sys
import threading
import time
from typing import Union

__all__ = [
    "Aggregation",
    "COUNT",
    "Event",
    "EventHandlerHandle",
    "MAX",
    "MEAN",
    "MIN",
    "STAT_EVENT",
    "SUM",
    "Stat",
    "TensorboardEventHandler",
    "VALUE",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

# Name of the events that Stats log.
STAT_EVENT = "torch.monitor.Stat"
data_value_t = Union[str, float, int, bool]


class Aggregation(enum.Enum):
    """What a `Stat` computes of the values of a window: the last one, or mean, count, sum, largest, smallest."""

    VALUE = 1
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class Event:
    """Something that happened.

    Args:
        name: what it was, in words with dots between them: "train.step".
        timestamp: a datetime, when.
        data: a dict from names to str, float, int or bool.

    Raises: TypeError for values of other types.
    """

    __slots__ = ("_data", "_name", "_timestamp")

    def __init__(self, name, timestamp, data):
        self.name, self.timestamp, self.data = name, timestamp, data

    def __repr__(self):
        return f"Event(name={self._name!r}, timestamp={self._timestamp!r}, data={self._data!r})"

    @property
    def name(self):
        """What happened."""
        return self._name

    @name.setter
    def name(self, value):
        self._name = _expect("name", value, str)

    @property
    def timestamp(self):
        """When: a datetime."""
        return self._timestamp

    @timestamp.setter
    def timestamp(self, value):
        self._timestamp = _expect("timestamp", value, datetime.datetime)

    @property
    def data(self):
        """A dict from names to str, float, int or bool."""
        return self._data

    @data.setter
    def data(self, value):
        for key, item in _expect("data", value, dict).items():
            _expect("data's keys", key, str)
            _expect(f"data[{key!r}]", item, (str, float, int, bool))
        self._data = dict(value)


class EventHandlerHandle:
    """What `register_event_handler` returns, for `unregister_event_handler`."""

    def __init__(self, callback):
        self._callback = callback


_handlers = []
_lock = threading.Lock()


def register_event_handler(callback):
    """Calls `callback(event)` for every event that is logged from now on. Returns a handle."""
    if not callable(callback):
        raise TypeError(f"register_event_handler: expected a callable, but got {type(callback).__name__}")
    handle = EventHandlerHandle(callback)
    with _lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handler):
    """Ends what `register_event_handler` began; `handler` is the handle that it returned."""
    _expect("handler", handler, EventHandlerHandle)
    with _lock:
        if handler in _handlers:
            _handlers.remove(handler)


def log_event(event):
    """Gives an event to all handlers, one after the other, on the calling thread."""
    _expect("event", event, Event)
    with _lock:
        handlers = list(_handlers)
    for handler in handlers:
        handler._callback(event)


# How each aggregation is read off (last value, number, sum, largest, smallest) of a window that is not empty.
_READ = {
    VALUE: lambda last, count, total, high, low: last,
    MEAN: lambda last, count, total, high, low: total / count,
    COUNT: lambda last, count, total, high, low: float(count),
    SUM: lambda last, count, total, high, low: total,
    MAX: lambda last, count, total, high, low: high,
    MIN: lambda last, count, total, high, low: low,
}


class Stat:
    """Aggregates of a series of numbers over windows. When a window ends, its aggregates are logged as an event of name
    `STAT_EVENT`, whose data are named "<name>.mean" and so on.

    Args:
        name: of the series.
        aggregations: the `Aggregation`s wanted.
        window_size: a timedelta; an `add` after so long ends the window.
        max_samples: so many values end it too; what is added to a full window until its time is over, is dropped.

    What a window has so far is logged when the Stat goes away.
    """

    def __init__(self, name, aggregations, window_size, max_samples=2**63 - 1):
        self._name = _expect("name", name, str)
        self._aggregations = [_expect("aggregations", a, Aggregation) for a in aggregations]
        self._window = _expect("window_size", window_size, datetime.timedelta).total_seconds()
        self._max_samples = _expect("max_samples", max_samples, int)
        self._lock = threading.Lock()
        self._closed = dict.fromkeys(self._aggregations, 0.0)
        self._begin(self._number(time.monotonic()))

    @property
    def name(self):
        """Of the series."""
        return self._name

    @property
    def count(self):
        """How many values the window has so far."""
        return self._samples

    def add(self, v):
        """Adds a value."""
        v = float(v)
        with self._lock:
            now = self._number(time.monotonic())
            event = self._close() if now != self._current and self._samples else None
            if now != self._current:
                self._begin(now)
            full = None
            if not self._full:
                self._last, self._total = v, self._total + v
                self._high, self._low = max(self._high, v), min(self._low, v)
                self._samples += 1
                if self._samples >= self._max_samples:
                    full = self._close()
                    self._begin(now, full=True)
        for logged in (event, full):
            if logged is not None:
                log_event(logged)

    def get(self):
        """A dict from each Aggregation to its value in the last window that ended; zeros if none has."""
        with self._lock:
            if self._samples and self._number(time.monotonic()) != self._current:
                event = self._close()
                self._begin(self._number(time.monotonic()))
            else:
                event = None
            closed = dict(self._closed)
        if event is not None:
            log_event(event)
        return closed

    def __del__(self):
        if getattr(self, "_samples", 0) and not sys.is_finalizing():
            log_event(self._close())

    def _number(self, seconds):
        return seconds // self._window if self._window > 0 else seconds

    def _begin(self, number, full=False):
        self._current, self._full = number, full
        self._samples, self._last, self._total = 0, 0.0, 0.0
        self._high, self._low = float("-inf"), float("inf")

    def _close(self):
        numbers = (self._last, self._samples, self._total, self._high, self._low)
        self._closed = {a: _READ[a](*numbers) for a in self._aggregations}
        data = {f"{self._name}.{a.name.lower()}": value for a, value in self._closed.items()}
        return Event(STAT_EVENT, datetime.datetime.now(), data)


class TensorboardEventHandler:
    """An event handler that writes the data of `Stat` events as scalars of a SummaryWriter.

    register_event_handler(TensorboardEventHandler(SummaryWriter("log_dir")))
    """

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event):
        if event.name != STAT_EVENT:
            return
        for name, value in event.data.items():
            self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())


def _expect(what, value, kind):
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(k.__name__ for k in kinds)
        raise TypeError(f"{what}: expected {wanted}, but got {type(value).__name__}")
    return value
