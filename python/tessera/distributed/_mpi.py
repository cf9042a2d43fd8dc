"""The backend "mpi": processes that mpirun started, over the MPI library of the machine."""

from datetime import timedelta

from tessera.distributed._gloo import own_address
from tessera.distributed._native import load
from tessera.distributed._native_group import NativeGroup
from tessera.distributed._stores import TCPStore
from tessera.distributed.constants import default_pg_timeout


def is_there():
    """Whether an MPI library can be loaded: Open MPI's, MPICH's, or the one that TESSERA_MPI_LIBRARY names."""
    return load().mpi_is_there()


class ProcessGroupMPI(NativeGroup):
    """A member's part in a group of processes that mpirun started.

    MPI carries the messages, and collectives are made of them as between hosts, so all members have the same bits, and
    every dtype and reduction is there. A copy of each message waits until MPI is done with it.

    Args:
        store: for what goes without MPI, such as the names of barriers.
        rank: of this member.
        size: number of members.
        ranks: the members' ranks in MPI_COMM_WORLD, in their order.
        timeout: how long collectives wait for a member (datetime.timedelta).

    Raises: DistBackendError without an MPI library.
    """

    def __init__(self, store, rank, size, ranks, timeout=default_pg_timeout):
        self._ranks = list(ranks)
        super().__init__(store, rank, size, timeout)

    def _connect(self, store):
        return self._native.mpi_group(self._ranks)

    def getBackendName(self):
        return "mpi"


def world(timeout):
    """Starts MPI: a store that all its processes reach, the rank of this one, their number.

    Rank 0 keeps the store, at the address where other members of a group would find it."""
    rank, size = load().mpi_world()
    if size == 1:
        return TCPStore("127.0.0.1", 0, 1, True, timeout), 0, 1
    import tessera
    from tessera.distributed._kinds import BroadcastOptions

    place = tessera.zeros(256, dtype=tessera.uint8)
    store = None
    if rank == 0:
        host = own_address()
        store = TCPStore(host, 0, size, True, timeout, wait_for_workers=False)
        text = f"{host}|{store.port}".encode()
        place[: len(text)] = tessera.tensor(list(text), dtype=tessera.uint8)
    opts = BroadcastOptions()
    opts.asyncOp, opts.timeout = False, timedelta(0)
    first = ProcessGroupMPI(None, rank, size, range(size), timeout)
    first.broadcast([place], opts)
    host, port = bytes(place.tolist()).rstrip(b"\0").decode().split("|")
    return store or TCPStore(host, int(port), size, False, timeout, wait_for_workers=False), rank, size
