"""Reference layers: linear, convolutions, embeddings."""

import inspect

from tessera import nn
from tessera.nn import functional as F

from ....qat.modules._base import as_conv, as_rows, looked_up
from ._weights import ReferenceQuantizedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding",
           "EmbeddingBag", "Linear"]  # fmt: skip


class Linear(ReferenceQuantizedModule, nn.Linear):
    """A Linear computed with the numbers that quantized weights stand for."""

    def __init__(self, in_features, out_features, bias_=True, device=None, dtype=None, weight_qparams=None):
        nn.Linear.__init__(self, in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    @staticmethod
    def _describe(mod):
        return {"in_features": mod.in_features, "out_features": mod.out_features, "bias_": mod.bias is not None}

    def forward(self, x):
        return F.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear, weight_qparams):
        """Of a float layer, with these parameters of its weight."""
        return super().from_float(float_linear, weight_qparams)


class _Conv(ReferenceQuantizedModule):
    """A constructor takes what that of the float layer takes, and `weight_qparams` behind."""

    _KIND: type = nn.Conv2d
    _describe = staticmethod(as_conv)

    def __init__(self, *args, **kwargs):
        given = self.__signature__.bind(*args, **kwargs).arguments
        qparams = given.pop("weight_qparams", None)
        self._KIND.__init__(self, **given)
        self._init_weight_qparams(qparams, given.get("device"))

    def forward(self, x):
        return self._conv_forward(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_conv, weight_qparams):
        """Of a float layer, with these parameters of its weight."""
        return super().from_float(float_conv, weight_qparams)


class _Turned(_Conv):
    _describe = staticmethod(lambda mod: {**as_conv(mod), "output_padding": mod.output_padding})

    def forward(self, x, output_size=None):
        kept = self._parameters["weight"]
        self._parameters["weight"] = self.get_weight()
        try:
            return self._KIND.forward(self, x, output_size)
        finally:
            self._parameters["weight"] = kept


def _made(name):
    kind = getattr(nn, name)
    one = inspect.Parameter("weight_qparams", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    signature = inspect.Signature([*inspect.signature(kind).parameters.values(), one])
    return type(name, (_Turned if "Transpose" in name else _Conv, kind), {
        "__module__": __name__, "_KIND": kind, "__signature__": signature,
        "__doc__": f"A {name} computed with the numbers that quantized weights stand for.",
    })  # fmt: skip


Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = map(_made, __all__[:6])


class Embedding(ReferenceQuantizedModule, nn.Embedding):
    """An Embedding with the numbers that quantized weights stand for."""

    _describe = staticmethod(as_rows)

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        sparse=False, _weight=None, device=None, dtype=None, weight_qparams=None
    ):  # fmt: skip
        nn.Embedding.__init__(self, num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
                              sparse, _weight, device=device, dtype=dtype)  # fmt: skip
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, input):
        return looked_up(self, self.get_weight(), input)

    @classmethod
    def from_float(cls, mod, weight_qparams):
        """Of a float layer, with these parameters of its weight."""
        return super().from_float(mod, weight_qparams)


class EmbeddingBag(ReferenceQuantizedModule, nn.EmbeddingBag):
    """An EmbeddingBag with the numbers that quantized weights stand for."""

    _describe = staticmethod(as_rows)

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
        sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None,
        weight_qparams=None
    ):  # fmt: skip
        nn.EmbeddingBag.__init__(self, num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode,
                                 sparse, _weight, include_last_offset, padding_idx, device, dtype)  # fmt: skip
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return looked_up(self, self.get_weight(), input, offsets=offsets, per_sample_weights=per_sample_weights)

    @classmethod
    def from_float(cls, mod, weight_qparams, use_precomputed_fake_quant=False):
        """Of a float layer, with these parameters of its weight; use_precomputed_fake_quant changes nothing here."""
        if use_precomputed_fake_quant and not hasattr(mod, "weight_fake_quant"):
            raise AssertionError("use_precomputed_fake_quant needs a layer with a weight_fake_quant")
        return super().from_float(mod, weight_qparams)
