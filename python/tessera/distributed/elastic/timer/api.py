"""Timers: a worker says until when it will be through with something; who is late is ended."""

import abc
import threading
import time
from contextlib import contextmanager
from inspect import getframeinfo, stack

__all__ = ["RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires"]


class TimerRequest:
    """A timer that a worker sets (or, with a negative time, takes away).

    Args:
        worker_id: whose.
        scope_id: of what.
        expiration_time: seconds since 1970.
    """

    __slots__ = ("expiration_time", "scope_id", "worker_id")

    def __init__(self, worker_id, scope_id, expiration_time):
        self.worker_id, self.scope_id, self.expiration_time = worker_id, scope_id, expiration_time

    def __eq__(self, other):
        return isinstance(other, TimerRequest) and all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class TimerClient(abc.ABC):
    """What a worker sets timers with."""

    @abc.abstractmethod
    def acquire(self, scope_id, expiration_time):
        """Sets a timer for a scope, to a time in seconds since 1970."""

    @abc.abstractmethod
    def release(self, scope_id):
        """Takes the timer of a scope away."""


class RequestQueue(abc.ABC):
    """Where requests of workers wait for the server."""

    @abc.abstractmethod
    def size(self):
        """The number of requests."""

    @abc.abstractmethod
    def get(self, size, timeout):
        """Up to so many requests, waiting for them so many seconds."""


class TimerServer(abc.ABC):
    """What keeps the timers, and ends who is late.

    Args:
        request_queue: where requests come from.
        max_interval: seconds between two looks, at most.
        daemon: whether its thread may be left at the end of the process.
    """

    def __init__(self, request_queue, max_interval, daemon=True):
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._thread, self._stopped = None, threading.Event()

    @abc.abstractmethod
    def register_timers(self, timer_requests):
        """Takes requests."""

    @abc.abstractmethod
    def clear_timers(self, worker_ids):
        """Forgets the timers of workers."""

    @abc.abstractmethod
    def get_expired_timers(self, deadline):
        """The timers that ended before a time, by worker."""

    @abc.abstractmethod
    def _reap_worker(self, worker_id):
        """Ends a worker. Returns: whether it is gone."""

    def _run_watchdog(self):
        waiting = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(waiting, self._max_interval))
        gone = set()
        for worker in self.get_expired_timers(time.time()):
            if self._reap_worker(worker):
                gone.add(worker)
        self.clear_timers(gone)

    def _watch(self):
        while not self._stopped.is_set():
            self._run_watchdog()

    def start(self):
        """Begins to look."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._watch, daemon=self._daemon)
        self._thread.start()

    def stop(self):
        """Ends."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self._max_interval)
            self._thread = None


_client = None


def configure(timer_client):
    """Sets what `expires` uses in this process."""
    global _client
    _client = timer_client


@contextmanager
def expires(after, scope=None, client=None):
    """A context that has to be left in time, or this process is ended.

    Args:
        after: seconds.
        scope: its name; None: the caller's file and line.
        client: None: what `configure` set.

    Raises: RuntimeError if there is no client.
    """
    client = client or _client
    if client is None:
        raise RuntimeError("expires() needs a client; timer.configure() sets one")
    if scope is None:
        caller = getframeinfo(stack()[2][0])
        scope = f"{caller.filename}#{caller.lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)
