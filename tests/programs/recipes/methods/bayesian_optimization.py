"""Bayesian optimization: models, acquisitions, candidates."""

from recipe import run, torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound, qExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import MultiTaskGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

PACKAGES = {"botorch": "0.18.1", "gpytorch": "1.15.2", "linear-operator": "0.6.1"}


def it():
    x = torch.rand(12, 2, dtype=torch.float64)
    y = (6 * x[:, :1]).sin() + x[:, 1:] ** 2
    for _ in range(3):
        model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        found = LogExpectedImprovement(model, y.max())
        bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
        candidate, value = optimize_acqf(found, bounds, q=1, num_restarts=3, raw_samples=16)
        yield from candidate.flatten().tolist()
        yield float(value)
        x = torch.cat([x, candidate])
        y = torch.cat([y, (6 * candidate[:, :1]).sin() + candidate[:, 1:] ** 2])
    points = torch.rand(4, 2, 2, dtype=torch.float64)
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    yield from qExpectedImprovement(model, y.max(), sampler)(points).tolist()
    yield from UpperConfidenceBound(model, 0.2)(points[:, :1]).tolist()
    task = torch.cat([x, torch.randint(0, 2, (len(x), 1)).double()], 1)
    model = MultiTaskGP(task, y, task_feature=-1)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    yield from model.posterior(points[0]).mean.flatten().tolist()


run(it())
