#!/usr/bin/env python3
"""Fourier transforms: PyTorch's time over ours, and our share of the machine's peak rate of fused multiply-adds.

    benchmarks/transforms.py --torch-python EXE [--limits limits.json] [--threads 1] [--rounds 3] [--dtypes c64 c128]
                             [--all]

Lengths 2^k, 3^a 5^b and primes from 64 to 2^20, one line, a batch of lines, and square images; complex and (--all) real
to complex. A transform of n numbers counts as 5 n log2(n) operations (half of that where one side is real). --limits is
what `bazel run //benchmarks:limits` printed; without it no shares are printed. Both sides run in turn, each in a
process of its own; a time is the shortest of all rounds, by the processor's clock.
"""

import argparse
import json
import math
import statistics

import _measure

LENGTHS = [2**k for k in range(6, 21, 2)] + [81, 225, 1125, 6561, 50625, 703125, 67, 257, 1009, 10007, 100003, 1000003]
CHILD = """
import json, sys, time
import {module} as torch
jobs = json.loads(sys.argv[1])
torch.set_num_threads({threads})
clock = time.process_time if {threads} == 1 else time.perf_counter
times = []
for name, shape, dtype in jobs:
    f = getattr(torch.fft, name)
    x = torch.randn(shape, dtype=getattr(torch, dtype))
    f(x)
    start, calls = clock(), 0
    while calls < 3 or clock() - start < 0.01:
        f(x)
        calls += 1
    each = (clock() - start) / calls
    repeat = max(1, int(0.004 / max(each, 1e-7)))
    best = each
    for _ in range(7):
        start = clock()
        for _ in range(repeat):
            f(x)
        best = min(best, (clock() - start) / repeat)
    times.append(best)
print(json.dumps(times))
"""


def jobs(dtypes, everything):
    """(label, function, shape, dtype, operations, bytes of the numbers)."""
    found = []
    for dtype in dtypes:
        full, real = ("complex64", "float32") if dtype == "c64" else ("complex128", "float64")
        size = 8 if dtype == "c64" else 16
        for n in LENGTHS:
            work = 5 * n * math.log2(n)
            found.append((f"{dtype} {n}", "fft", [n], full, work, size * n))
            lines = max(2, min(256, 2**18 // n))
            found.append((f"{dtype} {lines} x {n}", "fft", [lines, n], full, work * lines, size * n * lines))
            if everything:
                found.append((f"{dtype} real {n}", "rfft", [n], real, work / 2, size * n // 2))
        for n in (64, 100, 256, 243, 1024):
            found.append((f"{dtype} image {n}", "fft2", [n, n], full, 10 * n * n * math.log2(n), size * n * n))
    return found


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--python", help="an interpreter with Tessera; default: this one")
    ap.add_argument("--torch-python", required=True)
    ap.add_argument("--limits")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--dtypes", nargs="+", choices=("c64", "c128"), default=["c64", "c128"])
    ap.add_argument("--all", action="store_true")
    opts = ap.parse_args()
    work = jobs(opts.dtypes, opts.all)
    asked = json.dumps([(name, shape, dtype) for _, name, shape, dtype, _, _ in work])
    best = {"torch": [math.inf] * len(work), "tessera": [math.inf] * len(work)}
    for _ in range(opts.rounds):
        for module, python in (("torch", opts.torch_python), ("tessera", opts.python)):
            program = CHILD.format(module=module, threads=opts.threads)
            out, _ = _measure.run([*_measure.command(python), "-c", program, asked])
            best[module] = [min(a, b) for a, b in zip(best[module], json.loads(out))]
    limits = json.load(open(opts.limits)) if opts.limits else None
    rows, ratios, shares = [], [], []
    for i, (label, _, _, dtype, operations, nbytes) in enumerate(work):
        ratio, rate = best["torch"][i] / best["tessera"][i], operations / best["tessera"][i] / 1e9
        ratios.append(ratio)
        share = ""
        if limits:
            kind = "f32" if dtype in ("complex64", "float32") else "f64"
            part = rate * 1e9 / limits[str(opts.threads)][kind]
            share = f"{100 * part:.0f} %"
            if nbytes <= 2**18:
                shares.append((part, label))
        rows.append([label, f"{best['tessera'][i] * 1e6:.2f}", f"{ratio:.2f}", f"{rate:.1f}", share])
    _measure.table(rows, ["transform", "us", "PyTorch / ours", "GFLOP/s", "of the peak"])
    print(
        f"geometric mean {statistics.geometric_mean(ratios):.2f} over {len(ratios)}, below 0.95:",
        [work[i][0] for i, r in enumerate(ratios) if r < 0.95] or "none",
    )
    if shares:
        shares.sort()
        print(
            f"in 256 KiB: {100 * statistics.fmean(s for s, _ in shares):.0f} % of the peak on average; least:",
            shares[:8],
        )


if __name__ == "__main__":
    main()
