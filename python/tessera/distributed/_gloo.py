"""The backend "gloo": processes of one host reach each other through shared memory, others by TCP."""

import os
import socket
import struct

from tessera.distributed._errors import DistBackendError, DistStoreError
from tessera.distributed._native import load
from tessera.distributed._native_group import NativeGroup
from tessera.distributed._process_group import _BackendOptions
from tessera.distributed.constants import default_pg_timeout

_SIOCGIFADDR = 0x8915


def _address_of(interface):
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            reply = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface[:15].encode()))
        except OSError as error:
            raise DistBackendError(
                f"the network interface '{interface}' has no IPv4 address: {error.strerror}"
            ) from None
    return socket.inet_ntoa(reply[20:24])


def own_address():
    """Where other members reach this process: the first interface in GLOO_SOCKET_IFNAME, else the address of the host's
    name, else 127.0.0.1."""
    interfaces = os.environ.get("GLOO_SOCKET_IFNAME", "")
    if interfaces:
        return _address_of(interfaces.split(",")[0])
    try:
        found = socket.gethostbyname(socket.gethostname())
        with socket.socket() as probe:
            probe.bind((found, 0))
        return found
    except OSError:
        return "127.0.0.1"


def _host_id():
    """What is equal for processes that can map each other's memory."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.getuid()}"
    except OSError:
        return os.urandom(16).hex()


def _collect(store, rank, size, name, timeout):
    """The values that all ranks put under `name`: rank 0 gathers them, so that the store's work grows with the number
    of ranks and not with its square. Raises: DistBackendError that names who did not."""
    keys = [f"{name}/{one}" for one in range(size)]
    try:
        if rank == 0:
            store.wait(keys, timeout)
            found = store.multi_get(keys)
            store.set(name, b"\n".join(found))
            return found
        store.wait([name], timeout)
    except DistStoreError:
        absent = [one for one, key in enumerate(keys) if not store.check([key])]
        who = f"rank {absent[0]}" if len(absent) == 1 else f"ranks {', '.join(map(str, absent))}"
        raise DistBackendError(
            f"a process group of {size} could not be made: {who} did not come within {timeout.total_seconds():g} s"
        ) from None
    return store.get(name).split(b"\n")


def _shared(store, rank, size, timeout):
    """A descriptor of memory that all members of this host have, or -1 if one of them cannot have it."""
    native, ours = load(), -1
    try:
        if rank == 0:
            ours = native.memory_create(size)
            store.set("memory", f"{os.getpid()} {ours}")
        else:
            pid, descriptor = store.get("memory").split()
            ours = native.memory_open(int(pid), int(descriptor))
    except DistBackendError:
        if rank == 0:
            store.set("memory", "0 0")
    store.set(f"has/{rank}", b"1" if ours >= 0 else b"0")
    if all(reply == b"1" for reply in _collect(store, rank, size, "has", timeout)):
        return ours
    if ours >= 0:
        os.close(ours)
    return -1


class _Device:
    """A network interface's address.

    Args:
        hostname: what it resolves to.
        lazy_init: whether connections are made when they are first needed, which they are in any case.
    """

    def __init__(self, hostname, lazy_init):
        self.hostname, self.lazy_init = hostname, lazy_init

    def __repr__(self):
        return f"<ProcessGroupGloo.Device {self.hostname}>"


class _GlooOptions(_BackendOptions):
    """What a ProcessGroupGloo was made with: `_timeout`, `_devices`, `_threads`."""

    def __init__(self, backend="gloo", timeout=default_pg_timeout):
        super().__init__(backend, timeout)
        self._devices, self._threads = [], 2


class ProcessGroupGloo(NativeGroup):
    """A member's part in a group of processes, for tensors on the host; those of devices go through the host.

    All members of a group compute with the same bits: reductions run in the order of ranks.

    Args:
        store: over which the members find each other, of this group alone (a PrefixStore).
        rank: of this member.
        size: number of members.
        timeout: how long collectives wait for a member (datetime.timedelta).

    Raises: DistBackendError if the others do not come within the timeout.
    """

    Device = _Device
    Options = _Options = _GlooOptions

    def __init__(self, store, rank, size, timeout=default_pg_timeout):
        super().__init__(store, rank, size, timeout)

    def _connect(self, store):
        rank, size, native = self._rank, self._size, self._native
        host = own_address()
        listener, port = native.listen(host, 0)
        shared = -1
        try:
            secret = os.urandom(16).hex() if rank == 0 else ""
            store.set(f"rank/{rank}", f"{host}|{port}|{os.getpid()}|{_host_id()}|{secret}")
            members = [value.decode().split("|") for value in _collect(store, rank, size, "rank", self._timeout)]
            together = len({member[3] for member in members}) == 1
            if together and os.environ.get("TESSERA_DISTRIBUTED_TRANSPORT", "") != "tcp":
                shared = _shared(store, rank, size, self._timeout)
        except BaseException:
            os.close(listener)
            raise
        here = members[rank][3]
        peers = [(m[0], int(m[1]), int(m[2]) if m[3] == here else 0) for m in members]
        self._secret = members[0][4].encode()
        return native.group_make(rank, peers, self._secret, listener, shared)

    def getBackendName(self):
        return "gloo"

    @staticmethod
    def create_device(hostname="", interface="", lazy_init=None):
        """A device: the address of a host name or of a network interface."""
        if not hostname and not interface:
            raise RuntimeError("create_device() takes a hostname or an interface")
        return _Device(hostname or _address_of(interface), bool(lazy_init))

    @staticmethod
    def create_default_device(lazy_init=None):
        """The device that groups use: that of GLOO_SOCKET_IFNAME, else of the host's name."""
        return _Device(own_address(), bool(lazy_init))
