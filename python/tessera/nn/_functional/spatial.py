"""Pooling, padding, unfolding, pixel rearrangement."""

import tessera
from tessera.overrides import handle_torch_function, has_torch_function_unary

from .._tuples import _list_with_default, _pair
from .common import autocasts, overridable, tuple_of
from .composed import resolve

_nn = tessera._C._nn
_op_max_pool3d_with_indices = resolve("max_pool3d_with_indices")
_op_adaptive_max_pool3d = resolve("adaptive_max_pool3d")
_op_adaptive_avg_pool3d = resolve("adaptive_avg_pool3d")
_op_fractional_max_pool2d = resolve("fractional_max_pool2d")
_op_fractional_max_pool3d = resolve("fractional_max_pool3d")
_op_avg_pool3d = resolve("avg_pool3d")
_op_max_pool3d = resolve("max_pool3d")
_op_adaptive_max_pool1d = resolve("adaptive_max_pool1d")


@overridable
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum over windows of (N, C, L) or (C, L). return_indices: also the positions of the maxima."""
    stride = kernel_size if stride is None else stride
    if return_indices:
        return tessera.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return tessera.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum over windows of (N, C, H, W) or (C, H, W). return_indices: also the maxima's positions, flat in the
    plane.
    """
    if has_torch_function_unary(input):
        return handle_torch_function(
            max_pool2d,
            (input,),
            input,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=ceil_mode,
            return_indices=return_indices,
        )
    stride = kernel_size if stride is None else stride
    if return_indices:
        return _nn.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return tessera.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


@overridable
def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum over windows of (N, C, D, H, W) or (C, D, H, W). return_indices: also the maxima's positions, flat in the
    volume.
    """
    stride = kernel_size if stride is None else stride
    if return_indices:
        return _op_max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return _op_max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):
    """max_pool1d with return_indices=True."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):
    """max_pool2d with return_indices=True."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):
    """max_pool3d with return_indices=True."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    """The spatial output size of an unpooling. ValueError if output_size is not within one stride of the default
    one.
    """
    n = len(kernel_size)
    sizes = input.size()
    default = [(sizes[-n + d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return default
    output_size = list(output_size)
    if len(output_size) == n + 2:
        output_size = output_size[2:]
    if len(output_size) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
            f"'{len(output_size)}'"
        )
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < output_size[d] < high:
            raise ValueError(f"invalid output_size '{output_size}' (dim {d} must be between {low} and {high})")
    return output_size


def _max_unpool(n, input, indices, kernel_size, stride, padding, output_size):
    kernel_size = tuple_of(n, kernel_size)
    stride = kernel_size if stride is None else tuple_of(n, stride)
    padding = tuple_of(n, padding)
    for name, given in (("kernel_size", kernel_size), ("stride", stride), ("padding", padding)):
        if len(given) != n:
            raise RuntimeError(f"max_unpool{n}d: {name} must be an int or {n} ints, but got {given}")
    size = _unpool_output_size(input, kernel_size, stride, padding, output_size)
    if n == 1:  # images of one row
        return _nn.max_unpool2d(input.unsqueeze(-2), indices.unsqueeze(-2), (1, *size)).squeeze(-2)
    if n == 2:
        return _nn.max_unpool2d(input, indices, size)
    return _nn.max_unpool3d(input, indices, size, stride, padding)


@overridable
@autocasts(cpu="fp32")
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts the values of a max_pool1d back at `indices`; zeros elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@overridable
@autocasts(cpu="fp32")
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts the values of a max_pool2d back at `indices`; zeros elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@overridable
@autocasts(cpu="fp32")
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts the values of a max_pool3d back at `indices`; zeros elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


@overridable
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maximum over output_size windows that cover (N, C, L) or (C, L)."""
    out = _op_adaptive_max_pool1d(input, output_size)
    return out if return_indices else out[0]


@overridable
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maximum over a grid of windows that covers (N, C, H, W) or (C, H, W). None in output_size keeps that dim."""
    out = _nn.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))
    return out if return_indices else out[0]


@overridable
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maximum over a grid of windows that covers (N, C, D, H, W) or (C, D, H, W). None in output_size keeps that
    dim.
    """
    out = _op_adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))
    return out if return_indices else out[0]


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=True):
    """adaptive_max_pool1d with return_indices=True."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=True):
    """adaptive_max_pool2d with return_indices=True."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=True):
    """adaptive_max_pool3d with return_indices=True."""
    return adaptive_max_pool3d(input, output_size, True)


@overridable
def adaptive_avg_pool2d(input, output_size):
    """Mean over a grid of windows that covers (N, C, H, W) or (C, H, W). None in output_size keeps that dim."""
    return _nn.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


@overridable
def adaptive_avg_pool3d(input, output_size):
    """Mean over a grid of windows that covers (N, C, D, H, W) or (C, D, H, W). None in output_size keeps that dim."""
    return _op_adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


def _fractional(n, native, input, kernel_size, output_size, output_ratio, samples):
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{n}d requires specifying either an output_size or an output_ratio")
    kernel_size = tuple_of(n, kernel_size)
    if output_size is None:
        if len(output_ratio) > n:
            raise ValueError(
                f"fractional_max_pool{n}d requires output_ratio to either be a single Int or tuple of Ints."
            )
        output_size = [int(s * r) for s, r in zip(input.shape[-n:], output_ratio)]
    else:
        output_size = tuple_of(n, output_size)
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = tessera.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    return native(input, kernel_size, output_size, samples)


@overridable
@autocasts(cpu="fp32")
def fractional_max_pool2d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """Max pooling with random window places (Graham 2014) to output_size, or to a share output_ratio (a pair) of the
    input's size.
    """
    out = _fractional(2, _op_fractional_max_pool2d, input, kernel_size, output_size, output_ratio, _random_samples)
    return out if return_indices else out[0]


@overridable
@autocasts(cpu="fp32")
def fractional_max_pool3d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """fractional_max_pool2d with one spatial dim more."""
    out = _fractional(3, _op_fractional_max_pool3d, input, kernel_size, output_size, output_ratio, _random_samples)
    return out if return_indices else out[0]


def fractional_max_pool2d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=True, _random_samples=None
):
    """fractional_max_pool2d with return_indices=True."""
    return fractional_max_pool2d(input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=True, _random_samples=None
):
    """fractional_max_pool3d with return_indices=True."""
    return fractional_max_pool3d(input, kernel_size, output_size, output_ratio, True, _random_samples)


def _lp_pool(n, pool, input, norm_type, kernel_size, stride, ceil_mode):
    kernel_size = tuple_of(n, kernel_size)
    count = 1
    for k in kernel_size:
        count *= k
    stride = kernel_size if stride is None else tuple_of(n, stride)
    out = pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    # a window's mean times its size is its sum; the sign goes through the root, so a negative sum gives NaN as
    # documented
    return (out.sign() * out.abs().relu()).mul(count).pow(1.0 / norm_type)


@overridable
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of x^p over a window)^(1/p), p = norm_type; input (N, C, L) or (C, L)."""
    return _lp_pool(1, tessera.avg_pool1d, input, norm_type, kernel_size, stride, ceil_mode)


@overridable
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of x^p over a window)^(1/p), p = norm_type; input (N, C, H, W) or (C, H, W)."""
    return _lp_pool(2, _nn.avg_pool2d, input, norm_type, kernel_size, stride, ceil_mode)


@overridable
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of x^p over a window)^(1/p), p = norm_type; input (N, C, D, H, W) or (C, D, H, W)."""
    return _lp_pool(3, _op_avg_pool3d, input, norm_type, kernel_size, stride, ceil_mode)


def _pad_circular(input, pad):
    """Wraps around in each padded dim. Negative amounts crop."""
    for i in range(len(pad) // 2):
        dim = input.dim() - 1 - i
        left, right = pad[2 * i], pad[2 * i + 1]
        n = input.size(dim)
        if left > n or right > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if left + right + n < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
        # cropped sides are cut off first, then what is left is wrapped around
        start = max(0, -left)
        input = input.narrow(dim, start, n - start - max(0, -right))
        n = input.size(dim)
        parts = [input]
        if left > 0:
            parts.insert(0, input.narrow(dim, n - left, left))
        if right > 0:
            parts.append(input.narrow(dim, 0, right))
        input = tessera.cat(parts, dim) if len(parts) > 1 else input.clone()
    return input


_PADS = {
    "reflect": [resolve(f"reflection_pad{n}d") for n in (1, 2, 3)],
    "replicate": [resolve(f"replication_pad{n}d") for n in (1, 2, 3)],
}


@overridable
def pad(input, pad, mode="constant", value=None):
    """Pads the last dims: pad = (left, right, top, bottom, front, back ...). mode constant | reflect | replicate |
    circular; negative amounts crop.

    The other modes than constant want 2-D or 3-D input for two numbers, 3-D or 4-D for four, 4-D or 5-D for six.
    """
    if mode == "constant":
        return tessera.constant_pad_nd(input, pad, 0 if value is None else value)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension "
            f"{input.dim()}"
        )
    if value is not None and value != 0.0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    n = len(pad) // 2
    if n not in (1, 2, 3) or input.dim() not in (n + 1, n + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    if mode == "circular":
        return _pad_circular(input, pad)
    return _PADS[mode][n - 1](input, pad)


@overridable
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of (N, C, H, W) as columns: (N, C * kh * kw, L)."""
    return _nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


@overridable
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds columns (N, C * kh * kw, L) up into (N, C, *output_size); the adjoint of unfold."""
    return _nn.col2im(input, *map(_pair, (output_size, kernel_size, dilation, padding, stride)))
