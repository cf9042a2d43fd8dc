"""A conditional random field, sparse softmaxes, and controlled differential equations train."""

from recipe import run, torch, train
import entmax
import torchcde
from torchcrf import CRF

PACKAGES = {"pytorch-crf": "0.7.2", "entmax": "1.3", "torchcde": "0.2.5"}


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.crf = torch.nn.Linear(8, 4), CRF(4, batch_first=True)


class Controlled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.field = torch.nn.Linear(3, 5), torch.nn.Linear(5, 15)

    def forward(self, t, z):
        return self.field(z).tanh().view(*z.shape[:-1], 5, 3)


def it():
    model = Field()
    yield from train(
        model,
        lambda i: (torch.randn(3, 7, 8), torch.randint(0, 4, (3, 7))),
        lambda m, b: -m.crf(m.linear(b[0]), b[1]),
        lr=1e-2,
    )
    yield str(model.crf.decode(model.linear(torch.randn(2, 7, 8))))
    model = torch.nn.Linear(6, 5)
    for loss in (entmax.sparsemax_loss, entmax.entmax15_loss, entmax.entmax_bisect_loss, entmax.sparsemax_bisect_loss):
        yield from train(
            model,
            lambda i: (torch.randn(8, 6), torch.randint(0, 5, (8,))),
            lambda m, b: loss(m(b[0]), b[1]).mean(),
            steps=10,
            lr=1e-2,
        )
    yield float(entmax.normmax_bisect(torch.randn(3, 6), dim=-1).square().sum())

    def controlled(m, x):
        for make in (torchcde.hermite_cubic_coefficients_with_backward_differences,):
            path = torchcde.CubicSpline(make(x))
            start = m.start(path.evaluate(path.interval[0]))
            return (
                torchcde.cdeint(path, m, start, path.interval, method="rk4", options={"step_size": 0.5})[:, -1]
                .square()
                .mean()
            )

    yield from train(Controlled(), lambda i: torch.randn(2, 6, 3), controlled, steps=10, lr=1e-2)


run(it())
