"""Initial values of parameters. All functions with a trailing underscore work in place, without gradients, and return
their tensor.
"""

import functools
import math
import warnings

import tessera

from ._functional.common import overridable

__all__ = [
    "calculate_gain",
    "uniform_",
    "normal_",
    "trunc_normal_",
    "constant_",
    "ones_",
    "zeros_",
    "eye_",
    "dirac_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
    "uniform",
    "normal",
    "constant",
    "eye",
    "dirac",
    "xavier_uniform",
    "xavier_normal",
    "kaiming_uniform",
    "kaiming_normal",
    "orthogonal",
    "sparse",
]

_GAIN_ONE = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "sigmoid",
)


def calculate_gain(nonlinearity, param=None):
    """The recommended gain of a nonlinearity; param: the negative slope of leaky_relu (0.01). ValueError for an unknown
    name.
    """
    if nonlinearity in _GAIN_ONE:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _without_gradients(function):
    """The function under no_grad."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with tessera.no_grad():
            return function(*args, **kwargs)

    return call


@overridable
@_without_gradients
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Numbers of U(a, b)."""
    return tensor.uniform_(a, b, generator=generator)


_no_grad_uniform_ = uniform_


@overridable
@_without_gradients
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Numbers of N(mean, std^2)."""
    return tensor.normal_(mean, std, generator=generator)


@_without_gradients
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Numbers of N(mean, std^2) restricted to [a, b]: by the inverse of the distribution function, uniform numbers
    between the bounds' quantiles through erfinv.
    """
    if not a - 2 * std <= mean <= b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=3,
        )
    quantiles = [(1.0 + math.erf((bound - mean) / std / math.sqrt(2.0))) / 2.0 for bound in (a, b)]
    tensor.uniform_(*(2 * q - 1 for q in quantiles), generator=generator)
    return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=a, max=b)


@overridable
@_without_gradients
def constant_(tensor, val):
    """The value `val` everywhere."""
    return tensor.fill_(val)


@_without_gradients
def ones_(tensor):
    """Ones."""
    return tensor.fill_(1.0)


@_without_gradients
def zeros_(tensor):
    """Zeros."""
    return tensor.zero_()


@_without_gradients
def eye_(tensor):
    """The identity matrix. ValueError unless the tensor is 2-D."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.zero_().diagonal().fill_(1)
    return tensor


def dirac_(tensor, groups=1):
    """Convolution weights (3-D to 5-D) that pass their input channels on, in each group as many as possible. ValueError
    if groups does not divide dim 0.
    """
    dims = tensor.ndimension()
    if dims not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    with tessera.no_grad():
        tensor.zero_()
        center = tuple(s // 2 for s in sizes[2:])
        for g in range(groups):
            for d in range(min(per_group, sizes[1])):
                place = (g * per_group + d, d, *center)
                tensor[place] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    dims = tensor.dim()
    if dims < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = 1
    for s in tensor.shape[2:]:
        field *= s
    return tensor.size(1) * field, tensor.size(0) * field


def _xavier(tensor, gain):
    """gain sqrt(2 / (fan_in + fan_out))."""
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """U(-a, a) with a = gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    bound = math.sqrt(3.0) * _xavier(tensor, gain)
    return uniform_.__wrapped__(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """N(0, std^2) with std = gain sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return normal_.__wrapped__(tensor, 0.0, _xavier(tensor, gain), generator)


def _calculate_correct_fan(tensor, mode):
    fans = dict(zip(("fan_in", "fan_out"), _calculate_fan_in_and_fan_out(tensor)))
    if mode.lower() not in fans:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {list(fans)}")
    return fans[mode.lower()]


def _kaiming(draw, tensor, a, mode, nonlinearity, generator):
    """draw(tensor, gain / sqrt(fan), generator)."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=4)
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    with tessera.no_grad():
        return draw(tensor, std, generator)


@overridable
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """U(-b, b) with b = gain sqrt(3 / fan) (He et al. 2015); a: the negative slope of leaky_relu."""

    def draw(tensor, std, generator):
        bound = math.sqrt(3.0) * std
        return tensor.uniform_(-bound, bound, generator=generator)

    return _kaiming(draw, tensor, a, mode, nonlinearity, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """N(0, std^2) with std = gain / sqrt(fan) (He et al. 2015); a: the negative slope of leaky_relu."""

    def draw(tensor, std, generator):
        return tensor.normal_(0, std, generator=generator)

    return _kaiming(draw, tensor, a, mode, nonlinearity, generator)


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi) orthogonal matrix times gain, the trailing dims taken as one (Saxe et al. 2013). ValueError below
    2-D.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    with tessera.no_grad():
        normal = tensor.new_empty((len(tensor), tensor.numel() // len(tensor))).normal_(0, 1, generator=generator)
        lies = normal.size(0) < normal.size(1)
        q, r = tessera.linalg.qr(normal.t() if lies else normal)
        upright = q * r.diagonal().sign()  # makes the decomposition unique, so that Q is uniform
        return tensor.copy_((upright.t() if lies else upright).reshape(tensor.shape)).mul_(gain)


@_without_gradients
def sparse_(tensor, sparsity, std=0.01, generator=None):
    """N(0, std^2) with a share `sparsity` of each column zero (Martens 2010). ValueError unless 2-D."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    height = tensor.size(0)
    tensor.normal_(0, std, generator=generator)
    for column in tensor.unbind(1):
        column.index_fill_(0, tessera.randperm(height)[: math.ceil(sparsity * height)], 0)
    return tensor


def _make_deprecate(function):
    new_name = function.__name__
    old_name = new_name[:-1]

    def deprecated(*args, **kwargs):
        warnings.warn(
            f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    deprecated.__doc__ = f"Deprecated: use `{new_name}`."
    deprecated.__name__ = deprecated.__qualname__ = old_name
    return deprecated


uniform = _make_deprecate(uniform_)
normal = _make_deprecate(normal_)
constant = _make_deprecate(constant_)
eye = _make_deprecate(eye_)
dirac = _make_deprecate(dirac_)
xavier_uniform = _make_deprecate(xavier_uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
kaiming_normal = _make_deprecate(kaiming_normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)
