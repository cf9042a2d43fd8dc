"""Linear on integers."""

import tessera
from tessera import nn
from tessera._root.held_classes import METHODS
from tessera.nn.utils.fusion import fuse_linear_bn_weights
from tessera.nn.utils.parametrize import type_before_parametrizations

from ...intrinsic import qat as fused_qat
from ..._quantized_ops import operators
from .utils import (
    Packed, WeightedQuantizedModule, _hide_packed_params_repr, described, qparams_of, quantized_weight, watched,
)  # fmt: skip

__all__ = ["Linear", "LinearPackedParams"]


class LinearPackedParams(Packed):
    """Holds the weight of a quantized Linear; the state dict has `dtype` and `_packed_params`, (weight, bias)."""

    _version = 3

    def __init__(self, dtype=tessera.qint8):
        super().__init__()
        self.dtype = dtype
        if dtype == tessera.float16:
            empty = tessera.zeros(1, 1)
        else:
            empty = tessera._empty_affine_quantized([1, 1], scale=1.0, zero_point=0, dtype=tessera.qint8)
        self.set_weight_bias(empty, None)

    def set_weight_bias(self, weight, bias):
        """Takes a weight (of qint8, or floats that become float16) and a bias or None."""
        prepack = operators.linear_prepack_fp16 if self.dtype == tessera.float16 else operators.linear_prepack
        self._packed_params = prepack(weight, bias)

    def _weight_bias(self):
        return self._packed_params.unpack()

    _held = _weight_bias

    def _take(self, given):
        self.set_weight_bias(*given)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        version = local_metadata.get("version", None)
        if version is None or version < 2:
            state_dict[prefix + "dtype"] = tessera.qint8
        if (version is None or version < 3) and prefix + "weight" in state_dict:
            older = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias", None)
            state_dict.setdefault(prefix + "_packed_params", older)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)


class Linear(WeightedQuantizedModule):
    """y = x W^T + b of a quantized x (*, in_features) and qint8 weights; y is quantized by `scale` and `zero_point`.

    RuntimeError for dtypes other than qint8.
    """

    _version = 3
    _FLOAT_MODULE = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
    _operator = "linear"

    def __init__(self, in_features, out_features, bias_=True, dtype=tessera.qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.zero_point = 1.0, 0
        if dtype == tessera.qint8:
            weight = tessera._empty_affine_quantized(
                [out_features, in_features], scale=1, zero_point=0, dtype=tessera.qint8
            )
        elif dtype == tessera.float16:
            weight = tessera.zeros(out_features, in_features)
        else:
            raise RuntimeError(f"Unsupported dtype specified for quantized Linear: {dtype}")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, tessera.zeros(out_features) if bias_ else None)

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    def extra_repr(self):
        sizes = described(in_features=self.in_features, out_features=self.out_features)
        return f"{sizes}, {described(**self._shown())}"

    def _shown(self):
        return {"scale": self.scale, "zero_point": self.zero_point, "qscheme": self.weight().qscheme()}

    def __repr__(self):
        return _hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x):
        return getattr(operators, self._operator)(x, self._packed_of(), self.scale, self.zero_point)

    def _packed_of(self):
        return self._packed_params._packed_params

    def set_weight_bias(self, w, b):
        """Takes a quantized weight (out_features, in_features) and a bias or None."""
        self._packed_params.set_weight_bias(w, b)

    def _take_weights(self, state_dict, prefix):
        for old in ("weight", "bias"):  # files of the first version; now they are in a module of their own
            if prefix + old in state_dict:
                state_dict[f"{prefix}_packed_params.{old}"] = state_dict.pop(prefix + old)
        return []

    @classmethod
    def _extra(cls, _mod):
        """Further constructor arguments, for a layer like `_mod`."""
        return {}

    @classmethod
    def _folded(cls, mod):
        """(layer, weight, bias, observer of the weight) of a float, fused or trained layer."""
        kind = type_before_parametrizations(mod)
        if hasattr(mod, "weight_fake_quant"):
            weight, bias = mod.weight, mod.bias
            if kind is fused_qat.LinearBn1d:
                bn = mod.bn
                weight, bias = fuse_linear_bn_weights(
                    weight, bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
                )
            return mod, weight, bias, mod.weight_fake_quant
        known = cls._FLOAT_MODULE if isinstance(cls._FLOAT_MODULE, tuple) else (cls._FLOAT_MODULE,)
        if kind not in known:
            names = ", ".join(k.__name__ for k in known)
            raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {names}, but got {kind.__name__}")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have qconfig defined")
        inner = mod[0] if isinstance(mod, nn.Sequential) else mod
        return inner, inner.weight, inner.bias, mod.qconfig.weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a float or trained one whose output was observed. AssertionError for other kinds."""
        inner, weight, bias, observer = cls._folded(mod)
        if not (use_precomputed_fake_quant and hasattr(observer, "fake_quant_enabled")):
            observer = watched(weight, observer)
        if observer.dtype != tessera.qint8:
            raise AssertionError("Weight observer must have dtype torch.qint8")
        made = cls(inner.in_features, inner.out_features, **cls._extra(mod), dtype=tessera.qint8)
        made.set_weight_bias(quantized_weight(weight, observer), bias)
        made.scale, made.zero_point = qparams_of(mod)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear, output_scale, output_zero_point):
        """The quantized layer of a reference one (with what is behind it), with these parameters of its output."""
        inner = ref_qlinear[0] if isinstance(ref_qlinear, nn.Sequential) else ref_qlinear
        made = cls(inner.in_features, inner.out_features, **cls._extra(ref_qlinear))
        made.set_weight_bias(inner.get_quantized_weight(), inner.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


METHODS[Linear, "forward"] = """def forward(self, x: Tensor) -> Tensor:
    return torch.ops.quantized.{0._operator}(x, self._packed_params._packed_params, self.scale, self.zero_point)
""".format
