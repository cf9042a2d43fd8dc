"""Functions of lists of tensors: the same as the operator for each. test_cuda.py runs the same on a device, where a
list is one launch.
"""

import pytest

import tessera as torch

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
pytestmark = pytest.mark.parametrize("device", DEVICES)
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64]


def make(device, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    sizes = [(3,), (2, 4), (), (0,), (70, 70)]
    if dtype == torch.int64:
        return [torch.randint(1, 9, s).to(device) for s in sizes]
    return [
        (torch.rand(s, dtype=torch.complex64 if dtype.is_complex else torch.float32) + 0.5).to(dtype).to(device)
        for s in sizes
    ]


def same(results, wanted):
    assert len(results) == len(wanted)
    for r, w in zip(results, wanted):
        assert r.dtype == w.dtype and r.shape == w.shape
        torch.testing.assert_close(r, w, rtol=2e-2 if r.dtype == torch.bfloat16 else 1e-5, atol=1e-5, equal_nan=True)


NUMBERS = [2, 0.5, 3, 1.5, 4]
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "clamp_max": torch.clamp_max,
    "clamp_min": torch.clamp_min,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "pow": torch.pow,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_lists_and_numbers(name, dtype, device):
    if dtype.is_complex and name in ("clamp_max", "clamp_min", "maximum", "minimum"):
        pytest.skip("complex numbers have no order")
    f, function, in_place = BINARY[name], getattr(torch, "_foreach_" + name), getattr(torch, f"_foreach_{name}_")
    number = {"maximum": torch.clamp_min, "minimum": torch.clamp_max}.get(name, f)
    a, b = make(device, dtype), make(device, dtype, 1)
    same(function(a, b), [f(x, y) for x, y in zip(a, b)])
    whole = [int(n) + 1 for n in NUMBERS] if dtype == torch.int64 else NUMBERS
    same(function(a, whole[0]), [number(x, whole[0]) for x in a])
    same(function(a, whole), [number(x, n) for x, n in zip(a, whole)])
    if dtype == torch.int64 and name == "div":
        return
    for other, wanted in (
        (b, [f(x, y) for x, y in zip(a, b)]),
        (whole[0], [number(x, whole[0]) for x in a]),
        (whole, [number(x, n) for x, n in zip(a, whole)]),
    ):
        c = [x.clone() for x in a]
        versions = [x._version for x in c]
        assert in_place(c, other) is None
        same(c, wanted)
        assert [x._version for x in c] == [v + 1 for v in versions]


def test_alpha_and_scalar_tensors(device):
    a, b = make(device), make(device, seed=1)
    two = torch.tensor(2.0, device=device)
    same(torch._foreach_add(a, b, alpha=0.5), [x + 0.5 * y for x, y in zip(a, b)])
    same(torch._foreach_sub(a, b, alpha=0.5), [x - 0.5 * y for x, y in zip(a, b)])
    same(torch._foreach_add(a, two, alpha=3), [x + 6 for x in a])
    same(torch._foreach_mul(a, two), [x * 2 for x in a])
    same(torch._foreach_div(a, two), [x / 2 for x in a])
    c = [x.clone() for x in a]
    torch._foreach_mul_(c, two)
    torch._foreach_div_(c, torch.tensor(4.0))
    same(c, [x / 2 for x in a])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_three_lists(dtype, device):
    a, b, c = make(device, dtype), make(device, dtype, 1), make(device, dtype, 2)
    for name in ("addcmul", "addcdiv"):
        f, function, in_place = (
            getattr(torch, name),
            getattr(torch, "_foreach_" + name),
            getattr(torch, f"_foreach_{name}_"),
        )
        same(function(a, b, c, value=0.5), [f(x, y, z, value=0.5) for x, y, z in zip(a, b, c)])
        same(function(a, b, c, NUMBERS), [f(x, y, z, value=n) for x, y, z, n in zip(a, b, c, NUMBERS)])
        same(function(a, b, c, torch.tensor(NUMBERS)), [f(x, y, z, value=n) for x, y, z, n in zip(a, b, c, NUMBERS)])
        d = [x.clone() for x in a]
        in_place(d, b, c, NUMBERS)
        same(d, [f(x, y, z, value=n) for x, y, z, n in zip(a, b, c, NUMBERS)])
    same(torch._foreach_lerp(a, b, 0.25), [torch.lerp(x, y, 0.25) for x, y in zip(a, b)])
    same(torch._foreach_lerp(a, b, c), [torch.lerp(x, y, z) for x, y, z in zip(a, b, c)])
    same(torch._foreach_lerp(a, b, NUMBERS), [torch.lerp(x, y, n) for x, y, n in zip(a, b, NUMBERS)])
    d = [x.clone() for x in a]
    torch._foreach_lerp_(d, b, 0.75)
    same(d, [torch.lerp(x, y, 0.75) for x, y in zip(a, b)])


def test_one_list(device):
    a = make(device)
    for name in (
        "abs",
        "acos",
        "ceil",
        "cosh",
        "erf",
        "exp",
        "floor",
        "frac",
        "lgamma",
        "log",
        "neg",
        "reciprocal",
        "round",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sqrt",
        "tanh",
        "trunc",
    ):
        same(getattr(torch, "_foreach_" + name)(a), [getattr(torch, name)(x) for x in a])
        c = [x.clone() for x in a]
        getattr(torch, f"_foreach_{name}_")(c)
        same(c, [getattr(torch, name)(x) for x in a])
    torch._foreach_zero_(c)
    assert not any(x.any() for x in c)
    torch._foreach_copy_(c, a)
    same(c, a)
    torch._foreach_copy_(c, [x.double() for x in a])
    same(c, a)
    same(torch._foreach_clone(a), a)
    same(torch._foreach_pow(2.0, a), [2.0**x for x in a])
    same(torch._foreach_max([a[0], a[1]]), [a[0].max(), a[1].max()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("order", [1, 2, float("inf"), 3, 0])
def test_norms(dtype, order, device):
    a = [x for x in make(device, dtype) if x.numel()]
    same(torch._foreach_norm(a, order), [torch.linalg.vector_norm(x, order) for x in a])
    if dtype == torch.bfloat16:
        assert torch._foreach_norm(a, order, dtype=torch.float32)[0].dtype == torch.float32


def test_lists_that_do_not_fit(device):
    a = make(device)
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number of tensors, got 5 and 4"):
        torch._foreach_add(a, a[1:])
    with pytest.raises(RuntimeError, match="same number of elements as scalar list, got 5 and 2"):
        torch._foreach_mul(a, [1.0, 2.0])


def test_gradients_views_and_overlaps(device):
    a = [x.requires_grad_() for x in make(device)]
    sum(x.sum() for x in torch._foreach_mul(a, 3.0)).backward()
    assert all((x.grad == 3).all() for x in a)
    with pytest.raises(RuntimeError):
        torch._foreach_add_(a, 1.0)
    with torch.no_grad():
        before = [x.clone() for x in a]
        torch._foreach_add_(a, 1.0)
    same([x.detach() for x in a], [x.detach() + 1 for x in before])
    base = torch.zeros(6, device=device)
    torch._foreach_add_([base[:3], base[3:]], [1.0, 2.0])
    assert base.tolist() == [1, 1, 1, 2, 2, 2]
    torch._foreach_add_([base, base], 1.0)
    assert base.tolist() == [3, 3, 3, 4, 4, 4]
    torch._foreach_mul_([base[:3], base[3:]], [base[3:], base[:3]])
    assert base.tolist() == [12, 12, 12, 48, 48, 48]
    wide = torch.arange(6.0, device=device).reshape(2, 3)
    same(torch._foreach_add([wide.t(), wide], 1.0), [wide.t() + 1, wide + 1])
    same(
        torch._foreach_add([wide, wide], [torch.ones(3, device=device), torch.ones((), device=device)]),
        [wide + 1, wide + 1],
    )


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
def test_clipping(order, device):
    parameters = [torch.nn.Parameter(x) for x in make(device) if x.numel()]
    for p in parameters:
        p.grad = p.detach() * 2
    expected = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in parameters]), order)
    grads = [p.grad.clone() for p in parameters]
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0, order)
    torch.testing.assert_close(norm, expected)
    same([p.grad for p in parameters], [g * (1 / (expected + 1e-6)).clamp(max=1) for g in grads])
    torch.nn.utils.clip_grad_value_(parameters, 0.001)
    assert all(p.grad.abs().max() <= 0.001 for p in parameters)
