"""AdaptiveLogSoftmaxWithLoss."""

from collections import namedtuple

import tessera
from tessera.nn import functional as F

from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Efficient softmax over many classes (Grave et al. 2017): frequent classes in a head, the others in clusters with
    smaller projections.

    cutoffs: increasing class numbers where a cluster ends. forward(input (N, in_features) or (in_features), target (N)
        or ()) -> (output, loss): the target's log
    probability per sample and the mean of its negative.
    """

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        bounds = [0, *cutoffs, n_classes]
        if len(bounds) == 2:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if any(a >= b or int(a) != a for a, b in zip(bounds, bounds[1:])):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        shortlist, clusters = bounds[1], len(bounds) - 2
        vars(self).update(
            in_features=in_features,
            n_classes=n_classes,
            cutoffs=bounds[1:],
            div_value=div_value,
            head_bias=head_bias,
            shortlist_size=shortlist,
            n_clusters=clusters,
            head_size=shortlist + clusters,
        )

        def linear(inputs, outputs, bias=False):
            return Linear(inputs, outputs, bias=bias, device=device, dtype=dtype)

        self.head = linear(in_features, self.head_size, head_bias)
        # each cluster through a space that is div_value times smaller than the one before
        hidden = [int(in_features // div_value**i) for i in range(1, clusters + 1)]
        self.tail = ModuleList(
            Sequential(linear(in_features, h), linear(h, end - begin))
            for h, begin, end in zip(hidden, bounds[1:], bounds[2:])
        )

    def reset_parameters(self):
        """Draws new weights."""
        self.head.reset_parameters()
        for projection, out in self.tail:
            projection.reset_parameters()
            out.reset_parameters()

    def forward(self, input_, target_):
        batched = target_.dim() > 0
        if target_.dim() == 1:
            if input_.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}"
                )
            if input_.shape[0] != target_.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        used = 0
        output = input.new_zeros(target.size(0))
        gather = target.new_empty(target.size(0))
        bounds = [0] + self.cutoffs
        for i in range(len(bounds) - 1):
            mask = (target >= bounds[i]) & (target < bounds[i + 1])
            rows = mask.nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            if i == 0:
                gather.index_copy_(0, rows, target[mask])
            else:
                relative = target[mask] - bounds[i]
                cluster = self.tail[i - 1](input.index_select(0, rows))
                gather.index_fill_(0, rows, self.shortlist_size + i - 1)
                output.index_copy_(0, rows, F.cross_entropy(cluster, relative, reduction="none").neg().to(output.dtype))
            used += rows.numel()
        if used != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        output = output - F.cross_entropy(self.head(input), gather, reduction="none")
        loss = (-output).mean()
        if not batched:
            output = output.squeeze(0)
        return _ASMoutput(output, loss)

    def _get_full_log_prob(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        shortlist, clusters = head.split([self.shortlist_size, self.n_clusters], 1)
        within = [F.log_softmax(cluster(input), dim=1) for cluster in self.tail]
        return tessera.cat([shortlist, *(log_prob + own for log_prob, own in zip(within, clusters.split(1, 1)))], 1)

    def log_prob(self, input):
        """Log probabilities (N, n_classes) of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most probable class of each row; the clusters are looked at only where they win."""
        head_output = self.head(input)
        output = tessera.argmax(head_output, dim=1)
        not_in_shortlist = output >= self.shortlist_size
        if not not_in_shortlist.any():
            return output
        if not_in_shortlist.all():
            return tessera.argmax(self._get_full_log_prob(input, head_output), dim=1)
        output[not_in_shortlist] = tessera.argmax(
            self._get_full_log_prob(input[not_in_shortlist], head_output[not_in_shortlist]), dim=1
        )
        return output
