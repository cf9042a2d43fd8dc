"""Averages over all processes first, over small groups later: for PostLocalSGDOptimizer."""

import logging

from tessera.distributed._groups import _group_or_default_group, new_subgroups
from tessera.distributed.algorithms.ddp_comm_hooks.default_hooks import _averaged
from tessera.futures import Future

logger = logging.getLogger(__name__)


class PostLocalSGDState:
    """How long gradients are averaged over all, and over whom after that.

    Args:
        process_group: all; None: the default group.
        subgroup: whom later; None: the processes of this machine.
        start_localSGD_iter: iterations that average over all.
        post_local_gradient_allreduce: whether later ones average over the subgroup, or not at all.
    """

    __slots__ = ("iter", "post_local_gradient_allreduce", "process_group", "start_localSGD_iter", "subgroup")

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0

    def maybe_increase_iter(self, bucket):
        """Counts an iteration, at its last bucket."""
        if bucket.is_last():
            self.iter += 1
        if self.iter == self.start_localSGD_iter:
            logger.info("gradients are averaged over subgroups from iteration %d on", self.iter)


def post_localSGD_hook(state, bucket):
    """Averages a bucket as its state says. Returns: a Future of the tensor."""
    buffer = bucket.buffer()
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return _averaged(_group_or_default_group(state.process_group), buffer)
    if not state.post_local_gradient_allreduce:
        kept = Future()
        kept.set_result(buffer)
        return kept
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return _averaged(state.subgroup, buffer)
