"""Random programs of views and writes: every transform agrees with plain autograd, and that with numbers."""

import random

import pytest
import tessera as torch
from tessera.fx.experimental.proxy_tensor import make_fx

VIEWS = {
    "select": lambda t: t.select(0, -1),
    "slice": lambda t: t[..., ::2],
    "transpose": lambda t: t.transpose(0, -1),
    "flat": lambda t: t.view(-1),
    "unsqueeze": lambda t: t.unsqueeze(0),
    "squeeze": lambda t: t.squeeze(),
    "diagonal": lambda t: t.diagonal(),
    "split": lambda t: t.split(1, -1)[0].squeeze(-1),
    "narrow": lambda t: t.narrow(-1, 0, 1),
    "real": lambda t: t.real,
    "imag": lambda t: t.imag if t.is_complex() else t[:],
    "pairs": lambda t: torch.view_as_real(t),
    "complex": lambda t: torch.view_as_complex(t),
    "conj": lambda t: t.conj(),
    "unfold": lambda t: t.unfold(-1, 2, 2),
    "detach": lambda t: t.detach(),
    "negative": lambda t: torch._neg_view(t),
    "adjoint": lambda t: t.mH,
}
WRITES = {
    "add": lambda t, o: t.add_(1.5),
    "square": lambda t, o: t.pow_(2),
    "sin": lambda t, o: t.sin_(),
    "fill": lambda t, o: t.fill_(0.5),
    "copy": lambda t, o: t.copy_(o),
    "product": lambda t, o: t.mul_(o),
    "masked": lambda t, o: t.masked_fill_(t.detach().abs() > 0.5, 0.25),
    "row": lambda t, o: t.index_fill_(0, torch.tensor([0]), 2.0),
    "transpose": lambda t, o: t.transpose_(0, -1),
    "unsqueeze": lambda t, o: t.unsqueeze_(0),
    "squeeze": lambda t, o: t.squeeze_(),
    "first": lambda t, o: t.__setitem__(0, 1.0),
    "last": lambda t, o: t[..., -1].mul_(2),
    "rest": lambda t, o: t.__setitem__(slice(1, None), o[1:].clone()),
}
RESULTS = {
    "sin": lambda t, o: t.sin(),
    "product": lambda t, o: t * o,
    "cat": lambda t, o: torch.cat([t, o]),
    "stack": lambda t, o: torch.stack([t, t]),
    "pair": lambda t, o: torch.complex(t, t) if not t.is_complex() else t * 1j,
}


def make_program(seed):
    """(the input, a function that runs the program and notes which steps failed)"""
    draw = random.Random(seed)
    shape = [draw.choice([1, 2, 3]) for _ in range(draw.choice([1, 2, 3]))]
    x = torch.linspace(-1.2, 1.3, torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
    if draw.random() < 0.4:
        x = torch.complex(x, 0.1 + 0.7 * x.flip(0))
    steps = [
        (draw.choice([VIEWS, WRITES, WRITES, RESULTS]), draw.random(), draw.random(), draw.random()) for _ in range(6)
    ]

    def run(x, failed=None):
        live = [x * 1, x.sin()]
        for number, (table, which, a, b) in enumerate(steps):
            step = list(table.values())[int(which * len(table))]
            t, other = live[int(a * len(live))], live[int(b * len(live))]
            try:
                if table is WRITES:
                    step(t, other)
                else:
                    live.append(step(t) if table is VIEWS else step(t, other))
            except (RuntimeError, IndexError, TypeError, NotImplementedError) as error:
                if failed is not None:
                    failed.append((number, type(error).__name__))
        total = 0
        for t in live:
            if t.is_complex():
                t = torch.view_as_real(t.resolve_conj())
            weights = torch.linspace(0.5, 1.5, t.numel(), dtype=torch.float64).reshape(t.shape)
            total = total + (t.resolve_neg() * weights).sum()
        return total

    run.detaches = any(
        table is VIEWS and list(VIEWS)[int(which * len(VIEWS))] == "detach" for table, which, _, _ in steps
    )
    return x, run


def plain_gradient(run, x, failed=None):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(run(x, failed), x)[0]


def programs(seeds):
    """Those that autograd can differentiate, of which no step fails in one way only."""
    for seed in seeds:
        x, run = make_program(seed)
        failed, failed_with_grad = [], []
        run(x.clone(), failed)
        try:
            gradient = plain_gradient(run, x, failed_with_grad)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error), seed
            continue
        if not failed and not failed_with_grad:
            yield seed, x, run, gradient


def close(a, b, seed):
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7, msg=lambda m: f"program {seed}: {m}")


@pytest.mark.parametrize("block", range(4))
def test_transforms_agree_with_plain_autograd(block):
    compared = 0
    for seed, x, run, gradient in programs(range(block * 150, (block + 1) * 150)):
        value = run(x.clone())
        close(torch.func.grad(run)(x.clone()), gradient, seed)
        close(torch.func.functionalize(run)(x.clone()), value, seed)
        close(make_fx(torch.func.functionalize(run))(x.clone())(x * 0.75), run(x * 0.75), seed)
        if not run.detaches:
            direction = torch.ones_like(x)
            slope = torch.func.jvp(run, (x.clone(),), (direction,))[1]
            close(slope, torch.real((gradient.conj() * direction).sum()), seed)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("block", range(2))
def test_gradients_agree_with_differences(block):
    compared = 0
    for seed, x, run, gradient in programs(range(600 + block * 150, 600 + (block + 1) * 150)):
        if x.is_complex() or run.detaches:
            continue
        step = 1e-6
        direction = torch.linspace(0.3, 1.0, x.numel(), dtype=torch.float64).reshape(x.shape)
        ahead, behind = run(x + step * direction), run(x - step * direction)
        slope = (ahead - behind) / (2 * step)
        torch.testing.assert_close(
            (gradient * direction).sum(), slope, rtol=1e-4, atol=1e-5, msg=lambda m, s=seed: f"program {s}: {m}"
        )
        compared += 1
    assert compared > 15
