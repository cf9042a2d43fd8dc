"""Cross entropy of logits that are cut along the classes, without bringing them together."""

import contextlib

import tessera
from tessera.distributed.tensor import DTensor, Partial, Replicate
from tessera.distributed.tensor import _operators as operators
from tessera.distributed.tensor._redistribute import redistribute_local
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import compute_local_shape_and_global_offset, default_strides

__all__ = ["loss_parallel"]


class _Logits:
    """Logits of shape (N, C, ...) or (C), the class dimension cut; how to reduce over the processes that cut it."""

    def __init__(self, tensor, dim, what):
        self.spec, self.dim = tensor._spec, dim % max(tensor.dim(), 1)
        if not any(p.is_shard(self.dim) for p in self.spec.placements):
            raise ValueError(
                f"loss_parallel(): {what} wants its input cut along the class dimension {self.dim}, but it lies as "
                f"{self.spec.placements}"
            )
        wanted = tuple(p if p.is_shard(self.dim) else Replicate() for p in self.spec.placements)
        spec = self.spec
        self.local = redistribute_local(tensor._local_tensor, spec.shape, spec.mesh, spec.placements, wanted)
        self.spec = spec.placed(wanted)
        shape, offset = compute_local_shape_and_global_offset(spec.shape, spec.mesh, wanted)
        self.count, self.start = shape[self.dim], offset[self.dim]

    def reduced(self, value, op):
        copies = (Replicate(),) * self.spec.mesh.ndim
        now = tuple(Partial(op) if p.is_shard() else p for p in self.spec.placements)
        return redistribute_local(value, tuple(value.shape), self.spec.mesh, now, copies)

    def cut(self, wrap, local):
        return wrap(local, self.spec)

    def copied(self, wrap, value):
        shape = tuple(value.shape)
        copies = (Replicate(),) * self.spec.mesh.ndim
        return wrap(value, DTensorSpec(self.spec.mesh, copies, shape, default_strides(shape)))

    def chosen(self, target, weight, ignore_index):
        """For each target its place in this part, if it is here, and its weight."""
        counted = target != ignore_index
        safe = tessera.where(counted, target, 0)
        here = counted & (safe >= self.start) & (safe < self.start + self.count)
        place = (safe - self.start).clamp(0, max(self.count - 1, 0)).unsqueeze(self.dim)
        weights = counted.to(self.local.dtype) if weight is None else weight[safe] * counted
        return place, here, weights


def _plain(value):
    return operators._whole(value) if isinstance(value, DTensor) else value


def _log_softmax(wrap, _func, args, _kwargs):
    logits = _Logits(args[0], args[1], "log_softmax")
    x, dim = logits.local, logits.dim
    x = x.float() if args[2] else x
    shape = list(x.shape)
    shape[dim] = 1
    top = x.amax(dim, keepdim=True) if logits.count else x.new_full(shape, -float("inf"))
    x = x - logits.reduced(top, "max")
    return logits.cut(wrap, x - logits.reduced(x.exp().sum(dim, keepdim=True), "sum").log())


def _log_softmax_backward(wrap, _func, args, _kwargs):
    logits = _Logits(args[1], args[2], "the gradient of log_softmax")
    grad = _Logits(args[0], args[2], "the gradient of log_softmax").local
    total = logits.reduced(grad.sum(logits.dim, keepdim=True), "sum")
    return logits.cut(wrap, (grad - logits.local.exp() * total).to(args[3]))


def _nll_loss(wrap, _func, args, _kwargs):
    x, target, weight, reduction, ignore_index = args
    logits = _Logits(x, 1 if x.dim() > 1 else 0, "nll_loss")
    place, here, weights = logits.chosen(_plain(target), _plain(weight), ignore_index)
    if logits.count:
        picked = logits.local.gather(logits.dim, place).squeeze(logits.dim) * here
    else:
        picked = tessera.zeros_like(weights)
    loss = -logits.reduced(picked, "sum") * weights
    total = loss.new_zeros(()) if reduction == 0 else weights.sum()
    if reduction:
        loss = loss.sum() / total if reduction == 1 else loss.sum()
    return logits.copied(wrap, loss), logits.copied(wrap, total)


def _nll_loss_backward(wrap, _func, args, _kwargs):
    grad, x, target, weight, reduction, ignore_index, total = args
    logits = _Logits(x, 1 if x.dim() > 1 else 0, "the gradient of nll_loss")
    place, here, weights = logits.chosen(_plain(target), _plain(weight), ignore_index)
    each = -_plain(grad) * weights * here
    each = each / _plain(total) if reduction == 1 else each
    made = tessera.zeros_like(logits.local)
    if logits.count:
        made.scatter_(logits.dim, place, each.unsqueeze(logits.dim).to(made.dtype))
    return logits.cut(wrap, made)


_HANDLERS = {
    "_log_softmax": _log_softmax,
    "_log_softmax_backward_data": _log_softmax_backward,
    "nll_loss_forward": _nll_loss,
    "nll_loss2d_forward": _nll_loss,
    "nll_loss_backward": _nll_loss_backward,
    "nll_loss2d_backward": _nll_loss_backward,
}


@contextlib.contextmanager
def loss_parallel():
    """Inside the block `cross_entropy` of a DTensor that is cut along the classes is computed where its parts are: a
    number or two for each row are sent. The loss is a DTensor of copies; `backward` has to be called inside, too.

    Targets are classes, plain tensors that are equal everywhere or DTensors; weights are allowed.

    Raises (in the block): ValueError for an input that is not cut along the classes.
    """
    before = dict(operators.special)
    operators.special.update(_HANDLERS)
    try:
        yield
    finally:
        operators.special.clear()
        operators.special.update(before)
