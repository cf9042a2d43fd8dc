"""Collectives of Python objects, which are pickled: receive them from those only whom you trust."""

import io
import pickle

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed import _messages as messages
from tessera.distributed._groups import chosen_rank, get_global_rank, member

_pickler, _unpickler = pickle.Pickler, pickle.Unpickler


def _device(group, device=None):
    """Where the bytes of objects lie for a group: on the host if it serves that, else on the present device."""
    if device is not None:
        return tessera.device(device)
    kinds = list(getattr(group, "_backends", {}) or {"cpu": None})
    if "cpu" in kinds or not kinds:
        return tessera.device("cpu")
    return tessera.device(kinds[0], tessera.cuda.current_device() if kinds[0] == "cuda" else 0)


def _object_to_tensor(obj, device, group=None):
    """The bytes of an object, and how many they are, as tensors on a device."""
    buffer = io.BytesIO()
    _pickler(buffer).dump(obj)
    data = tessera.frombuffer(bytearray(buffer.getvalue()), dtype=tessera.uint8).to(device)
    return data, tessera.tensor([data.numel()], dtype=tessera.int64, device=device)


def _tensor_to_object(tensor, tensor_size, group=None):
    """The object of bytes that _object_to_tensor gave."""
    return _unpickler(io.BytesIO(tensor.cpu()[: int(tensor_size)].numpy().tobytes())).load()


def _gathered_sizes(size, group):
    out = tessera.empty(group.size(), dtype=tessera.int64, device=size.device)
    group._allgather_base(out, size).wait()
    return out.tolist()


def _padded(data, length):
    out = tessera.zeros(length, dtype=tessera.uint8, device=data.device)
    out[: data.numel()] = data
    return out


def all_gather_object(object_list, obj, group=None):
    """Collects an object of every rank at all of them.

    Args:
        object_list: a list of as many places as ranks, which are filled.
        obj: what this rank gives; it has to be picklable.
        group: None: the default group.

    Unpickling runs code: use it among processes that trust each other.
    """
    group = member(group, "all_gather_object")
    if group is None:
        return
    data, size = _object_to_tensor(obj, _device(group))
    sizes = _gathered_sizes(size, group)
    most = max(sizes)
    out = tessera.empty(most * group.size(), dtype=tessera.uint8, device=data.device)
    group._allgather_base(out, _padded(data, most)).wait()
    for rank, count in enumerate(sizes):
        object_list[rank] = _tensor_to_object(out[rank * most :], count)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Collects an object of every rank at one.

    Args:
        obj: what this rank gives; it has to be picklable.
        object_gather_list: at the destination a list of as many places as ranks; elsewhere None.
        dst: the global rank of the destination (default: the group's rank 0); or
        group_dst: its rank in the group.
        group: None: the default group.

    Raises: ValueError for a list where there should be none, and the other way round.
    Unpickling runs code: use it among processes that trust each other.
    """
    group = member(group, "gather_object")
    if group is None:
        return
    root = collectives._root_of(group, dst, group_dst, "dst")
    here = root == group.rank()
    if here and not object_gather_list:
        raise ValueError("gather_object needs object_gather_list at the destination")
    if not here and object_gather_list:
        raise ValueError("gather_object takes object_gather_list at the destination only")
    data, size = _object_to_tensor(obj, _device(group))
    sizes = _gathered_sizes(size, group)
    most = max(sizes)
    places = [tessera.empty(most, dtype=tessera.uint8, device=data.device) for _ in sizes] if here else None
    collectives.gather(_padded(data, most), places, group=group, group_dst=root)
    if here:
        for rank, count in enumerate(sizes):
            object_gather_list[rank] = _tensor_to_object(places[rank], count)


def _packed(objects, device):
    """All objects one after the other, and their sizes."""
    parts = [_object_to_tensor(one, device) for one in objects]
    return tessera.cat([data for data, _ in parts]), tessera.cat([size for _, size in parts])


def _unpack(object_list, data, sizes):
    at = 0
    for i, count in enumerate(sizes.tolist()):
        object_list[i] = _tensor_to_object(data[at:], count)
        at += count


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Copies a list of objects of one rank to all, in place.

    Args:
        object_list: as long everywhere; the source's objects have to be picklable.
        src: the global rank of the source (default: rank 0); or
        group_src: its rank in the group.
        group: None: the default group.
        device: where the bytes lie on their way; None: where the group works.

    Unpickling runs code: use it among processes that trust each other.
    """
    group = member(group, "broadcast_object_list")
    if group is None:
        return
    root = collectives._root_of(group, src, group_src, "src")
    device = _device(group, device)
    here = root == group.rank()
    if here:
        data, sizes = _packed(object_list, device)
    else:
        sizes = tessera.empty(len(object_list), dtype=tessera.int64, device=device)
    collectives.broadcast(sizes, group=group, group_src=root)
    if not here:
        data = tessera.empty(int(sizes.sum()), dtype=tessera.uint8, device=device)
    collectives.broadcast(data, group=group, group_src=root)
    if not here:
        _unpack(object_list, data, sizes)


def scatter_object_list(
    scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None
):
    """Gives each rank one of the objects of one.

    Args:
        scatter_object_output_list: a list whose first place takes what this rank gets.
        scatter_object_input_list: at the source an object for each rank; not looked at elsewhere.
        src: the global rank of the source (default: rank 0); or
        group_src: its rank in the group.
        group: None: the default group.

    Raises: ValueError for an empty output list, and for another number of objects than ranks.
    Unpickling runs code: use it among processes that trust each other.
    """
    group = member(group, "scatter_object_list")
    if group is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("scatter_object_list needs an output list with a place for the object")
    root = collectives._root_of(group, src, group_src, "src")
    device, here = _device(group), root == group.rank()
    if here:
        inputs = scatter_object_input_list
        if inputs is None or len(inputs) != group.size():
            raise ValueError(f"scatter_object_list needs an object for each of {group.size()} ranks at the source")
        parts = [_object_to_tensor(one, device) for one in inputs]
        sizes = tessera.cat([size for _, size in parts])
    else:
        sizes = tessera.empty(group.size(), dtype=tessera.int64, device=device)
    collectives.broadcast(sizes, group=group, group_src=root)
    most = int(sizes.max())
    own = tessera.empty(most, dtype=tessera.uint8, device=device)
    padded = [_padded(data, most) for data, _ in parts] if here else None
    collectives.scatter(own, padded, group=group, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(own, sizes[group.rank()])


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends a list of objects to a rank, in two messages.

    Args:
        object_list: of picklable objects.
        dst: the global rank of the receiver; or
        group_dst: its rank in the group.
        group: None: the default group.
        device: where the bytes lie on their way; None: where the group works.
        use_batch: whether batch_isend_irecv carries them.
    """
    group = member(group, "send_object_list")
    if group is None:
        return
    peer = chosen_rank(group, dst, group_dst, "dst")
    data, sizes = _packed(object_list, _device(group, device))
    for tensor in (sizes, data):
        if use_batch:
            for work in messages.batch_isend_irecv(
                [messages.P2POp(messages.isend, tensor, group=group, group_peer=peer)]
            ):
                work.wait()
        else:
            messages.send(tensor, group=group, group_dst=peer)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives a list of objects, in place.

    Args:
        object_list: as long as the sender's.
        src: the global rank of the sender, None: whoever sends; or
        group_src: its rank in the group.
        group: None: the default group.
        device: where the bytes lie on their way; None: where the group works.
        use_batch: whether batch_isend_irecv carries them; for a known sender.

    Returns: the sender's global rank; -1 if this process is not in the group.
    Unpickling runs code: use it among processes that trust each other.
    """
    group = member(group, "recv_object_list")
    if group is None:
        return -1
    device = _device(group, device)
    anyone = src is None and group_src is None
    peer = None if anyone else chosen_rank(group, src, group_src, "src")

    def receive(tensor):
        nonlocal peer
        if use_batch and peer is not None:
            for work in messages.batch_isend_irecv(
                [messages.P2POp(messages.irecv, tensor, group=group, group_peer=peer)]
            ):
                work.wait()
        else:
            found = messages.recv(tensor, group=group, group_src=peer)
            peer = chosen_rank(group, found, None, "src")

    sizes = tessera.empty(len(object_list), dtype=tessera.int64, device=device)
    receive(sizes)
    data = tessera.empty(int(sizes.sum()), dtype=tessera.uint8, device=device)
    receive(data)
    _unpack(object_list, data, sizes)
    return get_global_rank(group, peer)
