"""Functions of shapes, strides and dtypes; expected values are those that the library's own operators give."""

import itertools

import pytest

import tessera
from tessera import _prims_common as prims
from tessera._prims_common.wrappers import _maybe_convert_to_dtype, elementwise_type_promotion_wrapper

KIND = prims.ELEMENTWISE_TYPE_PROMOTION_KIND
SHAPES = [(2, 3), (0, 3), (4, 1, 2), (), (2, 3, 4, 5), (1, 1, 1, 1), (2, 1, 4, 4), (2, 3, 1, 1), (2, 3, 2, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_strides_are_those_of_new_tensors(shape):
    x = tessera.empty(shape)
    assert prims.make_contiguous_strides_for(shape) == x.stride()
    assert prims.is_contiguous(x) and prims.is_non_overlapping_and_dense(x)
    if len(shape) in (4, 5):
        last = tessera.channels_last if len(shape) == 4 else tessera.channels_last_3d
        y = tessera.empty(shape, memory_format=last)
        assert prims.make_channels_last_strides_for(shape) == y.stride()
        assert prims.is_channels_last_contiguous(y) and prims.is_contiguous_for_memory_format(y, memory_format=last)
    elif len(shape) != 3:
        with pytest.raises(RuntimeError):
            prims.make_channels_last_strides_for(shape)


def test_suggested_format():
    x = tessera.empty(2, 3, 4, 5)
    y = x.to(memory_format=tessera.channels_last)
    assert prims.suggest_memory_format(x) is tessera.contiguous_format
    assert prims.suggest_memory_format(y) is tessera.channels_last
    assert prims.suggest_memory_format(y[:, :2]) is tessera.channels_last
    assert prims.suggest_memory_format(y[0]) is tessera.contiguous_format
    assert prims.suggest_memory_format(tessera.empty(2, 1, 1, 1)) is tessera.contiguous_format
    assert not prims.is_non_overlapping_and_dense(x[..., ::2]) and not prims.is_non_overlapping_and_dense(
        x.expand(9, *x.shape)
    )
    assert prims.is_non_overlapping_and_dense(x.permute(3, 1, 0, 2))


VALUES = [
    tessera.ones(2), tessera.ones(2).half(), tessera.ones(()).double(), tessera.ones(2, dtype=tessera.int32),
    tessera.ones(2, dtype=tessera.bool), tessera.ones((), dtype=tessera.int64), 1, 1.5, True, 1j,
    tessera.ones(2, dtype=tessera.complex64),
]  # fmt: skip


@pytest.mark.parametrize("a,b", list(itertools.product(VALUES, VALUES)))
def test_result_dtypes_are_those_of_operators(a, b):
    if not isinstance(a, tessera.Tensor) and not isinstance(b, tessera.Tensor):
        return
    computed, result = prims.elementwise_dtypes(a, b, type_promotion_kind=KIND.DEFAULT)
    assert result == tessera.result_type(a, b) and computed == prims.get_computation_dtype(result)
    assert prims.elementwise_dtypes(a, b, type_promotion_kind=KIND.ALWAYS_BOOL)[1] is tessera.bool
    assert prims.elementwise_dtypes(a, b, type_promotion_kind=KIND.INT_TO_FLOAT)[1] == tessera.div(a, b).dtype


def test_dimensions():
    assert prims.canonicalize_dim(3, -1) == 2 and prims.canonicalize_dims(3, [0, -2]) == (0, 1)
    assert prims.canonicalize_dim(0, -1) == 0
    for rank, dim in [(3, 3), (0, 1), (2, -3)]:
        with pytest.raises(IndexError):
            prims.canonicalize_dim(rank, dim)
    assert prims.reduction_dims((2, 3), None) == (0, 1)
    assert prims.compute_reduction_output_shape((2, 3, 4), (-2,)) == (2, 4)
    with pytest.raises(RuntimeError, match="duplicate"):
        prims.reduction_dims((2, 3), (0, -2))
    assert prims.is_expandable_to((1, 3), (2, 3)) and not prims.is_expandable_to((2, 3), (3,))


def test_kinds_and_conversions():
    assert [prims.dtype_to_type(d) for d in (tessera.bool, tessera.int8, tessera.half, tessera.cfloat)] == [
        bool, int, float, complex,
    ]  # fmt: skip
    assert _maybe_convert_to_dtype(tessera.ones(2), tessera.int32).dtype is tessera.int32
    assert _maybe_convert_to_dtype((2.7, None), tessera.int32) == (2, None)
    with pytest.raises(ValueError, match="expected a tensor"):
        _maybe_convert_to_dtype("x", tessera.int32)

    @elementwise_type_promotion_wrapper(type_promotion_kind=KIND.INT_TO_FLOAT, type_promoting_args=("a", "b"))
    def ratio(a, b):
        seen.append(a.dtype)
        return a / b

    seen = []
    assert ratio(tessera.ones(2, dtype=tessera.int32), tessera.ones(2, dtype=tessera.int64)).dtype is tessera.float32
    assert ratio(tessera.ones(2).half(), tessera.ones(2).half()).dtype is tessera.float16
    assert seen == [tessera.float32, tessera.float32]


def test_arguments_that_must_agree():
    a, b = tessera.ones(2), tessera.ones(3, dtype=tessera.float64)
    for check, options in [
        (prims.check_same_shape, {"allow_cpu_scalar_tensors": True}),
        (prims.check_same_dtype, {}),
    ]:
        check(a, a + 1, **options)
        with pytest.raises(RuntimeError):
            check(a, b, **options)
    with pytest.raises(RuntimeError):
        prims.check_same_device(a, tessera.ones(2, device="meta"), allow_cpu_scalar_tensors=True)
    assert prims.extract_shape(a, tessera.ones(()), 3, allow_cpu_scalar_tensors=True) == (2,)
    assert prims.extract_shape(a, b, allow_cpu_scalar_tensors=True) is None
    got = prims.compute_elementwise_output_strides(tessera.ones(2, 3).t(), tessera.ones(2, 3).t())
    assert got == (tessera.ones(2, 3).t() * 2).stride()
