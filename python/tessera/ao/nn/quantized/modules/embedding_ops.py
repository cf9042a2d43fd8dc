"""Embeddings with weights of integers."""

import tessera
from tessera import nn
from tessera._root.held_classes import METHODS

from ..._quantized_ops import operators
from .utils import Packed, _hide_packed_params_repr, described, quantized_weight, watched

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]


class EmbeddingPackedParams(Packed):
    """Holds the weight of a quantized embedding; the state dict has `dtype` and `_packed_weight`."""

    _version, _KEY = 1, "_packed_weight"

    def __init__(self, num_embeddings, embedding_dim, dtype=tessera.quint8):
        super().__init__()
        if dtype not in (tessera.quint8, tessera.quint4x2):
            raise NotImplementedError(
                f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2: {dtype}"
            )
        self.dtype = dtype
        self.set_weight(tessera._empty_per_channel_affine_quantized(
            [num_embeddings, embedding_dim], scales=tessera.ones(num_embeddings), axis=0, dtype=dtype,
            zero_points=tessera.zeros(num_embeddings)))  # fmt: skip

    def set_weight(self, weight):
        """Takes a quantized weight (num_embeddings, embedding_dim)."""
        self._packed_weight = operators.embedding_bag_prepack(weight)

    def _weight(self):
        return self._packed_weight.unpack()

    _held, _take = _weight, set_weight


class Embedding(nn.Module):
    """Rows of a table of integers (quint8 or quint4x2, a scale for each row), float32.

    padding_idx, scale_grad_by_freq and sparse are about gradients, which integers have none of: of no effect.
    NotImplementedError for a max_norm: rows keep their scales when they are looked up.
    """

    _FLOAT_MODULE: type = nn.Embedding
    _OPTIONS: tuple = ()  # further constructor arguments, attributes of other forms of the layer
    _version = 1

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        sparse=False, _weight=None, dtype=tessera.quint8
    ):  # fmt: skip
        super().__init__()
        if max_norm is not None:
            raise NotImplementedError(f"a quantized {type(self).__name__} does not bring rows to a norm: expected "
                                      f"max_norm=None, but got {max_norm} (norm_type {norm_type})")  # fmt: skip
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self._packed_params.set_weight(_weight)

    def forward(self, indices):
        kind = "embedding_4bit" if self.dtype == tessera.quint4x2 else "embedding_byte"
        return getattr(operators, kind)(self._packed_params._packed_weight, indices)

    def _get_name(self):
        return "QuantizedEmbedding"

    def __repr__(self):
        return _hide_packed_params_repr(self, EmbeddingPackedParams)

    def extra_repr(self):
        sizes = described(num_embeddings=self.num_embeddings, embedding_dim=self.embedding_dim)
        return f"{sizes}, {described(dtype=self.dtype, qscheme=self.weight().qscheme())}"

    def set_weight(self, w):
        """Takes a quantized weight (num_embeddings, embedding_dim)."""
        self._packed_params.set_weight(w)

    def weight(self):
        """The quantized weight."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float or trained embedding with a qconfig of floats per channel. AssertionError for others."""
        if hasattr(mod, "weight_fake_quant"):
            observer = mod.weight_fake_quant
        else:
            if type(mod) is not cls._FLOAT_MODULE:
                raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
            if not getattr(mod, "qconfig", None):
                raise AssertionError("Embedding input float module must have qconfig defined")
            observer = mod.qconfig.weight()
        if repr(observer.qscheme).rpartition(".")[2] != "per_channel_affine_float_qparams":
            raise AssertionError("Embedding quantization is currently only supported with "
                                 f"per_channel_affine_float_qparams, but got {observer.qscheme}")  # fmt: skip
        if observer.dtype not in (tessera.quint8, tessera.quint4x2):
            raise AssertionError(f"The only supported dtypes for nnq.{cls.__name__} are quint8 and quint4x2, but got "
                                 f"{observer.dtype}")  # fmt: skip
        if not use_precomputed_fake_quant:
            watched(mod.weight, observer)
        return cls._like(mod, quantized_weight(mod.weight, observer), observer.dtype)

    @classmethod
    def _like(cls, mod, weight, dtype):
        options = {name: getattr(mod, name) for name in cls._OPTIONS}
        return cls(mod.num_embeddings, mod.embedding_dim, **options, _weight=weight, dtype=dtype)

    @classmethod
    def from_reference(cls, ref_embedding):
        """Of a reference embedding."""
        return cls._like(ref_embedding, ref_embedding.get_quantized_weight(), ref_embedding.weight_dtype)


class EmbeddingBag(Embedding):
    """Sums, means or greatest numbers of bags of rows of a table of integers, float32; as Embedding."""

    _FLOAT_MODULE, _OPTIONS = nn.EmbeddingBag, ("mode", "include_last_offset")

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="sum",
        sparse=False, _weight=None, include_last_offset=False, dtype=tessera.quint8
    ):  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, max_norm=max_norm, norm_type=norm_type, sparse=sparse,
                         scale_grad_by_freq=scale_grad_by_freq, _weight=_weight, dtype=dtype)  # fmt: skip
        self.mode, self.include_last_offset, self.pruned_weights = mode, include_last_offset, False

    def forward(self, indices, offsets=None, per_sample_weights=None, compressed_indices_mapping=None):
        kind = "embedding_bag_4bit" if self.dtype == tessera.quint4x2 else "embedding_bag_byte"
        return getattr(operators, kind)(
            self._packed_params._packed_weight, indices, offsets, False, ("sum", "mean", "max").index(self.mode),
            compressed_indices_mapping is not None, per_sample_weights, compressed_indices_mapping,
            self.include_last_offset,
        )  # fmt: skip

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_reference(cls, ref_embedding_bag):
        """Of a reference embedding bag."""
        return super().from_reference(ref_embedding_bag)


METHODS[Embedding, "forward"] = """def forward(self, indices: Tensor) -> Tensor:
    packed = self._packed_params._packed_weight
    if self.dtype == torch.quint4x2:
        return torch.ops.quantized.embedding_4bit(packed, indices)
    return torch.ops.quantized.embedding_byte(packed, indices)
"""
METHODS[EmbeddingBag, "forward"] = """def forward(self, indices: Tensor, offsets: Optional[Tensor] = None,
        per_sample_weights: Optional[Tensor] = None, compressed_indices_mapping: Optional[Tensor] = None) -> Tensor:
    packed = self._packed_params._packed_weight
    mode = 0 if self.mode == "sum" else (1 if self.mode == "mean" else 2)
    pruned = compressed_indices_mapping is not None
    if self.dtype == torch.quint4x2:
        return torch.ops.quantized.embedding_bag_4bit(packed, indices, offsets, False, mode, pruned,
            per_sample_weights, compressed_indices_mapping, self.include_last_offset)
    return torch.ops.quantized.embedding_bag_byte(packed, indices, offsets, False, mode, pruned, per_sample_weights,
        compressed_indices_mapping, self.include_last_offset)
"""
