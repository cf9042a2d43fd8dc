"""Layers on integers."""

import tessera
from tessera import nn

from . import activation, conv, functional_modules, normalization
from .activation import *  # noqa: F403
from .attention import MultiheadAttention
from .conv import *  # noqa: F403
from .dropout import Dropout
from .embedding_ops import Embedding, EmbeddingBag
from .functional_modules import *  # noqa: F403
from .linear import Linear
from .normalization import *  # noqa: F403
from .rnn import LSTM
from .utils import qparams_of

__all__ = sorted({
    *activation.__all__, *conv.__all__, *functional_modules.__all__, *normalization.__all__, "DeQuantize", "Dropout",
    "Embedding", "EmbeddingBag", "LSTM", "Linear", "MaxPool2d", "MultiheadAttention", "Quantize",
})  # fmt: skip
MaxPool2d = nn.MaxPool2d


class Quantize(nn.Module):
    """Floats to a quantized tensor by buffers `scale` and `zero_point`."""

    scale: tessera.Tensor
    zero_point: tessera.Tensor

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        super().__init__()
        made = {"device": (factory_kwargs or {}).get("device")}
        self.register_buffer("scale", tessera.tensor([float(scale)], **made))
        self.register_buffer("zero_point", tessera.tensor([int(zero_point)], dtype=tessera.long, **made))
        self.dtype = dtype

    def forward(self, X):
        return tessera.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """Of a QuantStub whose tensors were observed."""
        return Quantize(*qparams_of(mod), mod.activation_post_process.dtype)

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """A quantized tensor to floats."""

    def forward(self, Xq):
        return Xq.dequantize()

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """Of a DeQuantStub."""
        return DeQuantize()
