"""Connectionist temporal classification (Graves et al. 2006): an operator on the CPU, elsewhere a loop over ops."""

import tessera


def _lengths(lengths, n, name, high):
    """Lengths as a list of n ints in [0, high]. RuntimeError otherwise."""
    if isinstance(lengths, tessera.Tensor):
        if lengths.is_floating_point():
            raise RuntimeError(f"{name} must be integral")
        flat = lengths.reshape(-1)
        # What records operators is asked for each number.
        values = [n.item() for n in flat] if tessera._C._len_torch_dispatch_stack() else flat.tolist()
    else:
        values = [int(v) for v in (lengths if isinstance(lengths, (list, tuple)) else [lengths])]
    if len(values) != n:
        raise RuntimeError(f"{name} must be of size batch_size")
    for i, v in enumerate(values):
        if v < 0 or (high is not None and v > high):
            raise RuntimeError(
                f"Expected {name} to have value at most {high} and at least 0, but got value {v} (while checking "
                f"arguments for ctc_loss)"
            )
    return values


def _padded_targets(targets, lengths, n):
    """Targets as (N, longest) with zeros behind each row's end."""
    width = max(lengths, default=0)
    if targets.dim() == 1:
        if targets.numel() != sum(lengths):
            raise RuntimeError(
                f"Expected targets of {sum(lengths)} elements (the sum of target_lengths), but got {targets.numel()} "
                f"(while checking arguments for ctc_loss)"
            )
        rows = targets.split(lengths)
    else:
        if targets.dim() != 2 or targets.size(0) != n or targets.size(1) < width:
            raise RuntimeError(
                f"Expected targets of shape ({n}, at least {width}), but got {list(targets.shape)} (while checking "
                f"arguments for ctc_loss)"
            )
        rows = [row[:k] for row, k in zip(targets, lengths)]
    return tessera.stack([tessera.constant_pad_nd(row, (0, width - row.numel())) for row in rows]).to(tessera.int64)


def _negative_log_likelihood(log_probs, ext, target_lengths, input_lengths, blank):
    """-log of the summed probability of all alignments. ext (N, L): the targets with blanks around every label. The
    recursion is eq. 6 of the paper, in logarithms.
    """
    n, width = ext.shape
    device = log_probs.device
    never = -1e30 if log_probs.dtype == tessera.float32 else -1e300  # finite, so that its gradient is 0 and not NaN
    steps = log_probs.gather(2, ext.unsqueeze(0).expand(log_probs.size(0), -1, -1)).clamp(min=never)
    skip = tessera.zeros((n, width), dtype=tessera.bool, device=device)
    if width > 2:
        skip[:, 2:] = (ext[:, 2:] != blank) & (ext[:, 2:] != ext[:, :-2])
    ends = tessera.tensor(target_lengths, device=device)
    last = tessera.tensor(input_lengths, device=device).unsqueeze(1)
    place = tessera.arange(width, device=device).unsqueeze(0)
    reachable = place < tessera.where(ends > 0, tessera.full_like(ends, 2), tessera.ones_like(ends)).unsqueeze(1)
    alpha = tessera.where(reachable, steps[0], tessera.full_like(steps[0], never))
    for t in range(1, log_probs.size(0)):
        one = tessera.constant_pad_nd(alpha, (1, 0), never)[:, :width]
        two = tessera.constant_pad_nd(alpha, (2, 0), never)[:, :width].masked_fill(~skip, never)
        new = tessera.stack([alpha, one, two]).logsumexp(0) + steps[t]
        alpha = tessera.where(t < last, new, alpha).clamp(min=never)
    at = (2 * ends).unsqueeze(1)
    final = alpha.gather(1, at)
    before = alpha.gather(1, (at - 1).clamp(min=0)).masked_fill((ends == 0).unsqueeze(1), never)
    # without time steps only the empty target is possible
    loss = -tessera.cat([final, before], 1).logsumexp(1)
    none = last.squeeze(1) == 0
    loss = tessera.where(none, tessera.zeros_like(loss), loss)
    impossible = (loss > -never / 10) | (none & (ends > 0))
    return loss.masked_fill(impossible, float("inf"))


def _composed(lp, targets, ins, outs, blank):
    """The losses (N) on any device."""
    steps, n, classes = lp.shape
    labels = _padded_targets(targets, outs, n).to(lp.device)
    known = labels.untyped_storage().device.type != "meta" and not tessera._C._len_torch_dispatch_stack()
    if known and labels.numel() and (int(labels.min()) < 0 or int(labels.max()) >= classes):
        raise RuntimeError("ctc_loss: a target is not a class")
    ext = tessera.full((n, 2 * labels.size(1) + 1), blank, dtype=tessera.int64, device=lp.device)
    if labels.size(1):
        ext[:, 1::2] = labels
    loss = _negative_log_likelihood(lp, ext, outs, ins, blank)
    # the documented gradient is the one of logits whose log_softmax log_probs is: exp(log_probs) - occupancy
    used = (tessera.arange(steps, device=lp.device).unsqueeze(1) < tessera.tensor(ins, device=lp.device)).unsqueeze(2)
    mass = (lp.exp() * used).sum((0, 2))
    return loss + (mass - mass.detach())


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """log_probs (T, N, C) or (T, C); targets (N, S), or all in one 1-D tensor; lengths: tensors or sequences. reduction
    0 none, 1 mean, 2 sum.
    """
    batched = log_probs.dim() == 3
    if log_probs.dtype not in (tessera.float32, tessera.float64):
        raise RuntimeError(f'"ctc_loss" not implemented for {log_probs.dtype}')
    if targets.is_floating_point() or targets.is_complex() or targets.dtype == tessera.bool:
        raise RuntimeError("targets must be integral")
    lp = log_probs if batched else log_probs.unsqueeze(1)
    if not batched and targets.dim() == 1:
        targets = targets.unsqueeze(0)
    steps, n, classes = lp.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if n == 0:
        raise RuntimeError("batch size must be nonzero")
    ins = _lengths(input_lengths, n, "input_lengths", steps)
    outs = _lengths(target_lengths, n, "target_lengths", None)
    if lp.is_cpu:
        loss, _ = tessera._ctc_loss(lp, targets, ins, outs, blank, zero_infinity)
    else:
        loss = _composed(lp, targets, ins, outs, blank)
    if zero_infinity:
        loss = tessera.where(loss == float("inf"), tessera.zeros_like(loss), loss)
    if reduction == 1:
        return (loss / tessera.tensor(outs, dtype=loss.dtype, device=loss.device).clamp(min=1)).mean()
    if reduction == 2:
        return loss.sum()
    return loss if batched else loss.squeeze(0)
