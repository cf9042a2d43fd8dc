"""PowerSGD: gradients go as products of two thin matrices (Vogels et al., 2019), with what was lost added to the next.

For a gradient M (n by m) and a random Q (m by r): P = M Q is averaged and made orthonormal, Q = Mᵀ P is averaged, and
P Qᵀ stands for the average of M.
"""

import logging
import math
import random

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed._groups import _group_or_default_group
from tessera.distributed.algorithms.ddp_comm_hooks.default_hooks import _averaged
from tessera.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

logger = logging.getLogger(__name__)


class PowerSGDState:
    """Settings of the hooks of this module, and what they keep between iterations.

    Args:
        process_group: None: the default group.
        matrix_approximation_rank: r, the rank of the products.
        start_powerSGD_iter: iterations that average the gradients themselves.
        min_compression_rate: n by m gradients are compressed if (n + m) r times this is less than n m.
        use_error_feedback: whether what is lost is added to the next gradient.
        warm_start: whether an iteration begins at the Q (and P) of the one before.
        orthogonalization_epsilon: added to the columns' lengths when P is made orthonormal; 0: by QR.
        random_seed: of the first Q, equal on all ranks.
        compression_stats_logging_frequency: iterations between two lines in the log.
        batch_tensors_with_same_shape: whether gradients of one shape are multiplied at once.

    Raises: ValueError for start_powerSGD_iter below 2 with error feedback or warm start, since buckets change after the
        first iteration.
    """

    __slots__ = (
        "batch_tensors_with_same_shape",
        "compression_stats_logging_frequency",
        "error_dict",
        "iter",
        "matrix_approximation_rank",
        "min_compression_rate",
        "next_stats_report",
        "orthogonalization_epsilon",
        "p_memory_dict",
        "process_group",
        "q_memory_dict",
        "rng",
        "start_powerSGD_iter",
        "total_numel_after_compression",
        "total_numel_before_compression",
        "use_error_feedback",
        "warm_start",
    )

    def __init__(
        self,
        process_group,
        matrix_approximation_rank=1,
        start_powerSGD_iter=1000,
        min_compression_rate=2,
        use_error_feedback=True,
        warm_start=True,
        orthogonalization_epsilon=0,
        random_seed=0,
        compression_stats_logging_frequency=10000,
        batch_tensors_with_same_shape=False,
    ):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "start_powerSGD_iter has to be at least 2 with use_error_feedback or warm_start: buckets are made anew "
                f"after the first iteration; got {start_powerSGD_iter}"
            )
        self.process_group, self.matrix_approximation_rank = process_group, matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = random.Random(random_seed)
        self.error_dict, self.p_memory_dict, self.q_memory_dict = {}, {}, {}
        self.iter = self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.next_stats_report = 0
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape

    def __getstate__(self):
        return {name: getattr(self, name) for name in self.__slots__ if name != "process_group"}

    def __setstate__(self, state):
        for name, value in state.items():
            setattr(self, name, value)
        self.process_group = _group_or_default_group()

    def maybe_increase_iter(self, bucket):
        """Counts an iteration, at its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self):
        """(rate, elements before, elements after) of all iterations that compressed."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0, before, after)

    def _count(self, bucket, before, after):
        self.total_numel_before_compression += before
        self.total_numel_after_compression += after
        if bucket.is_last() and self.iter >= self.next_stats_report:
            logger.info("PowerSGD: rate %g, %d elements became %d", *self.compression_stats())
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency


def _orthonormal(matrices, epsilon):
    """Matrices (in batches) whose columns are orthonormal, in place."""
    if epsilon == 0:
        matrices.copy_(tessera.linalg.qr(matrices.float())[0])
        return
    for column in range(matrices.shape[-1]):
        own = matrices[..., column : column + 1]
        own.div_(own.norm(dim=-2, keepdim=True) + epsilon)
        rest = matrices[..., column + 1 :]
        rest.sub_(own * (own * rest).sum(-2, keepdim=True))


def _average(group, tensor):
    collectives.all_reduce(tensor.div_(group.size()), group=group)


def _resume_or_draw(state, key, shapes, like):
    """The Qs of a bucket: those of the iteration before, or random orthonormal ones, equal on all ranks."""
    kept = state.q_memory_dict.get(key)
    if state.warm_start and kept is not None:
        return kept
    generator = tessera.Generator().manual_seed(state.rng.randrange(1 << 31))
    drawn = [tessera.randn(shape, generator=generator, dtype=tessera.float32).to(like) for shape in shapes]
    for q in drawn:
        _orthonormal(q, state.orthogonalization_epsilon)
    return drawn


def _approximate(state, group, key, batches):
    """Brings matrices (each a batch) to the average of their approximations, in place. Returns: elements sent."""
    rank = state.matrix_approximation_rank
    shapes = [(b.shape[0], b.shape[2], min(rank, *b.shape[1:])) for b in batches]
    qs = _resume_or_draw(state, key, shapes, batches[0])
    warm = state.warm_start and key in state.q_memory_dict
    if warm:
        for q in qs:
            _orthonormal(q, state.orthogonalization_epsilon)
    ps = [tessera.bmm(batch, q) for batch, q in zip(batches, qs)]
    _average_together(group, ps)
    for p in ps:
        _orthonormal(p, state.orthogonalization_epsilon)
    qs = [tessera.bmm(batch.transpose(1, 2), p) for batch, p in zip(batches, ps)]
    _average_together(group, qs)
    for batch, p, q in zip(batches, ps, qs):
        batch.copy_(tessera.bmm(p, q.transpose(1, 2)))
    if state.warm_start:
        state.p_memory_dict[key], state.q_memory_dict[key] = ps, qs
    return sum(p.numel() for p in ps) + sum(q.numel() for q in qs)


def _average_together(group, tensors):
    joined = tessera.cat([tensor.reshape(-1) for tensor in tensors])
    _average(group, joined)
    at = 0
    for tensor in tensors:
        tensor.copy_(joined[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()


def _worth_it(state, n, m):
    return (n + m) * state.matrix_approximation_rank * state.min_compression_rate < n * m


def _carried(state, bucket, compress):
    """What both hooks share: averages as they are at first, feedback of what was lost, counting."""
    group = _group_or_default_group(state.process_group)
    buffer, key = bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return _averaged(group, buffer)
    with tessera.no_grad():
        if state.use_error_feedback:
            if key in state.error_dict and state.error_dict[key].shape == buffer.shape:
                buffer.add_(state.error_dict[key])
            given = buffer.clone()
        sent = compress(group, key, buffer)
        if state.use_error_feedback:
            state.error_dict[key] = given - buffer
    state._count(bucket, buffer.numel(), sent)
    state.maybe_increase_iter(bucket)
    result = Future()
    result.set_result(buffer)
    return result


def powerSGD_hook(state, bucket):
    """Averages a bucket: matrices as products of rank r, what is small as it is. Returns: a Future of the tensor."""

    def compress(group, key, buffer):
        groups, plain = {}, []
        for number, grad in enumerate(bucket.gradients()):
            matrix = grad.view(grad.shape[0], -1) if grad.dim() > 1 else grad
            if matrix.dim() > 1 and _worth_it(state, *matrix.shape):
                kind = tuple(matrix.shape) if state.batch_tensors_with_same_shape else number
                groups.setdefault(kind, []).append(matrix)
            else:
                plain.append(grad)
        sent = sum(grad.numel() for grad in plain)
        if plain:
            _average_together(group, plain)
        if groups:
            batches = [tessera.stack(list(matrices)) for matrices in groups.values()]
            sent += _approximate(state, group, key, batches)
            for matrices, batch in zip(groups.values(), batches):
                for matrix, value in zip(matrices, batch):
                    matrix.copy_(value)
        return sent

    return _carried(state, bucket, compress)


def batched_powerSGD_hook(state, bucket):
    """Averages a bucket as one square matrix of rank r: cheaper, and less exact. Returns: a Future of the tensor."""

    def compress(group, key, buffer):
        side = math.isqrt(max(buffer.numel() - 1, 0)) + 1
        square = buffer.new_zeros(1, side, side)
        square.view(-1)[: buffer.numel()] = buffer
        sent = _approximate(state, group, key, [square])
        buffer.copy_(square.view(-1)[: buffer.numel()])
        return sent

    return _carried(state, bucket, compress)
