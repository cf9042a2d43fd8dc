"""Small dense tensors take a shorter way through elementwise operators: it must give what the general one gives, which
strided tensors take.
"""

import itertools

import pytest

import tessera as torch

DTYPES = [
    torch.float32,
    torch.float64,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
]
OPERATORS = ["add", "sub", "mul", "div", "gt", "eq", "maximum", "pow", "remainder", "bitwise_and", "atan2", "hypot"]
NUMBERS = [
    2,
    2.5,
    -3,
    True,
    1j,
    torch.tensor(3),
    torch.tensor(1.5, dtype=torch.float64),
    torch.tensor(True),
    torch.tensor(1.5),
]


def strided(t):
    return torch.stack((t, t), -1)[..., 0] if t.dim() else t


def outcome(f, *args):
    try:
        return f(*args)
    except (RuntimeError, TypeError) as error:
        return type(error)


def assert_same(got, want):
    if not isinstance(want, torch.Tensor):
        assert got is want
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.nan_to_num(), want.nan_to_num())


@pytest.mark.parametrize("name", OPERATORS)
def test_numbers_beside_tensors(name):
    operator = getattr(torch, name)
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        x = torch.arange(1, 13).to(dtype).reshape(3, 4)
        assert_same(outcome(operator, x, number), outcome(operator, strided(x), number))


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_", "pow_", "remainder_", "bitwise_and_", "gt_"])
def test_in_place(name):
    method = getattr(torch.Tensor, name)
    for dtype, other in itertools.product(
        DTYPES, [*NUMBERS, torch.arange(1, 5), torch.full((3, 4), 2.0), torch.full((3, 4), 2, dtype=torch.uint8)]
    ):
        x = torch.arange(1, 13).to(dtype).reshape(3, 4)
        y = strided(x.clone())
        version = x._version
        got, want = outcome(method, x, other), outcome(method, y, other)
        assert_same(got, want)
        assert_same(x, y)
        if isinstance(got, torch.Tensor):
            assert got is x and x._version == version + 1
        else:
            assert x._version == version


@pytest.mark.parametrize("name", ["add", "mul", "gt", "remainder"])
def test_out(name):
    operator = getattr(torch, name)
    for dtype, result, other in itertools.product(
        DTYPES, DTYPES, [2, 2.5, torch.full((3, 4), 2.0), torch.full((4,), 3)]
    ):
        x = torch.arange(1, 13).to(dtype).reshape(3, 4)
        out, spread = torch.zeros(3, 4, dtype=result), strided(torch.zeros(3, 4, dtype=result))
        got, want = outcome(lambda: operator(x, other, out=out)), outcome(lambda: operator(x, other, out=spread))
        assert_same(got, want)
        assert got is not out or out._version == 1
    x = torch.ones(4)
    assert torch.add(x, x, out=x).tolist() == [2, 2, 2, 2]
    with pytest.raises(RuntimeError, match="memory location"):
        torch.add(x[:3], 1, out=x[1:])
    z = torch.ones(3, dtype=torch.complex64)
    torch.add(z, 1j, out=z.conj())
    assert z.tolist() == [1 - 1j] * 3


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17, 511, 512, 513, 1024, 2047, 2048, 2049, 4096, 4097])
def test_numbers_reach_every_element(n):
    for dtype in DTYPES:
        x = torch.arange(n).to(dtype)
        assert torch.equal(x == x[-1], strided(x) == x[-1])
        assert torch.equal(torch.mul(torch.tensor(1, dtype=torch.bool), x), x)


def test_shared_memory():
    x = torch.arange(6.0)
    assert x.add_(x).tolist() == [0, 2, 4, 6, 8, 10]
    assert x.view(6).mul_(x).tolist() == [0, 4, 16, 36, 64, 100]
    for overlapping in (lambda: x[1:].add_(x[:-1]), lambda: x.mul_(x[1]), lambda: torch.ones(1).expand(3).add_(1)):
        with pytest.raises(RuntimeError, match="memory location"):
            overlapping()
    assert x[:3].add_(x[3:]).tolist() == [36, 68, 116]
    with torch.inference_mode():
        y = torch.ones(2)
    with pytest.raises(RuntimeError, match="Inference"):
        y.add_(1)


def test_zero_dimensions():
    assert (torch.tensor(2) + 1.5).dtype == torch.float32
    assert (torch.tensor(2, dtype=torch.uint8) + 1).dtype == torch.uint8
    assert (torch.tensor(2.0, dtype=torch.float16) * torch.tensor(2.0)).dtype == torch.float32
    assert (torch.ones(1, dtype=torch.float16) * torch.tensor(2.0)).dtype == torch.float16
    assert (torch.tensor(2.0) / 4).item() == 0.5
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.tensor(2).add_(1.5)


def test_plain_grad():
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(3.0, requires_grad=True)
    z = (x * x).sum() * y
    gx, gy = torch.autograd.grad(z, [x, y], create_graph=True)
    assert gx.tolist() == [6, 12] and gy.item() == 5
    assert torch.autograd.grad([gx.sum(), gy], (y,), allow_unused=True)[0].item() == 6
    assert torch.autograd.grad(y * 2, (x, y), allow_unused=True)[0] is None
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(y * 2, (x, y))
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(y * 2, torch.ones(1))
    with pytest.raises(RuntimeError, match="scalar outputs"):
        torch.autograd.grad(x * 2, x)
    z = x.sum()
    torch.autograd.grad(z * z, x)
    w = x.prod()
    torch.autograd.grad(w, x, retain_graph=True)
    torch.autograd.grad(w, x)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(w, x)
