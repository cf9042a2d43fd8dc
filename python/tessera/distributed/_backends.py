"""Which backends there are, and how a member's part of a group is made of them."""

import os

from tessera.distributed import _kinds as kinds
from tessera.distributed._kinds import Backend
from tessera.distributed._native import is_built
from tessera.distributed._process_group import ProcessGroup
from tessera.distributed._stores import PrefixStore


def is_available():
    """Whether this build can talk to other processes; if not, there is nothing else here to be used."""
    return is_built()


def is_gloo_available():
    """Whether there is the backend "gloo"."""
    return is_built()


def is_nccl_available():
    """Whether there is the backend "nccl"."""
    return False


def is_mpi_available():
    """Whether there is the backend "mpi": an MPI library on this machine."""
    if not is_built():
        return False
    from tessera.distributed import _mpi

    return _mpi.is_there()


def is_ucc_available():
    """Whether there is the backend "ucc"."""
    return False


def is_xccl_available():
    """Whether there is the backend "xccl"."""
    return False


def is_torchelastic_launched():
    """Whether torchrun started this process: TORCHELASTIC_RUN_ID is in the environment."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_backend_available(backend):
    """Whether there is a backend of this name, a third party's included."""
    backend = backend.lower()
    if backend in _ABSENT and backend not in Backend._plugins:
        return False
    if backend == Backend.MPI:
        return is_mpi_available()
    return backend in Backend.backend_list and backend != Backend.UNDEFINED


def _names(backend):
    return [part.partition(":")[2] or part for part in str(backend).split(",")]


def check_known(backend):
    """Raises: AssertionError for a name that no backend has."""
    for name in _names(backend):
        assert name in Backend.backend_list, f"unknown backend '{name}'; known are {Backend.backend_list}"


_ABSENT = {
    Backend.NCCL: "NCCL",
    Backend.UCC: "UCC",
    Backend.XCCL: "XCCL",
}


def check_available(name):
    """Raises: RuntimeError for a backend that this build does not have."""
    if name in _ABSENT and name not in Backend._plugins:
        raise RuntimeError(
            f"this build has no {_ABSENT[name]} backend; 'gloo' serves tensors of all devices, and "
            "Backend.register_backend() takes one of your own"
        )


def config_of(backend):
    """The BackendConfig of a name; of UNDEFINED: what serves the devices here."""
    if backend == Backend.UNDEFINED:
        return kinds.BackendConfig("cpu:gloo")
    return kinds.BackendConfig(backend)


def type_of(name):
    """The number that groups know a backend by."""
    types = ProcessGroup.BackendType
    return types.__members__.get(str(name).upper(), types.CUSTOM)


class DistributedBackendOptions:
    """What a third party's backend is made of, when it was registered with `extended_api`: `store`, `group_rank`,
    `group_size`, `timeout`, `group_id`, `global_ranks_in_group`."""

    def __init__(self):
        self.store = self.timeout = None
        self.group_rank, self.group_size, self.group_id, self.global_ranks_in_group = -1, -1, "", []


def _of_third_party(name, store, rank, size, timeout, pg_options, group_name, ranks):
    make, extended = Backend._plugins[name]
    if not extended:
        return make(store, rank, size, timeout)
    options = DistributedBackendOptions()
    options.store, options.group_rank, options.group_size, options.timeout = store, rank, size, timeout
    options.group_id, options.global_ranks_in_group = group_name, list(ranks)
    return make(options, pg_options)


def create(config, store, rank, size, timeout, pg_options, group_name, ranks):
    """A dictionary from types of devices to backends, or the whole group where a third party's backend is one."""
    made, found = {}, {}
    for device, name in config.device_backend_map.items():
        if name not in made:
            check_available(name)
            prefix = PrefixStore(f"{name}/", store)
            made[name] = _one(name, prefix, rank, size, timeout, pg_options, group_name, ranks)
        found[device] = made[name]
    for one in made.values():
        if isinstance(one, ProcessGroup):
            return one
    if kinds.get_debug_level() == kinds.DebugLevel.DETAIL:
        from tessera.distributed._checked import CheckedBackend

        checked = {name: CheckedBackend.around(one, name, store, rank, size, timeout) for name, one in made.items()}
        found = {device: checked[config.device_backend_map[device]] for device in found}
    return found


def _one(name, store, rank, size, timeout, pg_options, group_name, ranks):
    if name in Backend._plugins and name != Backend.GLOO:
        return _of_third_party(name, store, rank, size, timeout, pg_options, group_name, ranks)
    if pg_options is not None and getattr(pg_options, "backend", name) != name:
        raise ValueError(f"pg_options are for the backend {pg_options.backend}, but the group's is {name}")
    if name == Backend.GLOO:
        from tessera.distributed._gloo import ProcessGroupGloo

        return ProcessGroupGloo(store, rank, size, timeout)
    if name == Backend.MPI:
        from tessera.distributed._mpi import ProcessGroupMPI

        return ProcessGroupMPI(store, rank, size, ranks, timeout)
    if name == Backend.FAKE:
        from tessera.distributed._fake import FakeProcessGroup

        return FakeProcessGroup(rank, size, pg_options)
    raise RuntimeError(f"there is no backend '{name}'")
