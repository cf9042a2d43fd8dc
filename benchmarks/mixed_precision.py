"""Training steps under bfloat16 autocast against float32, here and in PyTorch.

    python benchmarks/mixed_precision.py [--torch-python EXE] [--python EXE] [--threads 1 2] [--rounds N] [--only REGEX]

A step is forward, loss, backward and SGD. In one process the steps of both precisions take turns; processes of both
sides take turns as well, and the shortest step of all rounds counts. Status 1 if one of ours is slower in bfloat16 than
in float32. `TESSERA_SIMD=avx3` leaves the matrix unit (AMX) out.
"""

import argparse
import json
import math
import re
import sys
import time

from _measure import command, run, table

MODELS = {}


def model(make):
    MODELS[make.__name__] = make
    return make


def residual(torch, inside, out, stride):
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inside, out, 3, stride, 1, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
                nn.Conv2d(out, out, 3, 1, 1, bias=False),
                nn.BatchNorm2d(out),
            )
            self.side = nn.Identity()
            if stride != 1 or inside != out:
                self.side = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.side(x))

    return Residual()


@model
def resnet18(torch):
    """ResNet-18 for images of 64 x 64, eight of them."""
    nn = torch.nn
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    plan = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    blocks = [residual(torch, *sizes) for sizes in [*plan, (512, 512, 1)]]
    net = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))
    return net, torch.randn(8, 3, 64, 64), torch.randint(0, 100, (8,))


@model
def resnet_block(torch):
    """One residual block of 64 channels on 28 x 28."""
    nn = torch.nn
    net = nn.Sequential(residual(torch, 64, 64, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return net, torch.randn(4, 64, 28, 28), torch.randint(0, 64, (4,))


@model
def gpt(torch):
    """Four transformer blocks of 256, eight sequences of 128."""
    nn, width, heads = torch.nn, 256, 4

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.parts, self.out = (
                nn.LayerNorm(width),
                nn.Linear(width, 3 * width),
                nn.Linear(width, width),
            )

        def forward(self, x):
            parts = self.parts(self.before(x)).chunk(3, -1)
            query, key, value = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in parts)
            y = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return x + self.out(y.transpose(1, 2).flatten(-2))

    class Feed(nn.Module):
        def __init__(self):
            super().__init__()
            wide = [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
            self.body = nn.Sequential(*wide)

        def forward(self, x):
            return x + self.body(x)

    blocks = [part() for _ in range(4) for part in (Attention, Feed)]
    net = nn.Sequential(nn.Embedding(256, width), *blocks, nn.LayerNorm(width), nn.Linear(width, 256), nn.Flatten(0, 1))
    return net, torch.randint(0, 256, (8, 128)), torch.randint(0, 256, (8 * 128,))


def step_of(torch, make, enabled):
    net, x, y = make(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

    return step


def measure(opts):
    """{model: [seconds in float32, in bfloat16]} on this side."""
    import torch

    torch.set_num_threads(opts.threads[0])
    clock = time.process_time if opts.threads[0] == 1 else time.perf_counter
    found = {}
    for name, make in MODELS.items():
        if not re.search(opts.only, name):
            continue
        torch.manual_seed(0)
        steps = [step_of(torch, make, enabled) for enabled in (False, True)]
        least = [math.inf, math.inf]
        for step in steps:
            step()
        end, turns = time.perf_counter() + opts.seconds, 0
        while turns < 3 or time.perf_counter() < end:
            for i, step in enumerate(steps):
                start = clock()
                step()
                least[i] = min(least[i], clock() - start)
            turns += 1
        found[name] = least
    print(json.dumps(found))


def compare(opts, threads):
    """Rows of the table; whether bfloat16 pays here in all models."""
    env = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    options = ["--threads", str(threads), "--only", opts.only, "--seconds", str(opts.seconds), "--measure"]
    sides = {"ours": [*command(opts.python, "tessera"), __file__, *options]}
    if opts.torch_python:
        sides["PyTorch"] = [*command(opts.torch_python), "-W", "ignore", __file__, *options]
    least = {side: {} for side in sides}
    for turn in range(opts.rounds):
        for side in sorted(sides, reverse=bool(turn % 2)):
            for name, seconds in json.loads(run(sides[side], env)[0].splitlines()[-1]).items():
                before = least[side].get(name, [math.inf, math.inf])
                least[side][name] = [min(a, b) for a, b in zip(before, seconds)]
    rows, good = [], True
    for name, (f32, bf16) in least["ours"].items():
        good &= bf16 < f32
        row = [name, threads, f"{f32 * 1e3:.2f} ms", f"{bf16 * 1e3:.2f} ms", f"{f32 / bf16:.2f}"]
        if opts.torch_python:
            theirs = least["PyTorch"][name]
            row += [f"{theirs[0] / theirs[1]:.2f}", f"{theirs[0] / f32:.2f}", f"{theirs[1] / bf16:.2f}"]
        rows.append(row)
    return rows, good


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--torch-python", metavar="EXE")
    ap.add_argument("--python", metavar="EXE")
    ap.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2.0, help="for a model in a round")
    ap.add_argument("--only", default="")
    ap.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    opts = ap.parse_args()
    if opts.measure:
        return measure(opts)
    found = [compare(opts, threads) for threads in opts.threads]
    header = ["", "threads", "float32", "bfloat16", "f32/bf16"]
    if opts.torch_python:
        header += ["PyTorch f32/bf16", "PyTorch/ours f32", "PyTorch/ours bf16"]
    table([row for rows, _ in found for row in rows], header)
    sys.exit(not all(good for _, good in found))


if __name__ == "__main__":
    main()
