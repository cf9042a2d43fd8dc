"""Functions of the top-level namespace whose call is Python's: variable numbers of tensors, results that depend on
flags, several notations.

The work is done by operators; here the arguments are put in order. All of them honour `__torch_function__`.
"""

import builtins as _builtins
import functools as _functools
import math

import tessera
from tessera import _C
from tessera._C import _handle_torch_function, _has_torch_function
from tessera._lowrank import pca_lowrank, svd_lowrank
from tessera._named import align_tensors

__all__ = [
    "align_tensors",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "combinations",
    "einsum",
    "gradient",
    "histogramdd",
    "istft",
    "lu",
    "meshgrid",
    "norm",
    "pca_lowrank",
    "split",
    "stft",
    "svd_lowrank",
    "tensordot",
    "unique",
    "unique_consecutive",
    "segment_reduce",
    "unravel_index",
]

stft, istft = _C.stft, _C.istft

_VF = _C._VariableFunctions


def _of_first(function):
    """Decorator: the first argument, and `out`, may override the call."""

    @_functools.wraps(function)
    def wrapper(*args, **kwargs):
        relevant = (args[0] if args else kwargs.get("input", kwargs.get("tensor")), kwargs.get("out"))
        if _has_torch_function(relevant):
            return _handle_torch_function(wrapper, relevant, *args, **kwargs)
        return function(*args, **kwargs)

    return wrapper


def _of_all(function):
    """Decorator: each positional argument, or each element of the only one if that is a list, may override the call."""

    @_functools.wraps(function)
    def wrapper(*args, **kwargs):
        relevant = tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if _has_torch_function(relevant):
            return _handle_torch_function(wrapper, relevant, *args, **kwargs)
        return function(*args, **kwargs)

    return wrapper


def _unpacked(tensors):
    """f(a, b) and f([a, b]) mean the same."""
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors


# ---- several tensors
# --------------------------------------------------------------------------------------------------------


@_of_all
def broadcast_tensors(*tensors):
    """Views of the tensors, all of the shape that they broadcast to.

    Raises: RuntimeError if the shapes don't broadcast.
    """
    return _VF.broadcast_tensors(_unpacked(tensors))


def broadcast_shapes(*shapes):
    """The shape that shapes (sequences of ints, or ints for one dimension) broadcast to, as a Size.

    Raises: RuntimeError if they don't, or if a size is negative.
    """
    shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    result = [1] * _builtins.max(map(len, shapes), default=0)
    for shape in shapes:
        for i in range(-1, -1 - len(shape), -1):
            size = shape[i]
            if size < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({size}): ({size})")
            if size == 1 or size == result[i]:
                continue
            if result[i] != 1:
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape: "
                    f"{', '.join(str(list(s)) for s in shapes)} (sizes {result[i]} and {size} at dimension {i})"
                )
            result[i] = size
    return tessera.Size(result)


@_of_all
def meshgrid(*tensors, indexing=None):
    """Grids of coordinates: one tensor per input, expanded to the shape of all their lengths.

    Args:
        tensors: 0-D or 1-D tensors of one dtype and device.
        indexing: 'ij' (default): dimension k belongs to input k; 'xy': the first two dimensions are swapped.

    Returns: a tuple of views.
    Raises: RuntimeError for other dimensions, mixed dtypes or devices, or another `indexing`.
    """
    tensors = _unpacked(tensors)
    return _VF.meshgrid(tensors) if indexing is None else _VF.meshgrid(tensors, indexing=indexing)


def _make_atleast(dimensions):
    operator = getattr(_VF, f"atleast_{dimensions}d")

    def atleast(*tensors):
        return operator(tensors[0] if len(tensors) == 1 else tensors)

    atleast.__name__ = atleast.__qualname__ = f"atleast_{dimensions}d"
    atleast.__doc__ = (
        f"The tensor with at least {dimensions} dimension{'s' if dimensions > 1 else ''}: sizes of 1 are added. For "
        f"several tensors, or a sequence of them, "
        "a tuple."
    )
    return _of_all(atleast)


atleast_1d = _make_atleast(1)
atleast_2d = _make_atleast(2)
atleast_3d = _make_atleast(3)


@_of_all
def cartesian_prod(*tensors):
    """All combinations of one element of each 1-D tensor: a 2-D tensor, or the tensor itself if there is only one.

    Raises: RuntimeError for tensors that are not 1-D.
    """
    tensors = _unpacked(tensors)
    for tensor in tensors:
        if tensor.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(tensor.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return tessera.stack([grid.flatten() for grid in _VF.meshgrid(tensors, indexing="ij")], dim=1)


@_of_first
def combinations(input, r=2, with_replacement=False):
    """The combinations of `r` elements of a 1-D tensor, in the order of itertools: shape (count, r).

    Raises: RuntimeError for a tensor that is not 1-D or a negative `r`.
    """
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    length = input.numel()
    positions = tessera.arange(length, device=input.device)
    grids = _VF.meshgrid([positions] * r, indexing="ij")
    kept = tessera.ones([length] * r, dtype=tessera.bool, device=input.device)
    for left, right in zip(grids, grids[1:]):
        kept &= left <= right if with_replacement else left < right
    return tessera.stack([input[grid[kept]] for grid in grids], dim=1)


@_of_all
def block_diag(*tensors):
    """A matrix with the given ones along its diagonal and zeros elsewhere; vectors count as rows, 0-D tensors as 1 x 1.

    Raises: RuntimeError for a tensor of more than 2 dimensions.
    """
    tensors = _unpacked(tensors)
    if not tensors:
        return tessera.empty(1, 0)
    for i, tensor in enumerate(tensors):
        if tensor.dim() > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {tensor.dim()} "
                f"dimensions"
            )
    blocks = [_VF.atleast_2d(tensor) for tensor in tensors]
    dtype = _functools.reduce(tessera.promote_types, (block.dtype for block in blocks))
    columns = _builtins.sum(block.shape[1] for block in blocks)
    rows, left = [], 0
    for block in blocks:
        height, width = block.shape
        zeros = [
            tessera.zeros((height, width), dtype=dtype, device=block.device) for width in (left, columns - left - width)
        ]
        rows.append(tessera.cat([zeros[0], block.to(dtype), zeros[1]], dim=1))
        left += width
    return tessera.cat(rows)


_CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The p-norm distances of each row of x1 (B, P, M) to each row of x2 (B, R, M): (B, P, R), batches broadcast. p >=
    0.

    compute_mode says how Euclidean distances may be computed, ValueError for an unknown one; the results are the same.
    RuntimeError for tensors of less than
    two dimensions, of different last sizes, or not of a floating point dtype.
    """
    if _has_torch_function((x1, x2)):
        return _handle_torch_function(cdist, (x1, x2), x1, x2, p=p, compute_mode=compute_mode)
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _VF.cdist(x1, x2, p, _CDIST_MODES[compute_mode])


@_of_all
def chain_matmul(*matrices, out=None):
    """The product of 2-D matrices in the order that takes the fewest operations. Deprecated: use `linalg.multi_dot`.

    Raises: RuntimeError for shapes that don't fit.
    """
    matrices = _unpacked(matrices)
    return _C._chain_matmul(matrices) if out is None else _C._chain_matmul(matrices, out=out)


def _letter(index):
    if not isinstance(index, int) or not 0 <= index < 52:
        raise ValueError(f"einsum(): subscript in subscript list is not within the valid range [0, 52), got {index!r}")
    return chr(ord("A") + index) if index < 26 else chr(ord("a") + index - 26)


def _subscripts(indices):
    return "".join("..." if index is Ellipsis else _letter(index) for index in indices)


def einsum(*args):
    """Sums of products over labelled dimensions.

    Args:
        args: an equation such as 'ij,jk->ik' and the operands (or a list of them); or operands, each with the list of
            its labels
            (ints from 0 to 51, or ...), and at the end the labels of the result if they are given.

    Raises: ValueError for too few arguments; RuntimeError for an equation that is malformed or does not fit the shapes.
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], tessera.Tensor):
        labels = args[1::2]
        operands = args[0:-1:2] if len(args) % 2 else args[::2]
        equation = ",".join(_subscripts(indices) for indices in labels)
        if len(args) % 2:
            equation += "->" + _subscripts(args[-1])
    else:
        equation, operands = args[0], args[1:]
    if _has_torch_function(operands):
        return _handle_torch_function(einsum, operands, equation, *operands)
    return _C._einsum(equation, _unpacked(operands))


def _dims_of_tensordot(a, b, dims):
    if isinstance(dims, tessera.Tensor):
        if dims.numel() > 1:
            return [int(d) for d in dims[0]], [int(d) for d in dims[1]]
        dims = int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > _builtins.min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(-dims, 0)), list(range(dims))
    if not isinstance(dims, (tuple, list)):
        raise RuntimeError(
            f"tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    if len(dims) != 2:
        raise RuntimeError(f"tensordot expects dims to hold two lists, but got dims={dims}")
    return tuple([d] if isinstance(d, int) else list(d) for d in dims)


def tensordot(a, b, dims=2, out=None):
    """The contraction of `a` and `b` over several dimensions.

    Args:
        dims: a count (the last ones of `a` with the first of `b`), or two lists of dimensions.

    Returns: the remaining dimensions of `a`, then those of `b`.
    Raises: RuntimeError for dims or sizes that don't fit.
    """
    if _has_torch_function((a, b)):
        return _handle_torch_function(tensordot, (a, b), a, b, dims=dims, out=out)
    dims_a, dims_b = _dims_of_tensordot(a, b, dims)
    return _C._tensordot(a, b, dims_a, dims_b) if out is None else _C._tensordot(a, b, dims_a, dims_b, out=out)


# ---- one tensor
# -------------------------------------------------------------------------------------------------------------


@_of_first
def split(tensor, split_size_or_sections, dim=0):
    """Views of consecutive parts of a dimension: each of `split_size` elements (the last may be smaller), or of the
    sizes in a list.

    Raises: RuntimeError for a negative size or sections that don't add up.
    """
    return tensor.split(split_size_or_sections, dim)


def _chosen(values, inverse, counts, return_inverse, return_counts):
    if not return_inverse and not return_counts:
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


@_of_first
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements, or with `dim` the distinct slices along it, in ascending order.

    Returns: the values; with the flags a tuple of values, for each element of the input its place among them, and how
        often each occurs.
    """
    if dim is None:
        found = _VF._unique2(input, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts)
    else:
        found = _VF.unique_dim(input, dim, sorted=sorted, return_inverse=return_inverse, return_counts=return_counts)
    return _chosen(*found, return_inverse, return_counts)


@_of_first
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (with `dim`: the slices) that differ from the one before; results as of `unique`."""
    return _chosen(
        *_C._unique_consecutive(input, return_inverse=return_inverse, return_counts=return_counts, dim=dim),
        return_inverse,
        return_counts,
    )


@_of_first
def unravel_index(indices, shape):
    """For flat positions in an array of `shape` the coordinates: a tuple with a tensor for each dimension.

    Raises: TypeError for indices that are no integers or a shape that is none; ValueError for a negative size or
        dimension.
    """
    if not isinstance(indices, tessera.Tensor):
        raise TypeError(f"unravel_index(): expected 'indices' to be a Tensor, but got {type(indices).__name__}")
    if indices.is_complex() or indices.is_floating_point() or indices.dtype == tessera.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, tuple, list)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape).__name__}")
    if not isinstance(shape, int) and not all(isinstance(size, int) for size in shape):
        raise TypeError(f"expected 'shape' sequence to only contain ints, but got {shape!r}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    coordinates, step, indices = [], 1, indices.to(tessera.int64)
    for size in reversed(shape):
        coordinates.append(indices.div(step, rounding_mode="floor") % size)
        step *= size
    return tuple(reversed(coordinates))


def _spacings(input, spacing, dims):
    """For each dimension a number or the coordinates of its points."""
    if spacing is None:
        return [1] * len(dims)
    if isinstance(spacing, (int, float, complex)):
        return [spacing] * len(dims)
    spacing = list(spacing)
    if len(spacing) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
            f"{input.dim()}' or of the given dims, "
            f"but got a list of length {len(spacing)} for {len(dims)} dims"
        )
    for d, points in zip(dims, spacing):
        if isinstance(points, tessera.Tensor):
            if points.dim() != 1:
                raise RuntimeError(
                    f"torch.gradient expected each element of spacing to have one dimension, but got an element with "
                    f"{points.dim()} dimensions!"
                )
            if points.numel() != input.shape[d]:
                raise RuntimeError(
                    f"torch.gradient expected as many coordinates as points in dimension {d} ({input.shape[d]}), but "
                    f"got {points.numel()}"
                )
    return spacing


def _derivative(input, spacing, dim, edge_order):
    n = input.shape[dim]
    part = lambda start, length: input.narrow(dim, start, length)  # noqa: E731
    if isinstance(spacing, tessera.Tensor):
        steps = spacing.diff().reshape([-1] + [1] * (input.dim() - dim - 1))
        before, after = steps[:-1], steps[1:]
        inner = (part(2, n - 2) * before**2 - part(0, n - 2) * after**2 + part(1, n - 2) * (after**2 - before**2)) / (
            before * after * (before + after)
        )
        first, second, last, last_but_one = steps[:1], steps[1:2], steps[-1:], steps[-2:-1]
    else:
        inner = (part(2, n - 2) - part(0, n - 2)) / (2 * spacing)
        first = second = last = last_but_one = spacing
    if edge_order == 1:
        edges = ((part(1, 1) - part(0, 1)) / first, (part(n - 1, 1) - part(n - 2, 1)) / last)
    else:

        def edge(x0, x1, x2, h1, h2):  # the derivative at x0 of the parabola through three points
            return -(2 * h1 + h2) / (h1 * (h1 + h2)) * x0 + (h1 + h2) / (h1 * h2) * x1 - h1 / (h2 * (h1 + h2)) * x2

        edges = (
            edge(part(0, 1), part(1, 1), part(2, 1), first, second),
            -edge(part(n - 1, 1), part(n - 2, 1), part(n - 3, 1), last, last_but_one),
        )
    return tessera.cat([edges[0], inner.to(edges[0].dtype), edges[1]], dim)


@_of_first
def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """Estimates of the derivatives of a sampled function, by differences of second order inside and of order
    `edge_order` at the edges.

    Args:
        spacing: the distance of the points (1): a number, a number for each dimension, or for each dimension a 1-D
            tensor of coordinates.
        dim: a dimension or several (all).
        edge_order: 1 or 2.

    Returns: a tuple with a tensor for each dimension.
    Raises: RuntimeError for fewer than `edge_order + 1` points in a dimension, an unsuitable spacing or edge order.
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if input.dtype in (tessera.bool, tessera.uint8):
        raise RuntimeError(f"torch.gradient does not support input of dtype {input.dtype}")
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -input.dim() <= d < input.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-input.dim()}, {input.dim() - 1}], but got {d})"
            )
    dims = [d % input.dim() for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"torch.gradient expected distinct dims, but got {dims}")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"torch.gradient expected each dimension size to be at least edge_order+1, but dimension {d} has "
                f"{input.shape[d]} points"
            )
    return tuple(_derivative(input, step, d, edge_order) for d, step in zip(dims, _spacings(input, spacing, dims)))


def _edges_of(input, bins, range):
    """The edges of the bins of each column."""
    columns = input.shape[-1]
    counts = [bins] * columns if isinstance(bins, int) else list(bins)
    if len(counts) != columns:
        raise RuntimeError(
            f"histogramdd: The size of bins must be equal to the innermost dimension of the input, {columns}, but got "
            f"{len(counts)}"
        )
    if not all(isinstance(count, int) for count in counts):
        return [edges.contiguous() for edges in counts]
    if range is not None and len(range) != 2 * columns:
        raise RuntimeError(
            f"histogramdd: range should have {2 * columns} elements for {columns} columns, but got {len(range)}"
        )
    edges = []
    for i, count in enumerate(counts):
        if count <= 0:
            raise RuntimeError(f"histogramdd: the number of bins must be positive, but got {count}")
        column = input[..., i]
        low, high = (
            range[2 * i : 2 * i + 2]
            if range is not None
            else (column.min().item(), column.max().item())
            if column.numel()
            else (0.0, 1.0)
        )
        if low > high:
            raise RuntimeError(
                f"histogramdd: the lower end of a range must not exceed the upper one, but got [{low}, {high}]"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(tessera.linspace(low, high, count + 1, dtype=input.dtype, device=input.device))
    return edges


@_of_first
def histogramdd(input, bins, *, range=None, weight=None, density=False, out=None):
    """Counts (or sums of weights) of points in the bins of a grid.

    Args:
        input: points along the last dimension: (..., columns), floating point.
        bins: the number of bins, one number for each column, or a list of 1-D tensors of edges.
        range: lowest and highest edge for each column, one after the other; default: of the data.
        weight: for each point, shape (...).
        density: divides by the total and the volume of each bin.
        out: a pair (hist, bin_edges) of a tensor and a sequence of tensors, which the results are written to.

    Returns: a named tuple (hist, bin_edges): the grid of counts and a tuple of edges.
    Raises: RuntimeError for arguments that don't fit.
    """
    if input.dim() < 2:
        raise RuntimeError(f"histogramdd: input tensor should have at least 2 dimensions, but got {input.dim()}")
    if input.dtype not in (tessera.float32, tessera.float64):
        raise RuntimeError(f"histogramdd: only float and double are supported, but got {input.dtype}")
    if weight is not None and (weight.dtype != input.dtype or weight.shape != input.shape[:-1]):
        raise RuntimeError(
            "histogramdd: if weight tensor is provided, it should have the dtype of the input and its shape without "
            "the innermost dimension"
        )
    with tessera.no_grad():
        edges = _edges_of(input, bins, range)
        points = input.reshape(-1, input.shape[-1])
        flat = tessera.zeros(len(points), dtype=tessera.int64, device=input.device)
        inside = tessera.ones(len(points), dtype=tessera.bool, device=input.device)
        for i, steps in enumerate(edges):
            column = points[:, i].contiguous()
            inside &= (column >= steps[0]) & (column <= steps[-1])
            count = len(steps) - 1
            flat = flat * count + (tessera.searchsorted(steps, column, right=True) - 1).clamp(0, count - 1)
        shape = [len(steps) - 1 for steps in edges]
        ones = tessera.ones(len(points), dtype=input.dtype, device=input.device)
        weights = ones if weight is None else weight.reshape(-1)
        hist = (
            tessera.zeros(math.prod(shape), dtype=input.dtype, device=input.device)
            .index_add(0, flat[inside], weights[inside])
            .reshape(shape)
        )
        if density:
            hist = hist / hist.sum()
            for i, steps in enumerate(edges):
                hist = hist / steps.diff().reshape([-1] + [1] * (len(edges) - i - 1))
    if out is not None:
        given = [out[0], *out[1]]
        if len(given) != len(edges) + 1:
            raise RuntimeError(f"histogramdd: out has {len(given) - 1} tensors for edges, but there are {len(edges)}")
        hist, *edges = (tessera.add(t, 0, out=to) for t, to in zip([hist, *edges], given))
    return tessera.return_types.histogramdd(hist, tuple(edges))


@_of_first
def lu(A, pivot=True, get_infos=False, out=None):
    """The LU factorization of matrices, shape (..., m, n). Deprecated: use `linalg.lu_factor`, or `linalg.lu_factor_ex`
    for the infos.

    Args:
        pivot: rows are exchanged; without only on CUDA devices.
        get_infos: return (int32, one for each matrix) the place of the first pivot that is 0, or 0.
        out: a tuple of as many tensors as there are results.

    Returns: a tuple (LU, pivots), with `get_infos` a named one (LU, pivots, info): both factors in one matrix, and the
        rows that were exchanged, from 1 on (int32).
    Raises: RuntimeError for other dtypes and without pivoting on the CPU (not for singular matrices), TypeError for an
        `out` of another length.
    """
    results = _C._lu_with_info(A, pivot=pivot)
    if not get_infos:
        results = tuple(results[:2])
    if out is None:
        return results
    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise TypeError(f"lu(): expected out to be a tuple of {len(results)} tensors, but got {type(out).__name__}")
    for given, result in zip(out, results):
        given.resize_(result.shape).copy_(result)
    return out


@_of_first
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """A norm over `dim` (default: all dimensions). Deprecated: `linalg.vector_norm` and `linalg.matrix_norm` say which
    kind is meant.

    Args:
        p: a number (inf and -inf too), 'fro' (the 2-norm of all the elements), 'nuc' (sum of the singular values; two
            dimensions).
        dim: an int, a list of ints or None.
        dtype: the input is converted first.

    Raises: RuntimeError for another string, or for dimensions out of range.
    """
    if isinstance(dim, int):
        dim = [dim]
    elif dim is not None:
        dim = list(dim)
    if p == "nuc":
        dim = list(range(input.dim())) if dim is None else dim
        return tessera.linalg.matrix_norm(input, "nuc", dim, keepdim, dtype=dtype, out=out)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    if not (input.is_floating_point() or input.is_complex()) and dtype is None:
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {input.dtype} instead."
        )
    return _C._linalg.linalg_vector_norm(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype, out=out)


def segment_reduce(
    data: tessera.Tensor,
    reduce: str,
    *,
    lengths: tessera.Tensor | None = None,
    indices: tessera.Tensor | None = None,
    offsets: tessera.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | int | None = None,
) -> tessera.Tensor:
    """Reduces neighbouring pieces of `data` along an axis, each to one element.

    Args:
        data: tensor of floats.
        reduce: "sum", "mean", "max" ("amax"), "min" ("amin") or "prod".
        lengths: int64 (*data.shape[:axis], S), how many elements each piece has; their sum is data.shape[axis].
        offsets: in its place (*data.shape[:axis], S + 1), where pieces begin, and where the last one ends. What is in
            no piece does not count.
        indices: not supported, as in PyTorch.
        unsafe: the lengths are not checked.
        initial: joins each reduction. Without one, an empty piece is 0, nan, -inf, inf and 1.

    Returns data with S elements along `axis`. RuntimeError for arguments that do not fit.
    """
    kinds = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "max": ("amax", -tessera.inf), "min": ("amin", tessera.inf)}
    kinds["prod"] = ("prod", 1.0)
    reduce = reduce[1:] if reduce in ("amax", "amin") else reduce
    if reduce not in kinds:
        raise RuntimeError(f"segment_reduce(): 'reduce' must be one of sum, mean, max, min, prod, got '{reduce}'")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet; give lengths or offsets")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): expected one of lengths and offsets")
    axis += data.dim() if axis < 0 else 0
    bounds = offsets if lengths is None else tessera.constant_pad_nd(lengths.cumsum(-1), [1, 0])
    assert bounds is not None
    bounds = bounds.to(tessera.int64)
    counts = bounds.diff()
    if counts.dim() != axis + 1 or counts.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): pieces along axis {axis} of data of {list(data.shape)} have lengths of "
            f"{list(data.shape[:axis])} and one more dimension, got {list(counts.shape)}"
        )
    n, pieces = data.shape[axis], counts.shape[-1]
    if not unsafe and counts.numel():
        if (counts < 0).any():
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        last = bounds[..., -1]
        if (last != n if offsets is None else last > n).any():
            raise RuntimeError(
                f"segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                f"!unsafe: it is {n}"
            )
    # Which piece an element is in: 0 before the first one, pieces + 1 behind the last.
    at = tessera.arange(n, device=data.device).expand(list(bounds.shape[:-1]) + [n]).contiguous()
    where = tessera.searchsorted(bounds.contiguous(), at, right=True)
    ones = [1] * (data.dim() - axis - 1)
    where = where.reshape(list(where.shape) + ones).expand(data.shape)
    kind, start = kinds[reduce]
    if initial is not None:
        start = float(initial) if isinstance(initial, int) else initial
    shape = list(data.shape[:axis]) + [pieces + 2] + list(data.shape[axis + 1 :])
    made = data.new_full(shape, start)
    whole = made.scatter_reduce(axis, where, data, kind, include_self=True)
    if kind != "sum" and data.requires_grad:  # gradients of pieces with a nan: max and min are it, others multiply it
        unknown = data.isnan()
        zeros = tessera.zeros_like(made)
        total = zeros.scatter_add(axis, where, tessera.where(unknown, data, 0.0))
        count = zeros.scatter_add(axis, where, unknown.to(data.dtype))
        if kind == "prod":
            rest = made.scatter_reduce(axis, where, tessera.where(unknown, 1.0, data), kind, include_self=True)
            whole = tessera.where(count > 0, rest * total.pow(count), rest)
        else:
            whole = tessera.where(whole.isnan() & (count > 0), total / count.clamp_min(1.0), whole)
    made = whole.narrow(axis, 1, pieces)
    if reduce != "mean":
        return made.contiguous()
    counts = counts.reshape(list(counts.shape) + ones)
    return made / (counts if initial is None else counts + (counts == 0))
