"""Stores of programs that make their own."""

import datetime

from contextlib import closing

from tessera.distributed._stores import TCPStore
from tessera.distributed.elastic.utils.api import get_socket_with_port

__all__ = ["create_c10d_store", "get_free_port"]


def create_c10d_store(
    is_server, server_addr, server_port=-1, world_size=1, timeout=600, wait_for_workers=True, retries=3, use_libuv=None
):
    """A TCPStore; its server takes a free port if `server_port` is -1.

    Args:
        is_server: whether this process serves.
        server_addr: the server's host.
        server_port: its port.
        world_size: number of processes.
        timeout: seconds.
        wait_for_workers: whether the server waits for all.
        retries: how often to try.
        use_libuv: kept in the store.

    Raises: ValueError for more than one process without a port.
    """
    if server_port == -1 and world_size > 1:
        raise ValueError(f"{world_size} processes need the server's port")
    limit = datetime.timedelta(seconds=timeout)
    flag = {} if use_libuv is None else {"use_libuv": use_libuv}
    for attempt in range(retries):
        try:
            port = max(server_port, 0)
            return TCPStore(server_addr, port, world_size, is_server, limit, wait_for_workers, **flag)
        except RuntimeError:
            if attempt == retries - 1:
                raise
    raise ValueError(f"retries is at least 1, but got {retries}")


def get_free_port():
    """A port of the loopback interface that was free just now."""
    with closing(get_socket_with_port()) as found:
        return found.getsockname()[1]
