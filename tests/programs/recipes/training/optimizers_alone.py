"""Optimizers that come in packages of their own, and a search of the learning rate."""

from recipe import run, torch
from adabelief_pytorch import AdaBelief
from adan_pytorch import Adan
from came_pytorch import CAME
from lion_pytorch import Lion
from prodigyopt import Prodigy
from pytorch_lamb import Lamb
from schedulefree import AdamWScheduleFree, RAdamScheduleFree, SGDScheduleFree
from torch_lr_finder import LRFinder

PACKAGES = {
    "lion-pytorch": "0.2.5",
    "schedulefree": "1.4.1",
    "prodigyopt": "1.1.2",
    "adan-pytorch": "0.1.0",
    "came-pytorch": "0.1.3",
    "adabelief-pytorch": "0.2.1",
    "pytorch-lamb": "1.0.0",
    "torch-lr-finder": "0.2.2",
}


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def it():
    for make in (
        lambda p: Lion(p, lr=1e-3),
        lambda p: AdamWScheduleFree(p, lr=1e-2),
        lambda p: SGDScheduleFree(p, lr=1e-1),
        lambda p: RAdamScheduleFree(p, lr=1e-2),
        lambda p: Prodigy(p),
        lambda p: Adan(p, lr=1e-2),
        lambda p: CAME(p, lr=1e-3),
        lambda p: AdaBelief(p, lr=1e-3, print_change_log=False),
        lambda p: Lamb(p, lr=1e-2),
    ):
        model = network()
        optimizer = make(model.parameters())
        if hasattr(optimizer, "train"):
            optimizer.train()
        for _ in range(12):
            x = torch.randn(8, 4)
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield float(loss)
        if hasattr(optimizer, "eval"):
            optimizer.eval()
            yield float(model(torch.ones(1, 4)).detach())
    model = network()
    x = torch.randn(64, 4)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
    finder = LRFinder(model, torch.optim.SGD(model.parameters(), 1e-5), torch.nn.MSELoss(), device="cpu")
    finder.range_test(loader, end_lr=1, num_iter=20)
    yield from map(float, finder.history["loss"])


run(it())
