"""Numbers of agents and workers, by groups that each have a handler."""

import abc
import time
import warnings
from collections import namedtuple
from functools import wraps

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]

MetricData = namedtuple("MetricData", ["timestamp", "group_name", "name", "value"])


class MetricsConfig:
    """Settings of handlers.

    Args:
        params: a dictionary.
    """

    __slots__ = ("params",)

    def __init__(self, params=None):
        self.params = params or {}


class MetricHandler(abc.ABC):
    """What takes numbers."""

    @abc.abstractmethod
    def emit(self, metric_data):
        """Takes a MetricData."""


class ConsoleMetricHandler(MetricHandler):
    """Prints numbers."""

    def emit(self, metric_data):
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """Drops numbers."""

    def emit(self, metric_data):
        """Does nothing."""


class MetricStream:
    """The numbers of a group.

    Args:
        group_name: its name.
        handler: what takes them.
    """

    def __init__(self, group_name, handler):
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name, metric_value):
        """Gives a number to the handler."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_handlers: dict = {}
_default: MetricHandler = NullMetricHandler()


def configure(handler, group=None):
    """Sets the handler of a group, or (None) of those that have none."""
    global _default
    if group is None:
        _default = handler
    else:
        _handlers[group] = handler


def getStream(group):
    """The MetricStream of a group."""
    return MetricStream(group, _handlers.get(group, _default))


def put_metric(metric_name, metric_value, metric_group="torchelastic"):
    """Gives a number to the handler of its group."""
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group, metric_name, metric_value):
    """put_metric, by its old name."""
    warnings.warn("publish_metric is deprecated; use put_metric(name, value, group)", FutureWarning, stacklevel=2)
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds):
    """Milliseconds since a time of time.time()."""
    return int((time.time() - start_time_in_seconds) * 1000)


def prof(fn=None, group="torchelastic"):
    """A decorator that gives how long calls last, and whether they succeed, as numbers NAME.duration.ms, NAME.success
    and NAME.failure.

    Args:
        fn: the function; None: arguments only.
        group: of the numbers.
    """

    def decorate(function):
        @wraps(function)
        def measured(*args, **kwargs):
            begin, name = time.time(), function.__qualname__
            try:
                value = function(*args, **kwargs)
                put_metric(f"{name}.success", 1, group)
                return value
            except Exception:
                put_metric(f"{name}.failure", 1, group)
                raise
            finally:
                put_metric(f"{name}.duration.ms", get_elapsed_time_ms(begin), group)

        return measured

    return decorate if fn is None else decorate(fn)


def profile(group=None):
    """prof, by its old name."""
    warnings.warn("profile is deprecated; use prof", FutureWarning, stacklevel=2)
    return prof(group=group or "torchelastic")
