"""The groups of this process: which there are, how they come and go, and which rank is who in them."""

import os
import warnings
from datetime import timedelta

import tessera
from tessera.distributed import _backends as backends
from tessera.distributed import _kinds as kinds
from tessera.distributed import config
from tessera.distributed._process_group import C10dBackend, ProcessGroup
from tessera.distributed._stores import PrefixStore
from tessera.distributed.constants import default_pg_timeout
from tessera.distributed.rendezvous import rendezvous


class _World:
    """All groups of this process. `pg_group_ranks` maps global ranks to ranks in a group."""

    def __init__(self):
        self.default_pg = None
        self.pg_map, self.pg_names, self.pg_group_ranks, self.pg_backend_config = {}, {}, {}, {}
        self.tags_to_pg, self.pg_to_tag = {}, {}
        self.group_count, self.local_counts, self.root_store = 0, {}, None


_world = _World()
_pg_map, _pg_names, _pg_group_ranks = _world.pg_map, _world.pg_names, _world.pg_group_ranks


class _WorldMeta(type):
    @property
    def WORLD(cls):
        """The default group, or None before there is one."""
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, group):
        _world.default_pg = group


class group(metaclass=_WorldMeta):
    """Where the default group is found: `group.WORLD`."""


class GroupMember(metaclass=_WorldMeta):
    """`NON_GROUP_MEMBER` is what `new_group` gives processes that are not in the group."""

    NON_GROUP_MEMBER = -100


def is_initialized():
    """Whether there is a default group."""
    return _world.default_pg is not None


def _get_default_group():
    if _world.default_pg is None:
        raise ValueError("Default process group has not been initialized; call init_process_group() first")
    return _world.default_pg


def _group_or_default_group(group=None):
    return _get_default_group() if group is None else group


def _rank_not_in_group(group):
    return group is not None and isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER


def _registered(group):
    """A group of this process, None for the default one. Raises: ValueError if it is none."""
    group = _group_or_default_group(group)
    if _rank_not_in_group(group) or group in _world.pg_map:
        return group
    if isinstance(group, C10dBackend):
        return group  # which a program made itself
    raise ValueError(f"the group {group!r} is not registered: it was destroyed, or new_group() did not make it")


def member(group, name):
    """The group, if this process is in it; else None, with a warning.

    Raises: ValueError before there is a group, for one that was destroyed, and for a send in a group that the sender is
    not in."""
    group = _registered(group)
    if not _rank_not_in_group(group):
        return group
    if name == "send":
        raise ValueError(f"Invalid process group specified: rank {get_rank()} called {name} of one that it is not in")
    warnings.warn(f"rank {get_rank()} called {name} of a group that it is not in; nothing was done", stacklevel=3)
    return None


# ---- who is who


def get_rank(group=None):
    """The rank of this process in a group (None: the default one); -1 if it is not in it."""
    group = _registered(group)
    return -1 if _rank_not_in_group(group) else group.rank()


def get_world_size(group=None):
    """The number of members of a group (None: the default one); -1 if this process is not in it."""
    group = _registered(group)
    return -1 if _rank_not_in_group(group) else group.size()


def get_backend(group=None):
    """The name of a group's backend (None: the default group's). Raises: ValueError if this process is not in it."""
    group = _registered(group)
    if _rank_not_in_group(group):
        raise ValueError("get_backend() of a group that this process is not in")
    return _world.pg_map[group][0]


def get_backend_config(group=None):
    """Which backends serve which devices in a group, such as "cpu:gloo"."""
    group = _registered(group)
    if _rank_not_in_group(group):
        raise ValueError("get_backend_config() of a group that this process is not in")
    return _world.pg_backend_config[group]


def get_pg_count():
    """The number of groups that this process is in."""
    return len(_world.pg_map)


def _ranks_of(group):
    group = _registered(group)
    if _rank_not_in_group(group) or group not in _world.pg_group_ranks:
        raise ValueError(f"the group {group!r} is not registered, or this process is not in it")
    return _world.pg_group_ranks[group]


def get_group_rank(group, global_rank):
    """The rank in a group of the process that has the global rank `global_rank`.

    Raises: ValueError if it is not in it, or if this is no group."""
    if group is not None and group is _world.default_pg:
        return global_rank
    ranks = _ranks_of(group)
    if global_rank not in ranks:
        raise ValueError(f"global rank {global_rank} is not in the group, which has {sorted(ranks)}")
    return ranks[global_rank]


def get_global_rank(group, group_rank):
    """The global rank of the process that has the rank `group_rank` in a group.

    Raises: ValueError if there is none, or if this is no group."""
    if group is not None and group is _world.default_pg:
        return group_rank
    ranks = _ranks_of(group)
    for global_rank, rank in ranks.items():
        if rank == group_rank:
            return global_rank
    raise ValueError(f"the group has no rank {group_rank}: it has {len(ranks)} members")


def get_process_group_ranks(group):
    """The global ranks of a group's members, in their order in it (None: the default group)."""
    return list(_ranks_of(group))


def chosen_rank(group, global_rank, group_rank, name):
    """The rank in the group that a caller names by its global rank or its rank in the group.

    Raises: ValueError unless exactly one of them is given."""
    if (global_rank is None) == (group_rank is None):
        raise ValueError(f"{name} takes a global rank or the group's own (group_{name}), and exactly one of them")
    return get_group_rank(group, global_rank) if group_rank is None else group_rank


def get_node_local_rank(fallback_rank=None):
    """The rank among the processes of this machine: LOCAL_RANK, else `fallback_rank`.

    Raises: RuntimeError if there is neither."""
    text = os.environ.get("LOCAL_RANK")
    if text is not None:
        return int(text)
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment, and there is no fallback_rank; start with torchrun")
    return int(fallback_rank)


# ---- coming


def _timeout_or_default(timeout, backend):
    if timeout is None:
        from tessera.distributed.constants import default_pg_nccl_timeout

        return default_pg_nccl_timeout if backend == kinds.Backend.NCCL else default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"a timeout is a datetime.timedelta, but got {type(timeout).__name__}")
    return timeout


def _device_of(device_id):
    if device_id is None:
        return None
    device = device_id if isinstance(device_id, tessera.device) else tessera.device("cuda", device_id)
    if device.index is None and device.type != "cpu":
        raise ValueError(f"device_id names one device, such as cuda:0, but got {device}")
    return device


def init_process_group(
    backend=None,
    init_method=None,
    timeout=None,
    world_size=-1,
    rank=-1,
    store=None,
    group_name="",
    pg_options=None,
    device_id=None,
    _ranks=None,
):
    """Makes the default group, and waits until every process has.

    The processes find each other through `store`, or at the URL `init_method`: env://, tcp://host:port (of rank 0) or
    file:///path.

    Args:
        backend: "gloo", another backend's name, or a list such as "cpu:gloo,cuda:nccl"; None: what serves the devices
            that are there.
        init_method: the URL; "env://" if there is neither it nor a store. Rank, size, MASTER_ADDR and MASTER_PORT are
            then taken from the environment.
        timeout: how long collectives wait (datetime.timedelta); None: 30 minutes (NCCL: 10).
        world_size: number of processes; "mpi" takes it, and the rank, from mpirun.
        rank: of this process.
        store: a store that all processes reach, with `world_size` and `rank`.
        group_name: not looked at (it never had an effect).
        pg_options: options for a backend that takes some.
        device_id: the device that this process works on, if it is one.

    Raises: ValueError if there is a default group, or if the rank, the size or a variable is missing; AssertionError
        for a store and a URL, and for an unknown backend; RuntimeError if the others do not come.
    """
    if is_initialized():
        raise ValueError("the default process group is there already; destroy_process_group() comes first")
    if config.use_torchcomms:
        warnings.warn("distributed.config.use_torchcomms is set, but groups here have their own backends", stacklevel=2)
    backend = kinds.Backend.UNDEFINED if backend is None else str(backend).lower()
    if backend != kinds.Backend.UNDEFINED:
        backends.check_known(backend)
        backend = kinds.Backend(backend)
    timeout = _timeout_or_default(timeout, backend)
    device = _device_of(device_id)
    assert store is None or init_method is None, "init_process_group takes a store or an init_method, not both"
    if store is not None:
        assert world_size > 0 and rank >= 0, "init_process_group with a store needs rank and world_size"
    elif backend == kinds.Backend.MPI:
        from tessera.distributed._mpi import world

        store, rank, world_size = world(timeout)
    else:
        url = "env://" if init_method is None else init_method
        store, rank, world_size = next(iter(rendezvous(url, rank, world_size, timeout=timeout)))
        store.set_timeout(timeout)
    if not 0 <= rank < world_size:
        raise ValueError(f"a rank is a number from 0 to world_size - 1 = {world_size - 1}, but got {rank}")
    ranks = list(range(world_size)) if not _ranks else list(_ranks)
    _world.root_store = store
    prefix = PrefixStore("default_pg", store)
    made = _make(rank, world_size, ranks, backend, prefix, "0", timeout, pg_options, "default_pg", device)
    _world.default_pg, _world.group_count = made, 1


def _make(rank, size, ranks, backend, store, name, timeout, pg_options, desc, device):
    """A group of which this process is the member `rank`; `ranks` are the global ones."""
    config = backends.config_of(backend)
    prefix = PrefixStore(name, store)
    found = backends.create(config, prefix, rank, size, timeout, pg_options, name, ranks)
    if isinstance(found, ProcessGroup):
        made = found
    else:
        made = ProcessGroup(prefix, rank, size)
        for kind, one in found.items():
            made._register_backend(kind, backends.type_of(config.device_backend_map.get(kind)), one)
    made._set_group_name(name)
    made._set_group_desc(desc or "undefined")
    made.bound_device_id = device
    names = set(config.device_backend_map.values())
    shown = next(iter(names)) if len(names) == 1 and backend != kinds.Backend.UNDEFINED else kinds.Backend(backend)
    register(made, shown, prefix, name, ranks, repr(config))
    return made


def register(made, backend, store, name, ranks, config):
    """Enters a group into the list."""
    _world.pg_map[made] = (backend, store)
    _world.pg_names[made] = name
    _world.pg_group_ranks[made] = {global_rank: i for i, global_rank in enumerate(ranks)}
    _world.pg_backend_config[made] = config
    tag = f"user:{name}"
    _world.tags_to_pg.setdefault(tag, []).append(made)
    _world.pg_to_tag[made] = tag


def new_group(
    ranks=None,
    timeout=None,
    backend=None,
    pg_options=None,
    use_local_synchronization=False,
    group_desc=None,
    device_id=None,
):
    """A group of some processes of the default group. All processes call this, in the same order.

    Args:
        ranks: the global ranks of the members, None: all. In the group they have the order of their global ranks.
        timeout: how long its collectives wait; None: as long as those of the default group.
        backend: as in init_process_group; None: the default group's.
        pg_options: options for a backend that takes some.
        use_local_synchronization: the members alone call this, and wait for each other.
        group_desc: what to say of it.
        device_id: the device that this process works on, if it is one.

    Returns: the group, or GroupMember.NON_GROUP_MEMBER for who is not in it.
    Raises: ValueError for ranks that there are not, RuntimeError if the other members do not come.
    """
    world = _get_default_group()
    backend = _world.pg_map[world][0] if backend is None else str(backend).lower()
    if backend != kinds.Backend.UNDEFINED:
        backends.check_known(backend)
        backend = kinds.Backend(backend)
    timeout = _default_timeout() if timeout is None else _timeout_or_default(timeout, backend)
    device = _device_of(device_id)
    everyone = list(_world.pg_group_ranks[world])
    ranks = everyone if ranks is None else sorted(ranks)
    if len(ranks) > len(everyone) or len(set(ranks)) != len(ranks):
        raise ValueError(f"new_group takes different ranks, at most {len(everyone)}, but got {ranks}")
    for one in ranks:
        if one not in _world.pg_group_ranks[world]:
            raise ValueError(f"new_group: there is no rank {one}; the default group has {len(everyone)} members")
    me = everyone[world.rank()]
    name = _local_name(ranks) if use_local_synchronization else _next_name()
    if me not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    store = _world.pg_map[world][1]
    return _make(ranks.index(me), len(ranks), ranks, backend, store, name, timeout, pg_options, group_desc, device)


def _next_name():
    name = str(_world.group_count)
    _world.group_count += 1
    return name


def _local_name(ranks):
    """A name that members alone count: of the ranks, and how many such groups there were."""
    import hashlib

    digest = hashlib.sha1(repr(ranks).encode()).hexdigest()
    count = _world.local_counts.get(digest, 0)
    _world.local_counts[digest] = count + 1
    return f"{digest}_{count}"


def _default_timeout():
    for backend in getattr(_get_default_group(), "_backends", {}).values():
        return getattr(backend, "_timeout", default_pg_timeout)
    return default_pg_timeout


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of equal size of neighbouring ranks, of which no process is in two. All processes call this.

    Args:
        group_size: members of each; None: the number of devices of a machine.
        group: whose processes; None: the default group.
        timeout: how long their collectives wait.
        backend: as in init_process_group.
        pg_options: options for a backend that takes some.
        group_desc: what to say of them.

    Returns: the group of this process, and the list of all.
    Raises: ValueError unless the size divides that of the group.
    """
    if group_size is None:
        if not tessera.cuda.is_available():
            raise ValueError("new_subgroups needs a group_size where there are no devices to count")
        group_size = tessera.cuda.device_count()
    ranks = get_process_group_ranks(group)
    if group_size <= 0 or group_size > len(ranks) or len(ranks) % group_size:
        raise ValueError(f"new_subgroups: groups of {group_size} members cannot be made of {len(ranks)} processes")
    parts = [ranks[at : at + group_size] for at in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of these lists of ranks, of which no process is in two. All processes call this.

    Args:
        ranks_per_subgroup_list: the global ranks of each group.
        timeout: how long their collectives wait.
        backend: as in init_process_group.
        pg_options: options for a backend that takes some.
        group_desc: what to say of them.

    Returns: the group of this process (None if it is in none), and the list of all.
    Raises: ValueError for an empty list, and for a rank that is named twice.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("new_subgroups_by_enumeration takes a list of lists of ranks, but it is empty")
    named = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(named)) != len(named):
        raise ValueError("new_subgroups_by_enumeration: a rank can be in one group only")
    made, own = [], None
    for ranks in ranks_per_subgroup_list:
        one = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        made.append(one)
        own = own if _rank_not_in_group(one) else one
    return own, made


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None):
    """Groups of parts of a group, all members of which call this.

    Args:
        parent_pg: the group; None: the default one.
        split_ranks: the ranks (in that group) of each part.
        timeout: how long their collectives wait; None: as the group's.
        pg_options: options for a backend that takes some.
        group_desc: what to say of them.

    Returns: the group of this process, None if it is in no part.
    Raises: ValueError without parts, and for a rank that is in two.
    """
    parent = _registered(parent_pg)
    if not split_ranks:
        raise ValueError("split_group needs split_ranks, the lists of ranks of the parts")
    named = [rank for ranks in split_ranks for rank in ranks]
    if len(set(named)) != len(named):
        raise ValueError("split_group: a rank can be in one part only")
    if pg_options is not None:
        raise ValueError("split_group: the backends here take no options")
    own = None
    for ranks in split_ranks:
        made = split(parent, sorted(ranks), timeout, None, group_desc)
        own = own if made is None else made
    return own


def split(parent, ranks, timeout, name, desc):
    """A group of the members of `parent` that have these ranks in it; None for who is not among them."""
    for rank in ranks:
        if not 0 <= rank < parent.size():
            raise ValueError(f"a group of {parent.size()} has no rank {rank}")
    counts = parent.__dict__.setdefault("_splits", {})
    count = counts[tuple(ranks)] = counts.get(tuple(ranks), -1) + 1
    if parent.rank() not in ranks:
        return None
    name = name or f"{parent.group_name}:split:{'-'.join(map(str, ranks))}:{count}"
    globals_ = list(_world.pg_group_ranks.get(parent, range(parent.size())))
    backend = _world.pg_map[parent][0] if parent in _world.pg_map else kinds.Backend.UNDEFINED
    timeout = _timeout_or_default(timeout, backend)
    chosen = [globals_[rank] for rank in ranks]
    store = parent.get_group_store()
    return _make(ranks.index(parent.rank()), len(ranks), chosen, backend, store, name, timeout, None, desc, None)


def merge(group, store, size, timeout, name, desc):
    """A group of the members of several that meet at a store: those come first whose first member does."""
    first = store.add("merge/next", group.size()) - group.size() if group.rank() == 0 else None
    if group.size() > 1:
        own, key = group.get_group_store(), f"merge/{name}"
        if first is not None:
            own.set(key, str(first))
        first = int(own.get(key))
    rank = first + group.rank()
    backend = _world.pg_map[group][0] if group in _world.pg_map else kinds.Backend.GLOO
    return _make(rank, size, list(range(size)), backend, store, name or "merged", timeout, None, desc, None)


ProcessGroup._split, ProcessGroup._merge = staticmethod(split), staticmethod(merge)


def shrink_group(ranks_to_exclude, group=None, shrink_flags=0, pg_options=None):
    """The group of those who are left when some ranks go; they alone call this.

    Args:
        ranks_to_exclude: ranks (in the group) that are left out.
        group: the group, which is destroyed; None: the default one, whose place the new one takes.
        shrink_flags: 0, or 1 to end what is on its way with an error first.
        pg_options: options for a backend that takes some.

    Raises: ValueError for ranks that there are not, and if this process is one of them.
    """
    old = _registered(group)
    gone = set(ranks_to_exclude)
    if not gone or not gone < set(range(old.size())):
        raise ValueError(f"shrink_group leaves out some ranks of 0 to {old.size() - 1}, but got {sorted(gone)}")
    if old.rank() in gone:
        raise ValueError(f"shrink_group: rank {old.rank()} is itself to be left out, and must not call this")
    if pg_options is not None:
        raise ValueError("shrink_group: the backends here take no options")
    if shrink_flags & 1:
        old.abort()
    was_default = old is _world.default_pg
    made = split(old, [rank for rank in range(old.size()) if rank not in gone], None, None, old.group_desc)
    _drop(old)
    if was_default:
        _world.default_pg = made
    return made


# ---- going


def _drop(one):
    one.shutdown()
    tag = _world.pg_to_tag.pop(one, None)
    if tag is not None:
        _world.tags_to_pg[tag].remove(one)
    for table in (_world.pg_map, _world.pg_names, _world.pg_group_ranks, _world.pg_backend_config):
        table.pop(one, None)


def destroy_process_group(group=None):
    """Gives back a group, or all of them (None, or the default one); then init_process_group may come again.

    Raises: AssertionError if there is no default group, ValueError for a group that is not registered."""
    if _rank_not_in_group(group):
        return
    assert _world.default_pg is not None, "there is no process group to destroy"
    if group is not None and group not in _world.pg_map:
        raise ValueError(f"the group {group!r} is not registered: it was destroyed, or new_group() did not make it")
    if group is not None and group is not _world.default_pg:
        _drop(group)
        return
    for one in reversed(list(_world.pg_map)):
        _drop(one)
    for table in (_world.pg_map, _world.pg_names, _world.pg_group_ranks, _world.pg_backend_config):
        table.clear()
    _world.default_pg, _world.group_count, _world.root_store = None, 0, None
    _world.local_counts.clear()


def abort_process_group(group=None):
    """Ends what is on its way in a group (None: in all) with an error for all members, and destroys it."""
    for one in [_registered(group)] if group is not None else list(_world.pg_map):
        one.abort()
    destroy_process_group(group)


# ---- by name, for what cannot hold an object


def _resolve_process_group(group_name):
    for one, name in _world.pg_names.items():
        if name == group_name:
            return one
    raise ValueError(f"there is no process group of the name '{group_name}'")


def _find_pg_by_ranks_and_tag(tag, ranks):
    full = f"user:{tag}" if tag and not tag.startswith(("user:", "ptd:")) else tag
    for one in list(_world.tags_to_pg.get(full, [])) if full else list(_world.pg_map):
        if list(_world.pg_group_ranks[one]) == list(ranks):
            return one
    return None


def _get_process_group_store(group):
    return _world.pg_map[group][1]


def _get_default_store():
    return _world.pg_map[_get_default_group()][1]


def _get_group_tag(group):
    return _world.pg_to_tag[group]


def _get_process_group_name(group):
    return _world.pg_names.get(group, "None")
