"""What watches tensors to find their scales."""

import enum
import re
import warnings
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import partial
from typing import Any

import tessera
from tessera.nn.modules.module import Module

from .utils import calculate_qmin_qmax, check_min_max_valid, determine_qparams, is_per_channel, is_per_tensor
from .utils import validate_qmin_qmax

__all__ = [
    "AffineQuantizedObserverBase", "FixedQParamsObserver", "Granularity", "HistogramObserver", "MappingType",
    "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver", "NoopObserver",
    "ObserverBase", "PerAxis", "PerBlock", "PerChannelMinMaxObserver", "PerGroup", "PerRow", "PerTensor", "PerToken",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "TorchAODType", "UniformQuantizationObserverBase",
    "ZeroPointDomain", "default_affine_fixed_qparams_observer", "default_debug_observer",
    "default_dynamic_quant_observer", "default_fixed_qparams_range_0to1_observer",
    "default_fixed_qparams_range_neg1to1_observer", "default_float_qparams_observer",
    "default_float_qparams_observer_4bit", "default_histogram_observer", "default_observer",
    "default_per_channel_weight_observer", "default_placeholder_observer", "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer", "default_weight_observer", "get_block_size", "get_observer_state_dict",
    "load_observer_state_dict", "per_channel_weight_observer_range_neg_127_to_127",
    "weight_observer_range_neg_127_to_127",
]  # fmt: skip

_EPS = tessera.finfo(tessera.float32).eps


class _PartialWrapper:
    """A constructor with some of its arguments; `p` is the functools.partial, `callable_args` those that are functions
    to call for their values.
    """

    def __init__(self, p):
        self.p, self.callable_args = p, {}

    def __call__(self, *args, **keywords):
        late = {name: value() for name, value in self.callable_args.items() if name not in keywords}
        return self.p(*args, **{**late, **keywords})

    def __repr__(self):
        return f"{self.p!r}{self.callable_args!r}"

    def __reduce_ex__(self, protocol):
        return self.__dict__.get("_global_name") or super().__reduce_ex__(protocol)

    def __eq__(self, other):
        if not isinstance(other, _PartialWrapper):
            return NotImplemented
        parts = lambda w: (w.p.func, w.p.args, w.p.keywords, w.callable_args)  # noqa: E731
        return parts(self) == parts(other)

    def __hash__(self):
        return hash(self.p.func)

    def with_args(self, **kwargs):
        """The constructor with further arguments."""
        more = _PartialWrapper(partial(self.p, **kwargs))
        more.callable_args = dict(self.callable_args)
        return more

    def with_callable_args(self, **kwargs):
        """The constructor with arguments that are made by calling functions each time."""
        more = self.with_args()
        more.callable_args = {**self.callable_args, **kwargs}
        return more


def _pickled_by_name(space):
    """Makes the factories among a module's globals pickle and copy as what they are: the module's only ones."""
    for name, value in space.items():
        if isinstance(value, _PartialWrapper) and "_global_name" not in value.__dict__:
            value.__module__, value._global_name = space["__name__"], name


def _with_args(cls_or_self, **kwargs):
    """A factory: the class with these arguments given."""
    return _PartialWrapper(partial(cls_or_self)).with_args(**kwargs)


def _with_callable_args(cls_or_self, **kwargs):
    """A factory: the class with these arguments, each made by calling the given function."""
    return _PartialWrapper(partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(ABC, Module):
    """Base of observers: `forward(x)` sees a tensor and gives it back, `calculate_qparams()` says what was found.

    Args:
        dtype: the dtype to quantize to.
        is_dynamic: scales are found again at each call.
    """

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x):
        """What a module does with a tensor."""
        raise NotImplementedError

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """(scale, zero point) of what was seen."""
        raise NotImplementedError


class UniformQuantizationObserverBase(ObserverBase):
    """Base of observers of integers with even steps.

    Args:
        dtype: a quantized or an integer dtype. qscheme: per tensor or per channel, affine or symmetric.
        reduce_range: one bit less, for sums in 16 bits. quant_min, quant_max: bounds other than those of the dtype.
        eps: the smallest scale. is_dynamic: scales are found again at each call.

    Raises: AssertionError for a scheme that is none of these, NotImplementedError for reduce_range with qint32.
    """

    eps: tessera.Tensor

    def __init__(
        self, dtype=tessera.quint8, qscheme=tessera.per_tensor_affine, reduce_range=False, quant_min=None,
        quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs
    ):  # fmt: skip
        super().__init__(dtype, is_dynamic, **kwargs)
        if not (is_per_tensor(qscheme) or is_per_channel(qscheme)):
            raise AssertionError(f"expected a per-tensor or per-channel scheme, but got {qscheme}")
        if reduce_range:
            warnings.warn(
                "reduce_range=True halves the integers that are used; quant_min and quant_max say so more plainly",
                stacklevel=3,
            )
        made = {key: (factory_kwargs or {}).get(key) for key in ("device",)}
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", tessera.tensor([eps], dtype=tessera.float32, **made))
        if qscheme == tessera.per_channel_affine_float_qparams and dtype not in (tessera.quint8, tessera.quint4x2):
            raise AssertionError(f"{qscheme} goes with quint8 and quint4x2, but got {dtype}")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )

    def _calculate_qparams(self, min_val, max_val):
        """(scale, zero point) for these bounds."""
        return determine_qparams(
            min_val, max_val, self.quant_min, self.quant_max, self.dtype, self.eps, self.has_customized_qrange,
            self.qscheme,
        )  # fmt: skip

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


class _Bounds(UniformQuantizationObserverBase):
    """Observers that keep the lowest and the highest number, of all or of each channel."""

    ch_axis = None  # all numbers together
    averaging_constant = None  # None: the extremes of all calls

    def __init__(self, axis, rate, options):
        factory = options.get("factory_kwargs") or {}
        super().__init__(**options)
        if axis is not None:
            self.ch_axis = axis
        if rate is not None:
            self.averaging_constant = rate
        for name, start in (("min_val", "inf"), ("max_val", "-inf")):
            value = [] if axis is not None else float(start)
            self.register_buffer(name, tessera.tensor(value, dtype=tessera.float32, device=factory.get("device")))

    def _extremes(self, x):
        if self.ch_axis is None:
            return tessera.aminmax(x)
        rows = x.movedim(self.ch_axis, 0).flatten(1) if x.dim() > 1 else x.reshape(-1, 1)
        return tessera.aminmax(rows, dim=1)

    def forward(self, x_orig):
        """Takes note of the numbers of `x_orig` (floats of any shape) and gives it back."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = self._extremes(x_orig.detach().to(self.min_val.dtype))
        seen = self.min_val.numel() and (self.ch_axis is not None or float(self.min_val) != float("inf"))
        if seen and self.averaging_constant is not None:
            low = self.min_val + self.averaging_constant * (low - self.min_val)
            high = self.max_val + self.averaging_constant * (high - self.max_val)
        elif seen:
            low, high = tessera.min(low, self.min_val), tessera.max(high, self.max_val)
        for buffer, value in ((self.min_val, low), (self.max_val, high)):
            buffer.resize_(value.shape)
            buffer.copy_(value)
        return x_orig

    def calculate_qparams(self):
        """(scale, zero point): float32 and int32 tensors (1,), or with an element for each channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        if self.ch_axis is None:
            self.min_val.copy_(tessera.tensor(float("inf")))
            self.max_val.copy_(tessera.tensor(float("-inf")))
        else:
            self.min_val, self.max_val = self.min_val.new_empty(0), self.max_val.new_empty(0)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        for name, old in (("min_val", "min_vals"), ("max_val", "max_vals")):
            if prefix + old in state_dict:  # of files from the time when channels had names of their own
                state_dict[prefix + name] = state_dict.pop(prefix + old)
            value = state_dict.get(prefix + name)
            if value is not None and value.shape != getattr(self, name).shape:
                getattr(self, name).resize_(value.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class MinMaxObserver(_Bounds):
    """Keeps the lowest and highest number of all calls, as `min_val` and `max_val`. Arguments: as its base.

    NotImplementedError for schemes per channel, and for reduce_range with qint32.
    """

    def __init__(
        self, dtype=tessera.quint8, qscheme=tessera.per_tensor_affine, reduce_range=False, quant_min=None,
        quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs
    ):  # fmt: skip
        if not is_per_tensor(qscheme):
            raise NotImplementedError(f"MinMaxObserver's qscheme only support torch.per_tensor_symmetric and "
                                      f"torch.per_tensor_affine, but got {qscheme}")  # fmt: skip
        if reduce_range and dtype == tessera.qint32:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for qint32")
        rate = kwargs.pop("_rate", None)
        _Bounds.__init__(self, None, rate, dict(
            dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max,
            factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs))  # fmt: skip


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Like MinMaxObserver, but the bounds of each further call pull those kept by `averaging_constant` of the way."""

    def __init__(
        self, averaging_constant=0.01, dtype=tessera.quint8, qscheme=tessera.per_tensor_affine, reduce_range=False,
        quant_min=None, quant_max=None, eps=_EPS, is_dynamic=False, **kwargs
    ):  # fmt: skip
        if not is_per_tensor(qscheme):
            raise NotImplementedError(f"MovingAverageMinMaxObserver's qscheme only support torch.per_tensor_symmetric "
                                      f"and torch.per_tensor_affine, but got {qscheme}")  # fmt: skip
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError("MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging "
                                      f"constant of {averaging_constant}: expected 1")  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic,
                         _rate=averaging_constant, **kwargs)  # fmt: skip


class PerChannelMinMaxObserver(_Bounds):
    """Keeps the lowest and highest number of each index along `ch_axis`. Other arguments: as MinMaxObserver.

    NotImplementedError for schemes per tensor, and for is_dynamic.
    """

    def __init__(
        self, ch_axis=0, dtype=tessera.quint8, qscheme=tessera.per_channel_affine, reduce_range=False, quant_min=None,
        quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs
    ):  # fmt: skip
        if not is_per_channel(qscheme):
            raise NotImplementedError(f"PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                                      f"torch.per_channel_affine and torch.per_channel_affine_float_qparams, but got "
                                      f"{qscheme}")  # fmt: skip
        if is_dynamic:
            raise NotImplementedError(f"{type(self).__name__} doesn't support dynamic quantization")
        rate = kwargs.pop("_rate", None)
        super().__init__(ch_axis, rate, dict(
            dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max,
            factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs))  # fmt: skip
        if reduce_range and dtype == tessera.qint32:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for qint32")


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """PerChannelMinMaxObserver with the moving averages of MovingAverageMinMaxObserver."""

    def __init__(
        self, averaging_constant=0.01, ch_axis=0, dtype=tessera.quint8, qscheme=tessera.per_channel_affine,
        reduce_range=False, quant_min=None, quant_max=None, eps=_EPS, is_dynamic=False, **kwargs
    ):  # fmt: skip
        super().__init__(ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic,
                         _rate=averaging_constant, **kwargs)  # fmt: skip


class HistogramObserver(UniformQuantizationObserverBase):
    """Counts numbers in `bins` equal parts of the range seen so far, and takes those bounds that lose least.

    From both ends of the histogram, quantiles are given up one after the other as long as the expected square of the
    error falls. Arguments: as MinMaxObserver.
    """

    histogram: tessera.Tensor
    min_val: tessera.Tensor
    max_val: tessera.Tensor
    upsample_rate = 16

    def __init__(
        self, bins=2048, dtype=tessera.quint8, qscheme=tessera.per_tensor_affine, reduce_range=False, quant_min=None,
        quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs
    ):  # fmt: skip
        if not is_per_tensor(qscheme):
            raise NotImplementedError(f"HistogramObserver's qscheme only support torch.per_tensor_symmetric and "
                                      f"torch.per_tensor_affine, but got {qscheme}")  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.bins = bins
        self.dst_nbins = 2 ** (
            32 if "32" in str(dtype) else 16 if "16" in str(dtype) else 4 if "4" in str(dtype) else 8
        )
        made = {"device": (factory_kwargs or {}).get("device")}
        self.register_buffer("histogram", tessera.zeros(bins, **made))
        self.register_buffer("min_val", tessera.tensor(float("inf"), **made))
        self.register_buffer("max_val", tessera.tensor(float("-inf"), **made))

    def _keep(self, histogram, low, high):
        for buffer, value in ((self.histogram, histogram), (self.min_val, low), (self.max_val, high)):
            buffer.resize_(value.shape)
            buffer.copy_(value)

    def reset_histogram(self, x, min_val, max_val):
        """Counts the numbers of `x` alone, between 0-D tensors min_val and max_val."""
        self._keep(tessera.histc(x, self.bins, min=float(min_val), max=float(max_val)), min_val, max_val)

    def _rebinned(self, low, high):
        """The counts so far in bins of a wider range."""
        old_low, old_high = float(self.min_val), float(self.max_val)
        if old_low == old_high:
            counts = tessera.zeros_like(self.histogram)
            at = int((old_low - low) / (high - low) * self.bins) if high > low else 0
            counts[min(at, self.bins - 1)] = self.histogram.sum()
            return counts
        fine = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        count = self.bins * self.upsample_rate
        step = (old_high - old_low) / count
        middles = tessera.linspace(old_low, old_high, count + 1, device=fine.device)[:-1] + 0.5 * step
        edges = tessera.linspace(low, high, self.bins + 1, device=fine.device)
        at = (tessera.bucketize(middles, edges, right=True) - 1).clamp(0, self.bins - 1)
        return tessera.bincount(at, weights=fine, minlength=self.bins).to(self.histogram.dtype)

    def forward(self, x_orig):
        """Counts the numbers of `x_orig` (floats of any shape; those that are not finite are left out)."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        low, high = tessera.aminmax(x)
        if not (bool(low.isfinite()) and bool(high.isfinite())):
            x = x[x.isfinite()]
            if x.numel() == 0:
                return x_orig
            low, high = tessera.aminmax(x)
        if float(self.min_val) == float("inf"):
            self.reset_histogram(x, low, high)
            return x_orig
        low, high = tessera.min(low, self.min_val), tessera.max(high, self.max_val)
        if float(low) == float(self.min_val) and float(high) == float(self.max_val):
            counts = self.histogram
        else:
            counts = self._rebinned(float(low), float(high))
        more = tessera.histc(x, self.bins, min=float(low), max=float(high)).to(self.histogram.device)
        self._keep(counts + more, low, high)
        return x_orig

    def _lost(self, start, end):
        """The expected square of the error if bins start .. end are spread over the integers."""
        width = (float(self.max_val) - float(self.min_val)) / self.bins
        step = width * (end - start + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begins = (tessera.arange(self.bins, device=self.histogram.device) - start) * width
        ends = begins + width
        first = (begins / step).floor().clamp(0, self.dst_nbins - 1)
        last = (ends / step).floor().clamp(0, self.dst_nbins - 1)
        density = self.histogram / width
        cube = lambda a, b: (b * b * b - a * a * a) / 3  # noqa: E731
        half = tessera.full_like(begins, step / 2)
        lost = cube(begins - (first + 0.5) * step, half) + (last - first - 1) * cube(-half, half)
        return float(((lost + cube(-half, ends - (last + 0.5) * step)) * density).sum())

    def _non_linear_param_search(self):
        """The bounds (0-D tensors) that lose least."""
        below = self.histogram.cumsum(0).tolist()
        total, width = below[-1] if below else 0.0, (self.max_val - self.min_val) / self.bins
        share, alpha, beta = 1e-5, 0.0, 1.0
        start, end, least = 0, self.bins - 1, float("inf")
        while alpha < beta:
            left = max(start, min(bisect_left(below, (alpha + share) * total), end))
            right = min(end, max(bisect_right(below, (beta - share) * total) - 1, start))
            new_start, new_end = start, end
            if left - start > end - right:
                new_start, alpha = left, alpha + share
            else:
                new_end, beta = right, beta - share
            if (new_start, new_end) == (start, end):
                continue
            lost = self._lost(new_start, new_end)
            if lost > least:
                break
            least, start, end = lost, new_start, new_end
        return self.min_val + width * start, self.min_val + width * (end + 1)

    def calculate_qparams(self):
        """(scale, zero point): float32 and int32 tensors (1,)."""
        if not check_min_max_valid(self.min_val, self.max_val):
            device = self.min_val.device
            return tessera.tensor([1.0], device=device), tessera.tensor([0], device=device)
        if self.bins != len(self.histogram):
            raise AssertionError(
                f"The number of bins in histogram should be equal to the number of bins supplied while making this "
                f"observer, but got {len(self.histogram)} and {self.bins}"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self._keep(tessera.zeros_like(self.histogram), tessera.tensor(float("inf")), tessera.tensor(float("-inf")))

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"


class FixedQParamsObserver(ObserverBase):
    """Gives the scale and the zero point that it was made with."""

    scale: tessera.Tensor
    zero_point: tessera.Tensor

    def __init__(
        self, scale, zero_point, dtype=tessera.quint8, qscheme=tessera.per_tensor_affine, quant_min=0, quant_max=255,
        is_dynamic=False, **kwargs
    ):  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype, is_dynamic, **kwargs)
        self.qscheme, (self.quant_min, self.quant_max) = qscheme, (quant_min, quant_max)
        for name, number, kind in (("scale", scale, tessera.float32), ("zero_point", zero_point, tessera.int32)):
            self.register_buffer(name, tessera.tensor([number], dtype=kind))

    def forward(self, X):
        return X

    def calculate_qparams(self):
        """(scale, zero point) as given, tensors (1,)."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Watches nothing: it says which dtype is wanted, for dynamic and float16 quantization.

    compute_dtype (old name) sets is_dynamic. calculate_qparams() raises an Exception.
    """

    def __init__(
        self, dtype=tessera.float32, custom_op_name="", compute_dtype=None, quant_min=None, quant_max=None,
        qscheme=None, eps=None, is_dynamic=False
    ):  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme = tessera.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = tessera.finfo(tessera.float32).eps if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            warnings.warn("compute_dtype is deprecated; please use is_dynamic instead", stacklevel=2)
            self.is_dynamic = True

    def forward(self, x):
        return x

    def extra_repr(self):
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self):
        raise Exception(  # noqa: TRY002
            "calculate_qparams should not be called for PlaceholderObserver: it watches nothing"
        )


class RecordingObserver(ObserverBase):
    """Keeps copies of all tensors that it sees. calculate_qparams() raises an Exception."""

    def __init__(self, dtype=tessera.quint8):
        super().__init__(dtype, is_dynamic=False)
        self.tensor_val: list = []

    def forward(self, x):
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for RecordingObserver")  # noqa: TRY002

    def get_tensor_value(self):
        """The tensors, a list."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Watches nothing. calculate_qparams() raises an Exception."""

    def __init__(self, dtype=tessera.float16, custom_op_name=""):
        super().__init__(dtype, is_dynamic=False)
        self.custom_op = custom_op_name

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for NoopObserver")  # noqa: TRY002


class ReuseInputObserver(ObserverBase):
    """Stands for the observer of the operator's input. calculate_qparams() raises an Exception."""

    def __init__(self):
        super().__init__(tessera.quint8, is_dynamic=False)

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")  # noqa: TRY002


# ---- scales of blocks ----


class MappingType(enum.Enum):
    """How floats go to integers: around 0, with two scales that lose no extreme, or between two bounds."""

    SYMMETRIC = enum.auto()
    SYMMETRIC_NO_CLIPPING_ERR = enum.auto()
    ASYMMETRIC = enum.auto()


class ZeroPointDomain(enum.Enum):
    """Whether a zero point is an integer, a float, or absent."""

    INT = enum.auto()
    FLOAT = enum.auto()
    NONE = enum.auto()


class TorchAODType(enum.Enum):
    """Integers of less than eight bits."""

    INT1 = enum.auto()
    INT2 = enum.auto()
    INT3 = enum.auto()
    INT4 = enum.auto()
    INT5 = enum.auto()
    INT6 = enum.auto()
    INT7 = enum.auto()


@dataclass(frozen=True)
class Granularity:
    """Which elements share a scale: base of the classes that say."""


@dataclass(frozen=True)
class PerBlock(Granularity):
    """Blocks of this shape."""

    block_size: tuple


@dataclass(frozen=True)
class PerTensor(Granularity):
    """All."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """Those of one index along a dim."""

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """Runs of so many along the last dim."""

    group_size: int


class PerRow(Granularity):
    """Those along the last dim."""


class PerToken(Granularity):
    """Those along the last dim (activations)."""


def get_block_size(input_shape, granularity):
    """The shape of the blocks of a tensor of `input_shape` that share a scale. AssertionError where it does not fit."""
    if not isinstance(granularity, Granularity):
        raise AssertionError(f"Please provide an instance of Granularity, not subclass of it: {granularity}")
    shape = tuple(input_shape)
    if isinstance(granularity, PerTensor):
        return shape
    if isinstance(granularity, PerAxis):
        block = list(shape)
        block[granularity.axis] = 1
        return tuple(block)
    if isinstance(granularity, (PerRow, PerToken)):
        return (1,) * (len(shape) - 1) + shape[-1:]
    if isinstance(granularity, PerGroup):
        if len(shape) != 2 or shape[-1] % granularity.group_size:
            raise AssertionError(f"PerGroup({granularity.group_size}) needs a 2-D tensor of a width that it divides, "
                                 f"but got shape {shape}")  # fmt: skip
        return (1,) * (len(shape) - 1) + (granularity.group_size,)
    if isinstance(granularity, PerBlock):
        return tuple(granularity.block_size)
    raise ValueError(f"Unsupported Granularity: {granularity}")


class AffineQuantizedObserverBase(ABC, Module):
    """Base of observers of blocks (of `granularity`), for the export flow.

    `convert(model, observer_node)` puts the quantizing operators where the observer stands; subclasses may override it.
    """

    with_args = classmethod(_with_args)

    def __init__(
        self, mapping_type, target_dtype, granularity, quant_min=None, quant_max=None, eps=None, scale_dtype=None,
        zero_point_dtype=None, preserve_zero=True, zero_point_domain=ZeroPointDomain.INT, **kwargs
    ):  # fmt: skip
        super().__init__()
        if granularity is None:
            raise AssertionError("granularity is None")
        if zero_point_domain is None:
            raise ValueError("Please use ZeroPointDomain.NONE instead of None")
        self.mapping_type, self.target_dtype, self.granularity = mapping_type, target_dtype, granularity
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.scale_dtype, self.zero_point_dtype = scale_dtype, zero_point_dtype
        self.preserve_zero, self.zero_point_domain = preserve_zero, zero_point_domain
        self.block_size: Any = None
        self.original_dtype: Any = None
        for name, value in kwargs.items():
            setattr(self, name, value)

    @abstractmethod
    def forward(self, input):
        """Takes note of `input` and gives it back."""

    @abstractmethod
    def calculate_qparams(self):
        """(scale, zero point) of the blocks."""

    def convert(self, model, observer_node):
        """Replaces the observer's node in a graph by quantize_affine and dequantize_affine of its blocks."""
        if self.block_size is None or self.original_dtype is None:
            raise AssertionError("expected an observer that has seen a tensor: block_size and original_dtype are None")
        scale, zero_point = self.calculate_qparams()
        names = {}
        for stem, value in (("scale", scale), ("zero_point", zero_point)):
            name = f"_{observer_node.name}_{stem}"
            model.register_buffer(name, value)
            names[stem] = name
        space = tessera.ops.pt2e_quant
        with model.graph.inserting_before(observer_node):
            got = {stem: model.graph.get_attr(name) for stem, name in names.items()}
            bounds = (self.quant_min, self.quant_max, self.zero_point_domain.name)
            parameters = (self.block_size, got["scale"], got["zero_point"], self.target_dtype, *bounds)
            quantized = model.graph.call_function(space.quantize_affine, (observer_node.args[0], *parameters))
            back = model.graph.call_function(
                space.dequantize_affine, (quantized, *parameters), {"output_dtype": self.original_dtype}
            )
            observer_node.replace_all_uses_with(back)
            model.graph.erase_node(observer_node)


# ---- what observers know, apart from a model ----


def _is_observer_script_module(mod, obs_type_name):
    """Whether a scripted module comes from an observer class of this name."""
    return isinstance(mod, tessera.jit.ScriptModule) and obs_type_name in str(getattr(mod, "original_name", ""))


def _is_activation_post_process(module):
    """Whether a module is an observer or a fake quantizer."""
    return isinstance(module, (ObserverBase, AffineQuantizedObserverBase)) or any(
        one.__name__ == "FakeQuantizeBase" for one in type(module).__mro__
    )


def get_observer_state_dict(mod):
    """The entries of mod.state_dict() that belong to observers."""
    return type(mod.state_dict())(
        (name, value) for name, value in mod.state_dict().items() if "activation_post_process" in name
    )


def load_observer_state_dict(mod, obs_dict):
    """Loads what get_observer_state_dict() gave into the observers of `mod`. RuntimeError for names that it lacks."""
    lacking: list = []
    surplus: list = []
    for name, module in mod.named_modules():
        if _is_activation_post_process(module):
            module._load_from_state_dict(obs_dict, f"{name}.", {}, False, lacking, surplus, [])
    for what, keys in (("Missing", lacking), ("Unexpected", surplus)):
        first = next((key for key in keys if re.search("observer|activation_post_process", key)), None)
        if first is not None:
            raise RuntimeError(f"{what} keys for observer {first} in state_dict")


_SMALLEST = 2**-12
_WEIGHT = {"dtype": tessera.qint8, "qscheme": tessera.per_tensor_symmetric}
_CHANNELS = {"dtype": tessera.qint8, "qscheme": tessera.per_channel_symmetric}
_NARROW = {"quant_min": -127, "quant_max": 127, "eps": _SMALLEST}
_FLOATING = {"qscheme": tessera.per_channel_affine_float_qparams, "ch_axis": 0}
_BYTES = {"dtype": tessera.quint8, "quant_min": 0, "quant_max": 255}

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(**_WEIGHT)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(**_WEIGHT, **_NARROW)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**_CHANNELS)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(**_CHANNELS, **_NARROW)
default_dynamic_quant_observer = PlaceholderObserver.with_args(**_BYTES, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=tessera.quint8, **_FLOATING)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(dtype=tessera.quint4x2, **_FLOATING)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(scale=2 / 256, zero_point=128, **_BYTES)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1 / 256, zero_point=0, **_BYTES)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
_pickled_by_name(globals())
