"""What happens to agents and workers, as records that go to a logging handler.

>>> from tessera.distributed.elastic import events
>>> event = events.Event("started", events.EventSource.WORKER, metadata={"rank": 0})
>>> events.Event.deserialize(event.serialize()) == event
True
>>> events.record(event)
"""

import logging
import os
import socket
import sys
import traceback

from tessera.distributed.elastic.events.api import Event, EventSource, NodeState, RdzvEvent, now
from tessera.distributed.elastic.events.handlers import get_logging_handler

__all__ = [
    "Event",
    "EventSource",
    "NodeState",
    "RdzvEvent",
    "construct_and_record_rdzv_event",
    "get_logging_handler",
    "record",
    "record_rdzv_event",
]

_loggers: dict = {}


def _logger_of(destination):
    if destination not in _loggers:
        made = logging.getLogger(f"torchelastic-events-{destination}")
        made.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        made.propagate = False
        made.addHandler(get_logging_handler(destination))
        _loggers[destination] = made
    return _loggers[destination]


def record(event, destination="null"):
    """Gives an Event to a destination."""
    if not event.timestamp:
        event.timestamp = now()
    _logger_of(destination).info(event.serialize())


def record_rdzv_event(event):
    """Gives a RdzvEvent to the destination "dynamic_rendezvous"."""
    _logger_of("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id, message, node_state, name="", hostname="", pid=None, master_endpoint="", local_id=None, rank=None
):
    """Makes a RdzvEvent and records it.

    Args:
        run_id: the job's name.
        message: what happened.
        node_state: what the agent does.
        name: of the event; empty: the caller's file and function.
        hostname: empty: this machine's.
        pid: None: this process.
        master_endpoint: where the master is.
        local_id: the agent's number on the machine.
        rank: in the rendezvous.
    """
    if not name:
        caller = sys._getframe(1)
        name = f"{os.path.splitext(os.path.basename(caller.f_code.co_filename))[0]}:{caller.f_code.co_name}"
    trace = traceback.format_exc() if sys.exc_info()[0] is not None else ""
    made = RdzvEvent(
        name,
        run_id,
        message,
        hostname or socket.getfqdn(),
        pid or os.getpid(),
        node_state,
        master_endpoint,
        rank,
        local_id,
        trace,
    )
    record_rdzv_event(made)
