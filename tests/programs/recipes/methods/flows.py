"""Normalising flows of three libraries fit two moons."""

from recipe import run, torch, train
import normflows
import zuko
from nflows import distributions, flows, transforms

PACKAGES = {"nflows": "0.14", "normflows": "1.7.3", "zuko": "1.6.0"}


def moons(i):
    angle = torch.rand(64) * torch.pi
    side = torch.randint(0, 2, (64,)) * 2 - 1
    return torch.stack([angle.cos() + 0.5 * side, side * angle.sin()], 1) + 0.1 * torch.randn(64, 2)


def it():
    layers = []
    for _ in range(2):
        layers += [transforms.ReversePermutation(2), transforms.MaskedAffineAutoregressiveTransform(2, 16)]
        layers += [transforms.LULinear(2)]
    flow = flows.Flow(transforms.CompositeTransform(layers), distributions.StandardNormal([2]))
    yield from train(flow, moons, lambda m, b: -m.log_prob(b).mean(), lr=1e-2)
    yield float(flow.sample(8).sum().detach())
    steps = []
    for _ in range(3):
        steps += [normflows.flows.AffineCouplingBlock(normflows.nets.MLP([1, 16, 2]))]
        steps += [normflows.flows.Permute(2, mode="swap")]
    model = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), steps)
    yield from train(model, moons, lambda m, b: m.forward_kld(b), lr=1e-2)
    for make in (
        lambda: zuko.flows.NSF(2, transforms=2, hidden_features=[16]),
        lambda: zuko.flows.MAF(2, transforms=2, hidden_features=[16]),
        lambda: zuko.flows.NICE(2, transforms=2, hidden_features=[16]),
        lambda: zuko.flows.CNF(2, hidden_features=[16]),
    ):
        torch.manual_seed(0)
        flow = make()
        yield from train(flow, moons, lambda m, b: -m().log_prob(b).mean(), lr=1e-2, steps=12)
    yield float(flow().sample((8,)).abs().sum().detach())


run(it())
