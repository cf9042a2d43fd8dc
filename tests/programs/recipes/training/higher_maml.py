"""Learning to learn: gradients through five steps of an optimizer."""

from recipe import run, torch
import higher

PACKAGES = {"higher": "0.2.1"}


def it():
    model = torch.nn.Sequential(torch.nn.Linear(1, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
    outer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(25):
        outer.zero_grad()
        total = 0.0
        for _ in range(3):
            amplitude, phase = torch.rand(2)
            inner = torch.optim.SGD(model.parameters(), 0.05)
            with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, steps):
                for _ in range(5):
                    x = torch.randn(10, 1)
                    steps.step((fast(x) - amplitude * (x + phase).sin()).square().mean())
                x = torch.randn(10, 1)
                loss = (fast(x) - amplitude * (x + phase).sin()).square().mean()
                loss.backward()
                total += float(loss)
        outer.step()
        yield total


run(it())
