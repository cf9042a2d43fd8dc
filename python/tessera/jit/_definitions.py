"""The functions of nn.functional and the methods of layers as programs: their Python takes more kinds of arguments than
a program can, so their text for the compiler is here. `torch` and `nn` are the operators.
"""

import functools
import inspect

import tessera
from tessera._root import held_classes

from . import _functional, _initial, _sequences

_FUNCTIONS = """
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.relu_(input)
    else:
        result = torch.relu(input)
    return result
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return nn.hardtanh_(input, 0.0, 6.0) if inplace else nn.hardtanh(input, 0.0, 6.0)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return nn.elu_(input, alpha) if inplace else nn.elu(input, alpha)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.selu_(input) if inplace else torch.selu(input)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return nn.leaky_relu_(input, negative_slope) if inplace else nn.leaky_relu(input, negative_slope)
def rrelu(input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False,
        inplace: bool = False) -> Tensor:
    return torch.rrelu_(input, lower, upper, training) if inplace else torch.rrelu(input, lower, upper, training)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return nn.hardtanh_(input, min_val, max_val) if inplace else nn.hardtanh(input, min_val, max_val)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return nn.hardsigmoid_(input) if inplace else nn.hardsigmoid(input)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return nn.hardswish_(input) if inplace else nn.hardswish(input)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return nn.silu_(input) if inplace else nn.silu(input)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return nn.mish_(input) if inplace else nn.mish(input)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    return nn.glu(input, dim)
def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)
def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()
def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()
def tanh(input: Tensor) -> Tensor:
    return input.tanh()
def block_diag(tensors: List[Tensor]) -> Tensor:
    if len(tensors) == 0:
        return torch.empty([1, 0])
    blocks: List[Tensor] = []
    flat: List[Tensor] = []
    columns = 0
    for t in tensors:
        if t.dim() > 2:
            raise RuntimeError("torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {} has {} "
                    "dimensions".format(len(blocks), t.dim()))
        block = torch.atleast_2d(t)
        blocks.append(block)
        flat.append(block.flatten())
        columns += block.size(1)
    dtype = torch.cat(flat).dtype
    rows: List[Tensor] = []
    left = 0
    for block in blocks:
        width = block.size(1)
        rows.append(torch.constant_pad_nd(block.to(dtype), [left, columns - left - width]))
        left += width
    return torch.cat(rows)
def cartesian_prod(tensors: List[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    flat: List[Tensor] = []
    for grid in torch.meshgrid(tensors, indexing="ij"):
        flat.append(grid.flatten())
    return torch.stack(flat, 1)
def _edge_slope(x0: Tensor, x1: Tensor, x2: Tensor, h1: Tensor, h2: Tensor) -> Tensor:
    return -(2 * h1 + h2) / (h1 * (h1 + h2)) * x0 + (h1 + h2) / (h1 * h2) * x1 - h1 / (h2 * (h1 + h2)) * x2
def _slopes(x: Tensor, d: int, steps: Tensor, edge_order: int) -> Tensor:
    n = x.size(d)
    a, b, c = x.narrow(d, 0, n - 2), x.narrow(d, 1, n - 2), x.narrow(d, 2, n - 2)
    first, second, last, before_last = steps, steps, steps, steps
    if steps.dim() == 0:
        inner = (c - a) / (2 * steps)
    else:
        h = steps.reshape([-1] + [1] * (x.dim() - d - 1))
        p, q = h[:-1], h[1:]
        inner = (c * p ** 2 - a * q ** 2 + b * (q ** 2 - p ** 2)) / (p * q * (p + q))
        first, second, last, before_last = h[:1], h[1:2], h[-1:], h[-2:-1]
    if edge_order == 1:
        low = (x.narrow(d, 1, 1) - x.narrow(d, 0, 1)) / first
        high = (x.narrow(d, n - 1, 1) - x.narrow(d, n - 2, 1)) / last
    else:
        low = _edge_slope(x.narrow(d, 0, 1), x.narrow(d, 1, 1), x.narrow(d, 2, 1), first, second)
        high = -_edge_slope(x.narrow(d, n - 1, 1), x.narrow(d, n - 2, 1), x.narrow(d, n - 3, 1), last, before_last)
    return torch.cat([low, inner.to(low.dtype), high], d)
def _step(x: Tensor, h: float) -> Tensor:
    even = x.is_floating_point() or x.is_complex()
    return torch.tensor(h, dtype=x.dtype if even else torch.get_default_dtype(), device=x.device)
def _gradient_dims(x: Tensor, dim: List[int], edge_order: int) -> List[int]:
    if edge_order != 1 and edge_order != 2:
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims: List[int] = []
    for d in dim:
        at = d + x.dim() if d < 0 else d
        if at in dims:
            raise RuntimeError("torch.gradient expected distinct dims, but got {}".format(dim))
        if x.size(at) < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
        dims.append(at)
    return dims
def gradient(input: Tensor, *, spacing: Optional[float] = None, dim: Optional[int] = None,
        edge_order: int = 1) -> List[Tensor]:
    step = 1.0 if spacing is None else spacing
    all: List[int] = list(range(input.dim())) if dim is None else [dim]
    return _gradient_even(input, spacing=step, dim=all, edge_order=edge_order)
def _gradient_even(input: Tensor, *, spacing: float, dim: List[int], edge_order: int = 1) -> List[Tensor]:
    out: List[Tensor] = []
    for d in _gradient_dims(input, dim, edge_order):
        out.append(_slopes(input, d, _step(input, spacing), edge_order))
    return out
def _gradient_dims_only(input: Tensor, *, dim: List[int], edge_order: int = 1) -> List[Tensor]:
    return _gradient_even(input, spacing=1.0, dim=dim, edge_order=edge_order)
def _gradient_steps(input: Tensor, *, spacing: List[float], dim: Optional[List[int]] = None,
        edge_order: int = 1) -> List[Tensor]:
    out: List[Tensor] = []
    all: List[int] = list(range(input.dim())) if dim is None else dim
    if len(spacing) != len(all):
        raise RuntimeError("torch.gradient expected as many numbers in spacing as dims")
    for i, d in enumerate(_gradient_dims(input, all, edge_order)):
        out.append(_slopes(input, d, _step(input, spacing[i]), edge_order))
    return out
def _gradient_points(input: Tensor, *, spacing: List[Tensor], dim: Optional[List[int]] = None,
        edge_order: int = 1) -> List[Tensor]:
    out: List[Tensor] = []
    all: List[int] = list(range(input.dim())) if dim is None else dim
    if len(spacing) != len(all):
        raise RuntimeError("torch.gradient expected as many tensors in spacing as dims")
    for i, d in enumerate(_gradient_dims(input, all, edge_order)):
        if spacing[i].dim() != 1 or spacing[i].numel() != input.size(d):
            raise RuntimeError("torch.gradient expected a coordinate for each point of dimension {}".format(d))
        out.append(_slopes(input, d, torch.diff(spacing[i]), edge_order))
    return out
def _fractional_pool(input: Tensor, kernel: List[int], output: List[int], samples: Tensor) -> Tuple[Tensor, Tensor]:
    n = len(kernel)
    lead, sizes = input.shape[:input.dim() - n], input.shape[input.dim() - n:]
    batch = input.size(0) if input.dim() == n + 2 else 1
    shares = samples[:batch].reshape(lead + [n]).to(torch.float64)
    index = torch.zeros(lead + [1, 1], dtype=torch.int64, device=input.device)
    for d in range(n):
        out, k, size = output[d], kernel[d], sizes[d]
        if out + k - 1 > size:
            raise RuntimeError("fractional_max_pool: pool size {} too large relative to input size {}".format(k, size))
        u = shares.select(-1, n - 1 - d if n == 2 else d)
        o = torch.arange(out, device=input.device)
        start = torch.full(lead + [1], size - k, dtype=torch.int64, device=input.device)
        if out > 1:
            alpha = float(size - k) / float(out - 1)
            at = ((o + u.unsqueeze(-1)) * alpha).trunc() - (u * alpha).trunc().unsqueeze(-1)
            start = torch.where(o == out - 1, torch.full_like(at, size - k), at).to(torch.int64)
        r = start.unsqueeze(-1) + torch.arange(k, device=input.device)
        outer = index.unsqueeze(-2).unsqueeze(-1) * size
        index = (outer + r.unsqueeze(-3).unsqueeze(-2)).reshape(lead + [index.size(-2) * out, index.size(-1) * k])
    best, which = input.flatten(input.dim() - n).gather(-1, index.flatten(-2)).reshape(index.shape).max(-1)
    place = index.gather(-1, which.unsqueeze(-1)).squeeze(-1)
    return best.reshape(lead + output), place.reshape(lead + output)
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: BroadcastingList2[int],
        output_size: Optional[BroadcastingList2[int]] = None, output_ratio: Optional[BroadcastingList2[float]] = None,
        return_indices: bool = True, _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    size: List[int] = []
    if output_size is not None:
        size = output_size
    elif output_ratio is not None:
        for i, ratio in enumerate(output_ratio):
            size.append(int(input.size(i - 2) * ratio))
    else:
        raise ValueError("fractional_max_pool requires specifying either an output_size or an output_ratio")
    if _random_samples is None:
        batch = 1 if input.dim() == 3 else input.size(0)
        _random_samples = torch.rand([batch, input.size(-3), 2], dtype=input.dtype, device=input.device)
    return _fractional_pool(input, kernel_size, size, _random_samples)
def fractional_max_pool2d(input: Tensor, kernel_size: BroadcastingList2[int],
        output_size: Optional[BroadcastingList2[int]] = None, output_ratio: Optional[BroadcastingList2[float]] = None,
        return_indices: bool = False, _random_samples: Optional[Tensor] = None) -> Tensor:
    return F.fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)[0]
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: BroadcastingList3[int],
        output_size: Optional[BroadcastingList3[int]] = None, output_ratio: Optional[BroadcastingList3[float]] = None,
        return_indices: bool = True, _random_samples: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    size: List[int] = []
    if output_size is not None:
        size = output_size
    elif output_ratio is not None:
        for i, ratio in enumerate(output_ratio):
            size.append(int(input.size(i - 3) * ratio))
    else:
        raise ValueError("fractional_max_pool requires specifying either an output_size or an output_ratio")
    if _random_samples is None:
        batch = 1 if input.dim() == 4 else input.size(0)
        _random_samples = torch.rand([batch, input.size(-4), 3], dtype=input.dtype, device=input.device)
    return _fractional_pool(input, kernel_size, size, _random_samples)
def fractional_max_pool3d(input: Tensor, kernel_size: BroadcastingList3[int],
        output_size: Optional[BroadcastingList3[int]] = None, output_ratio: Optional[BroadcastingList3[float]] = None,
        return_indices: bool = False, _random_samples: Optional[Tensor] = None) -> Tensor:
    return F.fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)[0]
def fake_quantize_per_tensor_affine(input: Tensor, scale: Union[float, Tensor], zero_point: Union[int, Tensor],
        quant_min: int, quant_max: int) -> Tensor:
    pass
def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int,
        quant_max: int) -> Tensor:
    pass
def _empty_affine_quantized(size: List[int], *, scale: float = 1.0, zero_point: int = 0, dtype: int = 13,
        device: Optional[Device] = None) -> Tensor:
    pass
def align_tensors(tensors: List[Tensor]) -> List[Tensor]:
    return tensors
def _softmax_dim(n: int) -> int:
    return 0 if n == 0 or n == 1 or n == 3 else 1
def softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim(input.dim())
    return input.softmax(dim, dtype)
def softmin(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim(input.dim())
    return (-input).softmax(dim, dtype)
def log_softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3,
        dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim(input.dim())
    return input.log_softmax(dim, dtype)
def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    noise = -torch.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if hard:
        index = soft.max(dim, True)[1]
        one = torch.zeros_like(logits).scatter_(dim, index, 1.0)
        return one - soft.detach() + soft
    return soft
def _check_p(p: float):
    if p < 0.0 or p > 1.0:
        raise ValueError("dropout probability has to be between 0 and 1, but got {}".format(p))
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    _check_p(p)
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    _check_p(p)
    return torch.alpha_dropout_(input, p, training) if inplace else torch.alpha_dropout(input, p, training)
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    _check_p(p)
    return torch.feature_alpha_dropout_(input, p, training) if inplace else torch.feature_alpha_dropout(input, p,
            training)
def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    _check_p(p)
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)
    if not batched:
        result = result.squeeze_(0) if inplace else result.squeeze(0)
    return result
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _drop_channels(input, p, training, inplace, input.dim() == 3)
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _drop_channels(input, p, training, inplace, True)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _drop_channels(input, p, training, inplace, input.dim() == 5)
def max_pool1d(input: Tensor, kernel_size: BroadcastingList1[int], stride: Optional[BroadcastingList1[int]] = None,
        padding: BroadcastingList1[int] = 0, dilation: BroadcastingList1[int] = 1, ceil_mode: bool = False,
        return_indices: bool = False) -> Tensor:
    if stride is None:
        stride = annotate(List[int], [])
    return torch.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)
def max_pool2d(input: Tensor, kernel_size: BroadcastingList2[int], stride: Optional[BroadcastingList2[int]] = None,
        padding: BroadcastingList2[int] = 0, dilation: BroadcastingList2[int] = 1, ceil_mode: bool = False,
        return_indices: bool = False) -> Tensor:
    if stride is None:
        stride = annotate(List[int], [])
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)
def max_pool3d(input: Tensor, kernel_size: BroadcastingList3[int], stride: Optional[BroadcastingList3[int]] = None,
        padding: BroadcastingList3[int] = 0, dilation: BroadcastingList3[int] = 1, ceil_mode: bool = False,
        return_indices: bool = False) -> Tensor:
    if stride is None:
        stride = annotate(List[int], [])
    return torch.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)
def max_pool1d_with_indices(input: Tensor, kernel_size: BroadcastingList1[int],
        stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = 0,
        dilation: BroadcastingList1[int] = 1, ceil_mode: bool = False, return_indices: bool = True) -> Tuple[Tensor,
        Tensor]:
    if stride is None:
        stride = annotate(List[int], [])
    return torch.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
def max_pool2d_with_indices(input: Tensor, kernel_size: BroadcastingList2[int],
        stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = 0,
        dilation: BroadcastingList2[int] = 1, ceil_mode: bool = False, return_indices: bool = True) -> Tuple[Tensor,
        Tensor]:
    if stride is None:
        stride = annotate(List[int], [])
    return nn.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
def max_pool3d_with_indices(input: Tensor, kernel_size: BroadcastingList3[int],
        stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = 0,
        dilation: BroadcastingList3[int] = 1, ceil_mode: bool = False, return_indices: bool = True) -> Tuple[Tensor,
        Tensor]:
    if stride is None:
        stride = annotate(List[int], [])
    return nn.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
def _whole(size: List[Optional[int]], shape: List[int]) -> List[int]:
    out: List[int] = []
    for i in range(len(size)):
        one = size[i]
        out.append(shape[len(shape) - len(size) + i] if one is None else one)
    return out
def adaptive_avg_pool2d(input: Tensor, output_size: BroadcastingList2[int]) -> Tensor:
    return nn.adaptive_avg_pool2d(input, output_size)
def adaptive_avg_pool3d(input: Tensor, output_size: BroadcastingList3[int]) -> Tensor:
    return nn.adaptive_avg_pool3d(input, output_size)
def adaptive_max_pool1d(input: Tensor, output_size: BroadcastingList1[int], return_indices: bool = False) -> Tensor:
    return torch.adaptive_max_pool1d(input, output_size)[0]
def adaptive_max_pool2d(input: Tensor, output_size: BroadcastingList2[int], return_indices: bool = False) -> Tensor:
    return nn.adaptive_max_pool2d(input, output_size)[0]
def adaptive_max_pool3d(input: Tensor, output_size: BroadcastingList3[int], return_indices: bool = False) -> Tensor:
    return nn.adaptive_max_pool3d(input, output_size)[0]
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: BroadcastingList1[int],
        return_indices: bool = True) -> Tuple[Tensor, Tensor]:
    return torch.adaptive_max_pool1d(input, output_size)
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: BroadcastingList2[int],
        return_indices: bool = True) -> Tuple[Tensor, Tensor]:
    return nn.adaptive_max_pool2d(input, output_size)
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: BroadcastingList3[int],
        return_indices: bool = True) -> Tuple[Tensor, Tensor]:
    return nn.adaptive_max_pool3d(input, output_size)
def lp_pool1d(input: Tensor, norm_type: Union[float, int], kernel_size: int, stride: Optional[int] = None,
        ceil_mode: bool = False) -> Tensor:
    p = float(norm_type)
    step = kernel_size if stride is None else stride
    out = torch.avg_pool1d(input.pow(p), [kernel_size], [step], [0], ceil_mode)
    return (torch.sign(out) * torch.relu(torch.abs(out))).mul(kernel_size).pow(1.0 / p)
def lp_pool2d(input: Tensor, norm_type: Union[float, int], kernel_size: BroadcastingList2[int],
        stride: Optional[BroadcastingList2[int]] = None, ceil_mode: bool = False) -> Tensor:
    p = float(norm_type)
    step = kernel_size if stride is None else stride
    out = nn.avg_pool2d(input.pow(p), kernel_size, step, [0, 0], ceil_mode)
    return (torch.sign(out) * torch.relu(torch.abs(out))).mul(kernel_size[0] * kernel_size[1]).pow(1.0 / p)
def lp_pool3d(input: Tensor, norm_type: Union[float, int], kernel_size: BroadcastingList3[int],
        stride: Optional[BroadcastingList3[int]] = None, ceil_mode: bool = False) -> Tensor:
    p = float(norm_type)
    step = kernel_size if stride is None else stride
    out = nn.avg_pool3d(input.pow(p), kernel_size, step, [0, 0, 0], ceil_mode)
    count = kernel_size[0] * kernel_size[1] * kernel_size[2]
    return (torch.sign(out) * torch.relu(torch.abs(out))).mul(count).pow(1.0 / p)
def _unpooled_size(sizes: List[int], kernel: List[int], step: List[int], padding: List[int],
        wanted: Optional[List[int]]) -> List[int]:
    n = len(kernel)
    first = len(sizes) - n
    usual = [(sizes[first + d] - 1) * step[d] + kernel[d] - 2 * padding[d] for d in range(n)]
    if wanted is None:
        return usual
    size = wanted[2:] if len(wanted) == n + 2 else wanted
    if len(size) != n:
        raise ValueError("output_size should be a sequence containing {} or {} elements, but it has a length of "
                "{}".format(n, n + 2, len(wanted)))
    for d in range(n):
        if size[d] <= usual[d] - step[d] or size[d] >= usual[d] + step[d]:
            raise ValueError("invalid output_size {} (dim {} must be between {} and {})".format(size, d,
                    usual[d] - step[d], usual[d] + step[d]))
    return size
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList1[int],
        stride: Optional[BroadcastingList1[int]] = None, padding: BroadcastingList1[int] = 0,
        output_size: Optional[List[int]] = None) -> Tensor:
    step = kernel_size if stride is None else stride
    size = _unpooled_size(input.size(), kernel_size, step, padding, output_size)
    return nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [size[0], 1]).squeeze(-1)
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList2[int],
        stride: Optional[BroadcastingList2[int]] = None, padding: BroadcastingList2[int] = 0,
        output_size: Optional[List[int]] = None) -> Tensor:
    step = kernel_size if stride is None else stride
    return nn.max_unpool2d(input, indices, _unpooled_size(input.size(), kernel_size, step, padding, output_size))
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: BroadcastingList3[int],
        stride: Optional[BroadcastingList3[int]] = None, padding: BroadcastingList3[int] = 0,
        output_size: Optional[List[int]] = None) -> Tensor:
    step = kernel_size if stride is None else stride
    size = _unpooled_size(input.size(), kernel_size, step, padding, output_size)
    return nn.max_unpool3d(input, indices, size, step, padding)
def _check_batch(size: List[int]):
    n = size[0]
    for i in range(len(size) - 2):
        n *= size[i + 2]
    if n == 1:
        raise ValueError("Expected more than 1 value per channel when training, got input size {}".format(size))
def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor],
        weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False, momentum: float = 0.1,
        eps: float = 1e-5) -> Tensor:
    if training:
        _check_batch(input.size())
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)
def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None,
        weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, use_input_stats: bool = True,
        momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)
def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None,
        bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)
def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None,
        eps: Optional[float] = None) -> Tensor:
    return torch.rms_norm(input, normalized_shape, weight, eps)
def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
        eps: float = 1e-5) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError("Expected at least 2 dimensions for input tensor but received {}".format(input.dim()))
    return torch.group_norm(input, num_groups, weight, bias, eps, True)
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    square = input.mul(input)
    shape = input.size()
    flat = square.reshape([shape[0], 1, shape[1], -1])
    padded = F.pad(flat, [0, 0, size // 2, (size - 1) // 2])
    mean = nn.avg_pool2d(padded, [size, 1], [1, 1]).squeeze(1).reshape(shape)
    return input / mean.mul(alpha).add(k).pow(beta)
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12,
        out: Optional[Tensor] = None) -> Tensor:
    return input / input.norm(p, [dim], True).clamp_min(eps).expand_as(input)
def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    row = -1
    if padding_idx is not None:
        row = padding_idx if padding_idx >= 0 else weight.size(0) + padding_idx
    if max_norm is not None:
        input = input.contiguous()
        with torch.no_grad():
            torch.embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, row, scale_grad_by_freq, sparse)
def pad(input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None) -> Tensor:
    if mode == "constant":
        return torch.constant_pad_nd(input, pad, 0.0 if value is None else value)
    if len(pad) % 2 != 0:
        raise RuntimeError("Padding length must be divisible by 2")
    if value is not None and value != 0.0:
        raise RuntimeError("Padding mode '{}' doesn't take in value argument".format(mode))
    n = len(pad) // 2
    if n < 1 or n > 3 or (input.dim() != n + 1 and input.dim() != n + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    if mode == "reflect":
        if n == 1:
            return nn.reflection_pad1d(input, pad)
        return nn.reflection_pad2d(input, pad) if n == 2 else nn.reflection_pad3d(input, pad)
    if mode == "replicate":
        if n == 1:
            return nn.replication_pad1d(input, pad)
        return nn.replication_pad2d(input, pad) if n == 2 else nn.replication_pad3d(input, pad)
    if mode != "circular":
        raise NotImplementedError("Unrecognised padding mode {}".format(mode))
    for i in range(n):
        size = input.size(-1 - i)
        left = pad[2 * i]
        right = pad[2 * i + 1]
        if left > size or right > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        index = torch.arange(-left, size + right, device=input.device).remainder(size)
        input = input.index_select(-1 - i, index)
    return input
def lstm_cell(input: Tensor, hx: List[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    gates = F.linear(input, w_ih, b_ih) + F.linear(hx[0], w_hh, b_hh)
    parts = gates.chunk(4, 1)
    c = parts[1].sigmoid() * hx[1] + parts[0].sigmoid() * parts[2].tanh()
    return parts[3].sigmoid() * c.tanh(), c
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    a = F.linear(input, w_ih, b_ih).chunk(3, 1)
    b = F.linear(hx, w_hh, b_hh).chunk(3, 1)
    z = (a[1] + b[1]).sigmoid()
    n = (a[2] + (a[0] + b[0]).sigmoid() * b[2]).tanh()
    return n + z * (hx - n)
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return (F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh)).tanh()
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor] = None,
        b_hh: Optional[Tensor] = None) -> Tensor:
    return (F.linear(input, w_ih, b_ih) + F.linear(hx, w_hh, b_hh)).relu()
def _reduction_number(size_average: Optional[bool], reduce: Optional[bool], reduction: str) -> int:
    if size_average is not None or reduce is not None:
        average = True if size_average is None else size_average
        reduced = True if reduce is None else reduce
        return 0 if not reduced else 1 if average else 2
    if reduction == "none":
        return 0
    if reduction == "mean":
        return 1
    if reduction == "sum":
        return 2
    raise ValueError("{} is not a valid value for reduction".format(reduction))
def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
        ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean",
        label_smoothing: float = 0.0) -> Tensor:
    return nn.cross_entropy_loss(input, target, weight, _reduction_number(size_average, reduce, reduction),
            ignore_index, label_smoothing)
def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
        ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return nn.nll_loss_nd(input, target, weight, _reduction_number(size_average, reduce, reduction), ignore_index)
def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
        reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return nn.mse_loss(a, b, _reduction_number(size_average, reduce, reduction))
def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
        reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return nn.l1_loss(a, b, _reduction_number(size_average, reduce, reduction))
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
        reduction: str = "mean", beta: float = 1.0) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return nn.smooth_l1_loss(a, b, _reduction_number(size_average, reduce, reduction), beta)
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
        weight: Optional[Tensor] = None) -> Tensor:
    a, b = torch.broadcast_tensors([input, target])
    return nn.huber_loss(a, b, _reduction_number(None, None, reduction), delta)
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
        size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return nn.binary_cross_entropy(input, target, weight, _reduction_number(size_average, reduce, reduction))
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
        size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean",
        pos_weight: Optional[Tensor] = None) -> Tensor:
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _reduction_number(size_average,
            reduce, reduction))
def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
        reduction: str = "mean", log_target: bool = False) -> Tensor:
    if reduction == "batchmean":
        whole = torch.kl_div(input, target, 2, log_target=log_target)
        return whole / input.size(0)
    return torch.kl_div(input, target, _reduction_number(size_average, reduce, reduction), log_target=log_target)
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
        size_average: Optional[bool] = None, eps: float = 1e-8, reduce: Optional[bool] = None,
        reduction: str = "mean") -> Tensor:
    return torch.poisson_nll_loss(input, target, log_input, full, eps, _reduction_number(size_average, reduce,
            reduction))
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
        size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.margin_ranking_loss(input1, input2, target, margin, _reduction_number(size_average, reduce,
            reduction))
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: Optional[bool] = None,
        reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.hinge_embedding_loss(input, target, margin, _reduction_number(size_average, reduce, reduction))
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
        size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return torch.cosine_embedding_loss(input1, input2, target, margin, _reduction_number(size_average, reduce,
            reduction))
def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6,
        reduction: str = "mean") -> Tensor:
    if reduction != "none" and reduction != "mean" and reduction != "sum":
        raise ValueError(reduction + " is not valid")
    if var.size() != input.size():
        if var.dim() + 1 == input.dim() and var.size() == input.size()[:-1]:
            var = var.unsqueeze(-1)
        elif var.dim() != input.dim() or var.size()[:-1] != input.size()[:-1] or var.size(-1) != 1:
            raise ValueError("var is of incorrect size")
    if bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2.0 * math.pi)
    return _reduced(loss, reduction)
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
        size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    loss = -(target * nn.log_sigmoid(input) + (1 - target) * nn.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    number = _reduction_number(size_average, reduce, reduction)
    return _reduced(loss.mean(input.dim() - 1), "none" if number == 0 else "mean" if number == 1 else "sum")
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0,
        reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction_number(None, None,
            reduction), zero_infinity)
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None,
        reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return nn.soft_margin_loss(input, target, _reduction_number(size_average, reduce, reduction))
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None,
        reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return nn.multilabel_margin_loss(input, target, _reduction_number(size_average, reduce, reduction))
def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Optional[Tensor] = None,
        size_average: Optional[bool] = None, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    return nn.multi_margin_loss(input, target, p, margin, weight, _reduction_number(size_average, reduce, reduction))
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
        eps: float = 1e-6, swap: bool = False, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
        reduction: str = "mean") -> Tensor:
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, _reduction_number(size_average,
            reduce, reduction))
def unfold(input: Tensor, kernel_size: BroadcastingList2[int], dilation: BroadcastingList2[int] = 1,
        padding: BroadcastingList2[int] = 0, stride: BroadcastingList2[int] = 1) -> Tensor:
    return nn.im2col(input, kernel_size, dilation, padding, stride)
def fold(input: Tensor, output_size: BroadcastingList2[int], kernel_size: BroadcastingList2[int],
        dilation: BroadcastingList2[int] = 1, padding: BroadcastingList2[int] = 0,
        stride: BroadcastingList2[int] = 1) -> Tensor:
    return nn.col2im(input, output_size, kernel_size, dilation, padding, stride)
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
        align_corners: Optional[bool] = None) -> Tensor:
    modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    if mode not in modes or padding_mode not in paddings:
        raise ValueError(f"grid_sample() has no mode '{mode}' with padding_mode '{padding_mode}'")
    n = input.dim()
    if n < 4 or n > 5 or grid.dim() != n or grid.size(0) != input.size(0) or grid.size(-1) != n - 2:
        raise RuntimeError(f"grid_sample() cannot sample an input of sizes {input.shape} at {grid.shape}")
    if min(input.shape[2:]) == 0 or (n == 5 and mode == "bicubic"):
        raise RuntimeError(f"grid_sample(): mode '{mode}' does not take an input of sizes {input.shape}")
    corners = align_corners is not None and align_corners
    return torch.grid_sampler(input, grid, modes[mode], paddings[padding_mode], corners)
def _grid_axis(n: int, theta: Tensor, corners: bool) -> Tensor:
    if n == 1:
        return torch.zeros([1], dtype=theta.dtype, device=theta.device)
    axis = torch.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device)
    return axis if corners else axis * ((n - 1) / n)
def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool] = None) -> Tensor:
    n = len(size) - 2
    if n < 2 or n > 3 or theta.shape != [size[0], n, n + 1] or not theta.is_floating_point() or min(size) <= 0:
        raise ValueError(f"affine_grid() makes no grid of size {size} from maps of sizes {theta.shape}")
    corners = align_corners is not None and align_corners
    grids = torch.meshgrid([_grid_axis(s, theta, corners) for s in size[2:]], indexing="ij")
    parts = [grids[n - 1 - i] for i in range(n)] + [torch.ones_like(grids[0])]
    base = torch.stack(parts, -1).reshape([1, -1, n + 1])
    return torch.matmul(base, theta.transpose(1, 2)).reshape([size[0]] + size[2:] + [n])
def upsample(input: Tensor, size: Optional[BroadcastingList1[int]] = None,
        scale_factor: Optional[BroadcastingList1[float]] = None, mode: str = "nearest",
        align_corners: Optional[bool] = None) -> Tensor:
    return F.interpolate(input, size, scale_factor, mode, align_corners)
def upsample_nearest(input: Tensor, size: Optional[BroadcastingList1[int]] = None,
        scale_factor: Optional[BroadcastingList1[float]] = None) -> Tensor:
    return F.interpolate(input, size, scale_factor)
def upsample_bilinear(input: Tensor, size: Optional[BroadcastingList1[int]] = None,
        scale_factor: Optional[BroadcastingList1[float]] = None) -> Tensor:
    return F.interpolate(input, size, scale_factor, "bilinear", True)
"""

_METHODS = """
def _ConvNd__conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]):
    if self.padding_mode != "zeros":
        input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
        return torch.{conv}(input, weight, bias, self.stride, {zeros}, self.dilation, self.groups)
    return torch.{conv}(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
def _ConvTransposeNd__forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
    if output_size is not None:
        raise ValueError("output_size is not supported by compiled transposed convolutions")
    return torch.{conv}(input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
            self.dilation)
def _BatchNorm__forward(self, input: Tensor) -> Tensor:
    {check}
    factor = 0.0 if self.momentum is None else self.momentum
    if self.training and self.track_running_stats:
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / float(self.num_batches_tracked)
    use_batch = self.training or (self.running_mean is None and self.running_var is None)
    keep = not self.training or self.track_running_stats
    return F.batch_norm(input, self.running_mean if keep else None, self.running_var if keep else None, self.weight,
            self.bias, use_batch, factor, self.eps)
def _InstanceNorm__forward(self, input: Tensor) -> Tensor:
    batched = input.dim() == {dims}
    x = input if batched else input.unsqueeze(0)
    out = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps)
    return out if batched else out.squeeze(0)
def _MaxPoolNd__forward(self, input: Tensor):
    if self.return_indices:
        return F.{pool}_with_indices(input, self.kernel_size, self.stride, self.padding, self.dilation,
                self.ceil_mode)
    else:
        return F.{pool}(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode)
def _AdaptiveMaxPoolNd__forward(self, input: Tensor):
    if self.return_indices:
        return F.{pool}_with_indices(input, self.output_size)
    else:
        return F.{pool}(input, self.output_size)
def MaxUnpool1d__forward(self, input: Tensor, indices: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
    return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)
def MaxUnpool2d__forward(self, input: Tensor, indices: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
    return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)
def MaxUnpool3d__forward(self, input: Tensor, indices: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
    return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)
def Sequential__forward(self, input):
    for module in self:
        input = module(input)
    return input
def Flatten__forward(self, input: Tensor) -> Tensor:
    return input.flatten(self.start_dim, self.end_dim)
def RNNCellBase__forward(self, input: Tensor, hx: Optional[{state}] = None) -> {state}:
    if input.dim() != 1 and input.dim() != 2:
        raise ValueError("{name}: Expected input to be 1D or 2D, got {{}}D instead".format(input.dim()))
    batched = input.dim() == 2
    x = input if batched else input.unsqueeze(0)
    if hx is None:
        zeros = torch.zeros([x.size(0), self.hidden_size], dtype=x.dtype, device=x.device)
        state = {start}
    else:
        state = {given}
    {step}
"""

_CELLS = {
    "LSTMCell": (
        "Tuple[Tensor, Tensor]",
        "(zeros, zeros)",
        "hx if batched else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))",
        "h, c = {lstm}\n    return (h, c) if batched else (h.squeeze(0), c.squeeze(0))",
    ),
    "GRUCell": (
        "Tensor",
        "zeros",
        "hx if batched else hx.unsqueeze(0)",
        "h = {gru}\n    return h if batched else h.squeeze(0)",
    ),
    "RNNCell": (
        "Tensor",
        "zeros",
        "hx if batched else hx.unsqueeze(0)",
        "h = {rnn}\n    return h if batched else h.squeeze(0)",
    ),
}


_HOMES = (
    "tessera.nn.functional",
    "tessera.nn._functional",
    "tessera.nn.init",
    "tessera.nn._recurrent",
    "tessera.nn.utils.rnn",
    "tessera.functional",
    "tessera._lowrank",
    "tessera._lobpcg",
    "tessera.sparse",
    "tessera._root.quantized",
    "tessera._named",
)
STAYS_PYTHON = ("tessera._root.quantized", "tessera._lobpcg")  # declared here, and called as they are
METHODS = frozenset(  # of tensors, among those functions
    "dequantize int_repr q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points q_per_channel_axis".split()
)
_COMPRESSED = """def sparse_{layout}_tensor({c}: Tensor, {p}: Tensor, values: Tensor, size: Optional[List[int]] = None,
        *, dtype: Optional[int] = None, layout: Optional[int] = None, device: Optional[Device] = None,
        pin_memory: Optional[bool] = None) -> Tensor:
    if layout is None:
        layout = torch.sparse_{layout}
    if size is None:
        return torch.sparse_compressed_tensor({c}, {p}, values, dtype=dtype, layout=layout, device=device,
                                              pin_memory=pin_memory)
    return torch.sparse_compressed_tensor({c}, {p}, values, size, dtype=dtype, layout=layout, device=device,
                                          pin_memory=pin_memory)
"""

# Further declarations of a function: by flags that change what it returns, by types. Those without are here for their
# arguments, which are not the operator's.
VARIANTS = {
    **{f"{a}max_pool{n}d": (f"{a}max_pool{n}d_with_indices",) for a in ("", "adaptive_") for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d": (f"fractional_max_pool{n}d_with_indices",) for n in (2, 3)},
    "gradient": ("_gradient_even", "_gradient_dims_only", "_gradient_steps", "_gradient_points"),
    "unique": ("_unique_inverse", "_unique_counts", "_unique_all"),
    "unique_consecutive": ("_consecutive_inverse", "_consecutive_counts", "_consecutive_all"),
    "cdist": (),
    "lu": ("_lu_with_infos",),
    "norm": ("_norm_of_number",),
    "tensordot": (),
}


@functools.cache
def _functions():
    table = {}
    texts = (_FUNCTIONS, _functional.FUNCTIONS, _sequences.FUNCTIONS, _initial.FUNCTIONS)
    for piece in "".join(text.rstrip("\n") for text in texts).strip("\n").split("\ndef "):
        piece = "def " + piece.removeprefix("def ") + "\n"
        table[piece[4 : piece.index("(")]] = piece
    for layout in ("csr", "csc", "bsr", "bsc"):
        c, p = ("crow_indices", "col_indices") if layout[2] == "r" else ("ccol_indices", "row_indices")
        table[f"sparse_{layout}_tensor"] = _COMPRESSED.format(layout=layout, c=c, p=p)
    return table


@functools.cache
def _methods():
    table = {}
    for piece in (_METHODS.rstrip("\n") + _sequences.METHODS).strip("\n").split("\ndef "):
        piece = piece.removeprefix("def ")
        name, _, rest = piece.partition("(")
        table[name] = "def " + name.partition("__")[2] + "(" + rest + "\n"
    return table


def definition_of(fn):
    """The text of a function of nn.functional or a constructor of sparse tensors, or None."""
    if (getattr(fn, "__module__", None) or "").startswith(_HOMES) or fn is tessera.tensordot:
        return _functions().get(fn.__name__)
    return None


def left_to_python(fn):
    """A function that stays Python, as programs call it: with a number for a dtype."""
    at = list(inspect.signature(fn).parameters).index("dtype") if "dtype: int" in (definition_of(fn) or "") else None
    if at is None:
        return fn

    def call(*args):
        dtype = tessera.onnx.JitScalarType(args[at]).dtype()
        return (
            fn(*args[:at], dtype, *args[at + 1 :])
            if fn.__name__[0] != "_"
            else fn(args[0], **dict(zip(("scale", "zero_point", "device"), args[1:at] + args[at + 1 :])), dtype=dtype)
        )

    return call


def helper(name):
    """The text of a function that only definitions call, or None."""
    return _functions().get(name)


def method_of(cls, name, attributes, children):
    """The text of a method of a layer, or None where the method's own source is to be read.

    Args:
        attributes, children: what modules of this kind have, by name; children are kinds like this one.
    """
    text = held_classes.method_text(cls, name)
    if text is not None:
        return text
    for base in cls.__mro__:
        if name not in vars(base):
            continue
        if not base.__module__.startswith("tessera.nn."):
            return None
        found = _of_layer(cls, base, name) or _of_sequences(cls, base, name, attributes, children)
        if found is not None:
            return found
        declared = vars(base).get("_declared")
        if declared is not None and name == "forward" and declared.computes is not None:
            from tessera.nn.modules._declared import declarations

            attributes = {"training"}.union(*((*d.kept, *d.shapes) for d in declarations(cls)))
            return declared.functions(attributes)["forward"] + "\n"
        return None
    return None


def _of_layer(cls, base, name):
    names = [b.__name__ for b in cls.__mro__]
    layer = next((n for n in names if n[-2:] in ("1d", "2d", "3d")), "")
    dims = int(layer[-2]) if layer else 0
    texts = _methods()
    if base.__name__ in ("_MaxPoolNd", "MaxPool1d", "MaxPool2d", "MaxPool3d") and name == "forward":
        return texts["_MaxPoolNd__forward"].format(pool=f"max_pool{dims}d")
    if "_AdaptiveMaxPoolNd" in names and base.__module__.endswith("pooling") and name == "forward":
        return texts["_AdaptiveMaxPoolNd__forward"].format(pool=f"adaptive_max_pool{dims}d")
    if base.__name__ == "_ConvNd" and name == "_conv_forward":
        return (
            texts["_ConvNd___conv_forward" if "_ConvNd___conv_forward" in texts else "_ConvNd__conv_forward"]
            .replace("def conv_forward", "def _conv_forward")
            .format(conv=f"conv{dims}d", zeros=[0] * dims)
        )
    if "_ConvTransposeNd" in names and base.__module__.endswith("conv") and name == "forward":
        return texts["_ConvTransposeNd__forward"].format(conv=f"conv_transpose{dims}d")
    if base.__name__ == "_BatchNorm" and name == "forward":
        return texts["_BatchNorm__forward"].format(check=_dims_check(cls._dims))
    if base.__name__ == "_InstanceNorm" and name == "forward":
        return texts["_InstanceNorm__forward"].format(dims=dims + 2)
    if base.__name__ in _CELLS and name == "forward":
        return _cell(base.__name__, texts)
    text = texts.get(f"{base.__name__}__{name}")
    return None if text is None or "{" in text.partition(":\n")[2].replace("{}", "") else text


def _of_sequences(cls, base, name, attributes, children):
    if base.__name__ in ("LSTM", "GRU", "_SingleState") and name == "forward":
        kind = next(n for n in ("LSTM", "GRU", "RNN") if n in [b.__name__ for b in cls.__mro__])
        return _sequences.recurrent(cls, kind, attributes)
    text = _methods().get(f"{base.__name__}__{name}")
    if base.__name__ == "_CircularPadNd":
        return text and text.format(check=_dims_check(cls._dims))
    if base.__name__ in ("TransformerEncoder", "TransformerDecoder"):
        layers = list(children["layers"].children.values())
        attention = layers[0].children.get("self_attn") if layers else None
        first = attention is not None and "batch_first" in {**attention.attributes, **attention.constants}
        return text and text.format(batch_first="self.layers[0].self_attn.batch_first" if first else "False")
    if base.__name__ == "_Layer":
        return text and text.format(last=f"dropout{len(cls._attentions) + 1}")
    return None


def _dims_check(dims):
    if not dims:
        return "pass"
    expected = " or ".join(f"{n}D" for n in dims)
    test = " and ".join(f"input.dim() != {n}" for n in dims)
    return f'if {test}:\n        raise ValueError("expected {expected} input (got {{}}D input)".format(input.dim()))'


def _cell(name, texts):
    state, start, given, step = _CELLS[name]
    weights = "self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh"
    calls = {
        "lstm": f"torch.lstm_cell(x, [state[0], state[1]], {weights})",
        "gru": f"torch.gru_cell(x, state, {weights})",
        "rnn": f'torch.rnn_tanh_cell(x, state, {weights}) if self.nonlinearity == "tanh" '
        f"else torch.rnn_relu_cell(x, state, {weights})",
    }
    return texts["RNNCellBase__forward"].format(
        state=state, start=start, given=given, step=step.format(**calls), name=name
    )
