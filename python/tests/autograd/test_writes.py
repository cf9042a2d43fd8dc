"""Derivatives around writes in place: second ones, retained gradients, what is saved of a tensor that is detached."""

import pytest
import tessera
import tessera.nn.functional as F
from tessera.autograd import grad, gradgradcheck


def numbers(*shape):
    return (
        tessera.linspace(0.3, 1.7, max(1, tessera.Size(shape).numel()), dtype=tessera.float64)
        .reshape(shape)
        .requires_grad_()
    )


def scaled(x, factor):
    y = x.clone()
    return y.mul_(factor)


def scaled_slice(x, factor):
    y = x.clone()
    y[1:3].mul_(factor[1:3])
    return y


def scaled_view_of_view(x, factor):
    y = x.clone()
    y[:3][1:].mul_(factor[1:3])
    return y


@pytest.mark.parametrize("write", [scaled, scaled_slice, scaled_view_of_view])
def test_second_derivatives_go_through_what_was_overwritten(write):
    assert gradgradcheck(write, (numbers(4), numbers(4)))


def test_second_derivatives_of_an_activation_in_place():
    x = (numbers(4).detach() - 1).requires_grad_()
    assert gradgradcheck(lambda v: F.elu(v.clone(), inplace=True), (x,))


def test_a_write_to_a_view_can_be_differentiated_again():
    # the write saves its result: the second pass goes through it after the node of the base
    x = tessera.tensor([[[[1.0, 2.0]]]], requires_grad=True)
    y = F.relu(F.instance_norm(x), inplace=True)
    (first,) = grad(y.pow(2).sum(), x, create_graph=True)
    grad(first.sum(), x)


def test_views_keep_their_retained_gradients_through_a_write():
    base = tessera.ones(1, requires_grad=True).clone()
    written, other = base[:], base[:]
    written.retain_grad()
    other.retain_grad()
    written.mul_(2)
    (written + other).sum().backward()
    assert written.grad.tolist() == other.grad.tolist() == [1]


def test_an_input_detached_after_it_was_saved():
    x = tessera.ones(1, requires_grad=True).clone()
    y = x.sin()
    x.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        y.backward()
    z = tessera.ones(1, requires_grad=True).clone()
    y = z.exp()
    z.detach_()
    y.backward()  # exp saves its result


def test_powers_of_a_negative_base_with_complex_exponents():
    exponent = tessera.tensor([0.5 + 0.2j, 1 - 1j], dtype=tessera.complex128, requires_grad=True)
    for base in (-tessera.ones(2, dtype=tessera.float64), -1):
        result = tessera.pow(base, exponent)
        (slope,) = grad(result, exponent, tessera.ones_like(result))
        tessera.testing.assert_close(slope, (result * tessera.pi * 1j).conj().detach())


def test_sparse_gradients_of_one_element():
    x = tessera.ones(3, requires_grad=True)
    x.gather(0, tessera.tensor(1), sparse_grad=True).backward()
    assert x.grad.to_dense().tolist() == [0, 1, 0]


def test_anomalies_of_a_batch():
    def value(x):
        return (x.sqrt() * 0).sum()

    with tessera.autograd.detect_anomaly(check_nan=True):
        assert tessera.vmap(tessera.func.grad(value))(tessera.ones(2, 3)).shape == (2, 3)
        with pytest.raises(RuntimeError, match="nan values"):
            tessera.vmap(tessera.func.grad(value))(tessera.zeros(2, 3))


def test_other_errors_around_gradients():
    x = tessera.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        tessera.ones(1, 2).data = tessera.ones(1, 2).to_sparse()
    with pytest.raises(RuntimeError, match="non-complex"):
        _ = tessera.ones(1).imag
    with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings"):
        F.embedding_bag(tessera.tensor([[5, 0]]), tessera.ones(3, 2))


def test_bytes_are_resized_in_their_memory_format():
    x = tessera.zeros(2, 3, 8, 8, dtype=tessera.uint8).contiguous(memory_format=tessera.channels_last)[:, :, 1:-1, 1:-1]
    out = F.interpolate(x, size=(4, 4), mode="bilinear")
    assert out.is_contiguous(memory_format=tessera.channels_last)
