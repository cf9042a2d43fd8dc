"""Equivariant networks: products, harmonics, gates, in code that is generated."""

from recipe import run, torch, train
from e3nn import nn, o3
from e3nn.math import soft_one_hot_linspace

PACKAGES = {"e3nn": "0.6.0", "opt-einsum-fx": "0.1.4", "opt-einsum": "3.4.0"}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.harmonics = o3.Irreps.spherical_harmonics(2)
        self.product = o3.FullyConnectedTensorProduct(
            "4x0e + 2x1o", self.harmonics, "8x0e + 4x0e + 4x1o", shared_weights=False
        )
        self.weights = nn.FullyConnectedNet([6, 16, self.product.weight_numel], torch.nn.functional.silu)
        self.gate = nn.Gate("8x0e", [torch.relu], "4x0e", [torch.sigmoid], "4x1o")
        self.out = o3.Linear(self.gate.irreps_out, "1x0e + 1x1o")

    def forward(self, batch):
        x, position = batch
        near = soft_one_hot_linspace(position.norm(dim=-1), 0.0, 3.0, 6, basis="smooth_finite", cutoff=True)
        edge = o3.spherical_harmonics(self.harmonics, position, True, normalization="component")
        return self.out(self.gate(self.product(x, edge, self.weights(near))))


def it():
    batches = lambda i: (torch.randn(10, 10), torch.randn(10, 3))
    yield from train(Net(), batches, lambda m, b: (m(b)[:, 1:] - b[1]).square().mean(), lr=1e-2)
    yield float(o3.wigner_3j(2, 1, 1).abs().sum())
    yield float(o3.Irrep("2e").D_from_matrix(o3.rand_matrix()).square().sum())
    yield str(o3.FullTensorProduct("2x1o", "0e + 1e").irreps_out)


run(it())
