"""Resizing (interpolate) by operators, and sampling at given places (grid_sample)."""

import math
import warnings

import tessera

from .common import autocasts, overridable


_nn = tessera._C._nn

# The operators: of any number of spatial dimensions, or of one.
_OPERATORS = {
    "nearest": "upsample_nearest{}d", "nearest-exact": "_upsample_nearest_exact{}d", "linear": "upsample_linear1d",
    "bilinear": "upsample_bilinear2d", "trilinear": "upsample_trilinear3d", "bicubic": "upsample_bicubic2d",
}  # fmt: skip
_WITHOUT_CORNERS = ("nearest", "nearest-exact", "area")


def _target_size(input, size, scale_factor, recompute):
    """(output size or None, outputs for one input in each dim or None). ValueError if both or none is given, or lengths
    do not fit.
    """
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != n:
                raise ValueError(
                    f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                    f"dimensions of {list(input.shape[2:])} and "
                    f"output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output "
                    f"size in (o1, o2, ...,oK) format."
                )
            size = list(size)
        else:
            size = [size] * n
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return size, None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != n:
            raise ValueError(
                f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} "
                f"and scale_factor of shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) "
                f"format and scale_factor in "
                "(s1, s2, ...,sK) format."
            )
    else:
        scale_factor = [scale_factor] * n
    scales = [float(s) for s in scale_factor]
    return ([_scaled(input.size(i + 2), s) for i, s in enumerate(scales)], None) if recompute else (None, scales)


def _scaled(size, factor):
    if isinstance(size, tessera.Tensor):  # of a trace
        return (size.double() * factor).floor().long()
    if isinstance(size, int):
        return math.floor(float(size) * factor)
    return size * int(factor) if factor == int(factor) else math.floor(size * factor)  # a symbolic size


_MODES = {
    "linear": (3,),
    "bilinear": (4,),
    "bicubic": (4,),
    "trilinear": (5,),
    "nearest": (3, 4, 5),
    "nearest-exact": (3, 4, 5),
    "area": (3, 4, 5),
}


def _check_corners(mode, align_corners):
    if mode in _WITHOUT_CORNERS and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )


def _check_mode(input, mode, antialias):
    if antialias and (mode not in ("bilinear", "bicubic") or input.dim() != 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode not in _MODES or input.dim() not in _MODES[mode]:
        if input.dim() in (3, 4, 5) and mode in _MODES:
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_MODES[mode][0]}D input")
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D) for the modes: nearest | linear | "
            "bilinear | bicubic | trilinear | "
            "area | nearest-exact (got {})".format(input.dim(), mode)
        )


@overridable
def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resizes the spatial dims of (N, C, ...) to `size` or by `scale_factor`.

    mode: nearest | nearest-exact | linear (3-D) | bilinear, bicubic (4-D) | trilinear (5-D) | area. align_corners:
        corner pixels stay at the corners.
    """
    _check_corners(mode, align_corners)
    size, scales = _target_size(input, size, scale_factor, recompute_scale_factor)
    _check_mode(input, mode, antialias)
    n = input.dim() - 2
    if mode == "area":
        size = size or [_scaled(input.size(i + 2), s) for i, s in enumerate(scales)]
        return getattr(tessera.nn.functional, f"adaptive_avg_pool{n}d")(input, size)
    name = _OPERATORS[mode].format(n)
    operator = getattr(_nn, f"_{name}_aa" if antialias else name)
    corners = {} if mode in _WITHOUT_CORNERS else {"align_corners": bool(align_corners)}
    return operator(input=input, output_size=size, scale_factors=scales, **corners)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Deprecated: use interpolate."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """Deprecated: use interpolate."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """Deprecated: use interpolate with align_corners=True."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---- grid_sample -----------------------------------------------------------------------------------------------------

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def _check_grid(input, grid, mode, padding_mode):
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if (
        input.dim() not in (4, 5)
        or grid.dim() != input.dim()
        or input.size(0) != grid.size(0)
        or grid.size(-1) != input.dim() - 2
    ):
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions and batch size, the "
            f"grid's last dimension being the number of "
            f"spatial ones, but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)}"
        )
    if input.dim() == 5 and mode == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


@overridable
@autocasts(cpu="fp32", cuda="promote")
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Samples (N, C, H, W) at `grid` (N, Ho, Wo, 2), whose last dim is (x, y) in [-1, 1]; the same with one dim more
    for 5-D.

    mode: bilinear | nearest | bicubic (4-D). padding_mode (outside): zeros | border | reflection.
    """
    _check_grid(input, grid, mode, padding_mode)
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old "
            "behavior is desired. See the documentation of grid_sample for details.",
            stacklevel=3,
        )
        align_corners = False
    return tessera.grid_sampler(
        input,
        grid,
        GRID_SAMPLE_INTERPOLATION_MODES[mode],
        GRID_SAMPLE_PADDING_MODES[padding_mode],
        bool(align_corners),
    )


@overridable
def affine_grid(theta, size, align_corners=None):
    """The sampling grid (N, H, W, 2) (or (N, D, H, W, 3)) of affine maps theta (N, 2, 3) (or (N, 3, 4)) for an output
    of `size` (N, C, ...).
    """
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old "
            "behavior is desired. See the documentation of grid_sample for details.",
            stacklevel=3,
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{size}."
        )
    if theta.dim() != 3 or theta.shape[-2:] != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if theta.size(0) != size[0]:
        raise RuntimeError(f"Expected a batch of {size[0]} affine matrices. Got {theta.size(0)}.")
    axes = []
    for s in size[2:]:
        a = (
            tessera.linspace(-1, 1, s, dtype=theta.dtype, device=theta.device)
            if s > 1
            else tessera.zeros(1, dtype=theta.dtype, device=theta.device)
        )
        axes.append(a if align_corners else a * ((s - 1) / s))
    grids = tessera.meshgrid(*axes, indexing="ij")
    base = tessera.stack([*reversed(grids), tessera.ones_like(grids[0])], -1).reshape(1, -1, n + 1)
    return tessera.matmul(base, theta.transpose(1, 2)).reshape(size[0], *size[2:], n)
