"""Functions built from other ops, used where the library below has no kernel for them (`resolve`)."""

import tessera

from .common import autocasts

__all__: list[str] = [
    "hardshrink",
    "softshrink",
    "rrelu_",
    "cosine_similarity",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "channel_shuffle",
    "native_channel_shuffle",
    "avg_pool3d",
    "conv_tbc",
]

_nn = tessera._C._nn


def resolve(name):
    """The op `name` of the library below if it exists, else the composition of that name here."""
    op = getattr(_nn, name, None) or getattr(tessera, name, None)
    return op if op is not None else globals()[name]


def _into(out, result):
    """The result, written into `out` if there is one."""
    return result if out is None else out.resize_(result.shape).copy_(result)


# ---- pointwise -------------------------------------------------------------------------------------------------------


def hardshrink(input, lambd=0.5, *, out=None):
    """x where |x| > lambd, else 0."""
    return _into(out, tessera.where((input >= -lambd) & (input <= lambd), tessera.zeros_like(input), input))


def softshrink(input, lambd=0.5, *, out=None):
    """x - lambd where x > lambd, x + lambd where x < -lambd, else 0. RuntimeError if lambd < 0."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return _into(out, input - input.clamp(-lambd, lambd))


def _rrelu_slopes(input, lower, upper, generator=None):
    """1 where x > 0, elsewhere a number of [lower, upper], drawn in the order of the elements."""
    with tessera.no_grad():
        negative = input <= 0
        drawn = tessera.empty(int(negative.sum()), dtype=tessera.float64, device=input.device).uniform_(
            lower, upper, generator=generator
        )
        return tessera.ones_like(input).masked_scatter(negative, drawn.to(input.dtype))


def _check_slopes(lower, upper):
    if not lower <= upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """See nn.functional.rrelu."""
    _check_slopes(lower, upper)
    if training:
        return input * _rrelu_slopes(input, lower, upper, generator)
    return _nn.leaky_relu(input, (lower + upper) / 2)


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """In-place rrelu."""
    _check_slopes(lower, upper)
    if training:
        return input.mul_(_rrelu_slopes(input, lower, upper, generator))
    return _nn.leaky_relu_(input, (lower + upper) / 2)


# ---- dropout ---------------------------------------------------------------------------------------------------------


def _dropout_noise(input, p, feature):
    if feature:
        if input.dim() < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        noise = input.new_empty((*input.shape[:2], *(1,) * (input.dim() - 2)))
    else:
        noise = tessera.empty_like(input)
    with tessera.no_grad():
        return noise.bernoulli_(1 - p)


def _dropout(input, p, train, inplace, feature, alpha):
    """The dropouts besides the plain one, as in the reference: the mask is drawn first, then scaled."""
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return (
            input.zero_()
            if inplace and not input.requires_grad
            else (input.mul_(0.0) if inplace else input * tessera.zeros_like(input))
        )
    noise = _dropout_noise(input, p, feature)
    if not alpha:
        noise = noise.div_(1 - p)
        return input.mul_(noise) if inplace else input * noise
    slope = 1.7580993408473766  # scale * alpha of SELU
    a = 1.0 / ((slope * slope * p + 1) * (1 - p)) ** 0.5
    shift = (noise - 1).mul_(slope * a).add_(slope * a * p)
    noise = noise.mul_(a)
    return input.mul_(noise).add_(shift) if inplace else input * noise + shift


def feature_dropout(input, p, train):
    """Zeroes whole channels."""
    return _dropout(input, p, train, False, True, False)


def feature_dropout_(input, p, train):
    """In-place feature_dropout."""
    return _dropout(input, p, train, True, True, False)


def alpha_dropout(input, p, train):
    """See nn.functional.alpha_dropout."""
    return _dropout(input, p, train, False, False, True)


def alpha_dropout_(input, p, train):
    """In-place alpha_dropout."""
    return _dropout(input, p, train, True, False, True)


def feature_alpha_dropout(input, p, train):
    """See nn.functional.feature_alpha_dropout."""
    return _dropout(input, p, train, False, True, True)


def feature_alpha_dropout_(input, p, train):
    """In-place feature_alpha_dropout."""
    return _dropout(input, p, train, True, True, True)


# ---- normalisation ---------------------------------------------------------------------------------------------------


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True):
    """Batch norm of one sample with N * C channels; the running statistics move by the mean over the samples."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    n, c = input.shape[:2]

    def repeated(t):
        return None if t is None else t.repeat(n)

    mean, var = repeated(running_mean), repeated(running_var)
    flat = input.contiguous().view(1, n * c, *input.shape[2:])
    out = tessera.batch_norm(
        flat, repeated(weight), repeated(bias), mean, var, use_input_stats, momentum, eps, cudnn_enabled
    )
    if use_input_stats:
        with tessera.no_grad():
            if running_mean is not None:
                running_mean.copy_(mean.view(n, c).mean(0))
            if running_var is not None:
                running_var.copy_(var.view(n, c).mean(0))
    return out.view(input.shape)


# ---- distances -------------------------------------------------------------------------------------------------------


@autocasts(cuda="fp32")
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1 . x2 / (max(|x1|, eps) * max(|x2|, eps)) along `dim`; the inputs broadcast."""
    if x1.is_complex() or x2.is_complex() or not (x1.is_floating_point() or x2.is_floating_point()):
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {tessera.result_type(x1, x2)}"
        )
    x1, x2 = tessera.broadcast_tensors(x1, x2)
    dtype = tessera.result_type(x1, x2)
    x1, x2 = x1.to(dtype), x2.to(dtype)

    def scaled(x):
        norm = x.norm(2, dim, keepdim=True)
        # the clamp has no gradient of its own, so that a zero vector does not give NaN
        with tessera.no_grad():
            floor = (norm < eps).to(dtype) * (eps - norm)
        return x / (norm + floor)

    return (scaled(x1) * scaled(x2)).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """|x1 - x2 + eps|_p along the last dim."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def pdist(input, p=2.0):
    """The p-norm distances of all pairs of rows i < j of (N, M), in the order (0,1), (0,2) ...: N (N - 1) / 2
    numbers.
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.size(0)
    i, j = tessera.ones((n, n), dtype=tessera.bool, device=input.device).triu(1).nonzero(as_tuple=True)
    return (input[i] - input[j]).norm(p, -1)


# ---- rearrangement ---------------------------------------------------------------------------------------------------


def pixel_shuffle(input, upscale_factor):
    """(*, C r^2, H, W) -> (*, C, H r, W r) (Shi et al. 2016). RuntimeError if r^2 does not divide the channels."""
    r = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            "but "
            f"input.size(-3)={c} is not divisible by {r * r}"
        )
    k = len(lead)
    x = input.reshape(*lead, c // (r * r), r, r, h, w).permute(*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return x.reshape(*lead, c // (r * r), h * r, w * r)


def pixel_unshuffle(input, downscale_factor):
    """(*, C, H r, W r) -> (*, C r^2, H, W). RuntimeError if r does not divide H and W."""
    r = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.dim()} "
            f"dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    if h % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)={h} is not "
            f"divisible by {r}"
        )
    if w % r:
        raise RuntimeError(
            f"pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)={w} is not "
            f"divisible by {r}"
        )
    k = len(lead)
    x = input.reshape(*lead, c, h // r, r, w // r, r).permute(*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return x.reshape(*lead, c * r * r, h // r, w // r)


def channel_shuffle(input, groups):
    """Interleaves the channels (dim 1) of `groups` groups. RuntimeError if groups does not divide them."""
    if input.dim() <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c = input.shape[:2]
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    return input.reshape(n, groups, c // groups, -1).transpose(1, 2).reshape(input.shape)


native_channel_shuffle = channel_shuffle


def conv_tbc(input, weight, bias, pad=0):
    """1-D convolution with input (T, B, C) and weight (K, C, O)."""
    out = tessera.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, 1, pad)
    return out.permute(2, 0, 1)


# ---- pooling ---------------------------------------------------------------------------------------------------------


def _pool_length(size, kernel, stride, padding, dilation, ceil_mode):
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= size + padding:
        out -= 1  # the last window has to start inside the input or the left padding
    if out < 1:
        raise RuntimeError(f"Given input size {size}. Calculated output size: {out}. Output size is too small")
    return out


def _windows(size, kernel, stride, padding, dilation, ceil_mode):
    """(positions, valid): two lists of the input positions of each window, invalid ones replaced by a valid
    neighbour.
    """
    rows = []
    for o in range(_pool_length(size, kernel, stride, padding, dilation, ceil_mode)):
        row = [o * stride - padding + k * dilation for k in range(kernel)]
        inside = [i for i in row if 0 <= i < size]
        rows.append([i if 0 <= i < size else inside[0] for i in row])
    return rows


def _max_by_index(input, rows_of_dim):
    """Maxima and their flat positions; rows_of_dim: for each spatial dim a list of windows, each a list of input
    positions of one length.
    """
    n = len(rows_of_dim)
    sizes = input.shape[-n:]
    index = None
    for rows, size in zip(rows_of_dim, sizes):
        r = tessera.tensor(rows, dtype=tessera.int64, device=input.device)
        if index is None:
            index = r
        else:
            outer = index.reshape(index.shape[0], 1, index.shape[1], 1) * size
            index = (outer + r.reshape(1, r.shape[0], 1, r.shape[1])).reshape(index.shape[0] * r.shape[0], -1)
    flat = input.flatten(-n)
    best, which = flat[..., index].max(-1)
    place = index.expand(*flat.shape[:-1], *index.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)
    shape = (*input.shape[:-n], *(len(rows) for rows in rows_of_dim))
    return best.reshape(shape), place.reshape(shape)


def _check_pool(name, input, n, kernel, padding):
    if input.dim() not in (n + 1, n + 2) or 0 in input.shape[-n - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got: {list(input.shape)}"
        )
    for k, p in zip(kernel, padding):
        if k <= 0:
            raise RuntimeError(f"{name}: kernel size should be greater than zero, but got {list(kernel)}")
        if p < 0 or p > k // 2:
            raise RuntimeError(
                f"{name}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k}"
            )


def _triple(value):
    return (value,) * 3 if isinstance(value, int) else tuple(value) * (3 if len(value) == 1 else 1)


def max_pool3d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """See nn.functional.max_pool3d."""
    kernel, padding, dilation = _triple(kernel_size), _triple(padding), _triple(dilation)
    stride = _triple(stride) if stride is not None and stride != () and stride != [] else kernel
    _check_pool("max_pool3d", input, 3, kernel, padding)
    if min(stride) <= 0 or min(dilation) <= 0:
        raise RuntimeError("max_pool3d: stride and dilation should be greater than zero")
    return _max_by_index(
        input, [_windows(s, *a, ceil_mode) for s, *a in zip(input.shape[-3:], kernel, stride, padding, dilation)]
    )


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """See nn.functional.max_pool3d."""
    return max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def _adaptive_windows(size, out):
    rows = [list(range(o * size // out, -((-(o + 1) * size) // out))) for o in range(out)]
    width = max(len(r) for r in rows)
    return [r + r[-1:] * (width - len(r)) for r in rows]


def _check_adaptive(name, input, output_size):
    n = len(output_size)
    if input.dim() not in (n + 1, n + 2) or 0 in input.shape[-n:]:
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor with non-zero spatial sizes, but got {list(input.shape)}"
        )
    if min(output_size) < 0:
        raise RuntimeError(
            f"{name}(): elements of output_size must be greater than or equal to 0 but received {list(output_size)}"
        )


def adaptive_max_pool3d(input, output_size):
    """(maxima, flat positions)."""
    output_size = _triple(output_size)
    _check_adaptive("adaptive_max_pool3d", input, output_size)
    return _max_by_index(input, [_adaptive_windows(s, o) for s, o in zip(input.shape[-3:], output_size)])


def adaptive_max_pool1d(input, output_size):
    """(maxima, positions)."""
    output_size = (output_size,) if isinstance(output_size, int) else tuple(output_size)
    _check_adaptive("adaptive_max_pool1d", input, output_size)
    return _max_by_index(input, [_adaptive_windows(input.shape[-1], output_size[0])])


def adaptive_avg_pool3d(input, output_size):
    """Means over boxes; a box's mean is the mean over its dims one after the other."""
    output_size = _triple(output_size)
    _check_adaptive("adaptive_avg_pool3d", input, output_size)
    for dim, out in zip((-3, -2, -1), output_size):
        size = input.shape[dim]
        bounds = [(o * size // out, -((-(o + 1) * size) // out)) for o in range(out)]
        if out == 0:
            input = input.narrow(dim, 0, 0)
        else:
            input = tessera.cat([input.narrow(dim, lo, hi - lo).mean(dim, keepdim=True) for lo, hi in bounds], dim)
    return input.contiguous()


def avg_pool3d(
    input,
    kernel_size,
    stride=None,
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
    *,
    out=None,
):
    """Mean over windows of (N, C, D, H, W) or (C, D, H, W); see avg_pool2d for the arguments."""
    kernel, padding = _triple(kernel_size), _triple(padding)
    stride = _triple(stride) if stride is not None and stride != () and stride != [] else kernel
    _check_pool("avg_pool3d", input, 3, kernel, padding)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    lead = input.dim()
    pads, counts = [], []
    for size, k, s, p in zip(input.shape[-3:], kernel, stride, padding):
        n_out = _pool_length(size, k, s, p, 1, ceil_mode)
        # windows may reach over the right padding in ceil_mode; what is beyond it does not count
        pads[:0] = [p, max((n_out - 1) * s + k - p - size, 0)]
        count = []
        for o in range(n_out):
            start = o * s - p
            stop = min(start + k, size + p)
            count.append(stop - start if count_include_pad else min(stop, size) - max(start, 0))
        counts.append(tessera.tensor(count, dtype=input.dtype, device=input.device))
    input = tessera.constant_pad_nd(input, pads)
    for i, (k, s) in enumerate(zip(kernel, stride)):
        input = input.unfold(lead - 3 + i, k, s)
    input = input.sum((-3, -2, -1))
    divisor = (
        divisor_override if divisor_override is not None else counts[0][:, None, None] * counts[1][:, None] * counts[2]
    )
    rounding = None if input.is_floating_point() else "trunc"
    return _into(out, tessera.div(input, divisor, rounding_mode=rounding).contiguous())


def _fractional_max_pool(n, input, kernel_size, output_size, samples):
    """Window starts as in Graham 2014: with alpha = (in - k) / (out - 1), start i = floor((i + u) alpha) - floor(u
    alpha), the last one in - k.
    """
    sizes = input.shape[-n:]
    if 0 in input.shape[-n - 1 :]:
        raise RuntimeError(
            f"fractional_max_pool{n}d(): Expected input of sizes above 0, but for the batch, got {list(input.shape)}"
        )
    for name, given in (("kernel_size", kernel_size), ("output_size", output_size)):
        if len(given) != n:
            raise RuntimeError(f"fractional_max_pool{n}d: {name} must either be an int or {n} ints, but got {given}")
    for d in range(n):
        if output_size[d] + kernel_size[d] - 1 > sizes[d]:
            raise RuntimeError(
                f"fractional_max_pool{n}d(): pool size {kernel_size[d]} too large relative to input size {sizes[d]}"
            )
    lead = input.shape[:-n]
    batch = input.size(0) if input.dim() == n + 2 else 1
    if samples.dim() != 3 or samples.size(0) < batch or tuple(samples.shape[1:]) != (lead[-1], n):
        raise RuntimeError(
            f"Expect _random_samples of shape {[batch, lead[-1], n]} for an input {list(input.shape)}, but got "
            f"{list(samples.shape)}"
        )
    samples = samples[:batch].reshape(*lead, n).to(tessera.float64)
    index = None
    for d in range(n):
        out, k, size = output_size[d], kernel_size[d], sizes[d]
        u = samples[..., n - 1 - d] if n == 2 else samples[..., d]  # the reference's orders
        o = tessera.arange(out, device=input.device)
        if out > 1:
            alpha = (size - k) / (out - 1)
            start = ((o + u.unsqueeze(-1)) * alpha).trunc() - (u * alpha).trunc().unsqueeze(-1)
            start = tessera.where(o == out - 1, tessera.full_like(start, size - k), start).to(tessera.int64)
        else:
            start = tessera.full((*lead, out), size - k, dtype=tessera.int64, device=input.device)
        r = start.unsqueeze(-1) + tessera.arange(k, device=input.device)
        if index is None:
            index = r
        else:
            outer = index.unsqueeze(-2).unsqueeze(-1) * size
            index = (outer + r.unsqueeze(-3).unsqueeze(-2)).reshape(*lead, index.shape[-2] * out, index.shape[-1] * k)
    flat = input.flatten(-n)
    best, which = flat.gather(-1, index.flatten(-2)).reshape(index.shape).max(-1)
    place = index.gather(-1, which.unsqueeze(-1)).squeeze(-1)
    return best.reshape(*lead, *output_size), place.reshape(*lead, *output_size)


def fractional_max_pool2d(input, kernel_size, output_size, random_samples):
    """(maxima, flat positions)."""
    return _fractional_max_pool(2, input, kernel_size, output_size, random_samples)


def fractional_max_pool3d(input, kernel_size, output_size, random_samples):
    """(maxima, flat positions)."""
    return _fractional_max_pool(3, input, kernel_size, output_size, random_samples)


def _pad_by_index(n, input, pad, reflect):
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D or {n + 2}D (batch mode) tensor for padding, but got: {list(input.shape)}"
        )
    for i in range(n):
        left, right = pad[2 * i], pad[2 * i + 1]
        dim = input.dim() - 1 - i
        size = input.size(dim)
        if reflect and (left >= size or right >= size):
            raise RuntimeError(
                f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({left}, {right}) at dimension {dim} "
                f"of input {list(input.shape)}"
            )
        if size + left + right < 1:
            raise RuntimeError(f"input (size {size}) is too small for padding ({left}, {right})")
        at = tessera.arange(-left, size + right, device=input.device)
        if reflect:
            at = at.abs()
            at = tessera.where(at >= size, 2 * (size - 1) - at, at)
        else:
            at = at.clamp(0, size - 1)
        input = input.index_select(dim, at)
    return input


def reflection_pad1d(input, pad):
    """Mirrors the last dim at its borders."""
    return _pad_by_index(1, input, pad, True)


def reflection_pad2d(input, pad):
    """Mirrors the last two dims at their borders."""
    return _pad_by_index(2, input, pad, True)


def reflection_pad3d(input, pad):
    """Mirrors the last three dims at their borders."""
    return _pad_by_index(3, input, pad, True)


def replication_pad1d(input, pad):
    """Repeats the border values of the last dim."""
    return _pad_by_index(1, input, pad, False)


def replication_pad2d(input, pad):
    """Repeats the border values of the last two dims."""
    return _pad_by_index(2, input, pad, False)


def replication_pad3d(input, pad):
    """Repeats the border values of the last three dims."""
    return _pad_by_index(3, input, pad, False)
