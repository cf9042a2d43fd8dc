"""Ahead-of-time graphs of functions that write in place, and of results that share memory."""

import pytest
import tessera as torch

X = torch.tensor([[0.3, -1.2], [-0.7, 1.1]])
WEIGHTS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


def written_without_recording(x):
    y = x * 2
    with torch.no_grad():
        y[0].mul_(3)
    return (y * y).sum()


def written_through_detached(x):
    y = x.sin()
    y.detach().mul_(2)
    return (y * x).sum()


def transposed_in_place(x):
    y = x.sin()
    row = y[0]
    y.transpose_(0, 1)
    y.mul_(WEIGHTS)
    return (row * row).sum() + (y * WEIGHTS).sum()


def written_as_strided(x):
    y = x * 1
    window = y.as_strided((2, 2), (2, 1), 0)
    window.tril_()
    return (y * WEIGHTS).sum() + (window * WEIGHTS).sum()


def view_of_transposed(x):
    y = x.sin()
    flipped = y.t()
    flipped[:].tril_()
    return (y * WEIGHTS).sum() + (flipped * WEIGHTS).sum()


WRITES = [written_without_recording, written_through_detached, transposed_in_place, written_as_strided,
          view_of_transposed]  # fmt: skip


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_gradients_of_writes_are_those_of_the_program(function):
    x = X.clone().requires_grad_()
    value = function(x)
    (want,) = torch.autograd.grad(value, x)
    found = compiled(function)(x)
    torch.testing.assert_close(found, value)
    torch.testing.assert_close(torch.autograd.grad(found, x)[0], want)


RESULTS = {
    "base_and_row": lambda x: (lambda y: (y, y[0]))(x * 2),
    "two_views": lambda x: (lambda y: (y.t(), y[0]))(x * 2),
    "twice": lambda x: (lambda y: (y, y))(x * 2),
    "detached": lambda x: (lambda y: (y, y.detach()))(x * 2),
    "parts": lambda x: (lambda y: (y, y.real))(torch.view_as_complex(x * 2)),
    "argument": lambda x: (x, x[0] * 2),
    "view_of_argument": lambda x: (x.view(-1), x + 1),
}


@pytest.mark.parametrize("name", sorted(RESULTS))
@pytest.mark.parametrize("grad", [True, False])
def test_results_that_share_memory_go_on_sharing_it(name, grad):
    function = RESULTS[name]

    def use(run):
        x = X.clone().requires_grad_(grad)
        with torch.set_grad_enabled(grad):
            results = run(x * 1)
        for r in results:
            r.mul_(3)
        total = sum((k + 1) * (torch.view_as_real(r) if r.is_complex() else r).sum() for k, r in enumerate(results))
        return total, torch.autograd.grad(total, x)[0] if grad else torch.zeros(())

    want, want_gradient = use(function)
    found, gradient = use(compiled(function))
    assert found.item() == want.item()
    assert torch.equal(gradient, want_gradient)


class WritesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        square = x.new_zeros(3, 3)
        square[0].copy_(x)
        square.diagonal().add_(1)
        return square @ grad


@pytest.mark.parametrize("fn", [lambda x: WritesBackward.apply(x), lambda x: torch.linalg.det(x.outer(x.detach()))])
def test_what_the_backward_alone_writes_is_in_its_graph(fn):
    x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    (expected,) = torch.autograd.grad(fn(x).sum(), x)
    (grad,) = torch.autograd.grad(compiled(fn)(x).sum(), x)
    assert expected.isfinite().all() and torch.allclose(grad, expected)
