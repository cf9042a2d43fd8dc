"""Normalisations on integers: batch, layer, group, instance."""

import tessera
from tessera import nn
from tessera._root.held_classes import METHODS

from ..._quantized_ops import operators
from .utils import Scaled

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm",
]  # fmt: skip


class _Norm(Scaled):
    @classmethod
    def _arguments(cls, mod):
        return (mod.num_features,), {"eps": mod.eps, "affine": mod.affine}

    def _take(self, weight, bias, scale, zero_point, device, dtype):
        self.weight, self.bias = weight, bias
        self._scales(scale, zero_point, device, dtype)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        """With these parameters of its output."""
        first, options = cls._arguments(mod)
        return cls(*first, mod.weight, mod.bias, float(scale), int(zero_point), **options)


class LayerNorm(_Norm, nn.LayerNorm):
    """LayerNorm, quantized by `scale` and `zero_point`."""

    def __init__(
        self, normalized_shape, weight, bias, scale, zero_point, eps=1e-05, elementwise_affine=True, device=None,
        dtype=None
    ):  # fmt: skip
        nn.LayerNorm.__init__(self, normalized_shape, eps=eps, elementwise_affine=elementwise_affine, device=device)
        self._take(weight, bias, scale, zero_point, device, dtype)

    @classmethod
    def _arguments(cls, mod):
        return (mod.normalized_shape,), {"eps": mod.eps, "elementwise_affine": mod.elementwise_affine}

    def forward(self, input):
        return operators.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps,
                                    output_scale=self.scale, output_zero_point=self.zero_point)  # fmt: skip


class GroupNorm(_Norm, nn.GroupNorm):
    """GroupNorm, quantized by `scale` and `zero_point`."""

    def __init__(
        self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-05, affine=True, device=None,
        dtype=None
    ):  # fmt: skip
        nn.GroupNorm.__init__(self, num_groups, num_channels, eps, affine, device=device)
        self._take(weight, bias, scale, zero_point, device, dtype)

    @classmethod
    def _arguments(cls, mod):
        return (mod.num_groups, mod.num_channels), {"eps": mod.eps, "affine": mod.affine}

    def forward(self, input):
        return operators.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, self.scale,
                                    self.zero_point)  # fmt: skip


class _InstanceNorm(_Norm):
    def __init__(
        self, num_features, weight, bias, scale, zero_point, eps=1e-05, momentum=0.1, affine=False,
        track_running_stats=False, device=None, dtype=None
    ):  # fmt: skip
        self._FLOAT.__init__(self, num_features, eps, momentum, affine, track_running_stats, device=device)
        self._take(weight, bias, scale, zero_point, device, dtype)

    def forward(self, input):
        return operators.instance_norm(input, self.weight, self.bias, self.eps, self.scale, self.zero_point)


class _BatchNorm(Scaled, nn.modules.batchnorm._BatchNorm):
    _dims = (4,)

    def __init__(self, num_features, eps=1e-05, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, device=device, dtype=dtype)
        self._scales(1.0, 0, device)

    def _check_input_dim(self, input):
        if len(input.shape) not in self._dims:
            shape = "(N, C, H, W)" if self._dims == (4,) else "(N, C, H, W, D)"
            raise ValueError(f"Input shape must be `{shape}`!")

    def forward(self, input):
        self._check_input_dim(input)
        return getattr(operators, self._operator)(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, self.scale, self.zero_point
        )

    @classmethod
    def from_reference(cls, bn, output_scale, output_zero_point):
        """Of a float layer (alone, or with the ReLU behind it), with these parameters of its output."""
        bn = bn[0] if isinstance(bn, nn.Sequential) else bn
        made = cls(bn.num_features, bn.eps, device=bn.weight.device, dtype=bn.weight.dtype)
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(made, name, getattr(bn, name))
        made.scale = tessera.tensor(float(output_scale), device=bn.weight.device)
        made.zero_point = tessera.tensor(int(output_zero_point), device=bn.weight.device)
        return made


def _declared(base, name, **more):
    text = f"{name} of a quantized input, quantized by `scale` and `zero_point`."
    return type(name, base, {"__module__": __name__, "__doc__": text, **more})


InstanceNorm1d, InstanceNorm2d, InstanceNorm3d = (
    _declared((_InstanceNorm, kind), kind.__name__, _FLOAT=kind)
    for kind in (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
)
BatchNorm2d = _declared((_BatchNorm,), "BatchNorm2d", _operator="batch_norm2d")
BatchNorm3d = _declared((_BatchNorm,), "BatchNorm3d", _operator="batch_norm3d", _dims=(5,))
METHODS[_BatchNorm, "forward"] = """def forward(self, input: Tensor) -> Tensor:
    if input.dim() != {0._dims[0]}:
        raise ValueError("Input shape must have {0._dims[0]} dims!")
    return torch.ops.quantized.{0._operator}(input, self.weight, self.bias, self.running_mean, self.running_var,
                                             self.eps, float(self.scale), int(self.zero_point))
""".format
