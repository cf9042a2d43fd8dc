"""Embedding layers."""

import tessera
from tessera.nn import functional as F
from tessera.nn import init
from tessera.nn.parameter import Parameter

from ._declared import layer
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


def _positive_index(padding_idx, num_embeddings, name="Padding_idx"):
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise AssertionError(f"{name} must be within num_embeddings")
    return padding_idx + num_embeddings if padding_idx < 0 else padding_idx


class _Table(Module):
    """The weight (num_embeddings, embedding_dim), drawn from N(0, 1), with the row padding_idx zero."""

    def _make_weight(self, weight, frozen, device, dtype):
        shape = (self.num_embeddings, self.embedding_dim)
        drawn = weight is None
        if not drawn and tuple(weight.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(tessera.empty(shape, device=device, dtype=dtype) if drawn else weight, not frozen)
        if drawn:
            self.reset_parameters()

    @classmethod
    def _around(cls, embeddings, freeze, **options):
        """A layer with a given weight."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        made = cls(*embeddings.shape, _weight=embeddings, **options)
        made.weight.requires_grad = not freeze
        return made

    def reset_parameters(self):
        """Draws new weights."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with tessera.no_grad():
                self.weight[self.padding_idx].fill_(0)


@layer(
    "num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, "
    "sparse=False, _weight=None, _freeze=False, device=None, dtype=None",
    "F.embedding(input, self.weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)",
    "num_embeddings embedding_dim padding_idx=? max_norm=? norm_type=? scale_grad_by_freq=? sparse=?",
    sets={"padding_idx": "_positive_index(padding_idx, num_embeddings)"},
    then="self._make_weight(_weight, _freeze, device, dtype)",
)
class Embedding(_Table):
    """Looks up rows: integers of any shape (*) give (*, embedding_dim).

    padding_idx: a row that stays as it is. max_norm: rows are scaled down to this norm, in place, when used. sparse:
        the weight's gradient is sparse.
    """

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """A layer with the given (num_embeddings, embedding_dim) tensor as weight; freeze: without a gradient."""
        return cls._around(
            embeddings,
            freeze,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


@layer(
    "num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode='mean', sparse=False, "
    "_weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None",
    "input, offsets=None, per_sample_weights=None -> F.embedding_bag(input, self.weight, offsets, max_norm, norm_type, "
    "scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)",
    "num_embeddings embedding_dim max_norm=? norm_type=? scale_grad_by_freq=? mode=!r padding_idx=?",
    sets={"padding_idx": "_positive_index(padding_idx, num_embeddings, 'padding_idx')"},
    then="self._make_weight(_weight, False, device, dtype)",
)
class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of embeddings: (B, N) integers, or (N) with `offsets` where bags start, give (B,
    embedding_dim).
    """

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        include_last_offset=False,
        padding_idx=None,
    ):
        """A layer with the given (num_embeddings, embedding_dim) tensor as weight; freeze: without a gradient."""
        return cls._around(
            embeddings,
            freeze,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
