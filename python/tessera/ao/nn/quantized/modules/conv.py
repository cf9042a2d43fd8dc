"""Convolutions on integers."""

import tessera
from tessera import nn
from tessera._root.held_classes import METHODS
from tessera.nn.utils.fusion import fuse_conv_bn_weights
from tessera.nn.utils.parametrize import type_before_parametrizations

from ...intrinsic import qat as fused_qat
from ..._quantized_ops import operators
from .utils import WeightedQuantizedModule, only_bytes, qparams_of, quantized_weight, watched

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_BN = tuple(getattr(fused_qat, f"ConvBn{r}{n}d") for r in ("", "ReLU") for n in (1, 2, 3))


def _sizes(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value)


class _ConvNd(WeightedQuantizedModule):
    _dims, _turned, _operator = 2, False, "conv2d"
    _MODES: tuple = ("zeros", "reflect")

    def _build(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
        device, dtype, output_padding=0,
    ):  # fmt: skip
        nn.Module.__init__(self)
        only_bytes(dtype, "convolution", tessera.qint8)
        if padding_mode not in self._MODES:
            raise NotImplementedError(f"Currently only zero-padding is supported by quantized conv: {padding_mode!r}")
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"in_channels and out_channels must be divisible by groups: {in_channels}, "
                             f"{out_channels}, {groups}")  # fmt: skip
        n = self._dims
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _sizes(kernel_size, n), _sizes(stride, n)
        self.dilation, self.output_padding = _sizes(dilation, n), _sizes(output_padding, n)
        self.padding = padding if isinstance(padding, str) else _sizes(padding, n)
        if padding == "valid":
            self.padding = (0,) * n
        elif padding == "same":
            if any(d * (k - 1) % 2 for d, k in zip(self.dilation, self.kernel_size)):
                raise NotImplementedError("a quantized convolution pads both sides alike, padding='same' needs odd "
                                          f"kernels: {self.kernel_size}")  # fmt: skip
            self.padding = tuple(d * (k - 1) // 2 for d, k in zip(self.dilation, self.kernel_size))
        self.padding_mode, self.transposed = padding_mode, self._turned
        first, second = (in_channels, out_channels) if self._turned else (out_channels, in_channels)
        empty = tessera._empty_affine_quantized(
            [first, second // groups, *self.kernel_size], scale=1, zero_point=0, dtype=tessera.qint8
        )
        self.scale, self.zero_point = 1.0, 0
        self.set_weight_bias(empty, tessera.zeros(out_channels) if bias else None)
        if device is not None:
            self.to(device)

    def set_weight_bias(self, w, b):
        """Takes a quantized weight and a bias or None."""
        inside = (0,) * self._dims if self.padding_mode != "zeros" else self.padding
        prepack = getattr(operators, f"conv{'_transpose' if self._turned else ''}{self._dims}d_prepack")
        if self._turned:
            made = prepack(w, b, self.stride, inside, self.output_padding, self.dilation, self.groups)
        else:
            made = prepack(w, b, self.stride, inside, self.dilation, self.groups)
        self._packed_params = made

    def _edged(self, x):
        if self.padding_mode == "zeros":
            return x
        edges = [p for pad in reversed(self.padding) for p in (pad, pad)]
        return nn.functional.pad(x, edges, mode=self.padding_mode)

    def forward(self, input):
        if len(input.shape) not in (self._dims + 2,):
            letters = "NC" + "DHW"[-self._dims :].replace("W", "L" if self._dims == 1 else "W")
            raise ValueError(f"Input shape must be `({', '.join(letters)})`!")
        operator = getattr(operators, self._operator)
        return operator(self._edged(input), self._packed_params, self.scale, self.zero_point)

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
        text += f"scale={self.scale}, zero_point={self.zero_point}"
        ones, zeros = (1,) * self._dims, (0,) * self._dims
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + (", bias=False" if self.bias() is None else "")

    def _weights(self):
        return dict(zip(("weight", "bias"), self._weight_bias()))

    def _take_weights(self, state_dict, prefix):
        if prefix + "weight" not in state_dict:
            return ["weight"]
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias", None))
        return []

    @classmethod
    def _like(cls, mod):
        return cls(mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding,
                   **({"output_padding": mod.output_padding} if cls._turned else {}), dilation=mod.dilation,
                   groups=mod.groups, bias=mod.bias is not None, padding_mode=mod.padding_mode)  # fmt: skip

    @classmethod
    def get_qconv(cls, mod, activation_post_process, weight_post_process=None):
        """The quantized form of `mod` with these observers of its output and its weight (default: its qconfig's)."""
        observer = mod.qconfig.weight() if weight_post_process is None else weight_post_process
        watched(mod.weight, observer)
        if observer.dtype != tessera.qint8:
            raise AssertionError("Weight observer must have a dtype of qint8")
        made = cls._like(mod)
        made.set_weight_bias(quantized_weight(mod.weight, observer), mod.bias)
        if activation_post_process is not None and activation_post_process.dtype != tessera.float:
            scale, zero_point = activation_post_process.calculate_qparams()
            made.scale, made.zero_point = float(scale), int(zero_point)
        return made

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a float, fused or trained one whose output was observed. AssertionError for others."""
        kind = type_before_parametrizations(mod)
        inner = mod
        if hasattr(mod, "weight_fake_quant"):
            weight, bias, observer = mod.weight, mod.bias, mod.weight_fake_quant
            if kind in _BN:
                bn = mod.bn
                weight, bias = fuse_conv_bn_weights(
                    weight, bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
                )
        else:
            known = cls._FLOAT_MODULE
            if kind is not known and kind not in cls._ALSO:
                raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {known.__name__}, but got "
                                     f"{kind.__name__}")  # fmt: skip
            if not getattr(mod, "qconfig", None):
                raise AssertionError("Input float module must have qconfig defined.")
            inner = mod[0] if isinstance(mod, nn.Sequential) else mod
            weight, bias, observer = inner.weight, inner.bias, mod.qconfig.weight()
        if not (use_precomputed_fake_quant and hasattr(observer, "fake_quant_enabled")):
            observer = watched(weight, observer)
        if observer.dtype != tessera.qint8:
            raise AssertionError("Weight observer must have a dtype of qint8")
        made = cls._like(inner)
        made.set_weight_bias(quantized_weight(weight, observer), bias)
        made.scale, made.zero_point = qparams_of(mod)
        return made

    _ALSO: tuple = ()

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        """The quantized layer of a reference one, with these parameters of its output."""
        made = cls._like(ref_qconv)
        made.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


class _Conv(_ConvNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None
    ):  # fmt: skip
        self._build(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                    device, dtype)  # fmt: skip


class _ConvTransposed(_ConvNd):
    _turned, _MODES = True, ("zeros",)

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None
    ):  # fmt: skip
        self._build(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
                    device, dtype, output_padding)  # fmt: skip

    @classmethod
    def from_reference(cls, ref_qconvt, output_scale, output_zero_point):
        """The quantized layer of a reference one, with these parameters of its output."""
        return super().from_reference(ref_qconvt, output_scale, output_zero_point)


def _classes(n):
    for base, name, operator in ((_Conv, f"Conv{n}d", f"conv{n}d"),
                                 (_ConvTransposed, f"ConvTranspose{n}d", f"conv_transpose{n}d")):  # fmt: skip
        yield type(name, (base,), {
            "__module__": __name__, "_dims": n, "_operator": operator, "_FLOAT_MODULE": getattr(nn, name),
            "__doc__": f"{name} of a quantized input with qint8 weights; the output is quantized by `scale` and "
                       "`zero_point`. ValueError for inputs of other ranks.",
        })  # fmt: skip


Conv1d, ConvTranspose1d = _classes(1)
Conv2d, ConvTranspose2d = _classes(2)
Conv3d, ConvTranspose3d = _classes(3)


def script(arguments, call):
    """The text of forward() for programs, of a class: `call` with `{op}` for its operator."""

    def text(cls):
        n = cls._dims
        letters = ", ".join(("N", "C", *("L" if n == 1 else "DHW"[-n:])))
        edges = ", ".join(f"self.padding[{i}]" for i in reversed(range(n)) for _ in range(2))
        return f"""def forward(self, {arguments}) -> Tensor:
    if input.dim() != {n + 2}:
        raise ValueError("Input shape must be `({letters})`!")
    if self.padding_mode != "zeros":
        input = F.pad(input, [{edges}], self.padding_mode)
    return torch.ops.quantized.{call.format(op=cls._operator)}
"""

    return text


METHODS[_ConvNd, "forward"] = script("input: Tensor", "{op}(input, self._packed_params, self.scale, self.zero_point)")
