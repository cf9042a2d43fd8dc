"""What rounds numbers as quantization would, while a model trains."""

from abc import ABC, abstractmethod

import tessera
from tessera.nn.modules.module import Module

from .observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _pickled_by_name,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from .utils import is_per_channel, is_per_tensor

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant", "default_dynamic_fake_quant", "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit", "default_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant", "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant", "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant", "default_symmetric_fixed_qparams_fake_quant", "default_weight_fake_quant",
    "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127", "fused_wt_fake_quant_range_neg_127_to_127",
]  # fmt: skip


class FakeQuantizeBase(ABC, Module):
    """Base of modules that watch and round tensors. Both parts have a switch, a buffer of one byte that goes into the
    state dict: `observer_enabled` and `fake_quant_enabled`, both on at first.
    """

    fake_quant_enabled: tessera.Tensor
    observer_enabled: tessera.Tensor
    with_args = classmethod(_with_args)

    def __init__(self):
        super().__init__()
        for switch in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(switch, tessera.tensor([1], dtype=tessera.uint8))

    @abstractmethod
    def forward(self, x):
        """What a module does with a tensor."""
        raise NotImplementedError

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """(scale, zero point) of what was seen."""
        raise NotImplementedError

    def enable_fake_quant(self, enabled=True):
        """Turns rounding on or off."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        """Turns rounding off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        """Turns watching on or off."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        """Turns watching off."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Watches with an observer and rounds to the numbers that its integers can stand for.

    Args:
        observer: class or factory of the observer, `activation_post_process`.
        quant_min, quant_max: bounds of the integers; None: those of the observer's dtype.
        is_dynamic: scales are those of each call alone; of the observer, which may refuse it.
        observer_kwargs: arguments of the observer.

    Buffers `scale` and `zero_point` hold what was found. AssertionError for bounds that the dtype does not have.
    """

    scale: tessera.Tensor
    zero_point: tessera.Tensor

    def __init__(
        self, observer=MovingAverageMinMaxObserver, quant_min=None, quant_max=None, is_dynamic=False, **observer_kwargs
    ):
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            dtype = observer_kwargs.get("dtype", tessera.quint8)
            if hasattr(observer, "p"):
                dtype = getattr(getattr(observer, "p", {}), "keywords", {}).get("dtype", dtype)
            kind = {tessera.qint8: tessera.int8, tessera.quint8: tessera.uint8, tessera.qint32: tessera.int32,
                    tessera.quint4x2: tessera.uint8}.get(dtype, dtype)  # fmt: skip
            if not kind.is_floating_point:
                info = tessera.iinfo(kind)
                if quant_min < info.min:
                    raise AssertionError("quant_min out of bound")
                if quant_max > info.max:
                    raise AssertionError("quant_max out of bound")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        watched = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = watched.quant_min, watched.quant_max, watched.is_dynamic
        self.dtype, self.qscheme = watched.dtype, watched.qscheme
        floats = self.qscheme == tessera.per_channel_affine_float_qparams
        self.register_buffer("scale", tessera.tensor([1.0]))
        self.register_buffer("zero_point", tessera.tensor([0], dtype=tessera.float if floats else tessera.int))
        axis = getattr(watched, "ch_axis", None)
        self.ch_axis = -1 if axis is None else axis
        if not (is_per_channel(self.qscheme) or is_per_tensor(self.qscheme)):
            raise AssertionError("Only per channel and per tensor quantization are supported in fake quantize got "
                                 f"qscheme: {self.qscheme}")  # fmt: skip
        self.is_per_channel = is_per_channel(self.qscheme)

    def calculate_qparams(self):
        """(scale, zero point) of what the observer saw."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X):
        """X (floats of any shape), seen if observer_enabled and rounded if fake_quant_enabled."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            self._keep(self.calculate_qparams())
        return self._rounded(X) if self.fake_quant_enabled[0] == 1 else X

    def _keep(self, qparams):
        for buffer, value in zip((self.scale, self.zero_point), qparams):
            if buffer.shape != value.shape:
                buffer.resize_(value.shape)
            buffer.copy_(value)

    def _rounded(self, X):
        if self.is_per_channel:
            return tessera.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max
            )
        return tessera.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def extra_repr(self):
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"quant_min={self.quant_min}, quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        for name in ("scale", "zero_point"):
            value = state_dict.get(prefix + name)
            if value is not None and value.shape != getattr(self, name).shape:
                getattr(self, name).resize_(value.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class FixedQParamsFakeQuantize(FakeQuantize):
    """FakeQuantize whose observer is a factory of FixedQParamsObserver. AssertionError for other observers."""

    def __init__(self, observer):
        super().__init__(observer=observer)
        fixed = self.activation_post_process
        if (kind := type(fixed)) is not FixedQParamsObserver:
            raise AssertionError(
                f"{type(self).__name__}'s observer must be a FixedQParamsObserver, but got {kind.__name__}"
            )
        self.scale, self.zero_point = fixed.scale, fixed.zero_point

    def calculate_qparams(self):
        """The fixed (scale, zero point)."""
        return self.scale, self.zero_point

    def extra_repr(self):
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.quant_min}, quant_max={self.quant_max}, qscheme={self.qscheme}"
        )


_LEAST_SCALE = 6.1e-5  # whose inverse half floats have


def _wide_qparams(least, most, quant_min, quant_max, symmetric):
    """(scale, zero point) for floats from least to most. Unlike those of observers, symmetric ones use all integers: of
    negative numbers there is one more.
    """
    least, most = least.double().clamp(max=0.0).reshape(-1), most.double().clamp(min=0.0).reshape(-1)
    steps = quant_max - quant_min
    both = (least < 0) & (most > 0) & symmetric
    half = steps // 2
    widest = tessera.maximum(-least / (half + 1), most / half)
    least = tessera.where(both, -widest * (half + 1), least)
    most = tessera.where(both, widest * half, most)
    scale = ((most - least) / steps).float().double()
    scale = tessera.where(scale == 0, 0.1, scale)
    grown = (_LEAST_SCALE / scale).clamp(min=1.0)
    least, most, scale = least * grown, most * grown, scale.clamp(min=_LEAST_SCALE)
    from_least, from_most = quant_min - least / scale, quant_max - most / scale
    nearer = abs(quant_min) - least / scale < abs(quant_max) + most / scale
    zero_point = tessera.where(nearer, from_least, from_most)
    zero_point = tessera.where(both, (quant_min + quant_max) / 2, zero_point).round().clamp(quant_min, quant_max)
    return scale.float(), zero_point.int()


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """FakeQuantize with a moving-average observer, whose switches are int64.

    AssertionError for other observers, and for dtypes other than quint8, qint8, uint8 and int8.
    """

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **observer_kwargs):
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        kinds = (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        if not isinstance(self.activation_post_process, kinds):
            raise AssertionError(f"expected an observer of moving averages, but got {self.activation_post_process}")
        for switch in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(switch, tessera.tensor([1], dtype=tessera.long))
        self.is_symmetric_quant = self.qscheme in (tessera.per_tensor_symmetric, tessera.per_channel_symmetric)

    def forward(self, X):
        """X (floats of any shape), seen if observer_enabled and rounded if fake_quant_enabled."""
        watched = self.activation_post_process
        if self.observer_enabled[0] == 1:
            watched(X.detach())
        if self.fake_quant_enabled[0] != 1:
            return X
        if watched.min_val.numel():
            bounds = watched.min_val, watched.max_val, self.quant_min, self.quant_max
            self._keep(_wide_qparams(*bounds, self.is_symmetric_quant))
        return self._rounded(X)

    def extra_repr(self):
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, qscheme={self.qscheme}, "
            f"reduce_range={self.activation_post_process.reduce_range}"
        )


_ACTIVATION = {"observer": MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 255, "dtype": tessera.quint8}
_AFFINE = {**_ACTIVATION, "qscheme": tessera.per_tensor_affine, "reduce_range": True}
_SIGNED = {"quant_min": -128, "quant_max": 127, "dtype": tessera.qint8}
_NARROW = {"quant_min": -127, "quant_max": 127, "dtype": tessera.qint8, "eps": 2**-12}
_WHOLE = {"observer": MovingAverageMinMaxObserver, "qscheme": tessera.per_tensor_symmetric}
_CHANNELS = {"observer": MovingAveragePerChannelMinMaxObserver, "qscheme": tessera.per_channel_symmetric}
_ROWS = {"observer": MovingAveragePerChannelMinMaxObserver, "qscheme": tessera.per_channel_affine_float_qparams,
         "ch_axis": 0, "averaging_constant": 1}  # fmt: skip

default_fake_quant = FakeQuantize.with_args(**_AFFINE)
default_weight_fake_quant = FakeQuantize.with_args(**_WHOLE, **_SIGNED, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(**_ACTIVATION, is_dynamic=True, averaging_constant=1)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(**_CHANNELS, **_SIGNED, reduce_range=False, ch_axis=0)
default_embedding_fake_quant = FakeQuantize.with_args(**_ROWS, dtype=tessera.quint8, quant_min=0, quant_max=255)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(**_ROWS, dtype=tessera.quint4x2)
default_histogram_fake_quant = FakeQuantize.with_args(**{**_AFFINE, "observer": HistogramObserver})
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_ACTIVATION)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_WHOLE, **_SIGNED)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_CHANNELS, **_SIGNED)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(**_WHOLE, **_NARROW)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(**_CHANNELS, **_NARROW)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
_pickled_by_name(globals())


def _is_fake_quant_script_module(mod):
    """Whether a scripted module comes from FakeQuantize."""
    return isinstance(mod, tessera.jit.ScriptModule) and "FakeQuantize" in str(getattr(mod, "original_name", ""))


def _switching(method):
    def switch(mod):
        if isinstance(mod, FakeQuantizeBase) or _is_fake_quant_script_module(mod):
            getattr(mod, method)()

    switch.__name__ = switch.__qualname__ = method
    switch.__doc__ = f"Calls {method}() of a fake quantizer and leaves other modules alone: for model.apply()."
    return switch


disable_fake_quant, enable_fake_quant, disable_observer, enable_observer = map(
    _switching, ("disable_fake_quant", "enable_fake_quant", "disable_observer", "enable_observer")
)
