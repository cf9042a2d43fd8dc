"""Messages between two ranks."""

from tessera.distributed._collectives import _tensor
from tessera.distributed._groups import _group_or_default_group, chosen_rank, get_global_rank, member


def _peer(group, rank, group_rank, name, itself=False):
    peer = chosen_rank(group, rank, group_rank, name)
    if peer == group.rank() and not itself:
        raise ValueError(f"a rank cannot exchange messages with itself ({name}={peer})")
    return peer


def _sent(group, tensor, peer, tag):
    if tensor.is_sparse:
        raise RuntimeError("messages are dense tensors")
    return group.send([tensor], peer, tag)


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to a rank, without waiting. It must not change until the Work has ended.

    Args:
        tensor: any shape and dtype.
        dst: the global rank of the receiver; or
        group_dst: its rank in the group.
        group: None: the default group.
        tag: which receive takes it.

    Returns: a Work, None if this process is not in the group.
    """
    group = member(group, "isend")
    return (
        None
        if group is None
        else _sent(group, _tensor(tensor, "tensor"), _peer(group, dst, group_dst, "dst", True), tag)
    )


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor from a rank, without waiting.

    Args:
        tensor: takes it; as many bytes as were sent.
        src: the global rank of the sender, None: whoever sends; or
        group_src: its rank in the group.
        group: None: the default group.
        tag: that of the sender.

    Returns: a Work, None if this process is not in the group.
    """
    group = member(group, "irecv")
    if group is None:
        return None
    _tensor(tensor, "tensor")
    if src is None and group_src is None:
        return group.recv_anysource([tensor], tag)
    return group.recv([tensor], _peer(group, src, group_src, "src", True), tag)


def _native(group):
    """The group's own backend for tensors on the host, whose messages can be waited for at once; else None."""
    found = getattr(group, "_backends", {}).get("cpu")
    return found if hasattr(found, "_transfer") else None


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to a rank, and waits until it may change. Arguments as for isend.

    Raises: ValueError for this rank itself, and unless one of dst and group_dst is given."""
    group = member(group, "send")
    if group is None:
        return None
    peer, native = _peer(group, dst, group_dst, "dst"), _native(group)
    if native is not None and _tensor(tensor, "tensor").device.type == "cpu":
        native.send([tensor], peer, tag, wait=True)
    else:
        _sent(group, _tensor(tensor, "tensor"), peer, tag).wait()
    return None


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor, waiting for it. Arguments as for irecv.

    Returns: the global rank of the sender; -1 if this process is not in the group."""
    group = member(group, "recv")
    if group is None:
        return -1
    native = _native(group) if _tensor(tensor, "tensor").device.type == "cpu" else None
    if src is None and group_src is None:
        if native is not None:
            work = native.recv_anysource([tensor], tag, wait=True)
        else:
            work = group.recv_anysource([tensor], tag)
            work.wait()
        return get_global_rank(group, work.source_rank())
    peer = _peer(group, src, group_src, "src")
    if native is not None:
        native.recv([tensor], peer, tag, wait=True)
    else:
        group.recv([tensor], peer, tag).wait()
    return get_global_rank(group, peer)


class P2POp:
    """One of the messages of batch_isend_irecv.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent, or takes what comes.
        peer: the global rank of the other; or
        group_peer: its rank in the group.
        group: None: the default group.
        tag: which send belongs to which receive.

    Raises: ValueError for another op.
    """

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op is not isend and op is not irecv:
            raise ValueError(f"P2POp takes distributed.isend or distributed.irecv, but got {op!r}")
        self.op, self.tensor, self.tag = op, _tensor(tensor, "tensor"), tag
        self.group = _group_or_default_group(group)
        self.group_peer = _peer(self.group, peer, group_peer, "peer")
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self):
        name, own = self.group.group_name, self.group.rank()
        ends = (own, self.group_peer) if self.op is isend else (self.group_peer, own)
        return (
            f"P2POp({self.op.__name__} pg={name}, group_src={ends[0]}, group_dst={ends[1]},  {self.tensor.shape}, "
            f"{self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list):
    """Starts several messages, in their order. Returns: a list of their Works.

    Raises: ValueError for what is no P2POp, and for ones of different groups; IndexError for an empty list."""
    if not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ValueError("batch_isend_irecv takes a list of P2POp")
    first = p2p_op_list[0]
    if any(one.group is not first.group for one in p2p_op_list):
        raise ValueError("batch_isend_irecv takes messages of one group")
    works = (one.op(one.tensor, group=one.group, tag=one.tag, **_named(one)) for one in p2p_op_list)
    return [work for work in works if work is not None]


def _named(one):
    return {"group_dst" if one.op is isend else "group_src": one.group_peer}
