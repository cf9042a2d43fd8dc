"""Masked tensors and reductions under a mask, against NumPy's masked arrays and gradients of dense code."""

import copy
import pickle

import numpy as np
import pytest

import tessera
from tessera import masked
from tessera.masked import MaskedTensor, as_masked_tensor, masked_tensor

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors", "ignore:It is not recommended")
DATA = tessera.arange(6.0).reshape(2, 3)
MASK = tessera.tensor([[True, False, True], [False, False, True]])


def make(**options):
    return masked_tensor(DATA.clone(), MASK, **options)


def numbers(result):
    return result.to_tensor(-1).tolist()


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std", "argmax", "argmin"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_agree_with_numpy(name, dim):
    x = tessera.randn(5, 7, dtype=tessera.float64, generator=tessera.Generator().manual_seed(1))
    mask = tessera.rand(5, 7, generator=tessera.Generator().manual_seed(2)) < 0.7
    reference = np.ma.masked_array(x.numpy(), ~mask.numpy())
    options = {"ddof": 1} if name in ("var", "std") else {}
    want = np.asarray(getattr(reference, name)(axis=dim, **options), dtype=np.float64)
    np.testing.assert_allclose(getattr(masked, name)(x, dim, mask=mask).numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("mask", [None, tessera.tensor([True, False, True])])
def test_a_mask_broadcasts_and_may_be_left_out(mask):
    want = DATA.sum(1) if mask is None else DATA[:, [0, 2]].sum(1)
    assert masked.sum(DATA, 1, mask=mask).tolist() == want.tolist()


def test_gradients_are_those_of_the_elements_that_count():
    for function in (masked.sum, masked.mean, masked.amax, masked.logsumexp, masked.var, masked.norm):
        x = DATA.double().clone().add_(1).requires_grad_()
        mask = tessera.tensor([[True, False, True], [True, True, False]])
        function(x, dim=1, mask=mask).sum().backward()
        y = DATA.double().clone().add_(1).requires_grad_()
        rows = [function(y[0, [0, 2]], dim=0), function(y[1, :2], dim=0)]
        sum(rows).backward()
        tessera.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: masked.sum(DATA, 5), IndexError),
        (lambda: masked.sum(DATA, (0, 0)), RuntimeError),
        (lambda: masked.sum(DATA, 1, mask=tessera.ones(3, 2, 3, dtype=tessera.bool)), IndexError),
        (lambda: masked.sum(DATA, 1, mask=tessera.ones(4, dtype=tessera.bool)), RuntimeError),
        (lambda: masked.mean(DATA.int(), 1), ValueError),
        (lambda: masked.median(DATA.int(), 1, mask=tessera.zeros(2, 3, dtype=tessera.bool)), ValueError),
        (lambda: masked.sum([1.0, 2.0]), TypeError),
        (lambda: masked_tensor(DATA, MASK.float()), TypeError),
        (lambda: masked_tensor(DATA, MASK[0]), ValueError),
        (lambda: masked_tensor(DATA, MASK[:, :2]), ValueError),
        (lambda: masked_tensor([1.0], MASK), TypeError),
        (lambda: masked_tensor(DATA.to(tessera.complex64), MASK), TypeError),
        (lambda: make() + masked_tensor(DATA, ~MASK), ValueError),
        (lambda: tessera.relu(make()), TypeError),
        (lambda: make()[0, 1].item(), ValueError),
    ],
)
def test_bad_input(call, error):
    with pytest.raises(error):
        call()


def test_elements_that_are_not_there_are_printed_as_dashes():
    assert repr(make()) == (
        "MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n    [      --,       --,   5.0000]\n  ]\n)"
    )
    assert repr(make()[0, 1]) == "MaskedTensor(--, False)"
    assert (
        repr(masked_tensor(tessera.tensor([1, 2]), tessera.tensor([True, False])))
        == "MaskedTensor(\n  [1,       --]\n)"
    )


@pytest.mark.parametrize(
    "function, want",
    [
        (lambda m: m + 1, [[1, -1, 3], [-1, -1, 6]]),
        (lambda m: 1 - m, [[1, -1, -1], [-1, -1, -4]]),
        (lambda m: m**2, [[0, -1, 4], [-1, -1, 25]]),
        (lambda m: m.clamp(0, 1), [[0, -1, 1], [-1, -1, 1]]),
        (lambda m: m.add_(m), [[0, -1, 4], [-1, -1, 10]]),
        (lambda m: m.t(), [[0, -1], [-1, -1], [2, 5]]),
        (lambda m: m.reshape(3, 2), [[0, -1], [2, -1], [-1, 5]]),
        (lambda m: m[:, 2], [2, 5]),
        (lambda m: tessera.stack([m[0], m[1]]), [[0, -1, 2], [-1, -1, 5]]),
        (lambda m: m.unbind()[1], [-1, -1, 5]),
        (lambda m: m.to(tessera.float64), [[0, -1, 2], [-1, -1, 5]]),
        (lambda m: m.where(MASK, DATA), [[0, 1, 2], [3, 4, 5]]),
        (lambda m: m.amax(1), [2, 5]),
        (lambda m: m.mean(0), [0, -1, 3.5]),
        (lambda m: m.all(1), [0, 1]),
        (copy.deepcopy, [[0, -1, 2], [-1, -1, 5]]),
        (lambda m: pickle.loads(pickle.dumps(m)), [[0, -1, 2], [-1, -1, 5]]),
    ],
)
def test_operators_keep_what_is_there(function, want):
    result = function(make())
    assert isinstance(result, MaskedTensor)
    assert numbers(result if result.dtype is not tessera.bool else result.int()) == want


def test_gradients_have_the_mask_and_reach_what_the_data_came_from():
    x = masked_tensor(tessera.tensor([-1.0, 4.0, 9.0]), tessera.tensor([False, True, True]), requires_grad=True)
    (x.sqrt() * x).sum().backward()
    assert isinstance(x.grad, MaskedTensor) and numbers(x.grad) == [-1.0, 3.0, 4.5]
    softmax = masked_tensor(tessera.tensor([1.0, 2.0, 3.0]), tessera.tensor([True, False, True]), requires_grad=True)
    (softmax.softmax(0) * masked_tensor(tessera.tensor([1.0, 9.0, 0.0]), softmax.get_mask())).sum().backward()
    dense = tessera.tensor([1.0, 3.0], requires_grad=True)
    dense.softmax(0)[0].backward()
    tessera.testing.assert_close(softmax.grad.get_data()[[0, 2]], dense.grad)
    d = DATA.clone().requires_grad_()
    (as_masked_tensor(d, MASK) * 2).sum().backward()
    assert d.grad.to_tensor(0).tolist() == MASK.mul(2.0).tolist()
    e = DATA.clone().requires_grad_()
    as_masked_tensor(e, MASK).to_tensor(7.0).sum().backward()
    assert e.grad.to_tensor(0).tolist() == MASK.float().tolist()


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_elementwise_operators_work_on_what_sparse_data_store(layout):
    x = tessera.arange(6.0).reshape(2, 3).to_sparse(layout=getattr(tessera, layout))
    m = masked.masked_tensor(x, x.bool(), requires_grad=True)
    for function in (
        lambda t: t / t,
        lambda t: t + 1,
        lambda t: 1 - t,
        lambda t: t.exp(),
        lambda t: t**2,
        lambda t: t > 1,
    ):
        made = function(m)
        assert made.get_data().layout is x.layout and made.get_mask().to_dense().equal(x.to_dense() != 0)
        there = x.to_dense() != 0
        assert made.to_tensor(0)[there].equal(function(x.to_dense())[there])
    (m.exp() * m).sum().backward()
    want = tessera.tensor([0.0, 2, 3, 4, 5, 6]) * tessera.arange(6.0).exp()
    assert m.grad.to_tensor(0).reshape(-1).allclose(want)
    assert str(m).split() == str(masked.masked_tensor(x.to_dense(), x.to_dense() != 0)).split()


def test_scans_keep_the_dtype_and_sparse_results_the_identity():
    x = tessera.tensor([[1, 2], [3, 4]], dtype=tessera.int32)
    assert masked.cumsum(x, 1, mask=x > 1).dtype is tessera.int32 is masked.cumprod(x, 0).dtype
    nothing = masked.amax(tessera.tensor(3.0).to_sparse(), (), mask=tessera.tensor(False).to_sparse())
    assert nothing.layout is tessera.sparse_coo and nothing.to_dense().item() == float("-inf")


def test_finite_elements():
    x = masked_tensor(tessera.tensor([1.0, float("inf"), 2.0]), tessera.tensor([True, True, False]))
    assert tessera.isfinite(x).to_tensor(False).tolist() == [True, False, False]


def test_normalize_over_all_dimensions():
    mask = DATA != 4
    want = np.where(mask.numpy(), DATA.numpy(), 0)
    got = masked.normalize(DATA, 2.0, None, mask=mask)
    np.testing.assert_allclose(got.numpy(), want / np.linalg.norm(want), rtol=1e-6)
    assert masked.normalize(DATA, 2.0, (0, 1), mask=mask).equal(got)


def test_masks_of_other_layouts_than_the_input():
    x = tessera.tensor([[1.0, 0.0, 3.0], [4.0, 5.0, 0.0]])
    mask = tessera.tensor([[True, True, False], [False, True, True]])
    expected = tessera.masked.amax(x, 1, mask=mask)
    for shown in (mask.to_sparse(), mask.to_sparse_csr()):
        assert tessera.equal(tessera.masked.amax(x, 1, mask=shown), expected)


def test_a_mask_decides_for_a_sparse_input_and_what_is_stored_without_one():
    x = tessera.tensor([[2.0, 0.0], [3.0, 5.0]]).to_sparse()
    everything = tessera.ones(2, 2, dtype=tessera.bool)
    assert tessera.masked.prod(x, 1, mask=everything).to_dense().tolist() == [0.0, 15.0]
    assert tessera.masked.prod(x, 1).to_dense().tolist() == [2.0, 15.0]


def _in_no_order(shape, step, dtype=tessera.float64):
    count = int(np.prod(shape))
    return (2 * (tessera.arange(count, dtype=tessera.float64) * step).sin()).reshape(shape).to(dtype)


FORMS = [((5, 7), 0), ((5, 7), 1), ((3, 4, 60), (0, 2)), ((40, 300), 0), ((2, 9000), 1), ((9000, 3), 0), ((70000,), 0)]
ONE_PASS = {
    "sum": lambda x, m, d: tessera.where(m, x, 0).sum(d),
    "mean": lambda x, m, d: tessera.where(m, x, 0).sum(d) / m.sum(d),
    "amax": lambda x, m, d: tessera.where(m, x, float("-inf")).amax(d),
    "amin": lambda x, m, d: tessera.where(m, x, float("inf")).amin(d),
    "logsumexp": lambda x, m, d: tessera.where(m, x, float("-inf")).logsumexp(d),
}
ALONG = {
    "prod": lambda x, m, d: tessera.where(m, x, 1).prod(d),
    "softmax": lambda x, m, d: tessera.where(m, x, float("-inf")).softmax(d),
    "log_softmax": lambda x, m, d: tessera.where(m, x, float("-inf")).log_softmax(d),
}


@pytest.mark.parametrize("shape, dim", FORMS)
@pytest.mark.parametrize("name", [*ONE_PASS, *ALONG])
def test_values_and_gradients_in_one_pass_are_those_of_a_filled_copy(name, shape, dim):
    if name in ALONG and not isinstance(dim, int):
        dim = dim[0]
    for rows in (shape, (1, *shape[1:])):
        mask = _in_no_order(rows, 78.233) > -0.9
        x = _in_no_order(shape, 12.9898).requires_grad_()
        y = x.detach().clone().requires_grad_()
        got = getattr(masked, name)(x, dim, mask=mask)
        want = {**ONE_PASS, **ALONG}[name](y, mask.expand(shape), dim)
        tessera.testing.assert_close(got, want, equal_nan=True)
        weights = tessera.where(got.isfinite(), _in_no_order(got.shape, 3.3), 0)
        known = tessera.where(got.isfinite(), got, 0), tessera.where(want.isfinite(), want, 0)
        (a,) = tessera.autograd.grad(known[0], x, weights)
        (b,) = tessera.autograd.grad(known[1], y, weights)
        tessera.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [tessera.float16, tessera.bfloat16, tessera.int16, tessera.bool])
def test_one_pass_in_other_dtypes(dtype):
    x, mask = _in_no_order((6, 50), 12.9898, dtype), _in_no_order((6, 50), 78.233) > 0
    known = tessera.where(mask, x, 0)
    assert masked.sum(x, 1, mask=mask).tolist() == known.sum(1).tolist()
    assert masked.sum(x, 1, mask=mask).dtype is known.sum(1).dtype
    low = False if dtype is tessera.bool else -1000
    assert masked.amax(x, 1, mask=mask).tolist() == tessera.where(mask, x, low).amax(1).tolist()
    assert masked.amax(x, 1, mask=tessera.zeros(50, dtype=tessera.bool)).dtype is dtype


def test_where_nothing_counts():
    x, none = tessera.ones(2, 3), tessera.zeros(2, 3, dtype=tessera.bool)
    assert masked.sum(x, 1, mask=none).tolist() == [0, 0]
    assert masked.prod(x, 1, mask=none).tolist() == [1, 1]
    assert masked.amin(x.to(tessera.int8), 1, mask=none).tolist() == [127, 127]
    for name in ("mean", "var"):
        assert getattr(masked, name)(x, 1, mask=none).isnan().all()
    assert masked.softmax(x, 1, mask=none).isnan().all()
    assert masked.normalize(x, 2.0, 1, mask=none).tolist() == [[0] * 3] * 2


def test_variance_of_far_numbers_keeps_its_digits():
    x, mask = _in_no_order((3, 5000), 12.9898) + 1e9, _in_no_order((3, 5000), 78.233) > 0
    for row in range(3):
        want = (x[row][mask[row]] - 1e9).var()
        tessera.testing.assert_close(masked.var(x, 1, mask=mask)[row], want, rtol=1e-6, atol=0)


def test_second_derivatives_forward_mode_and_vmap_under_a_mask():
    mask = tessera.tensor([[True, False, True, True], [True, True, True, False]])
    x = _in_no_order((2, 4), 12.9898).abs_().add_(0.5)
    for function in (
        lambda t: masked.var(t, 1, mask=mask),
        lambda t: masked.mean(t, 0, mask=mask),
        lambda t: masked.log_softmax(t, 1, mask=mask)[mask],
        lambda t: masked.normalize(t, 2.0, 1, mask=mask),
        lambda t: masked.prod(t, 1, mask=mask),
    ):
        assert tessera.autograd.gradgradcheck(function, x.clone().requires_grad_())
        assert tessera.autograd.gradcheck(function, x.clone().requires_grad_(), check_forward_ad=True)
    batch = tessera.stack([x, 2 * x, x + 1])
    got = tessera.func.vmap(lambda t: masked.sum(t, 1, mask=mask))(batch)
    assert got.tolist() == [masked.sum(t, 1, mask=mask).tolist() for t in batch]


def test_gradients_go_through_where_and_layouts():
    x = make(requires_grad=True)
    y = masked_tensor(tessera.ones(2, 3), ~MASK, requires_grad=True)
    tessera.where(MASK, tessera.exp(x), y).sum().backward()
    assert (x.grad.get_mask() == MASK).all() and (y.grad.get_mask() == ~MASK).all()
    tessera.testing.assert_close(x.grad.to_tensor(0), tessera.where(MASK, DATA.exp(), 0))
    for change in (lambda t: t.to_sparse().to_dense(), lambda t: t.to_sparse_csr().to_dense()):
        x = make(requires_grad=True)
        change(x).sum().backward()
        assert x.grad.to_dense().to_tensor(0).tolist() == MASK.float().tolist()


def test_a_sparse_mask_may_name_a_part_of_what_is_stored():
    data = tessera.tensor([[1.0, 2], [0, 3]])
    for convert in (tessera.Tensor.to_sparse, tessera.Tensor.to_sparse_csr):
        x = masked_tensor(convert(data), convert(data > 1))
        assert x.to_dense().to_tensor(0).tolist() == [[0, 2], [0, 3]]
        with pytest.raises(ValueError, match="contiguous"):
            x.is_contiguous()
        with pytest.raises(ValueError, match="do not"):
            masked_tensor(convert(data), convert(data == 0))


def test_unfolded_images_keep_their_masks():
    x = masked_tensor(tessera.ones(1, 1, 3, 3), tessera.eye(3, dtype=tessera.bool).reshape(1, 1, 3, 3), True)
    tessera.nn.functional.unfold(x, 2).sum().backward()
    assert x.grad.to_tensor(-1).reshape(3, 3).diagonal().tolist() == [1, 4, 1]


def test_sums_of_complex_elements_in_a_real_dtype():
    x, mask = tessera.tensor([[1 + 2j, 3j], [4 + 0j, 5 + 1j]]), tessera.tensor([[True, False], [True, True]])
    assert tessera.masked.sum(x, 0, mask=mask, dtype=tessera.float64).tolist() == [5, 5]
