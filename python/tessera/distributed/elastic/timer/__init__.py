"""Timers: a worker says until when it will be through with something; who is late is ended."""

from tessera._lazy import attach as _attach
from tessera.distributed.elastic.timer.api import TimerClient, TimerRequest, TimerServer, configure, expires
from tessera.distributed.elastic.timer.file_based_local_timer import (
    FileTimerClient,
    FileTimerRequest,
    FileTimerServer,
)
from tessera.distributed.elastic.timer.local_timer import LocalTimerClient, LocalTimerServer

__getattr__, __dir__ = _attach(__name__)

__all__ = [
    "FileTimerClient",
    "FileTimerRequest",
    "FileTimerServer",
    "LocalTimerClient",
    "LocalTimerServer",
    "TimerClient",
    "TimerRequest",
    "TimerServer",
    "configure",
    "expires",
]
