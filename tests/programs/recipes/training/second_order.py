"""Gradients of samples, diagonals of curvature, and linear operators of it."""

from recipe import run, torch
import numpy as np
from backpack import backpack, extend, extensions
from curvlinops import GGNLinearOperator, HessianLinearOperator

PACKAGES = {"backpack-for-pytorch": "1.7.1", "curvlinops-for-pytorch": "3.0.1"}


def it():
    model = extend(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Sigmoid(), torch.nn.Linear(8, 3)))
    criterion = extend(torch.nn.CrossEntropyLoss())
    x, y = torch.randn(10, 6), torch.randint(0, 3, (10,))
    made = [extensions.BatchGrad(), extensions.Variance(), extensions.BatchL2Grad(), extensions.SumGradSquared()]
    made += [extensions.DiagGGNExact(), extensions.DiagHessian(), extensions.KFLR(), extensions.KFRA()]
    with backpack(*made):
        criterion(model(x), y).backward()
    for p in model.parameters():
        for name in ("grad", "grad_batch", "variance", "batch_l2", "sum_grad_squared", "diag_ggn_exact", "diag_h"):
            yield float(getattr(p, name).double().square().sum())
        for name in ("kflr", "kfra"):
            yield float(sum(f.double().square().sum() for f in getattr(p, name)))
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    parameters = list(model.parameters())
    data, loss = [(x[:5], y[:5]), (x[5:], y[5:])], torch.nn.CrossEntropyLoss()
    for operator in (HessianLinearOperator, GGNLinearOperator):
        made = operator(model, loss, dict(model.named_parameters()) if False else parameters, data)
        made = made.to_scipy() if hasattr(made, "to_scipy") else made
        yield float(np.square(made @ np.ones(made.shape[1], dtype="float32")).sum())


run(it())
