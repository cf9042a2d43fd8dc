"""What an agent is: it meets the others, starts workers, watches them, and starts them again."""

import json
import os
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from tessera.distributed.elastic import events
from tessera.distributed.elastic.metrics import put_metric
from tessera.distributed.elastic.multiprocessing import SignalException
from tessera.distributed.elastic.rendezvous import RendezvousGracefulExitError

__all__ = [
    "ElasticAgent",
    "RunResult",
    "SimpleElasticAgent",
    "Worker",
    "WorkerGroup",
    "WorkerSpec",
    "WorkerState",
]


@dataclass
class WorkerSpec:
    """What the workers of a role are.

    Args:
        role: its name.
        local_world_size: workers of this machine.
        rdzv_handler: where agents meet.
        fn: deprecated name of `entrypoint`.
        entrypoint: a function, or the path of a program.
        args: its arguments.
        max_restarts: how often all are started again when one fails.
        monitor_interval: seconds between two looks.
        master_port: of the workers' store; None: the rendezvous says.
        master_addr: the same.
        local_addr: address of this machine.
        event_log_handler: where events go.
        numa_options: must be None.
        duplicate_stdout_filters: see multiprocessing.start_processes.
        duplicate_stderr_filters: the same.
        virtual_local_rank: whether LOCAL_RANK is 0 for all, and each sees its device alone.
    """

    role: str
    local_world_size: int
    rdzv_handler: object
    fn: object = None
    entrypoint: object = None
    args: tuple = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: object = None
    duplicate_stdout_filters: list | None = None
    duplicate_stderr_filters: list | None = None
    virtual_local_rank: bool = False

    def __post_init__(self):
        assert self.local_world_size > 0, f"a machine has at least one worker, got {self.local_world_size}"
        assert self.monitor_interval > 0, f"monitor_interval is above 0, got {self.monitor_interval}"
        self.entrypoint = self.entrypoint or self.fn
        assert self.entrypoint, "a WorkerSpec needs an entrypoint: a function, or the path of a program"

    def get_entrypoint_name(self):
        """The name of the function or program."""
        entrypoint = self.entrypoint
        return os.path.basename(entrypoint) if isinstance(entrypoint, str) else entrypoint.__qualname__


class Worker:
    """One worker.

    Args:
        local_rank: among those of this machine.
        global_rank: among all; -1 until it is known, as the others.
        role_rank: among those of its role.
        world_size: number of all.
        role_world_size: number of those of its role.
    """

    __slots__ = ("global_rank", "id", "local_rank", "role_rank", "role_world_size", "world_size")

    def __init__(self, local_rank, global_rank=-1, role_rank=-1, world_size=-1, role_world_size=-1):
        self.id, self.local_rank, self.global_rank = None, local_rank, global_rank
        self.role_rank, self.world_size, self.role_world_size = role_rank, world_size, role_world_size

    def __str__(self):
        names = ("local_rank", "global_rank", "role_rank", "world_size", "role_world_size")
        return ",".join(f"{name}={getattr(self, name)}" for name in names)

    __repr__ = __str__


class WorkerState(str, Enum):
    """What workers do."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state):
        """Whether there are processes."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of this machine.

    Args:
        spec: what they are.
    """

    __slots__ = (
        "group_rank",
        "group_world_size",
        "master_addr",
        "master_port",
        "spec",
        "state",
        "store",
        "workers",
    )

    def __init__(self, spec):
        self.spec, self.state = spec, WorkerState.INIT
        self.workers = [Worker(local_rank) for local_rank in range(spec.local_world_size)]
        self.store = self.group_rank = self.group_world_size = self.master_addr = self.master_port = None


@dataclass
class RunResult:
    """How workers are: their state, what functions returned and which failed, by global rank."""

    state: WorkerState
    return_values: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)

    def is_failed(self):
        """Whether they failed."""
        return self.state == WorkerState.FAILED


class ElasticAgent(ABC):
    """What runs the workers of a machine."""

    @abstractmethod
    def run(self, role="default"):
        """Runs workers to their end. Returns: a RunResult. Raises: what is no failure of a worker."""

    @abstractmethod
    def get_worker_group(self, role="default"):
        """The WorkerGroup."""


class SimpleElasticAgent(ElasticAgent):
    """An agent with workers of one role. Subclasses start, look at and stop processes.

    Args:
        spec: what the workers are.
        exit_barrier_timeout: seconds to wait for other agents at the end.
    """

    def __init__(self, spec, exit_barrier_timeout=300):
        self._worker_group, self._remaining_restarts = WorkerGroup(spec), spec.max_restarts
        self._exit_barrier_timeout, self._store, self._total = exit_barrier_timeout, None, 0.0
        self._durations = defaultdict(float)

    def get_worker_group(self, role="default"):
        if role not in ("default", self._worker_group.spec.role):
            raise ValueError(f"this agent's workers have the role '{self._worker_group.spec.role}', not '{role}'")
        return self._worker_group

    @abstractmethod
    def _start_workers(self, worker_group):
        """Starts processes. Returns: local rank to their ids."""

    @abstractmethod
    def _stop_workers(self, worker_group):
        """Ends processes, which may be started again."""

    @abstractmethod
    def _monitor_workers(self, worker_group):
        """Looks at processes. Returns: a RunResult."""

    @abstractmethod
    def _shutdown(self, death_sig=None):
        """Ends everything."""

    # ---- a round

    def _rendezvous(self, group):
        """Meets the other agents, and numbers the workers of all."""
        spec = group.spec
        info = spec.rdzv_handler.next_rendezvous()
        group.store, group.group_rank, group.group_world_size = info.store, info.rank, info.world_size
        self._store = info.store
        where = info.bootstrap_store_info
        group.master_addr = spec.master_addr or where.master_addr
        group.master_port = spec.master_port or where.master_port
        own = json.dumps({"role": spec.role, "workers": spec.local_world_size})
        attempt = spec.max_restarts - self._remaining_restarts
        prefix = f"torchelastic/role_info/{attempt}"
        info.store.set(f"{prefix}/{info.rank}", own)
        everyone = [
            json.loads(value) for value in info.store.multi_get([f"{prefix}/{i}" for i in range(info.world_size)])
        ]
        before = everyone[: info.rank]
        first = sum(one["workers"] for one in before)
        of_role = [one for one in everyone if one["role"] == spec.role]
        first_of_role = sum(one["workers"] for one in before if one["role"] == spec.role)
        for worker in group.workers:
            worker.global_rank, worker.role_rank = first + worker.local_rank, first_of_role + worker.local_rank
            worker.world_size = sum(one["workers"] for one in everyone)
            worker.role_world_size = sum(one["workers"] for one in of_role)

    def _initialize_workers(self, group):
        self._rendezvous(group)
        for local_rank, number in self._start_workers(group).items():
            group.workers[local_rank].id = number
        group.state = WorkerState.HEALTHY

    def _restart_workers(self, group):
        self._stop_workers(group)
        group.state = WorkerState.STOPPED
        self._initialize_workers(group)

    # ---- to the end

    def run(self, role="default"):
        begin, closes = time.monotonic(), True
        try:
            result = self._invoke_run(role)
            self._total = time.monotonic() - begin
            self._record(self.get_event_failed() if result.is_failed() else self.get_event_succeeded())
            return result
        except RendezvousGracefulExitError:
            return RunResult(WorkerState.SUCCEEDED)
        except SignalException as signalled:
            self._shutdown(signalled.sigval)
            closes = False
            raise
        finally:
            if closes:
                self._shutdown()
            self._worker_group.spec.rdzv_handler.shutdown()

    def _invoke_run(self, role):
        group = self.get_worker_group(role)
        spec = group.spec
        self._initialize_workers(group)
        while True:
            time.sleep(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            put_metric(f"workers.{spec.role}.remaining_restarts", self._remaining_restarts)
            if result.state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts == 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return RunResult(WorkerState.FAILED, failures=result.failures)
                self._remaining_restarts -= 1
                self._restart_workers(group)
            elif result.state != WorkerState.HEALTHY:
                raise RuntimeError(
                    f"workers of the role '{spec.role}' are in no state to go on from: {result.state.name}"
                )
            elif spec.rdzv_handler.num_nodes_waiting() > 0:
                self._restart_workers(group)

    def _exit_barrier(self):
        """The agent that holds the store must not go before the others are done."""
        group = self._worker_group
        if group.group_world_size == 1:
            return
        store = group.store
        store.set(f"torchelastic/exit/{group.group_rank}", b"1")
        keys = [f"torchelastic/exit/{rank}" for rank in range(group.group_world_size)]
        try:
            store.wait(keys, timedelta(seconds=self._exit_barrier_timeout))
        except RuntimeError:
            return  # some may have failed, and the work of these workers is done
        if group.group_rank == 0:
            # the others have read it when they have said so
            try:
                store.add("torchelastic/left", 1)
                end = time.monotonic() + 5
                while store.add("torchelastic/left", 0) < group.group_world_size and time.monotonic() < end:
                    time.sleep(0.02)
            except RuntimeError:
                pass
        else:
            store.add("torchelastic/left", 1)

    # ---- events

    def _event(self, name, state, error=None):
        group, spec = self._worker_group, self._worker_group.spec
        about = {
            "run_id": spec.rdzv_handler.get_run_id(),
            "global_rank": None,
            "group_rank": group.group_rank,
            "role": spec.role,
            "state": state,
            "total_run_time": int(self._total),
            "rdzv_backend": spec.rdzv_handler.get_backend(),
            "raw_error": error,
            "group_world_size": group.group_world_size,
            "entry_point": spec.get_entrypoint_name(),
            "local_world_size": spec.local_world_size,
        }
        return events.Event(f"torchelastic.worker.status.{name}", events.EventSource.AGENT, metadata=about)

    def get_event_succeeded(self):
        """An Event that says that the workers succeeded."""
        return self._event("SUCCEEDED", "SUCCEEDED")

    def get_event_failed(self):
        """An Event that says that the workers failed."""
        return self._event("FAILED", "FAILED")

    def _record(self, event):
        events.record(event, self._worker_group.spec.event_log_handler)

    def record_duration(self, state):
        """A context whose time is added to that of a state.

        Args:
            state: its name.
        """

        @contextmanager
        def measured():
            begin = time.perf_counter()
            try:
                yield
            finally:
                self._durations[state] += time.perf_counter() - begin

        return measured()
