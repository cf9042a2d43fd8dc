"""Stochastic differential equations by six solvers and the adjoint; Sinkhorn's divergences as losses."""

from recipe import run, torch, train
import geomloss
import torchsde

PACKAGES = {"torchsde": "0.2.6", "geomloss": "0.3.1"}


class Equation(torch.nn.Module):
    sde_type = "ito"
    noise_type = "diagonal"

    def __init__(self, kind="ito"):
        super().__init__()
        self.sde_type = kind
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y).tanh()

    def g(self, t, y):
        return 0.3 * self.spread(y).sigmoid()


def it():
    times = torch.linspace(0, 1, 5)
    for kind, method in (
        ("ito", "euler"),
        ("ito", "milstein"),
        ("ito", "srk"),
        ("stratonovich", "midpoint"),
        ("stratonovich", "heun"),
        ("stratonovich", "reversible_heun"),
    ):
        torch.manual_seed(0)
        equation = Equation(kind)

        def loss(m, y, method=method):
            noise = torchsde.BrownianInterval(0.0, 1.0, size=y.shape, entropy=7, levy_area_approximation="space-time")
            return (torchsde.sdeint(m, y, times, bm=noise, method=method, dt=0.1)[-1] - 1).square().mean()

        yield from train(equation, lambda i: torch.randn(4, 3), loss, steps=5, lr=1e-2)
    noise = torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=7)
    torchsde.sdeint_adjoint(equation, torch.ones(4, 3), times, bm=noise, method="midpoint", dt=0.1).sum().backward()
    yield float(equation.drift.weight.grad.abs().sum())
    model = torch.nn.Linear(2, 2)
    for name in ("sinkhorn", "energy", "gaussian", "laplacian"):
        loss = geomloss.SamplesLoss(name, p=2, blur=0.1, backend="tensorized")
        yield from train(model, lambda i: torch.randn(2, 20, 2), lambda m, b: loss(m(b[0]), b[1] + 1), steps=6, lr=1e-2)


run(it())
