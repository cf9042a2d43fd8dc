"""A rendezvous of agents that know their ranks."""

import os
from datetime import timedelta

from tessera.distributed._stores import PrefixStore, TCPStore
from tessera.distributed.elastic.rendezvous.api import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from tessera.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]

_DEFAULT_TIMEOUT = 600


class StaticTCPRendezvous(RendezvousHandler):
    """A rendezvous at the agent of rank 0, once.

    Args:
        master_addr: address of rank 0, which serves a store there.
        master_port: and port.
        rank: of this agent.
        world_size: number of agents.
        run_id: the job's name.
        timeout: seconds to wait for the store.
    """

    def __init__(self, master_addr, master_port, rank, world_size, run_id, timeout):
        self.master_addr, self.master_port, self.rank, self.world_size = master_addr, master_port, rank, world_size
        self.run_id, self.timeout, self._store = run_id, timedelta(seconds=timeout), None

    def get_backend(self):
        return "static"

    @property
    def use_agent_store(self):
        return os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0") != "1"

    def next_rendezvous(self):
        if self._store is None:
            master = self.rank == 0
            self._store = TCPStore(
                self.master_addr, self.master_port, None, master, self.timeout, False, multi_tenant=True
            )
            self.master_port = self._store.port
        info = RendezvousStoreInfo(self.master_addr, self.master_port)
        return RendezvousInfo(PrefixStore(self.run_id, self._store), self.rank, self.world_size, info)

    def is_closed(self):
        return False

    def set_closed(self):
        return None

    def num_nodes_waiting(self):
        return 0

    def get_run_id(self):
        return self.run_id

    def shutdown(self):
        self._store = None
        return True


def create_rdzv_handler(params):
    """A StaticTCPRendezvous. Raises: ValueError without a rank or a port."""
    if "rank" not in params.config:
        raise ValueError("a static rendezvous needs the agent's rank (--node-rank, or rank=N in --rdzv-conf)")
    host, port = parse_rendezvous_endpoint((params.endpoint or "").strip(), -1)
    if port == -1:
        raise ValueError(f"a static rendezvous needs an endpoint with a port, but got '{params.endpoint}'")
    timeout = int(params.config.get("timeout", _DEFAULT_TIMEOUT))
    rank = int(params.config["rank"])
    return StaticTCPRendezvous(host, port, rank, params.max_nodes, params.run_id, timeout)
