"""An agent whose workers are processes of this machine."""

import os
import signal
import socket
from string import Template

from tessera.distributed.elastic.agent.server.api import RunResult, SimpleElasticAgent, WorkerState
from tessera.distributed.elastic.agent.server.health_check_server import create_healthcheck_server
from tessera.distributed.elastic.multiprocessing import start_processes
from tessera.distributed.elastic.timer import FileTimerServer
from tessera.distributed.elastic.utils import macros

__all__ = [
    "TORCHELASTIC_ENABLE_FILE_TIMER",
    "TORCHELASTIC_HEALTH_CHECK_PORT",
    "TORCHELASTIC_TIMER_FILE",
    "LocalElasticAgent",
]

TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"


class LocalElasticAgent(SimpleElasticAgent):
    """An agent that starts workers as processes.

    Args:
        spec: what they are.
        logs_specs: where their output goes.
        start_method: of functions: "spawn", "fork" or "forkserver".
        exit_barrier_timeout: seconds to wait for other agents at the end.
        log_line_prefix_template: what comes before shown lines, with ${role_name}, ${local_rank}, ${rank}, ${hostname}.
    """

    def __init__(self, spec, logs_specs, start_method="spawn", exit_barrier_timeout=300, log_line_prefix_template=None):
        super().__init__(spec, exit_barrier_timeout)
        self._logs_specs, self._start_method, self._prefix = logs_specs, start_method, log_line_prefix_template
        self._context = self._timers = self._health = None

    def _environment(self, group, worker):
        spec = group.spec
        values = {
            "LOCAL_RANK": worker.local_rank,
            "RANK": worker.global_rank,
            "GROUP_RANK": group.group_rank,
            "ROLE_RANK": worker.role_rank,
            "ROLE_NAME": spec.role,
            "LOCAL_WORLD_SIZE": spec.local_world_size,
            "WORLD_SIZE": worker.world_size,
            "GROUP_WORLD_SIZE": group.group_world_size,
            "ROLE_WORLD_SIZE": worker.role_world_size,
            "MASTER_ADDR": group.master_addr,
            "MASTER_PORT": group.master_port,
            "TORCHELASTIC_RESTART_COUNT": spec.max_restarts - self._remaining_restarts,
            "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
            "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
            "TORCHELASTIC_USE_AGENT_STORE": spec.rdzv_handler.use_agent_store,
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        }
        if spec.virtual_local_rank:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            devices = visible.split(",") if visible else [str(rank) for rank in range(spec.local_world_size)]
            values.update(LOCAL_RANK=0, CUDA_VISIBLE_DEVICES=devices[worker.local_rank])
        if "OMP_NUM_THREADS" in os.environ:
            values["OMP_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"]
        return {name: str(value) for name, value in values.items()}

    def _line_prefix(self, group, worker):
        return Template(self._prefix).safe_substitute(
            role_name=group.spec.role,
            local_rank=worker.local_rank,
            rank=worker.global_rank,
            hostname=socket.getfqdn(),
        )

    def _start_workers(self, worker_group):
        spec = worker_group.spec
        self._begin_timers()
        self._begin_health()
        envs, args, prefixes = {}, {}, {} if self._prefix else None
        for worker in worker_group.workers:
            rank = worker.local_rank
            envs[rank] = self._environment(worker_group, worker)
            if self._timers is not None:
                envs[rank][TORCHELASTIC_TIMER_FILE] = self._timers._file_path
            args[rank] = tuple(macros.substitute(list(spec.args), str(rank)))
            if prefixes is not None:
                prefixes[rank] = self._line_prefix(worker_group, worker)
        self._context = start_processes(
            spec.role,
            spec.entrypoint,
            args,
            envs,
            self._logs_specs,
            prefixes,
            self._start_method,
            spec.numa_options,
            spec.duplicate_stdout_filters,
            spec.duplicate_stderr_filters,
        )
        return self._context.pids()

    def _begin_timers(self):
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) != "1" or self._timers is not None:
            return
        path = os.environ.get(TORCHELASTIC_TIMER_FILE, f"/tmp/watchdog_timer_{os.getpid()}_{os.urandom(4).hex()}")
        self._timers = FileTimerServer(path, self._worker_group.spec.rdzv_handler.get_run_id(), 0.1, True)
        self._timers.start()

    def _begin_health(self):
        port = os.environ.get(TORCHELASTIC_HEALTH_CHECK_PORT)
        if port is None or self._health is not None:
            return
        progress = lambda: 0 if self._timers is None else self._timers.get_last_progress_time()
        self._health = create_healthcheck_server(progress, int(port), 60)
        self._health.start()

    def _stop_workers(self, worker_group):
        if self._context is not None:
            self._context.close(signal.SIGTERM)

    def _end_helpers(self):
        for helper in (self._timers, self._health):
            if helper is not None:
                helper.stop()
        self._timers = self._health = None

    def _shutdown(self, death_sig=None):
        self._end_helpers()
        if self._context is not None:
            self._context.close(death_sig or signal.SIGTERM)

    def _monitor_workers(self, worker_group):
        expected = {worker.id for worker in worker_group.workers}
        if expected != set(self._context.pids().values()):
            return RunResult(WorkerState.UNKNOWN)
        result = self._context.wait(0)
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        rank_of = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
        if result.is_failed():
            return RunResult(WorkerState.FAILED, failures={rank_of[one]: f for one, f in result.failures.items()})
        values = {rank_of[one]: value for one, value in result.return_values.items()}
        return RunResult(WorkerState.SUCCEEDED, values)
