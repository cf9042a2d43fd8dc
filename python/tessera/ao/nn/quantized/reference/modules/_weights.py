"""Weights of reference layers: floats that remember how they are quantized."""

import tessera
from tessera import nn

__all__ = ["ReferenceQuantizedModule"]


_DEFAULTS = {"qscheme": tessera.per_tensor_affine, "dtype": tessera.quint8, "scale": 1.0, "zero_point": 0}


def quantized(weight, scheme, dtype, scale, zero_point, axis):
    """`weight` as a quantized tensor (or of float16, or as it is) under these parameters."""
    if dtype == tessera.float16:
        return weight.to(tessera.float16)
    if scheme is None or dtype == tessera.float32:
        return weight
    name = repr(scheme).rpartition(".")[2]
    if name.startswith("per_tensor"):
        return tessera.quantize_per_tensor(weight, float(scale), int(zero_point), dtype)
    if not name.startswith("per_channel"):
        raise ValueError(f"Unsupported qscheme: {scheme}")
    return tessera.quantize_per_channel(weight, scale, zero_point, int(axis), dtype)


class ReferenceQuantizedModule(nn.Module):
    """Base of float layers with one weight, computed with the numbers that its integers stand for."""

    def _init_weight_qparams(self, weight_qparams, device):
        self._keep("weight", {**_DEFAULTS, **(weight_qparams or {})}, device)

    def _keep(self, name, parameters, device):
        setattr(self, f"{name}_qscheme", parameters["qscheme"])
        setattr(self, f"{name}_dtype", parameters["dtype"])
        floats = repr(parameters["qscheme"]).rpartition(".")[2] == "per_channel_affine_float_qparams"
        for part, kind in (("scale", tessera.float), ("zero_point", tessera.float if floats else tessera.int)):
            value = parameters.get(part)
            value = {"scale": 1.0, "zero_point": 0}[part] if value is None else value
            value = tessera.as_tensor(value, device=device).detach()
            self.register_buffer(f"{name}_{part}", value.clone() if value.dtype.is_floating_point else value.to(kind))
        self.register_buffer(f"{name}_axis", tessera.tensor(parameters.get("axis", 0), dtype=tessera.int))
        for bound in ("quant_min", "quant_max"):
            setattr(self, f"{name}_{bound}", parameters.get(bound))
        self.is_decomposed = bool(parameters.get("is_decomposed", False))

    def _of(self, name, value):
        get = lambda part: getattr(self, f"{name}_{part}")  # noqa: E731
        scheme = get("qscheme")
        parts = get("scale"), get("zero_point")
        return quantized(value.detach().float(), scheme, get("dtype"), *parts, get("axis"))

    def get_quantized_weight(self):
        """The weight as a quantized tensor."""
        return self._of("weight", self.weight)

    def get_weight(self):
        """The numbers that the quantized weight stands for."""
        return self.get_quantized_weight().dequantize().to(self.weight.dtype)

    @classmethod
    def from_float(cls, float_layer, weight_qparams):
        """Of a float layer, with parameters of its weight: {"qscheme", "dtype", "scale", "zero_point", "axis"}."""
        made = cls(**cls._describe(float_layer), weight_qparams=weight_qparams, device=float_layer.weight.device)
        made.weight = nn.Parameter(float_layer.weight.detach(), requires_grad=False)
        if getattr(float_layer, "bias", None) is not None:
            made.bias = nn.Parameter(float_layer.bias.detach(), requires_grad=False)
        return made

    def _get_name(self):
        return f"QuantizedReference{type(self).__name__}"
