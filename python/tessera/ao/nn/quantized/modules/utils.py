"""What quantized layers have in common."""

import copy

import tessera
from tessera import nn
from tessera._root.quantized import QuantizedTensor

from ... import _quantized_scripts  # noqa: F401 - programs may hold these layers
from ..._quantized_ops import PackedWeight, operators

__all__ = ["WeightedQuantizedModule"]

_SIZED = {"per_tensor_affine": "per_tensor_affine", "per_tensor_symmetric": "per_tensor_affine"}


def quantized_weight(weight, observer):
    """`weight` (float32) as integers of the observer's scale and dtype. AssertionError for other schemes."""
    scale, zero_point = observer.calculate_qparams()
    if observer.dtype == tessera.float16:
        return weight.detach().to(tessera.float16)
    name = repr(observer.qscheme).rpartition(".")[2]
    if name in _SIZED:
        return tessera.quantize_per_tensor(weight.detach().float(), float(scale), int(zero_point), observer.dtype)
    axis = observer.ch_axis
    if name == "per_channel_affine_float_qparams":
        zero_point = zero_point.float()
    else:
        zero_point = zero_point.to(tessera.int64)
        scale = scale.to(tessera.float64)
    return tessera.quantize_per_channel(weight.detach().float(), scale, zero_point, axis, observer.dtype)


_quantize_weight = quantized_weight  # the name by which tools look for it


def described(**shown):
    """ "name=value, ..." of what a layer shows in repr()."""
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def watched(weight, observer):
    """The observer after it saw `weight`, unless it had (a fake quantizer of training knows it)."""
    if not hasattr(observer, "fake_quant_enabled") or not bool((observer.scale != 1).any()):
        observer(weight.detach().float())
    return observer


def output_of(observer):
    """(scale, zero point) of a layer's output as numbers, from the observer of it. AssertionError without one."""
    if observer is None:
        raise AssertionError("expected a layer whose output was observed: prepare() the model and run it first")
    scale, zero_point = observer.calculate_qparams()
    return float(scale), int(zero_point)


def qparams_of(mod):
    """output_of() the layer's `activation_post_process`."""
    return output_of(getattr(mod, "activation_post_process", None))


def only_bytes(dtype, kind, own=tessera.quint8):
    """RuntimeError for a dtype that a quantized layer of this kind does not have."""
    if dtype not in (None, own, tessera.float32):
        raise RuntimeError(f"Unsupported dtype for a quantized {kind}: {dtype}")


class Observed:
    """A mixin of layers that are made of a float one whose output was observed."""

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float layer whose output was observed."""
        return cls.from_reference(mod, *qparams_of(mod))


class Scaled(Observed, nn.Module):
    """Base of layers whose output has a scale and a zero point that are kept in the state dict."""

    def _scales(self, scale, zero_point, device, dtype=None):
        only_bytes(dtype, type(self).__name__)
        self.register_buffer("scale", tessera.tensor(scale, device=device))
        self.register_buffer("zero_point", tessera.tensor(zero_point, device=device))


class Numbered(nn.Module):
    """Base of modules whose output has a `scale` and a `zero_point`, numbers that the state dict holds as 0-D tensors,
    behind what `_weights()` gives.
    """

    scale: float
    zero_point: int

    def _weights(self):
        """{name: entry} of the state dict."""
        return {}

    def _take_weights(self, state_dict, prefix):
        """Takes what _weights() gave out of a state dict. Returns the names that it lacks."""
        return [name for name in self._weights() if prefix + name not in state_dict]

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        numbers = {name: tessera.tensor(getattr(self, name)) for name in ("scale", "zero_point")}
        destination.update((prefix + name, entry) for name, entry in {**self._weights(), **numbers}.items())

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        lacking = [name for name in ("scale", "zero_point") if prefix + name not in state_dict]
        self.scale = float(state_dict.pop(prefix + "scale", self.scale))
        self.zero_point = int(state_dict.pop(prefix + "zero_point", self.zero_point))
        lacking += self._take_weights(state_dict, prefix)
        if strict:
            missing.extend(prefix + name for name in lacking)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing, unexpected, errors)


class Packed(nn.Module):
    """Base of modules that hold a packed weight: the state dict has `dtype`, and as `_KEY` what _held() gives."""

    _KEY = "_packed_params"

    def forward(self, x):
        return x

    def __repr__(self):
        return repr(self._held())

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update({prefix + "dtype": self.dtype, prefix + self._KEY: self._held()})

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        self.dtype = state_dict.pop(prefix + "dtype", self.dtype)
        if prefix + self._KEY in state_dict:
            self._take(state_dict.pop(prefix + self._KEY))
        elif strict:
            missing.append(prefix + self._KEY)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing, unexpected, errors)


class WeightedQuantizedModule(Numbered):
    """Base of quantized layers with weights."""

    def _packed_of(self):
        """Where the weight is."""
        return self._packed_params

    def weight(self):
        """The quantized weight."""
        return self._packed_of().weight()

    def bias(self):
        """The bias, or None."""
        return self._packed_of().bias()

    def _weight_bias(self):
        return self.weight(), self.bias()

    def __deepcopy__(self, memo):
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        nn.Module.__init__(made)

        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __copy__(self):
        return self.__deepcopy__({})


def _ntuple_from_first(n):
    """A function from a number or a sequence to the tuple of n times its first."""

    def parse(x):
        while isinstance(x, (tuple, list)):
            x = x[0]
        return (x,) * n

    return parse


def _hide_packed_params_repr(self, params):
    """A module's repr without its packed parameters."""
    shown = self.extra_repr()
    children = [f"({k}): {m!r}" for k, m in self._modules.items() if not isinstance(m, params)]
    if not children:
        return f"{self._get_name()}({shown})"
    return f"{self._get_name()}(\n  " + "\n  ".join([*([shown] if shown else []), *children]) + "\n)"
