"""What one small call costs from Python.

    python benchmarks/overhead.py [--rounds N] [--only REGEX] [--torch-python EXE]

One thread. Every case is timed in short batches in a fresh process; the smallest time of all batches and rounds counts.
With --torch-python (an interpreter
that has PyTorch) the same program runs there, the two alternating in the same run, and the ratio is printed.
"""

import argparse
import json
import re
import sys
import time

from _measure import command, run, table


def cases(torch):
    """name -> function of no arguments"""
    a, b = torch.ones(1), torch.ones(1)
    x, m = torch.ones(8), torch.ones(4, 6)
    w = torch.ones(1, requires_grad=True)
    linear = torch.nn.Linear(8, 8) if hasattr(torch, "nn") else None
    batch = torch.ones(1, 8)

    def backward_two():
        (w * b + b).backward()

    def graph_two():
        return w * b + b

    yield "a + b", lambda: a + b
    yield "a + 1", lambda: a + 1
    yield "add(a, b)", lambda: torch.add(a, b)
    yield "a.add_(b)", lambda: a.add_(b)
    yield "x[0]", lambda: x[0]
    yield "m[1:3]", lambda: m[1:3]
    yield "m.view(6, 4)", lambda: m.view(6, 4)
    yield "m.t()", lambda: m.t()
    yield "m.sum()", lambda: m.sum()
    yield "m.shape", lambda: m.shape
    yield "x.item()", lambda: a.item()
    yield "empty(1)", lambda: torch.empty(1)
    yield "forward of two ops with grad", graph_two
    yield "forward and backward of two ops", backward_two
    if linear is not None:
        yield "Linear(8, 8)", lambda: linear(batch)
        yield from shells(torch)


def shells(torch):
    """Python classes around the operators: schedules, computed weights, construction of models."""
    import importlib

    names = ("optim.lr_scheduler", "nn.utils.parametrize", "nn.utils.prune", "nn.utils")
    schedules, parametrize, prune, utils = (importlib.import_module(f"{torch.__name__}.{name}") for name in names)
    nn = torch.nn

    def schedule(make):
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        made = make(optimizer)
        optimizer.step()
        return made.step

    yield "StepLR.step()", schedule(lambda o: schedules.StepLR(o, 30))
    yield "LinearLR.step()", schedule(lambda o: schedules.LinearLR(o, total_iters=10**9))
    yield "CosineAnnealingLR.step()", schedule(lambda o: schedules.CosineAnnealingLR(o, 1000))
    yield "OneCycleLR.step()", schedule(lambda o: schedules.OneCycleLR(o, 0.1, 10**9, cycle_momentum=False))
    yield "CyclicLR.step()", schedule(lambda o: schedules.CyclicLR(o, 0.1, 0.2, cycle_momentum=False))
    yield (
        "SequentialLR.step()",
        schedule(lambda o: schedules.SequentialLR(o, [schedules.ConstantLR(o), schedules.StepLR(o, 30)], [5])),
    )

    class Twice(nn.Module):
        def forward(self, weight):
            return weight + weight

    doubled = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    spectral = utils.parametrizations.spectral_norm(nn.Linear(8, 8)).eval()
    normed = utils.parametrizations.weight_norm(nn.Linear(8, 8))
    row = torch.ones(1, 8)
    yield "parametrized weight", lambda: doubled.weight
    yield "spectral_norm weight", lambda: spectral.weight
    yield "weight_norm weight", lambda: normed.weight
    for name in ("spectral_norm", "weight_norm"):
        layer = getattr(utils, name)(nn.Linear(8, 8))
        yield f"{name} hook, Linear(8, 8)", lambda layer=layer: layer(row)
    pruned = prune.random_unstructured(nn.Linear(8, 8), "weight", 0.5)
    yield "pruned Linear(8, 8)", lambda: pruned(row)

    def bottleneck(inputs, width, stride):
        convolutions = [
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.Conv2d(width, 4 * width, 1, bias=False),
        ]
        layers = [layer for c in convolutions for layer in (c, nn.BatchNorm2d(c.out_channels), nn.ReLU(inplace=True))]
        return nn.Sequential(
            *layers,
            *(
                [nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)]
                if inputs != 4 * width
                else []
            ),
        )

    def resnet50():
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
        layers, inputs = [*layers, nn.MaxPool2d(3, 2, 1)], 64
        for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for i in range(blocks):
                layers.append(bottleneck(inputs, width, 2 if i == 0 and width > 64 else 1))
                inputs = 4 * width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))

    def transformer():
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True), 12)

    def on_meta(make):
        with torch.device("meta"):
            return make()

    yield "ResNet-50", resnet50
    yield "ResNet-50 on the meta device", lambda: on_meta(resnet50)
    yield "12-layer transformer", transformer
    yield "12-layer transformer on the meta device", lambda: on_meta(transformer)
    yield "BatchNorm2d(8)", lambda: nn.BatchNorm2d(8)
    yield "ReLU()", lambda: nn.ReLU()


def time_one(f, batches=60, target=0.002):
    f()
    start = time.perf_counter()
    for _ in range(20):
        f()
    inner = max(1, int(target / max((time.perf_counter() - start) / 20, 1e-9)))
    best = float("inf")
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(inner):
            f()
        best = min(best, (time.perf_counter() - start) / inner)
    return best


def worker(library, only):
    torch = __import__(library)
    torch.set_num_threads(1)
    empty = time_one(lambda: None)  # the loop and the call of a Python function, which every case pays
    for name, f in cases(torch):
        if re.search(only, name):
            try:
                result = {"seconds": time_one(f) - empty}
            except Exception as error:
                result = {"error": f"{type(error).__name__}: {str(error)[:120]}"}
            print(json.dumps({"name": name, **result}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--torch-python")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args.worker, args.only)
    sides = [("tessera", None)] + ([("torch", args.torch_python)] if args.torch_python else [])
    best = {library: {} for library, _ in sides}
    for k in range(args.rounds):
        for library, python in sides if k % 2 == 0 else sides[::-1]:
            out, _ = run(
                command(python) + [__file__, "--worker", library, "--only", args.only],
                env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            )
            for line in out.splitlines():
                row = json.loads(line)
                seconds = row.get("seconds", row.get("error"))
                known = best[library].get(row["name"])
                best[library][row["name"]] = (
                    min(known, seconds) if isinstance(known, float) and isinstance(seconds, float) else seconds
                )

    def show(seconds):
        return f"{seconds * 1e6:.3f} us" if isinstance(seconds, float) else str(seconds)

    rows = []
    for name, ours in best["tessera"].items():
        row = [name, show(ours)]
        if args.torch_python:
            theirs = best["torch"].get(name)
            row += [
                show(theirs),
                f"{theirs / ours:.1f} x" if isinstance(ours, float) and isinstance(theirs, float) and ours > 0 else "-",
            ]
        rows.append(row)
    table(rows, ["", "tessera"] + (["torch", "torch / tessera"] if args.torch_python else []))


if __name__ == "__main__":
    sys.exit(main())
