"""Linear that rounds its input at each call."""

import tessera
from tessera import nn
from tessera._root.held_classes import METHODS

from ...modules import linear
from ...modules.utils import quantized_weight
from ....qat.dynamic.modules.linear import Linear as _Trained
from ...._quantized_ops import operators

__all__ = ["Linear"]


class Linear(linear.Linear):
    """y = x W^T + b of floats x with weights of qint8 (x is rounded to bytes by its own range) or of float16."""

    _FLOAT_MODULE = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear, _Trained)
    _version = 4

    def __init__(self, in_features, out_features, bias_=True, dtype=tessera.qint8):
        super().__init__(in_features, out_features, bias_, dtype)
        self.version = self._version

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def forward(self, x):
        if self._packed_params.dtype == tessera.float16:
            return operators.linear_dynamic_fp16(x, self._packed_of())
        return operators.linear_dynamic(x, self._packed_of(), reduce_range=True)

    def _shown(self):
        kind = self._packed_params.dtype
        return {"dtype": kind} if kind == tessera.float16 else {"dtype": kind, "qscheme": self.weight().qscheme()}

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float or trained Linear; its qconfig says which weights. AssertionError for others."""
        inner, weight, bias, observer = cls._checked(mod)
        if observer.dtype not in (tessera.qint8, tessera.float16):
            raise AssertionError("The only supported dtypes for dynamic quantized linear are qint8 and float16 got: "
                                 f"{observer.dtype}")  # fmt: skip
        if not (use_precomputed_fake_quant and hasattr(observer, "fake_quant_enabled")):
            observer(weight.detach().float())
        made = cls(inner.in_features, inner.out_features, dtype=observer.dtype)
        whole = observer.dtype == tessera.float16
        made.set_weight_bias(weight.detach().float() if whole else quantized_weight(weight, observer), bias)
        return made

    @classmethod
    def _checked(cls, mod):
        if getattr(mod, "qconfig", None) is None or mod.qconfig.weight is None:
            if hasattr(mod, "weight_fake_quant"):
                return mod, mod.weight, mod.bias, mod.weight_fake_quant
            mod.qconfig = tessera.ao.quantization.qconfig.default_dynamic_qconfig
        return cls._folded(mod)

    @classmethod
    def from_reference(cls, ref_qlinear):
        """Of a reference Linear."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made


METHODS[Linear, "forward"] = """def forward(self, x: Tensor) -> Tensor:
    packed = self._packed_params._packed_params
    if self._packed_params.dtype == torch.float16:
        return torch.ops.quantized.{0._operator}_dynamic_fp16(x, packed)
    return torch.ops.quantized.{0._operator}_dynamic(x, packed, True)
""".format
