"""Runs a function or a program in several processes, on this machine and others."""

import os
import sys
import uuid
from dataclasses import dataclass, field

from tessera.distributed.elastic import events, metrics
from tessera.distributed.elastic.agent.server.api import WorkerSpec
from tessera.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from tessera.distributed.elastic.multiprocessing import DefaultLogsSpecs
from tessera.distributed.elastic.multiprocessing.errors import ChildFailedError
from tessera.distributed.elastic.rendezvous import RendezvousParameters, registry
from tessera.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """How workers are launched.

    Args:
        min_nodes: machines that are enough.
        max_nodes: machines that are taken.
        nproc_per_node: workers of a machine.
        logs_specs: where output goes.
        run_id: the job's name; empty: a new one.
        role: of the workers.
        rdzv_endpoint: where agents meet.
        rdzv_backend: "static" or "c10d".
        rdzv_configs: settings of the rendezvous.
        rdzv_timeout: seconds; deprecated, a setting of the rendezvous.
        max_restarts: how often all workers are started again when one fails.
        monitor_interval: seconds between two looks at them.
        start_method: of functions.
        log_line_prefix_template: what comes before shown lines.
        metrics_cfg: settings of metrics.
        local_addr: address of this machine.
        event_log_handler: where events go.
        numa_options: must be None.
        signals_to_handle: names of signals that end the job.
        duplicate_stdout_filters: texts; lines with one of them are copied to a file of their own.
        duplicate_stderr_filters: the same for errors.
        virtual_local_rank: whether LOCAL_RANK is 0 for all, and each sees its device alone.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: object = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: object = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list | None = None
    duplicate_stderr_filters: list | None = None
    virtual_local_rank: bool = False

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        if self.numa_options is not None:
            raise ValueError("workers cannot be bound to NUMA nodes here; start them with numactl")
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()


class elastic_launch:
    """Calls a function, or a program, in workers: `elastic_launch(config, main)(arguments...)`.

    Args:
        config: LaunchConfig.
        entrypoint: a function, or the path of a program.
    """

    def __init__(self, config, entrypoint):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))


def _name_of(entrypoint, args):
    if not isinstance(entrypoint, str):
        return getattr(entrypoint, "__qualname__", "entrypoint")
    if entrypoint == sys.executable:
        return next((one for one in args if not one.startswith("-")), entrypoint)
    return entrypoint


def _master_of(parameters):
    """Where a static rendezvous says that the workers' store is; else (None, None)."""
    if parameters.backend != "static":
        return None, None
    return parse_rendezvous_endpoint(parameters.endpoint, -1)


def launch_agent(config, entrypoint, args):
    """Runs the workers of this machine to their end.

    Args:
        config: LaunchConfig.
        entrypoint: a function, or the path of a program.
        args: its arguments.

    Returns: what functions returned, by global rank. Raises: ChildFailedError if a worker failed and none of
        `max_restarts` is left; SignalException for a signal; what a rendezvous raises.
    """
    config.run_id = config.run_id or str(uuid.uuid4().int)
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = config.signals_to_handle
    parameters = RendezvousParameters(
        config.rdzv_backend,
        config.rdzv_endpoint,
        config.run_id,
        config.min_nodes,
        config.max_nodes,
        config.local_addr,
        **config.rdzv_configs,
    )
    master_addr, master_port = _master_of(parameters)
    spec = WorkerSpec(
        config.role,
        config.nproc_per_node,
        registry.get_rendezvous_handler(parameters),
        entrypoint=entrypoint,
        args=tuple(args),
        max_restarts=config.max_restarts,
        monitor_interval=config.monitor_interval,
        master_addr=master_addr,
        # port 0 is for the rendezvous to choose
        master_port=master_port or None,
        local_addr=config.local_addr,
        event_log_handler=config.event_log_handler,
        duplicate_stdout_filters=config.duplicate_stdout_filters,
        duplicate_stderr_filters=config.duplicate_stderr_filters,
        virtual_local_rank=config.virtual_local_rank,
    )
    agent = LocalElasticAgent(
        spec,
        config.logs_specs,
        config.start_method,
        log_line_prefix_template=config.log_line_prefix_template,
    )
    metrics.initialize_metrics(metrics.MetricsConfig(config.metrics_cfg))
    events.record(agent._event("START", "INIT"), config.event_log_handler)
    result = agent.run()
    if result.is_failed():
        raise ChildFailedError(_name_of(entrypoint, args), result.failures)
    return result.return_values
