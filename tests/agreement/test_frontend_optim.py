"""The optimizers and schedules of the C++ front end do what Python's do, bit by bit: the program `frontend_optim` runs
them on a small problem, this file runs the Python classes on the same.
"""

import pathlib
import subprocess

import pytest
import tessera
from tessera import optim
from tessera.optim import lr_scheduler

ROOT = pathlib.Path(__file__).resolve().parents[2]

OPTIMIZERS = {
    "SGD": [
        dict(lr=0.02),
        dict(lr=0.02, momentum=0.9, nesterov=True),
        dict(lr=0.02, momentum=0.8, dampening=0.1, weight_decay=0.05, maximize=True),
    ],
    "Adam": [dict(lr=0.05, betas=(0.8, 0.95), eps=1e-6), dict(lr=0.05, amsgrad=True, weight_decay=0.1, maximize=True)],
    "AdamW": [dict(lr=0.05, weight_decay=0.3), dict(lr=0.05, amsgrad=True)],
    "Adagrad": [dict(lr=0.2, lr_decay=0.1, initial_accumulator_value=0.01, weight_decay=0.1)],
    "RMSprop": [dict(lr=0.02, alpha=0.9), dict(lr=0.02, centered=True, momentum=0.3, weight_decay=0.1)],
    "Adadelta": [dict(lr=0.5, rho=0.8, weight_decay=0.1)],
    "Adamax": [dict(lr=0.05, betas=(0.8, 0.95), weight_decay=0.1)],
    "NAdam": [
        dict(lr=0.05, momentum_decay=0.01, weight_decay=0.1),
        dict(lr=0.05, decoupled_weight_decay=True, weight_decay=0.1, maximize=True),
    ],
    "RAdam": [dict(lr=0.05, betas=(0.8, 0.9), weight_decay=0.1)],
    "ASGD": [dict(lr=0.02, lambd=0.01, t0=3, weight_decay=0.1)],
    "Rprop": [dict(lr=0.02, etas=(0.4, 1.3))],
    "Muon": [dict(lr=0.02), dict(lr=0.02, nesterov=False, adjust_lr_fn="match_rms_adamw")],
    "Adafactor": [dict(lr=0.05, weight_decay=0.1)],
    "LBFGS": [
        dict(lr=0.1, max_iter=4, history_size=3),
        dict(lr=1, max_iter=5, max_eval=100, line_search_fn="strong_wolfe"),  # C++ does not end a search for max_eval
    ],
}
SCHEDULES = {
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 5], 0.5),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 4),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.25, 0.75, 6),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 8, 2.0),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.5 if epoch % 2 else 1.5),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 5, 0.01),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5, 3, 2, "triangular2"),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.5, 12),
    "SWALR": lambda o: optim.swa_utils.SWALR(o, 0.02, 6),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 20), lr_scheduler.ExponentialLR(o, 0.9)], [4]
    ),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 5), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
}
# In C++ besides: StepLR and ReduceLROnPlateauScheduler count their steps in a way of their own, which the programs of
# the conformance suite show; SparseAdam is for sparse gradients.
CPP_ONLY = {"SparseAdam", "StepLR", "ReduceLROnPlateau", "LRScheduler"}


@pytest.fixture(scope="module")
def told():
    """What the program prints: {(case, dtype or "rates"): numbers}."""
    target = "tests/agreement/frontend_optim"
    built = subprocess.run(
        ["bazel", "build", "//tests/agreement:frontend_optim"], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr[-4000:]
    place = subprocess.run(
        ["bazel", "info", "--color=no", "bazel-bin"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    out = subprocess.run([f"{place}/{target}"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return {(row[0], row[1]): [float.fromhex(x) for x in row[2:]] for row in rows}


def start(shape, dtype):
    n = tessera.Size(shape).numel()
    return ((tessera.arange(n, dtype=dtype) - 2.5) / 4).reshape(shape).requires_grad_()


def slope(p):
    p = p.detach()
    return (p - 1) * (p * p + 0.5)


def numbers(params):
    return [x for p in params for x in p.detach().flatten().double().tolist()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, case", [(name, i) for name, cases in OPTIMIZERS.items() for i in range(len(cases))])
def test_optimizers(told, name, case, dtype):
    t = getattr(tessera, dtype)
    params = [start((3, 4), t)] + ([] if name == "Muon" else [start((5,), t)])
    optimizer = getattr(optim, name)(params, **OPTIMIZERS[name][case])

    def closure():
        loss = tessera.zeros((), dtype=t)
        for p in params:
            p.grad = slope(p)
            loss += slope(p).abs().sum()
        return loss

    first = numbers(params)
    for _ in range(7):
        optimizer.step(closure)
    assert numbers(params) != first
    assert told[f"{name}.{case}", dtype] == numbers(params)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(told, name):
    sgd = optim.SGD(
        [{"params": [start((2,), tessera.float64)]}, {"params": [start((3,), tessera.float64)], "lr": 0.4}],
        lr=0.1,
        momentum=0.5,
    )
    schedule = SCHEDULES[name](sgd)
    seen = []
    for _ in range(12):
        for group in sgd.param_groups:
            seen += [float(group["lr"]), group["momentum"]]
        sgd.step()
        schedule.step()
    assert len(set(seen)) > 3
    assert told[name, "rates"] == pytest.approx(seen, rel=0, abs=0)


def test_every_class_is_here(told):
    cpp = {name.split(".")[0] for name, _ in told} | CPP_ONLY
    assert cpp - {"ReduceLROnPlateau"} >= (set(optim.__all__) - {"Optimizer", "lr_scheduler", "swa_utils"})
    assert cpp >= set(lr_scheduler.__all__)
