"""Products with scales and in groups."""

import enum

import tessera


class ScalingType(enum.IntEnum):
    """How a matrix was scaled: as a whole, by rows, or by blocks of so many elements."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """The order in which the scales of blocks lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1
    SWIZZLE_32_8 = 2


def _listed(value):
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _numbers(value):
    return [int(v) for v in _listed(value)]


# Of the recipes by blocks: lines and elements of the inner dimension that share a scale, and its dtype.
_BLOCKS = {
    ScalingType.BlockWise1x32: (1, 32, tessera.float8_e8m0fnu),
    ScalingType.BlockWise1x128: (1, 128, tessera.float32),
    ScalingType.BlockWise128x128: (128, 128, tessera.float32),
}


def _by_blocks(recipe_a, recipe_b):
    """Whether both sides have scales by blocks that go together."""
    if len(recipe_a) != 1 or len(recipe_b) != 1:
        return False
    both = {recipe_a[0], recipe_b[0]}
    wide, square = ScalingType.BlockWise1x128, ScalingType.BlockWise128x128
    return both in ({ScalingType.BlockWise1x32}, {wide}, {wide, square})


def _without_swizzle(name, scale, rows, cols):
    """Scales (rows, cols) from tiles of 128 lines by 4, in which lines 0, 32, 64 and 96 lie side by side."""
    row_tiles, col_tiles = -(-rows // 128), -(-cols // 4)
    if scale.numel() != row_tiles * col_tiles * 512:
        raise ValueError(
            f"{name} in tiles should have {row_tiles * col_tiles * 512} elements, but got shape {tuple(scale.shape)}"
        )
    tiles = scale.reshape(row_tiles, col_tiles, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(row_tiles * 128, col_tiles * 4)[:rows, :cols]


def _times_scales(name, matrix, scale, recipe, swizzle, transposed):
    """A matrix of 8-bit floats, its inner dimension last, in float32 and times its scales."""
    lines, along, dtype = _BLOCKS[recipe]
    rows, cols = -(-matrix.shape[0] // lines), -(-matrix.shape[1] // along)
    if matrix.element_size() != 1 or not matrix.is_floating_point() or scale.dtype != dtype:
        raise ValueError(f"expected 8-bit floats and {name} of dtype {dtype}, but got {matrix.dtype} and {scale.dtype}")
    scale = scale.float()
    if swizzle == [SwizzleType.SWIZZLE_32_4_4]:
        scale = _without_swizzle(name, scale, rows, cols)
    else:
        turned = transposed and lines * along != 32  # these lie as the matrix does
        shape = (cols, rows) if turned else (rows, cols)
        if scale.shape != shape:
            raise ValueError(f"expected {name} of shape {shape}, but got {tuple(scale.shape)}")
        scale = scale.t() if turned else scale
    spread = scale.repeat_interleave(along, 1).repeat_interleave(lines, 0)
    return matrix.float() * spread[: matrix.shape[0], : matrix.shape[1]]


def _blockwise_mm(mat_a, mat_b, scales, recipes, swizzles, bias, output_dtype):
    if mat_a.dim() != 2 or mat_b.dim() != 2 or mat_a.shape[1] != mat_b.shape[0]:
        raise RuntimeError(f"scaled_mm: shapes cannot be multiplied ({tuple(mat_a.shape)} and {tuple(mat_b.shape)})")
    tiled = recipes[0] == ScalingType.BlockWise1x32
    for swizzle in swizzles:
        if any(s != SwizzleType.NO_SWIZZLE and not (tiled and s == SwizzleType.SWIZZLE_32_4_4) for s in swizzle):
            raise ValueError(f"scaled_mm: no swizzle {swizzle} goes with {ScalingType(recipes[0]).name}")
    a = _times_scales("scale_a", mat_a, scales[0], recipes[0], swizzles[0], False)
    b = _times_scales("scale_b", mat_b.t(), scales[1], recipes[1], swizzles[1], True)
    product = a @ b.t()
    return (product if bias is None else product + bias).to(output_dtype or tessera.bfloat16)


def scaled_mm(
    mat_a,
    mat_b,
    scale_a,
    scale_recipe_a,
    scale_b,
    scale_recipe_b,
    swizzle_a=None,
    swizzle_b=None,
    bias=None,
    output_dtype=tessera.bfloat16,
    contraction_dim=(),
    use_fast_accum=False,
):
    """The product of two matrices of 8-bit floats, multiplied by the scales that `scale_recipe_a` and `scale_recipe_b`
    describe, plus a bias.

    `use_fast_accum` lets a device sum with fewer bits. There are kernels for scales of the whole matrix
    (``ScalingType.TensorWise``) and of its rows and columns (``RowWise``). Blocks are multiplied out in float32: of
    ``BlockWise1x128`` and ``BlockWise128x128`` (not both sides) with float32 scales of shape (m, k / 128) or
    (m / 128, k / 128) for `mat_a` (m, k) and (k / 128, n) or (k / 128, n / 128) for `mat_b` (k, n), each rounded up;
    ``BlockWise1x32`` with float8_e8m0fnu scales (m, k / 32) and (n, k / 32), or in tiles (``SWIZZLE_32_4_4``).
    """
    recipes = _numbers(scale_recipe_a), _numbers(scale_recipe_b)
    scales = _listed(scale_a), _listed(scale_b)
    if _by_blocks(*recipes) and len(scales[0]) == len(scales[1]) == 1 and not contraction_dim:
        swizzles = _numbers(swizzle_a), _numbers(swizzle_b)
        both = [side[0] for side in scales], [side[0] for side in recipes]
        return _blockwise_mm(mat_a, mat_b, *both, swizzles, bias, output_dtype)
    return tessera._scaled_mm_v2(
        mat_a,
        mat_b,
        _listed(scale_a),
        _numbers(scale_recipe_a),
        _numbers(swizzle_a),
        _listed(scale_b),
        _numbers(scale_recipe_b),
        _numbers(swizzle_b),
        bias,
        output_dtype,
        list(contraction_dim),
        use_fast_accum,
    )


def scaled_grouped_mm(
    mat_a,
    mat_b,
    scale_a,
    scale_recipe_a,
    scale_b,
    scale_recipe_b,
    swizzle_a=None,
    swizzle_b=None,
    bias=None,
    offs=None,
    output_dtype=tessera.bfloat16,
    contraction_dim=(),
    use_fast_accum=False,
):
    """`grouped_mm` of 8-bit floats with scales by rows and columns."""
    return tessera._scaled_grouped_mm_v2(
        mat_a,
        mat_b,
        _listed(scale_a),
        _numbers(scale_recipe_a),
        _numbers(swizzle_a),
        _listed(scale_b),
        _numbers(scale_recipe_b),
        _numbers(swizzle_b),
        offs,
        bias,
        output_dtype,
        list(contraction_dim),
        use_fast_accum,
    )


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """A product for each group. A 3-d operand holds one matrix for each; of a 2-d one, `offs` (int32) says where each
    group's part ends: rows of `mat_a`, columns of
    `mat_b`, or, where both are 2-d, the dimension that is summed over. What lies behind the last group is 0."""
    return tessera._grouped_mm(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)
