"""Neural ODEs, through the solver and by the adjoint; seven solvers."""

from recipe import run, torch, train
from torchdiffeq import odeint, odeint_adjoint


PACKAGES = {"torchdiffeq": "0.2.5"}

f = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))


class F(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.f = f

    def forward(s, t, y):
        return s.f(y**3)


F = F()
t = torch.linspace(0, 1, 10)
y0 = torch.tensor([[2.0, 0.0]])
tgt = torch.randn(10, 1, 2)


def it():
    yield from train(F, lambda i: 0, lambda m, b: (odeint(m, y0, t, method="dopri5") - tgt).abs().mean(), steps=20)
    yield from train(F, lambda i: 0, lambda m, b: (odeint_adjoint(m, y0, t, method="rk4") - tgt).abs().mean(), steps=20)
    for M in ("euler", "midpoint", "bosh3", "adaptive_heun", "dopri8"):
        yield float(odeint(F, y0, t, method=M).sum().detach())


run(it())
