"""Embedding layers."""

import tessera
from tessera.nn import functional as F
from tessera.nn import init
from tessera.nn.parameter import Parameter

from ._parts import described
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


def _positive_index(padding_idx, num_embeddings):
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + num_embeddings if padding_idx < 0 else padding_idx


class _Table(Module):
    """The weight (num_embeddings, embedding_dim), drawn from N(0, 1), with the row padding_idx zero."""

    def _make_weight(self, num_embeddings, embedding_dim, padding_idx, weight, frozen, device, dtype):
        shape = (num_embeddings, embedding_dim)
        if weight is not None and tuple(weight.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.num_embeddings, self.embedding_dim = shape
        self.padding_idx = _positive_index(padding_idx, num_embeddings)
        self.weight = Parameter(
            tessera.empty(shape, device=device, dtype=dtype) if weight is None else weight, not frozen
        )
        if weight is None:
            self.reset_parameters()

    @classmethod
    def _around(cls, embeddings, **options):
        """A layer with a given weight."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        return cls(*embeddings.shape, _weight=embeddings, **options)

    def _described(self, **usual):
        return described(f"{self.num_embeddings}, {self.embedding_dim}", vars(self), **usual)

    def reset_parameters(self):
        """Draws new weights."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with tessera.no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Looks up rows: integers of any shape (*) give (*, embedding_dim).

    padding_idx: a row that stays as it is. max_norm: rows are scaled down to this norm, in place, when used. sparse:
        the weight's gradient is sparse.
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
        _weight=None,
        _freeze=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        vars(self).update(max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
        self._make_weight(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype)

    def forward(self, input):
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self):
        return self._described(padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, sparse=False)

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
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of embeddings: (B, N) integers, or (N) with `offsets` where bags start, give (B,
    embedding_dim).
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        _weight=None,
        include_last_offset=False,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        super().__init__()
        vars(self).update(
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
        )
        self._make_weight(num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self):
        return described(
            self._described(max_norm=None, norm_type=2, scale_grad_by_freq=False) + f", mode={self.mode!r}",
            vars(self),
            padding_idx=None,
        )

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
        layer = cls._around(
            embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        layer.weight.requires_grad = not freeze
        return layer
