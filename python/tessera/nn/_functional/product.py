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
    (``ScalingType.TensorWise``) and of its rows and columns (``RowWise``).
    """
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
