"""Operators of the top-level namespace under the names that backends have for them, and questions about this build."""

import enum
import os

import tessera
from tessera.nn import functional as F


class AggregationType(enum.Enum):
    """How counters of several threads become one: `SUM` or `AVG`."""

    SUM = 0
    AVG = 1


SUM, AVG = AggregationType


class FatalError(Exception):
    """What must not be caught and gone on from."""


class _ClassProperty:
    def __init__(self, function):
        self.fget = function if isinstance(function, (classmethod, staticmethod)) else classmethod(function)

    def __get__(self, instance, owner=None):
        return self.fget.__get__(instance, owner if owner is not None else type(instance))()


def classproperty(func):
    """Decorator: a property of the class itself."""
    return _ClassProperty(func)


def get_file_path(*path_components):
    """The path of a file of this package."""
    return os.path.join(os.path.dirname(tessera.__file__), *path_components[1:])


def prepare_multiprocessing_environment(path):
    """Nothing needs to be prepared."""


def init_num_threads():
    """Gives this thread the number of threads that `set_num_threads` said last, or the machine's."""
    tessera.set_num_threads(tessera.get_num_threads())


def is_distributed(input):
    """Whether `input` is spread over processes without being a DTensor: never."""
    return False


def is_vulkan_available():
    """There is no support of Vulkan."""
    return False


def cudnn_is_acceptable(input):
    """Whether cuDNN computes for this tensor: a floating one on a CUDA device, where the library is found."""
    usable = input.is_cuda and input.dtype in (tessera.float16, tessera.float32, tessera.float64, tessera.bfloat16)
    return usable and tessera.backends.cudnn.is_available()


def affine_grid_generator(theta, size, align_corners):
    """`nn.functional.affine_grid`."""
    return F.affine_grid(theta, size, align_corners)


def sym_constrain_range(size, *, min=None, max=None):
    """Promises that a size lies in [min, max]. Raises: RuntimeError if it does not."""
    low, high = -(2**63) if min is None else min, 2**63 - 1 if max is None else max
    if low > high:
        raise RuntimeError(f"Max must be greater than or equal to min, but got min={low} and max={high}")
    if isinstance(size, int) and not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def sym_constrain_range_for_size(size, *, min=None, max=None):
    """The same of a size, which is not negative."""
    sym_constrain_range(size, min=0 if min is None else min, max=max)


# What synchronised batch normalisation is made of; statistics of each channel (dimension 1) in float32 at least.


def _rows(input):
    """input as (channels, values of each), and how a statistic is viewed beside it."""
    shape = [1, -1] + [1] * (input.dim() - 2)
    return input.transpose(0, 1).reshape(input.size(1), -1), shape


def _wide(t):
    return t if t.dtype == tessera.float64 else t.float()


def batch_norm_stats(input, eps):
    """(mean, 1 / sqrt(variance + eps)) of each channel of (N, C, *)."""
    rows, _ = _rows(_wide(input))
    variance, mean = tessera.var_mean(rows, 1, correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_update_stats(input, running_mean, running_var, momentum):
    """(mean, biased variance) of each channel; running statistics are updated in place where they are given."""
    rows, _ = _rows(_wide(input))
    variance, mean = tessera.var_mean(rows, 1, correction=0)
    if running_mean is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        n = rows.size(1)
        running_var.lerp_((variance * (n / max(n - 1, 1))).to(running_var.dtype), momentum)
    return mean, variance


def batch_norm_elemt(input, weight, bias, mean, invstd, eps, *, out=None):
    """(input - mean) * invstd * weight + bias, by channels."""
    _, shape = _rows(input)
    scale = invstd if weight is None else invstd * weight
    value = (_wide(input) - mean.view(shape)) * scale.view(shape)
    if bias is not None:
        value = value + bias.view(shape)
    value = value.to(input.dtype)
    return value if out is None else out.copy_(value)


def batch_norm_gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, count):
    """`batch_norm_gather_stats_with_counts` of processes with `count` values of a channel each."""
    counts = tessera.full((mean.size(0),), float(count), dtype=mean.dtype, device=mean.device)
    return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


def batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts):
    """(mean, invstd) over all from those of each process, (processes, C); counts (processes): how many values of a
    channel each had. Running statistics are updated in place where they are given.
    """
    total = counts.sum()
    share = (counts / total).view(-1, 1).to(mean.dtype)
    center = (mean * share).sum(0)
    variance = ((invstd.square().reciprocal() - eps + (mean - center).square()) * share).sum(0)
    if running_mean is not None:
        running_mean.lerp_(center.to(running_mean.dtype), momentum)
    if running_var is not None:
        unbiased = variance * (total / (total - 1).clamp(min=1))
        running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return center, (variance + eps).rsqrt()


def batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g):
    """(sum of grad_out, sum of grad_out * (input - mean), grad_weight, grad_bias) by channels; empty tensors for what
    is not wanted (input_g: the first two).
    """
    grad, _ = _rows(_wide(grad_out))
    values, _ = _rows(_wide(input))
    sum_dy = grad.sum(1)
    sum_dy_xmu = (grad * (values - mean.view(-1, 1))).sum(1)
    none = sum_dy.new_empty(0)
    dtype = sum_dy.dtype if weight is None else weight.dtype
    grad_weight = (sum_dy_xmu * invstd).to(dtype) if weight_g else none
    grad_bias = sum_dy.to(dtype) if bias_g else none
    return (sum_dy if input_g else none), (sum_dy_xmu if input_g else none), grad_weight, grad_bias


def batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    """The gradient of the input; count: values of a channel in each process, whose sums sum_dy and sum_dy_xmu are."""
    _, shape = _rows(input)
    total = count.sum()
    scale = invstd if weight is None else invstd * weight
    slope = sum_dy_xmu / total * invstd.square()
    centered = _wide(input) - mean.view(shape)
    grad = (_wide(grad_out) - (sum_dy / total).view(shape) - centered * slope.view(shape)) * scale.view(shape)
    return grad.to(input.dtype)
