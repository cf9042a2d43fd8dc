"""What layers whose weight is rounded in training have in common."""

from tessera import nn
from tessera.nn import functional as F
from tessera.nn.utils.parametrize import type_before_parametrizations as kind_of


def built(cls, qconfig):
    """AssertionError without a qconfig."""
    if not qconfig:
        raise AssertionError(f"{cls.__name__}: qconfig must be provided for QAT module")
    return qconfig


def checked(cls, mod):
    """The float layer that `mod` is or holds: AssertionError where it is not of the kind, or has no qconfig."""
    if kind_of(mod) is not cls._FLOAT_MODULE and kind_of(mod) not in getattr(cls, "_CONTAINERS", ()):
        raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}, but got "
                             f"{type(mod).__name__}")  # fmt: skip
    if not getattr(mod, "qconfig", None):
        raise AssertionError(f"Input float module must have a valid qconfig: {type(mod).__name__} has none")
    return mod[0] if isinstance(mod, nn.Sequential) else mod


def as_conv(mod):
    """The constructor arguments of a convolution like `mod`."""
    return dict(in_channels=mod.in_channels, out_channels=mod.out_channels, kernel_size=mod.kernel_size,
                stride=mod.stride, padding=mod.padding, dilation=mod.dilation, groups=mod.groups,
                bias=mod.bias is not None, padding_mode=mod.padding_mode)  # fmt: skip


def as_linear(mod):
    """The constructor arguments of a Linear like `mod`."""
    return dict(in_features=mod.in_features, out_features=mod.out_features, bias=mod.bias is not None)


def unprojected(mod):
    """NotImplementedError for a recurrent layer with a proj_size."""
    if getattr(mod, "proj_size", 0):
        raise NotImplementedError(f"quantized recurrent layers have no projections: expected proj_size=0, but got "
                                  f"{mod.proj_size}")  # fmt: skip


_ROWS = ("num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")


def as_rows(mod):
    """The constructor arguments of an Embedding or EmbeddingBag like `mod`."""
    bags = ("mode", "include_last_offset") if isinstance(mod, nn.EmbeddingBag) else ()
    return {name: getattr(mod, name) for name in (*_ROWS, *bags)}


def looked_up(mod, weight, input, **more):
    """What an Embedding or EmbeddingBag gives with another weight. more: arguments of embedding_bag()."""
    function = F.embedding_bag if isinstance(mod, nn.EmbeddingBag) else F.embedding
    options = {name: value for name, value in as_rows(mod).items() if name not in _ROWS[:2]}
    return function(input, weight, **options, **more)


class Rounded:
    """A mixin of float layers: `weight_fake_quant` rounds the weight in forward."""

    _FLOAT_MODULE: type = nn.Module
    _describe = staticmethod(as_conv)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The form for training of a float or fused layer with a qconfig; it shares the parameters.
        use_precomputed_fake_quant: the `weight_fake_quant` that `mod` has is taken over, too.
        """
        source = checked(cls, mod)
        made = cls(**cls._describe(source), **cls._more(mod), qconfig=mod.qconfig)
        for name in made._parameters:
            setattr(made, name, getattr(source, name))
        if use_precomputed_fake_quant and hasattr(mod, "weight_fake_quant"):
            made.weight_fake_quant = mod.weight_fake_quant
        return made

    @classmethod
    def _more(cls, _mod):
        """Further constructor arguments, for a layer like `_mod`."""
        return {}

    def to_float(self):
        """The float layer with this one's parameters."""
        made = getattr(self, "_FLOAT_LAYER", self._FLOAT_MODULE)(**self._describe(self))
        for name, parameter in self._parameters.items():
            if parameter is not None:
                setattr(made, name, nn.Parameter(parameter.detach()))
        made.train(self.training)
        return made


class Rectified:
    """A mixin of rounded layers with ReLU behind them."""

    def forward(self, input):
        return F.relu(super().forward(input))

    def to_float(self):
        """The float layer with ReLU behind it."""
        made = self._FLOAT_MODULE(super().to_float(), nn.ReLU())
        made.train(self.training)
        return made
