"""A rendezvous of agents that come and go. All of its state is one JSON text that each changes by compare-and-set:

round      number of rounds that were complete
complete   whether this one is
closed     whether the job has ended
deadline   when a round with enough agents ends
members    agents of this round: name -> rank (once complete)
waiting    agents for the next one
seen       when each agent was last heard of
"""

import json
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

from tessera.distributed._stores import PrefixStore, TCPStore
from tessera.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

__all__ = [
    "DynamicRendezvousHandler",
    "RendezvousBackend",
    "RendezvousSettings",
    "RendezvousTimeout",
    "create_handler",
]

_PAUSE = 0.05


class RendezvousBackend(ABC):
    """Where the state lies."""

    @property
    @abstractmethod
    def name(self):
        """The name of its kind."""

    @abstractmethod
    def get_state(self):
        """(state, token), or None if there is none."""

    @abstractmethod
    def set_state(self, state, token=None):
        """Stores a state if the present one is that of `token`. Returns: (state, token, whether it was stored)."""


class RendezvousTimeout:
    """How long things may take.

    Args:
        join: until enough agents came (10 minutes).
        last_call: for more, when there are enough (30 seconds).
        close: for closing (30 seconds).
        heartbeat: for a sign of life (5 seconds).

    Raises: ValueError for one that is not positive.
    """

    def __init__(self, join=None, last_call=None, close=None, heartbeat=None):
        given = {"join": join, "last_call": last_call, "close": close, "heartbeat": heartbeat}
        default = {"join": 600, "last_call": 30, "close": 30, "heartbeat": 5}
        self._values = {}
        for name, value in given.items():
            value = timedelta(seconds=default[name]) if value is None else value
            if value <= timedelta(0):
                raise ValueError(f"the timeout '{name}' of a rendezvous has to be positive, but got {value}")
            self._values[name] = value

    @property
    def join(self):
        """Until enough agents came."""
        return self._values["join"]

    @property
    def last_call(self):
        """For more agents, when there are enough."""
        return self._values["last_call"]

    @property
    def close(self):
        """For closing."""
        return self._values["close"]

    @property
    def heartbeat(self):
        """For a sign of life."""
        return self._values["heartbeat"]


@dataclass(frozen=True)
class RendezvousSettings:
    """Of a rendezvous: the job's name, how many agents, how long, how often signs of life and how many may fail."""

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: timedelta
    keep_alive_max_attempt: int


class _State:
    """The state as it is stored, changed by one agent at a time."""

    def __init__(self, backend, settings):
        self._backend, self._settings = backend, settings

    def _fresh(self):
        return {
            "round": 0,
            "complete": False,
            "closed": False,
            "deadline": None,
            "members": {},
            "waiting": [],
            "seen": {},
        }

    def _parsed(self, found):
        if found is None:
            return self._fresh()
        try:
            state = json.loads(found[0])
            return {**self._fresh(), **state}
        except (ValueError, TypeError) as error:
            raise RendezvousStateError("what lies at the place of the rendezvous is no state of one") from error

    def read(self):
        """The present state."""
        return self._parsed(self._backend.get_state())

    def change(self, edit):
        """Lets `edit(state)` change the state until nobody else did meanwhile. Returns: what edit does."""
        found = self._backend.get_state()
        while True:
            state = self._parsed(found)
            self._forget_the_dead(state)
            result = edit(state)
            reply = self._backend.set_state(json.dumps(state).encode(), None if found is None else found[1])
            if reply is not None and reply[2]:
                return result
            found = None if reply is None else reply[:2]

    def _forget_the_dead(self, state):
        settings = self._settings
        limit = time.time() - settings.keep_alive_interval.total_seconds() * settings.keep_alive_max_attempt
        for name, seen in list(state["seen"].items()):
            if seen < limit:
                del state["seen"][name]
                state["members"].pop(name, None)
                state["waiting"] = [one for one in state["waiting"] if one != name]
        if state["complete"] and not state["members"]:
            state.update(complete=False, round=state["round"] + 1, deadline=None)


class DynamicRendezvousHandler(RendezvousHandler):
    """A rendezvous of at least and at most so many agents, with new rounds as they come and go.

    Args:
        node: the name of this agent.
        settings: RendezvousSettings.
        backend_name: the kind.
        store: of the agents.
        state_holder: the state.
    """

    def __init__(self, node, settings, backend_name, store, state_holder):
        if not settings.run_id:
            raise ValueError("a rendezvous needs the job's name (run_id)")
        if not 1 <= settings.min_nodes <= settings.max_nodes:
            raise ValueError(
                f"a rendezvous is of 1 to max_nodes agents, but got {settings.min_nodes} to {settings.max_nodes}"
            )
        self._node, self._settings, self._backend_name = node, settings, backend_name
        self._store, self._state = store, state_holder
        self._stop, self._thread, self._served, self._address = threading.Event(), None, None, None

    @classmethod
    def from_backend(
        cls,
        run_id,
        store,
        backend,
        min_nodes,
        max_nodes,
        local_addr=None,
        timeout=None,
        keep_alive_interval=5,
        keep_alive_max_attempt=3,
    ):
        """A handler.

        Args:
            run_id: the job's name.
            store: of the agents.
            backend: where the state lies.
            min_nodes: number of agents that are enough.
            max_nodes: number of agents that are taken.
            local_addr: address of this machine.
            timeout: RendezvousTimeout.
            keep_alive_interval: seconds between signs of life.
            keep_alive_max_attempt: how many may fail.
        """
        settings = RendezvousSettings(
            run_id,
            min_nodes,
            max_nodes,
            timeout or RendezvousTimeout(),
            timedelta(seconds=keep_alive_interval),
            keep_alive_max_attempt,
        )
        node = f"{local_addr or socket.getfqdn()}_{os.getpid()}_{os.urandom(4).hex()}"
        made = cls(node, settings, backend.name, store, _State(backend, settings))
        made._address = local_addr
        return made

    @property
    def settings(self):
        """The RendezvousSettings."""
        return self._settings

    def get_backend(self):
        return self._backend_name

    @property
    def use_agent_store(self):
        return os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0") != "1"

    def next_rendezvous(self):
        self._end_signs_of_life()
        end = time.monotonic() + self._settings.timeout.join.total_seconds()
        left = None
        while True:
            step, value = self._state.change(lambda state: self._join(state, left))
            if step == "closed":
                raise RendezvousClosedError(f"the rendezvous '{self._settings.run_id}' is closed")
            if step == "in":
                break
            left = value if left is None else left
            if time.monotonic() >= end:
                self._state.change(self._leave)
                raise RendezvousTimeoutError(
                    f"the rendezvous '{self._settings.run_id}' has fewer than {self._settings.min_nodes} agents after "
                    f"{self._settings.timeout.join.total_seconds():g} s"
                )
            time.sleep(_PAUSE)
        number, rank, size = value
        self._begin_signs_of_life()
        store = PrefixStore(f"torch.rendezvous.{self._settings.run_id}.{number}", self._store)
        return RendezvousInfo(store, rank, size, self._workers_store(rank, store))

    def _join(self, state, left):
        """One step of coming in. `left` is the round that this agent leaves, once that is known."""
        name, settings, now = self._node, self._settings, time.time()
        if state["closed"]:
            return "closed", None
        state["seen"][name] = now
        if state["complete"]:
            rank = state["members"].get(name)
            if rank is not None and left is not None and left != state["round"]:
                return "in", (state["round"], rank, len(state["members"]))
            if rank is None and len(state["members"]) >= settings.max_nodes:
                if name not in state["waiting"]:
                    state["waiting"].append(name)
                return "wait", -1 if left is None else left
            if rank is None and not self._free_round(state):
                if name not in state["waiting"]:
                    state["waiting"].append(name)
                return "wait", -1 if left is None else left
            left = state["round"] if left is None else left
            state.update(complete=False, round=state["round"] + 1, members={}, waiting=[], deadline=None)
        left = state["round"] - 1 if left is None else left
        state["members"][name] = None
        state["waiting"] = [one for one in state["waiting"] if one != name]
        count = len(state["members"])
        if count >= settings.min_nodes and state["deadline"] is None:
            state["deadline"] = now + settings.timeout.last_call.total_seconds()
        if count >= settings.max_nodes or (state["deadline"] is not None and now >= state["deadline"]):
            if count >= settings.min_nodes:
                state["complete"] = True
                state["members"] = {one: rank for rank, one in enumerate(sorted(state["members"]))}
                return "in", (state["round"], state["members"][name], count)
        return "wait", left

    @staticmethod
    def _free_round(state):
        """Whether a complete round is nobody's any more."""
        return not state["members"]

    def _leave(self, state):
        state["members"].pop(self._node, None)
        state["seen"].pop(self._node, None)
        state["waiting"] = [one for one in state["waiting"] if one != self._node]

    def _workers_store(self, rank, store):
        """Where the workers' store is: one that the agent of rank 0 serves."""
        address, port = self._address, None
        host = getattr(self._store, "host", None)  # of a store that is reached by network
        if rank == 0 and host is not None:
            loopback = host in ("localhost", "127.0.0.1", "::1")
            address = address or ("127.0.0.1" if loopback else socket.getfqdn())
            self._served = TCPStore(address, 0, None, True, self._settings.timeout.join, False)
            port = self._served.port
        return RendezvousStoreInfo.build(rank, store, address, port)

    def is_closed(self):
        return self._state.read()["closed"]

    def set_closed(self):
        self._state.change(lambda state: state.update(closed=True))

    def num_nodes_waiting(self):
        return len(self._state.change(lambda state: list(state["waiting"])))

    def get_run_id(self):
        return self._settings.run_id

    def shutdown(self):
        self._end_signs_of_life()
        try:
            self.set_closed()
            return True
        except RendezvousError:
            return False

    def _begin_signs_of_life(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(self._stop,), daemon=True)
        self._thread.start()

    def _live(self, stop):
        while not stop.wait(self._settings.keep_alive_interval.total_seconds()):
            try:
                self._state.change(lambda state: state["seen"].update({self._node: time.time()}))
            except RendezvousError:
                pass  # the agent will see it

    def _end_signs_of_life(self):
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None


def create_handler(store, backend, params):
    """A DynamicRendezvousHandler. Settings: join_timeout, last_call_timeout, close_timeout, heartbeat_timeout,
    keep_alive_interval (seconds), keep_alive_max_attempt.

    Args:
        store: of the agents.
        backend: where the state lies.
        params: RendezvousParameters.
    """

    def seconds(name):
        value = params.get_as_int(f"{name}_timeout")
        return None if value is None else timedelta(seconds=value)

    timeout = RendezvousTimeout(*(seconds(name) for name in ("join", "last_call", "close", "heartbeat")))
    return DynamicRendezvousHandler.from_backend(
        params.run_id,
        store,
        backend,
        params.min_nodes,
        params.max_nodes,
        params.local_addr,
        timeout,
        params.get_as_int("keep_alive_interval", 5),
        params.get_as_int("keep_alive_max_attempt", 3),
    )
