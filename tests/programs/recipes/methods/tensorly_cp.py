"""Decompositions and regressions of tensors by the backend of torch."""

from recipe import run, torch
import tensorly
from tensorly import decomposition, tenalg
from tensorly.regression import CPRegressor

PACKAGES = {"tensorly": "0.10.0"}


def it():
    tensorly.set_backend("pytorch")
    x = torch.randn(6, 5, 4, dtype=torch.float64)
    for find in (
        lambda: decomposition.parafac(x, 3, init="svd", random_state=0, n_iter_max=20),
        lambda: decomposition.tucker(x, [3, 3, 2], random_state=0),
        lambda: decomposition.tensor_train(x, [1, 3, 3, 1]),
        lambda: decomposition.non_negative_parafac(x.abs(), 2, init="svd", n_iter_max=10),
    ):
        yield float((find().to_tensor() - x).norm())
    yield float(tenalg.khatri_rao([torch.ones(3, 2), torch.arange(4.0).reshape(2, 2)]).sum())
    model = CPRegressor(2, tol=1e-5, n_iter_max=20, reg_W=1, verbose=0, random_state=0)
    samples = torch.randn(30, 4, 4, dtype=torch.float64)
    model.fit(samples, samples[:, 0, 0])
    yield float(model.predict(samples).square().sum())


run(it())
