"""Names that programs reach for behind the documented ones: collectives that go together, groups by hand, checks.

>>> import tessera.distributed as dist
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> x = tessera.ones(2)
>>> with dist._coalescing_manager() as together:
...     dist.all_reduce(x)
>>> dist.destroy_process_group()
"""

import contextlib

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed import _groups as groups
from tessera.distributed._process_group import CoalescedWork
from tessera.distributed.constants import default_pg_timeout

_world = groups._world


class _CoalescingManager:
    """The collectives of a `_coalescing_manager` block."""

    def __init__(self):
        self.works = []

    def append(self, work=None):
        """Adds a Work."""
        if work is not None:
            self.works.append(work)

    def wait(self):
        """Waits for all of them."""
        CoalescedWork(self.works).wait()
        self.works = []


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """A block whose collectives are started one after the other, and waited for together at its end.

    Args:
        group: None: the default group.
        device: of the tensors, where one is to be checked. RuntimeError if the group does not serve it.
        async_ops: whether the end does not wait; `wait()` of the _CoalescingManager that the block has does.
    """
    found = groups._registered(group)
    if device is not None:
        found._get_backend(device)
    manager, kept = _CoalescingManager(), collectives._together.works
    collectives._together.works = manager.works
    try:
        yield manager
    finally:
        collectives._together.works = kept
    if not async_ops:
        manager.wait()


def _all_gather_base(output_tensor, input_tensor, group=None, async_op=False):
    """all_gather_into_tensor, by the name that it had."""
    return collectives.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def _reduce_scatter_base(output, input, op=collectives.ReduceOp.SUM, group=None, async_op=False):
    """reduce_scatter_tensor, by the name that it had."""
    return collectives.reduce_scatter_tensor(output, input, op, group, async_op)


def _broadcast_coalesced(process_group, tensors, buffer_size, src=0):
    """Copies the tensors of rank `src` of a group to all.

    Args:
        process_group: the group.
        tensors: of any dtypes.
        buffer_size: in how many bytes at once; broadcasts here need no buffer.
        src: rank in the group.
    """
    if buffer_size <= 0:
        raise ValueError(f"the size of a buffer is positive, but got {buffer_size}")
    for tensor in tensors:
        collectives.broadcast(tensor.detach(), group=process_group, group_src=src)


def _verify_params_across_processes(process_group, tensors, logger=None):
    """Raises: RuntimeError, in all ranks, where tensors differ between ranks in number or shape."""
    from tessera.distributed.utils import _verify_param_shape_across_processes

    return _verify_param_shape_across_processes(process_group, tensors, logger)


def _get_default_timeout(backend):
    """How long collectives of a backend wait if nobody says."""
    return groups._timeout_or_default(None, backend)


def _get_pg_default_device(group=None):
    """The device of objects and barriers of a group: the CPU where it is served."""
    kinds = groups._registered(group)._device_types
    return next((kind for kind in kinds if kind.type == "cpu"), kinds[0] if kinds else tessera.device("cpu"))


def _get_group_size(group):
    """The number of members."""
    return groups.get_world_size(group)


def _get_group_size_by_name(group_name):
    """The number of members of the group of that name."""
    return groups._resolve_process_group(group_name).size()


def _set_pg_timeout(timeout, group=None):
    """How long collectives of a group wait from now on (datetime.timedelta)."""
    groups._registered(group)._set_default_timeout(timeout)


def _canonicalize_group_rank(group, global_rank=None, group_rank=None, return_global=False):
    """A rank of a group, by its global rank or its rank in the group: the latter, or the former if `return_global`.

    Raises: ValueError unless exactly one of them is given.
    """
    group = groups._registered(group)
    if groups._rank_not_in_group(group):
        raise ValueError("Invalid process group specified: this process is not a member")
    found = groups.chosen_rank(group, global_rank, group_rank, "rank")
    return groups.get_global_rank(group, found) if return_global else found


def _warn_not_in_group(op_name):
    """Warns that a process called a collective of a group that it is not in."""
    groups.member(groups.GroupMember.NON_GROUP_MEMBER, op_name)


def _check_single_tensor(param, param_name):
    """Raises: TypeError for what is no tensor."""
    collectives._tensor(param, param_name)


def _check_tensor_list(param, param_name):
    """Raises: TypeError for what is no list of tensors."""
    collectives._tensors(param, param_name)


def _ensure_all_tensors_same_dtype(*tensors):
    """Raises: ValueError where tensors, or those in lists, are of several dtypes."""
    collectives._same_dtype(*tessera.utils._pytree.tree_leaves(tensors))


def _new_process_group_helper(
    group_size,
    group_rank,
    global_ranks_in_group,
    backend,
    store,
    group_name,
    backend_options=None,
    timeout=None,
    pg_tag=None,
    device_id=None,
    group_desc=None,
):
    """A group beside the default one, which need not exist. All members call this.

    Args:
        group_size: number of members.
        group_rank: of this process.
        global_ranks_in_group: their global ranks; empty: 0, 1 ...
        backend: as in init_process_group.
        store: over which they find each other.
        group_name: of the group; no other may have it.
        backend_options: options for a backend that takes some.
        timeout: how long collectives wait; None: the backend's default.
        pg_tag: another name to find it by.
        device_id: of this process.
        group_desc: what to say of it.

    Returns: (ProcessGroup, its part of the store). Raises: ValueError for a name that is taken.
    """
    if group_name in _world.pg_names.values():
        raise ValueError(f"there is a group of the name {group_name!r} already")
    ranks = list(global_ranks_in_group) or list(range(group_size))
    limit = groups._timeout_or_default(timeout, backend)
    desc, name = group_desc or "undefined", str(group_name)
    made = groups._make(group_rank, group_size, ranks, backend, store, name, limit, backend_options, desc, device_id)
    if pg_tag:
        _world.tags_to_pg.setdefault(pg_tag, []).append(made)
        _world.pg_to_tag[made] = pg_tag
    return made, made.get_group_store()


def _register_process_group(group_name, process_group):
    """Makes a group known by a name."""
    _world.pg_names[process_group] = group_name


def _unregister_process_group(group_name):
    """Makes a group unknown by its name; who holds it may go on."""
    for group in [one for one, name in _world.pg_names.items() if name == group_name]:
        del _world.pg_names[group]
