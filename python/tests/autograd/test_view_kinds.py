"""Views of other dtypes, lazy conjugates and shapes changed in place: writes through and under them."""

import pytest
import tessera as torch

Z = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, -2 + 0.25j]], dtype=torch.complex128)
PAIRS = torch.view_as_real(Z).clone()

WRITES = {
    "real": (Z, lambda y: y.real.mul_(3)),
    "imag": (Z, lambda y: y.imag.pow_(2)),
    "transposed_pairs": (Z, lambda y: torch.view_as_real(y).transpose(0, 1).mul_(2)),
    "conjugate": (Z, lambda y: y.conj()[1:].mul_(2j)),
    "imag_of_conjugate": (Z, lambda y: y.conj().imag[1:].pow_(2)),
    "complex": (PAIRS, lambda y: torch.view_as_complex(y)[1].mul_(2j)),
    "conjugate_of_complex": (PAIRS, lambda y: torch.view_as_complex(y).conj()[1].mul_(2j)),
    "transposed_in_place": (PAIRS, lambda y: y[:1].transpose_(0, 2).mul_(2)),
    "squeezed_in_place": (PAIRS, lambda y: y[:1].squeeze_(0).sin_()),
}


@pytest.mark.parametrize("name", sorted(WRITES))
def test_writes_through_views(name):
    base, write = WRITES[name]

    def run(x):
        y = x * 1
        write(y)
        return y * x

    assert torch.autograd.gradcheck(run, base.clone().requires_grad_())
    assert torch.autograd.gradgradcheck(run, base.clone().requires_grad_())


VIEWS = {
    "real": (Z, lambda y: y.real),
    "imag": (Z, lambda y: y.imag[1:]),
    "conjugate": (Z, lambda y: y.conj()),
    "imag_of_conjugate": (Z, lambda y: y.conj().imag),
    "pairs": (Z, lambda y: torch.view_as_real(y).transpose(0, 2)),
    "complex": (PAIRS, lambda y: torch.view_as_complex(y)[1:]),
    "negative": (PAIRS, lambda y: torch._neg_view(y)),
}


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_views_follow_what_is_written_to_their_base(name):
    base, view = VIEWS[name]

    def run(x):
        y = x * 1
        seen = view(y)
        y[0].pow_(2)
        y.mul_(3)
        return seen * 2

    assert torch.autograd.gradcheck(run, base.clone().requires_grad_(), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(run, base.clone().requires_grad_())


def test_views_that_a_transform_returns():
    def first(x):
        y = x.clone()
        row = y[0]
        y.sin_()
        return row

    x = torch.tensor([0.5, 1.0])
    assert torch.equal(torch.func.grad(first)(x), torch.tensor([0.5, 0.0]).cos() * torch.tensor([1.0, 0.0]))
    value, pull = torch.func.vjp(first, x)
    assert value == x[0].sin()
    assert torch.equal(pull(torch.tensor(2.0))[0], 2 * torch.tensor([0.5, 0.0]).cos() * torch.tensor([1.0, 0.0]))


def test_detached_in_place_inside_of_a_transform():
    def product(x):
        y = x * 3
        y.detach_()
        return (x * y).sum()

    x = torch.tensor([1.0, 2.0])
    assert torch.func.grad(product)(x).tolist() == [3.0, 6.0]


def test_bytes_read_as_another_dtype_have_no_gradient_in_transforms():
    def half(x):
        y = x * 1
        numbers = y.view(torch.complex64)
        y.mul_(2)
        return numbers.real.sum() + y.sum()

    assert torch.func.grad(half)(torch.ones(2, 2)).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_views_made_in_inference_mode_are_of_their_bases_kind():
    x = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        view = x[:2]
    assert view.requires_grad and not view.is_inference() and view._is_view()
    y = torch.ones(3)
    with torch.inference_mode():
        view = y[:2]
        view.add_(1)
    assert y.tolist() == [2.0, 2.0, 1.0]
    with pytest.raises(RuntimeError, match="created in inference mode"):
        view.mul_(torch.ones(2, requires_grad=True))


def test_cat_keeps_none_of_its_inputs():
    x = torch.ones(2, 3, requires_grad=True)
    y, z = x.sin(), (x * 2).double()
    joined = torch.cat([y, z, torch.ones(0)])
    y.mul_(0)
    z.mul_(0)
    assert torch.autograd.grad(joined.sum(), x)[0].tolist() == (x.cos() + 2).tolist()
    assert not any(isinstance(getattr(joined.grad_fn, n), torch.Tensor) for n in dir(joined.grad_fn) if "_saved" in n)


def test_a_batch_is_not_written_to_what_has_fewer_dimensions():
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match"):
        torch.func.vmap(lambda a, b: a.sub_(b))(torch.ones(2, 3), torch.ones(2, 1, 3))
