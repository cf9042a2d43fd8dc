"""What happens to agents and workers, as records."""

import json
import time
from dataclasses import asdict, dataclass, field
from enum import Enum

__all__ = ["Event", "EventSource", "NodeState", "RdzvEvent"]


class EventSource(str, Enum):
    """Who says it."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, Enum):
    """What an agent does in a rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class _Record:
    def __str__(self):
        return self.serialize()

    def serialize(self):
        """The record as JSON."""
        return json.dumps(asdict(self))


@dataclass
class Event(_Record):
    """Something that happened.

    Args:
        name: what.
        source: who says it.
        timestamp: when, in milliseconds since 1970.
        metadata: more of it.
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict = field(default_factory=dict)

    def __post_init__(self):
        self.source = EventSource(self.source)

    @staticmethod
    def deserialize(data):
        """The Event of JSON, or the Event that it is given."""
        return data if isinstance(data, Event) else Event(**json.loads(data))


@dataclass
class RdzvEvent(_Record):
    """Something that happened in a rendezvous: where, to whom, and where its master is."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __post_init__(self):
        self.node_state = NodeState(self.node_state)

    @staticmethod
    def deserialize(data):
        """The RdzvEvent of JSON, or the one that it is given."""
        return data if isinstance(data, RdzvEvent) else RdzvEvent(**json.loads(data))


def now():
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
