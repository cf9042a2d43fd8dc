"""Twenty-seven optimizers."""

from recipe import run, torch
import torch_optimizer

PACKAGES = {"torch-optimizer": "0.3.0"}


def it():
    for name in (
        "A2GradExp A2GradInc A2GradUni AccSGD AdaBelief AdaBound AdaMod Adafactor AdamP AggMo Apollo DiffGrad LARS "
        "Lamb MADGRAD NovoGrad PID QHAdam QHM RAdam Ranger RangerQH SGDP SGDW SWATS Shampoo Yogi"
    ).split():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        kind = getattr(torch_optimizer, name)
        optimizer = kind(model.parameters(), lr=1e-3) if not name.startswith("A2Grad") else kind(model.parameters())
        for _ in range(10):
            x = torch.randn(8, 4)
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield float(loss)


run(it())
