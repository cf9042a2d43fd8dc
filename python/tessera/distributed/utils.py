"""What replicas of a module need to begin alike."""

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed import _objects as objects

__all__: list = []


def _sync_params_and_buffers(process_group, module_states, broadcast_bucket_size, src):
    """Copies tensors of the group's rank `src` to all members, in pieces of at most so many bytes."""
    kinds = {}
    for tensor in module_states:
        kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor.detach())
    for tensors in kinds.values():
        piece, size = [], 0
        for tensor in tensors:
            piece.append(tensor)
            size += tensor.numel() * tensor.element_size()
            if size >= broadcast_bucket_size:
                _broadcast_together(process_group, piece, src)
                piece, size = [], 0
        if piece:
            _broadcast_together(process_group, piece, src)


def _broadcast_together(process_group, tensors, src):
    if len(tensors) == 1:
        collectives.broadcast(tensors[0], group=process_group, group_src=src)
        return
    joined = tessera.cat([tensor.reshape(-1) for tensor in tensors])
    collectives.broadcast(joined, group=process_group, group_src=src)
    at = 0
    with tessera.no_grad():
        for tensor in tensors:
            tensor.copy_(joined[at : at + tensor.numel()].view(tensor.shape))
            at += tensor.numel()


def _sync_module_states(
    module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore, broadcast_buffers=True
):
    """Copies the parameters and buffers of the group's rank `src` to all members."""
    states = [p for name, p in module.named_parameters() if name not in params_and_buffers_to_ignore]
    if broadcast_buffers:
        states += [b for name, b in module.named_buffers() if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _verify_param_shape_across_processes(process_group, tensors, logger=None):
    """Raises: RuntimeError if the members have other tensors than each other."""
    own = [(tuple(tensor.shape), str(tensor.dtype)) for tensor in tensors]
    every = [None] * process_group.size()
    objects.all_gather_object(every, own, process_group)
    for rank, other in enumerate(every):
        if other == own:
            continue
        if len(other) != len(own):
            text = f"rank {process_group.rank()} has {len(own)} parameters, but rank {rank} has {len(other)}"
        else:
            place = next(i for i in range(len(own)) if own[i] != other[i])
            text = (
                f"parameter {place} of rank {process_group.rank()} is {own[place]}, but that of rank {rank} is "
                f"{other[place]}"
            )
        text = f"the replicas of a module have to be alike, but {text}"
        if logger is not None:
            logger.set_error_and_log(text)
        raise RuntimeError(text)
