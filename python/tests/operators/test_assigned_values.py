"""Numbers that are written into tensors of other dtypes: where they are converted, and where they do not fit."""

import pytest
import tessera

T = tessera.tensor
MASK = T([True, False, True])


@pytest.mark.parametrize("value", [T(1.5), T([1.5]), T([[1.5]]), T(1.5, dtype=tessera.float64)], ids=str)
@pytest.mark.parametrize("dtype", [tessera.int64, tessera.float16, tessera.bool], ids=str)
def test_one_number_under_a_mask_is_converted(dtype, value):
    expected = T(1.5).to(dtype).item()
    x = tessera.zeros(3, dtype=dtype)
    x[MASK] = value
    assert x.tolist() == [expected, 0, expected]
    x = tessera.zeros(2, 3, dtype=dtype)
    x[:, MASK] = value
    x[0, MASK] = value
    assert x.tolist() == [[expected, 0, expected]] * 2
    x.index_put_((T([[False, True, False], [False, True, False]]),), value)
    assert x.tolist() == [[expected] * 3] * 2


def test_more_numbers_or_other_indices_need_the_dtype():
    x = tessera.zeros(3, dtype=tessera.int64)
    for index, value in ((MASK, T([1.0, 2.0])), (T([0, 1]), T([1.0, 2.0])), ((MASK, T([0, 0])), T([1.0]))):
        with pytest.raises((RuntimeError, IndexError), match="dtypes match|too many"):
            x[index] = value
    with pytest.raises(RuntimeError, match="dtypes match"):
        x.index_put_((MASK,), T([1.0]), accumulate=True)
    assert not x.any()


@pytest.mark.parametrize(
    "dtype,value", [(tessera.int8, T(300)), (tessera.int8, T(758.0)), (tessera.float32, T(1 + 2j))]
)
@pytest.mark.parametrize(
    "write",
    [
        lambda x, v: x.__setitem__(MASK, v),
        lambda x, v: x.__setitem__(MASK, v.reshape(1)),
        lambda x, v: x.index_fill_(0, T([0]), v),
        lambda x, v: x.index_fill_(0, T([0]), v.item()),
        lambda x, v: x.masked_fill_(MASK, v),
        lambda x, v: x.fill_(v.item()),
    ],
)
def test_what_does_not_fit_is_refused(write, dtype, value):
    x = tessera.ones(3, dtype=dtype)
    with pytest.raises(RuntimeError, match="without overflow|complex Scalar"):
        write(x, value)
    assert x.tolist() == [1, 1, 1]


def test_numbers_become_truth_values():
    x = tessera.zeros(5, dtype=tessera.bool)
    x[0] = 1 + 2j
    x[1] = 0.5
    x[T([2])] = 1j
    x.masked_fill_(T([False, False, False, True, False]), 0.25)
    x.masked_fill_(T([False, False, False, False, True]), 2j)
    assert x.all()


def test_a_truth_value_is_all_or_nothing():
    x = tessera.arange(3.0)
    x[False] = 7
    x[False] = tessera.zeros(0, 3, dtype=tessera.int64)
    with pytest.raises(TypeError, match="can't assign a str"):
        x[False] = "7"
    assert x.tolist() == [0, 1, 2]
    x[True] = T([[4, 5, 6]])
    assert x.tolist() == [4, 5, 6]
    x[True] = 1
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("shape", [(), (1,)])
def test_converted_numbers_have_gradients(shape):
    x = tessera.zeros(3, requires_grad=True)
    v = tessera.full(shape, 2.0, dtype=tessera.float64, requires_grad=True)
    y = x * 1
    y[MASK] = v
    (y * T([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [0, 2, 0] and v.grad.dtype == tessera.float64 and v.grad.sum().item() == 4


def test_truth_over_no_dimensions_leaves_all():
    x = T([[1.0, 0.0], [2.0, 3.0]])
    for f in (tessera.any, tessera.all):
        assert f(x, dim=()).tolist() == [[True, False], [True, True]]
        assert f(x, dim=(), keepdim=True).shape == f(x.to("meta"), dim=()).shape == (2, 2)
        assert f(x, dim=(0, 1)).shape == ()


def test_powers_of_two_are_of_the_result():
    """Not of the dtype of the exponents, where they would be rounded or have no room."""
    mantissa, exponent = T([1.5], dtype=tessera.complex128), T([0.3], dtype=tessera.bfloat16)
    tessera.testing.assert_close(tessera.ldexp(mantissa, exponent), mantissa * 2.0 ** exponent.double())
    assert tessera.ldexp(T(3), T(2)).item() == 12


def test_numbers_without_dimensions_are_their_own_transposes():
    x = T(1 + 2j)
    assert x.mT.item() == x.item()
    assert x.mH.item() == x.adjoint().item() == x.H.item() == 1 - 2j


@pytest.mark.parametrize("index", [0, ..., slice(0, 1), MASK, T([0]), True], ids=str)
def test_numbers_beyond_a_half_type_become_infinite(index):
    for dtype, value in ((tessera.float16, -1e9), (tessera.float16, 65520), (tessera.bfloat16, 1e300)):
        x = tessera.zeros(3, dtype=dtype)
        x[index] = value
        assert x[0].item() == (-1 if value < 0 else 1) * tessera.inf
    x = tessera.zeros(3, dtype=tessera.float16)
    x[index] = 65510
    assert x[0].item() == 65504
    with pytest.raises(RuntimeError, match="without overflow"):
        tessera.zeros(3)[index] = 1e300
