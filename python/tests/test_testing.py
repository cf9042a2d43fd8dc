"""assert_close and make_tensor."""

import math

import numpy as np
import pytest
import tessera
from tessera.testing import assert_close, make_tensor

T = tessera.tensor


def message(*args, **kwargs):
    with pytest.raises(AssertionError) as info:
        assert_close(*args, **kwargs)
    return str(info.value)


def test_close_values_pass():
    assert_close(T([1.0, 2.0]), T([1.0, 2.0 + 1e-6]))
    assert_close({"a": [T(1), 2.0, None, True]}, {"a": [T(1), 2.0, None, True]})
    assert_close(T([math.nan]), T([math.nan]), equal_nan=True)
    assert_close(1, 1.0, check_dtype=False)
    assert_close(np.float64(1), 1.0)
    assert_close(np.int32(1), np.int64(1))
    with pytest.raises(AssertionError, match="int.*float"):
        assert_close(1, np.float32(1))


def test_messages():
    assert message(T([1.0, 2.0, 3.0]), T([1.0, 2.0, 4.0])) == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\nGreatest absolute difference: 1.0 at index "
        "(2,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)"
    )
    assert (
        message(1, 2)
        == "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"
    )
    assert message([1.0, {"k": T([1])}], [1.0, {"k": T([3])}]).endswith("The failure occurred for item [1]['k']")
    assert message({"a": 1}, {"b": 1}).startswith("The keys of the mappings do not match:")
    assert message([1], [1, 2]) == "The length of the sequences mismatch: 1 != 2"
    assert message(None, 1) == "None mismatch: None is not 1"
    assert message(T([1.0]), T([2.0]), msg="boom") == "boom"
    assert message(T([1.0]), T([2.0]), msg=lambda m: "pre " + m[:6]) == "pre Tensor"


@pytest.mark.parametrize(
    "actual, expected, what",
    [
        (tessera.ones(1), tessera.ones(2), "shape"),
        (T([1.0]), T([1.0], dtype=tessera.float64), "dtype"),
        (T([1.0]), T([1]), "dtype"),
    ],
)
def test_attributes(actual, expected, what):
    assert f"The values for attribute '{what}' do not match" in message(actual, expected)


def test_strides_only_on_request():
    assert_close(tessera.ones(2, 3), tessera.ones(3, 2).t())
    assert "stride()" in message(tessera.ones(2, 3), tessera.ones(3, 2).t(), check_stride=True)


def test_unusable_arguments():
    for pair in (("a", "b"), (T([1.0]), 1.0), (object(), object())):
        with pytest.raises(TypeError, match="No comparison pair"):
            assert_close(*pair)
    with pytest.raises(ValueError, match="no atol"):
        assert_close(1.0, 1.0, rtol=1.0)


def test_unsigned_and_extreme_integers():
    assert "Greatest absolute difference: 100 at" in message(
        T([100], dtype=tessera.uint8), T([200], dtype=tessera.uint8)
    )
    assert "1 / 2 (50.0%)" in message(T([True, False]), T([True, True]))


def test_make_tensor():
    x = make_tensor((3, 4), dtype=tessera.float32, low=-1, high=1)
    assert x.shape == (3, 4) and bool((x >= -1).all()) and bool((x < 1).all())
    assert not make_tensor(3, 4, dtype=tessera.int32, noncontiguous=True).is_contiguous()
    assert not bool((make_tensor(500, dtype=tessera.int8, low=0, high=2, exclude_zero=True) == 0).any())
    assert make_tensor(2, dtype=tessera.float64, requires_grad=True).requires_grad
    assert make_tensor((), dtype=tessera.bool).dtype is tessera.bool
    with pytest.raises(ValueError, match="low"):
        make_tensor(2, dtype=tessera.float32, low=2, high=1)
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(2, dtype=tessera.int64, requires_grad=True)


def test_make_tensor_of_one_number_and_of_what_it_does_not_make():
    with pytest.warns(FutureWarning, match="full"):
        assert make_tensor(3, dtype=tessera.float16, low=1, high=1).tolist() == [1.0] * 3
    with pytest.raises(ValueError, match="must be less than"):
        make_tensor(3, dtype=tessera.int32, low=1, high=1)
    with pytest.raises(TypeError, match="not supported"):
        make_tensor(2, dtype=tessera.quint8)
    tessera.manual_seed(0)
    numbers = make_tensor(4, dtype=tessera.complex64, low=1, high=2)
    tessera.manual_seed(0)
    assert tessera.equal(tessera.view_as_real(numbers), make_tensor(4, 2, dtype=tessera.float32, low=1, high=2))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_tolerances_of_assert_allclose():
    for dtype, near, far in [("float32", 9e-5, 2e-4), ("float64", 9e-6, 2e-5), ("float16", 1.9e-3, 4e-3)]:
        one = tessera.ones(1, dtype=getattr(tessera, dtype))
        tessera.testing.assert_allclose(one, one + near)
        with pytest.raises(AssertionError):
            tessera.testing.assert_allclose(one, one + far)


def test_test_case_of_other_libraries_tests():
    """assertEqual compares tensors within containers, and everything else by ==."""
    from tessera.testing._internal.common_utils import TestCase, freeze_rng_state

    case = TestCase()
    ones, double = tessera.ones(2), tessera.ones(2, dtype=tessera.float64)
    equal = [(ones, ones + 1e-7), ({"a": [ones, 1]}, {"a": (ones, 1.0)}), (T(1.0), 1), (ones, [1, 1]), ("a", "a")]
    equal += [({1, 2}, {2, 1}), (None, None), (True, T(True)), (math.nan, math.nan), (tessera.Size([1]), (1,))]
    for x, y in equal:
        case.assertEqual(x, y)
        with pytest.raises(AssertionError):
            case.assertNotEqual(x, y)
    for x, y in [(ones, double), ({"a": 1}, {"b": 1}), ([1], [1, 2]), ("a", "b"), (None, 1), (True, False), (1, 2)]:
        case.assertNotEqual(x, y)
    case.assertEqual(ones, double, exact_dtype=False)
    case.assertEqual(ones, ones + 0.1, atol=0.2, rtol=0)
    with pytest.raises(AssertionError, match=r"(?s)not close.*for item \['a'\]\[1\].*why"):
        case.assertEqual({"a": [1, ones]}, {"a": [1, ones + 1]}, "why")
    with pytest.raises(AssertionError, match="^changed: "):
        case.assertEqual(1, 2, lambda text: "changed: " + text)
    with freeze_rng_state():
        drawn = tessera.rand(3)
    case.assertEqual(tessera.rand(3), drawn)


def test_tests_with_parameters():
    from tessera.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, subtest

    called = []

    @instantiate_parametrized_tests
    class Tests(TestCase):
        @parametrize("a", [1, 2])
        @parametrize("b,c", [subtest((3, 4), name="named"), (0.5, tessera.float32)])
        def test_it(self, a, b, c):
            called.append((a, b, c))

        @parametrize("a", [1], name_fn=lambda a: "one")
        def test_name(self, a):
            called.append(a)

    names = sorted(name for name in vars(Tests) if name.startswith("test"))
    cases = ["test_it_a_1_b_0_5_float32", "test_it_a_1_named", "test_it_a_2_b_0_5_float32", "test_it_a_2_named"]
    assert names == [*cases, "test_name_one"]
    for name in names:
        Tests(name).debug()
    assert called == [(1, 0.5, tessera.float32), (1, 3, 4), (2, 0.5, tessera.float32), (2, 3, 4), 1]
    with pytest.raises(RuntimeError, match="2 names, expected as many values"):
        parametrize("a,b", [(1,)])(lambda self, a, b: None)


def test_make_tensor_stays_below_its_end():
    for dtype in (tessera.float16, tessera.bfloat16, tessera.float32, tessera.complex32):
        x = make_tensor(20000, dtype=dtype)
        x = tessera.view_as_real(x) if dtype.is_complex else x
        assert -9 <= float(x.min()) and float(x.max()) < 9, dtype


def test_make_tensor_beyond_the_dtype():
    for dtype, low, high in (
        (tessera.uint8, -2, -1),
        (tessera.bool, 2, 4),
        (tessera.int64, 2**64, 2**65),
        (tessera.float16, 70000, 80000),
        (tessera.float64, 10**400, 10**401),
    ):
        with pytest.raises(ValueError, match="no number of"):
            make_tensor(2, dtype=dtype, low=low, high=high)
    with pytest.warns(FutureWarning, match="low==high"):
        assert make_tensor(2, dtype=tessera.float32, low=1, high=1).tolist() == [1, 1]


def test_sparse_dimensions_are_compared():
    x = tessera.ones(2, 3, 4)
    with pytest.raises(AssertionError, match="number of sparse dimensions in sparse COO tensors"):
        assert_close(x.to_sparse(), x.to_sparse(2))


def test_operator_namespaces_can_be_imported_from():
    found = {}
    exec("from tessera.fft import *", found)
    assert {"rfft", "ifftn", "fftfreq"} <= set(found)
