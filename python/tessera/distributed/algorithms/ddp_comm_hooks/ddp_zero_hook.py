"""Hooks that step a ZeroRedundancyOptimizer made with `overlap_with_ddp` while backward is still at work."""

from tessera.distributed import _collectives as collectives

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


def _checked(ddp, zero, shard_buckets):
    if not zero._overlap_with_ddp:
        raise ValueError("the ZeroRedundancyOptimizer has to be made with overlap_with_ddp=True")
    if shard_buckets and not ddp.find_unused_parameters and not ddp.static_graph:
        zero._shards_buckets = True
    zero._warm_iterations = 3 if ddp.static_graph else 2


def _with_step(hook, ddp, zero, interleaved):
    group = ddp.process_group

    def step(bucket, value):
        """The owner of each parameter steps it with the averaged gradient, and gives it to all."""
        bucket.set_buffer(value)
        handles = []
        for param, gradient in zip(bucket.parameters(), bucket.gradients()):
            owner = zero._owner_of(param)
            if owner == group.rank():
                zero._step_one(param, gradient)
            handles.append(collectives.broadcast(param.data, group=group, group_src=owner, async_op=True))
        return handles

    def both(state, bucket):
        future = hook(state, bucket)
        if zero._warm_iterations > 0:
            if bucket.is_last():
                zero._warm_iterations -= 1
            return future

        def stepped(done):
            value = done.value()
            value = value[0] if isinstance(value, (list, tuple)) else value
            zero._started.append((bucket, value))
            if interleaved or bucket.is_last():
                for one, averaged in zero._take_started():
                    zero._handles += step(one, averaged)
            if bucket.is_last():
                for handle in zero._take_handles():
                    handle.wait()
            return value

        # Collectives have to come in the same order on all ranks: on this thread, one bucket after the other.
        future.wait()
        return future.then(stepped)

    return both


def hook_with_zero_step(hook, ddp, zero, shard_buckets=False):
    """A hook that averages by another one, and steps the optimizer at the end of backward.

    Args:
        hook: as for `register_comm_hook`.
        ddp: the DistributedDataParallel.
        zero: the optimizer, made with `overlap_with_ddp=True`. It does not step in the first 2 iterations (3 with a
            static graph), in which buckets form.
        shard_buckets: whether parameters of a bucket may have different owners; they may in any case.

    Raises: ValueError for an optimizer that was made without overlap.
    """
    _checked(ddp, zero, shard_buckets)
    return _with_step(hook, ddp, zero, False)


def hook_with_zero_step_interleaved(hook, ddp, zero, shard_buckets=False):
    """As hook_with_zero_step, but the optimizer steps after each bucket."""
    _checked(ddp, zero, shard_buckets)
    return _with_step(hook, ddp, zero, True)
