"""repr of tensors and set_printoptions."""

import math

import pytest
import tessera
from tessera import _tensor_str

T = tessera.tensor


@pytest.fixture(autouse=True)
def default_options():
    tessera.set_printoptions(profile="default")
    yield
    tessera.set_printoptions(profile="default")


@pytest.mark.parametrize(
    "data, want",
    [
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([[1.0, -1.0], [1.0, -1.0]], "tensor([[ 1., -1.],\n        [ 1., -1.]])"),
        (3.14159, "tensor(3.1416)"),
        (3, "tensor(3)"),
        ([True, False], "tensor([ True, False])"),
        ([1.5, math.nan, -math.inf], "tensor([1.5000,    nan,   -inf])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([1e10, 1.0], "tensor([1.0000e+10, 1.0000e+00])"),
        ([123456.0, 0.5], "tensor([1.2346e+05, 5.0000e-01])"),
        ([0.0, 0.0], "tensor([0., 0.])"),
        ([-1, 10], "tensor([-1, 10])"),
        ([], "tensor([])"),
    ],
)
def test_values(data, want):
    assert repr(T(data)) == want


def test_dtype_and_size_suffixes():
    name = tessera._display_name
    assert repr(T([1, 2], dtype=tessera.int32)) == f"tensor([1, 2], dtype={name}.int32)"
    assert repr(tessera.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(tessera.zeros(2, 0, dtype=tessera.int64)) == f"tensor([], size=(2, 0), dtype={name}.int64)"


def test_suffix_wraps_to_a_new_line():
    tessera.set_printoptions(linewidth=40)
    text = repr(tessera.ones(3, dtype=tessera.float64) * 1.5)
    assert text == f"tensor([1.5000, 1.5000, 1.5000],\n       dtype={tessera._display_name}.float64)"


def test_summary_and_edge_items():
    assert repr(tessera.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    tessera.set_printoptions(threshold=5, edgeitems=2)
    assert repr(tessera.arange(10)) == "tensor([0, 1,  ..., 8, 9])"
    lines = repr(tessera.zeros(40, 40)).split("\n")
    assert len(lines) == 5 and lines[2].strip() == "...,"


def test_options_precision_linewidth_sci_mode_and_profiles():
    tessera.set_printoptions(precision=2)
    assert repr(T([1.12345])) == "tensor([1.12])"
    tessera.set_printoptions(profile="default", linewidth=40)
    assert repr(tessera.arange(12)) == "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,\n         8,  9, 10, 11])"
    tessera.set_printoptions(profile="default", sci_mode=True)
    assert repr(T([1.5, 0.0])) == "tensor([1.5000e+00, 0.0000e+00])"
    tessera.set_printoptions(sci_mode=False)
    assert repr(T([1e-5, 1.0])) == "tensor([0.0000, 1.0000])"
    tessera.set_printoptions(profile="full")
    assert "..." not in repr(tessera.arange(2000))


def test_printoptions_context_restores():
    with _tensor_str.printoptions(precision=1):
        assert repr(T([0.25])) == "tensor([0.2])"
    assert _tensor_str.get_printoptions()["precision"] == 4


def test_autograd_suffixes_and_no_history():
    x = T([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], grad_fn=<MulBackward0>)"


def test_format_of_scalars_and_vectors():
    assert f"{T(2.5):.2f}" == "2.50" and f"{T(3)}" == "3"
    with pytest.raises(TypeError):
        format(T([1.0, 2.0]), ".2f")
