"""How agents of several machines find each other: each gets a store, a rank and the number of agents."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar


__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]


class RendezvousError(Exception):
    """A rendezvous failed."""


class RendezvousClosedError(RendezvousError):
    """A rendezvous is closed: the job has ended."""


class RendezvousTimeoutError(RendezvousError):
    """Not enough agents came in time."""


class RendezvousConnectionError(RendezvousError):
    """The place of a rendezvous cannot be reached."""


class RendezvousStateError(RendezvousError):
    """What lies at the place of a rendezvous makes no sense."""


class RendezvousGracefulExitError(RendezvousError):
    """This agent was told to leave a rendezvous."""


def _free_port(host):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


@dataclass
class RendezvousStoreInfo:
    """Where the workers' store is: MASTER_ADDR and MASTER_PORT."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(rank, store, local_addr, server_port=None):
        """What rank 0 says, over a store.

        Args:
            rank: of this agent.
            store: of the agents.
            local_addr: address of this machine; None: its name.
            server_port: of rank 0's store; None: a free one.
        """
        if rank == 0:
            address = local_addr or socket.getfqdn()
            store.set(RendezvousStoreInfo.MASTER_ADDR_KEY, address)
            store.set(RendezvousStoreInfo.MASTER_PORT_KEY, str(server_port or _free_port("127.0.0.1")))
        address = store.get(RendezvousStoreInfo.MASTER_ADDR_KEY).decode()
        return RendezvousStoreInfo(address, int(store.get(RendezvousStoreInfo.MASTER_PORT_KEY)))


class RendezvousInfo:
    """What an agent gets of a rendezvous.

    Args:
        store: of the agents.
        rank: of this one.
        world_size: number of agents.
        bootstrap_store_info: where the workers' store is.
    """

    def __init__(self, store, rank, world_size, bootstrap_store_info):
        self._values = store, rank, world_size, bootstrap_store_info

    @property
    def store(self):
        """The agents' store."""
        return self._values[0]

    @property
    def rank(self):
        """The rank of this agent."""
        return self._values[1]

    @property
    def world_size(self):
        """The number of agents."""
        return self._values[2]

    @property
    def bootstrap_store_info(self):
        """Where the workers' store is."""
        return self._values[3]


class RendezvousHandler(ABC):
    """A place where agents meet, again and again."""

    @abstractmethod
    def get_backend(self):
        """The name of its kind."""

    @property
    def use_agent_store(self):
        """Whether workers use a store that an agent holds."""
        return False

    @abstractmethod
    def next_rendezvous(self):
        """Waits for enough agents. Returns: a RendezvousInfo.

        Raises: RendezvousClosedError, RendezvousTimeoutError, RendezvousConnectionError, RendezvousStateError."""

    @abstractmethod
    def is_closed(self):
        """Whether the job has ended."""

    @abstractmethod
    def set_closed(self):
        """Says that the job has ended."""

    @abstractmethod
    def num_nodes_waiting(self):
        """The number of agents that came too late and wait for the next round."""

    @abstractmethod
    def get_run_id(self):
        """The job's name."""

    @abstractmethod
    def shutdown(self):
        """Gives back what it holds. Returns: whether that went well."""


class RendezvousParameters:
    """How a handler is made.

    Args:
        backend: its kind.
        endpoint: its place, such as "host:29400".
        run_id: the job's name.
        min_nodes: number of agents that are enough.
        max_nodes: number of agents that are taken.
        local_addr: address of this machine.
        kwargs: settings of the kind.

    Raises: ValueError without a backend, or for numbers that do not fit.
    """

    def __init__(self, backend, endpoint, run_id, min_nodes, max_nodes, local_addr=None, **kwargs):
        if not backend:
            raise ValueError("a rendezvous needs the name of a backend")
        if not 1 <= min_nodes <= max_nodes:
            raise ValueError(f"a rendezvous is of 1 to max_nodes agents, but got {min_nodes} to {max_nodes}")
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr, self.config = min_nodes, max_nodes, local_addr, kwargs

    def get(self, key, default=None):
        """A setting."""
        return self.config.get(key, default)

    def get_as_bool(self, key, default=None):
        """A setting as truth value. Raises: ValueError for another text."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in ("1", "true", "t", "yes", "y"):
            return True
        if text in ("0", "false", "f", "no", "n"):
            return False
        raise ValueError(f"the setting '{key}' of a rendezvous is a truth value, but got '{value}'")

    def get_as_int(self, key, default=None):
        """A setting as number. Raises: ValueError for another text."""
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise ValueError(f"the setting '{key}' of a rendezvous is a whole number, but got '{value}'") from None


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Kinds of rendezvous by name."""

    def __init__(self):
        self._creators = {}

    def register(self, backend, creator):
        """Makes a kind known. Raises: ValueError for an empty name, and for one that is taken."""
        if not backend:
            raise ValueError("a kind of rendezvous needs a name")
        if self._creators.get(backend, creator) is not creator:
            raise ValueError(f"the rendezvous backend '{backend}' has a creator already")
        self._creators[backend] = creator

    def create_handler(self, params):
        """A handler of `params.backend`. Raises: ValueError for a name that is not known."""
        if params.backend not in self._creators:
            raise ValueError(
                f"the rendezvous backend '{params.backend}' is not known; known are {', '.join(sorted(self._creators))}"
            )
        handler = self._creators[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(f"the creator of '{params.backend}' made a handler of '{handler.get_backend()}'")
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
