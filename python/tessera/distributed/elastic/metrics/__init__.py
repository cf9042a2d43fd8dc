"""Numbers of agents and workers, by groups that each have a handler.

>>> from tessera.distributed.elastic import metrics
>>> metrics.configure(metrics.NullMetricHandler())
>>> metrics.put_metric("epochs", 3, "my_app")
"""

from tessera._lazy import attach as _attach
from tessera.distributed.elastic.metrics.api import (
    ConsoleMetricHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    NullMetricHandler,
    configure,
    get_elapsed_time_ms,
    getStream,
    prof,
    profile,
    publish_metric,
    put_metric,
)

__getattr__, __dir__ = _attach(__name__)

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "initialize_metrics",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]


def initialize_metrics(cfg=None):
    """For programs to replace: sets handlers up from a MetricsConfig. Numbers are dropped until they are."""
    if cfg is not None and not isinstance(cfg, MetricsConfig):
        raise TypeError(f"initialize_metrics takes a MetricsConfig, but got {type(cfg).__name__}")
