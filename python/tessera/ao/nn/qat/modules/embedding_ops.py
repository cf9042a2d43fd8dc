"""Embeddings for training with quantization in mind."""

from tessera import nn

from ._base import Rounded, as_rows, built, looked_up

__all__ = ["Embedding", "EmbeddingBag"]


class _Rows(Rounded):
    _describe = staticmethod(lambda mod: {**as_rows(mod), "_weight": mod.weight})

    def _watch(self, qconfig):
        self.qconfig = built(type(self), qconfig)
        if qconfig.weight().qscheme.__repr__().rpartition(".")[2] != "per_channel_affine_float_qparams":
            raise AssertionError("Embedding weights requires a qscheme of torch.per_channel_affine_float_qparams Got "
                                 f"{qconfig.weight().qscheme}")  # fmt: skip
        self.weight_fake_quant = qconfig.weight()


class Embedding(_Rows, nn.Embedding):
    """An Embedding whose weight `qconfig.weight` rounds. AssertionError for other schemes than floats per channel."""

    _FLOAT_MODULE = nn.Embedding

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        sparse=False, _weight=None, device=None, dtype=None, qconfig=None
    ):  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                         _weight, device=device, dtype=dtype)  # fmt: skip
        self._watch(qconfig)

    def forward(self, input):
        return looked_up(self, self.weight_fake_quant(self.weight), input)


class EmbeddingBag(_Rows, nn.EmbeddingBag):
    """An EmbeddingBag whose weight `qconfig.weight` rounds. AssertionError for other schemes than floats a channel."""

    _FLOAT_MODULE = nn.EmbeddingBag

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
        sparse=False, _weight=None, include_last_offset=False, padding_idx=None, qconfig=None, device=None, dtype=None
    ):  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight,
                         include_last_offset, padding_idx, device=device, dtype=dtype)  # fmt: skip
        self._watch(qconfig)

    def forward(self, input, offsets=None, per_sample_weights=None):
        weight = self.weight_fake_quant(self.weight)
        return looked_up(self, weight, input, offsets=offsets, per_sample_weights=per_sample_weights)
