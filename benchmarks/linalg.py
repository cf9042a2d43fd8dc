"""Linear algebra: the share of the machine's peak that factorizations reach, and times beside PyTorch.

    python benchmarks/linalg.py [--threads N] [--sizes 1024 2048] [--dtypes float32 float64] [--only REGEX]
                                [--beside PYTHON]

The peak is what this machine does of fused multiply-adds, measured by the largest matrix product (benchmarks/limits.cc
has the same number by instructions). One thread is timed by the processor's clock, so that a busy machine counts less.
`--beside` names an interpreter that has PyTorch: the same calls are timed there.
"""

import argparse
import json
import re
import subprocess
import sys
import time

# name: (call, operations of an n x n matrix as a multiple of n^3)
FACTORIZATIONS = {
    "lu": ("torch.linalg.lu_factor(a)", 2 / 3),
    "cholesky": ("torch.linalg.cholesky(spd)", 1 / 3),
    "qr": ("torch.linalg.qr(a)", 8 / 3),
    "inv": ("torch.linalg.inv(a)", 2),
    "solve": ("torch.linalg.solve(a, b)", 2 / 3),
    "cholesky_inverse": ("torch.cholesky_inverse(spd)", 2 / 3),
}
OTHERS = {
    "eigh 512": ("torch.linalg.eigh(s)", (512, 512)),
    "svd 512": ("torch.linalg.svd(a)", (512, 512)),
    "svdvals 512": ("torch.linalg.svdvals(a)", (512, 512)),
    "eig 512": ("torch.linalg.eig(a)", (512, 512)),
    "lstsq 512x256": ("torch.linalg.lstsq(a, b)", (512, 256)),
    "pinv 256": ("torch.linalg.pinv(a)", (256, 256)),
    "matrix_exp 512": ("torch.linalg.matrix_exp(0.05 * a)", (512, 512)),
    **{
        f"{name} 1000 x {n} x {n}": (call, (1000, n, n))
        for n in (8, 32)
        for name, call in (
            ("lu", "torch.linalg.lu_factor(a)"),
            ("cholesky", "torch.linalg.cholesky(spd)"),
            ("inv", "torch.linalg.inv(a)"),
            ("solve", "torch.linalg.solve(a, b)"),
            ("det", "torch.linalg.det(a)"),
            ("qr", "torch.linalg.qr(a)"),
            ("eigh", "torch.linalg.eigh(s)"),
            ("svd", "torch.linalg.svd(a)"),
            ("eig", "torch.linalg.eig(a)"),
            ("matrix_exp", "torch.linalg.matrix_exp(0.1 * a)"),
        )
    },
    **{f"bmm 1000 x {n} x {n}": ("torch.bmm(a, a)", (1000, n, n)) for n in (8, 16, 24, 48)},
}


def best(function, clock, seconds=0.4):
    """The shortest of several calls."""
    function()
    found, end = float("inf"), clock() + seconds
    while clock() < end:
        start = clock()
        function()
        found = min(found, clock() - start)
    return found


def measure(torch, sizes, threads, dtypes, only):
    """{name: seconds}, and {"peak float32": operations a second}."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    clock = time.process_time if threads == 1 else time.perf_counter
    found = {}

    def inputs(shape, dtype):
        a = torch.randn(shape, dtype=dtype)
        rows = shape[-2]
        square = a[..., :, :rows] if shape[-1] >= rows else a
        s = (square + square.mH) / 2 if square.shape[-1] == rows else None
        spd = None if s is None else square @ square.mH + rows * torch.eye(rows, dtype=dtype)
        b = torch.randn(*shape[:-1], 4, dtype=dtype)
        return {"torch": torch, "a": a, "s": s, "spd": spd, "b": b}

    for name in dtypes:
        dtype = getattr(torch, name)
        large = torch.randn(2048, 2048, dtype=dtype)
        products = 4 if dtype.is_complex else 1  # of real numbers
        found[f"peak {name}"] = 2 * products * 2048**3 / best(lambda: large @ large, clock, 1.5)
        for n in sizes:
            given = inputs((n, n), dtype)
            for what, (call, _) in FACTORIZATIONS.items():
                if re.search(only, f"{what} {name} {n}"):
                    code = compile(call, what, "eval")
                    found[f"{what} {name} {n}"] = best(lambda: eval(code, given), clock, 1.0)
        for what, (call, shape) in OTHERS.items():
            if re.search(only, f"{what} {name}"):
                given, code = inputs(shape, dtype), compile(call, what, "eval")
                found[f"{what} {name}"] = best(lambda: eval(code, given), clock)
    return found


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048])
    ap.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    ap.add_argument("--only", metavar="REGEX", default="", help="what is measured, by lines of the result")
    ap.add_argument("--beside", metavar="PYTHON")
    ap.add_argument("--json", action="store_true", help="print the numbers alone")
    ap.add_argument("--module", default="tessera")
    opts = ap.parse_args()
    ours = measure(__import__(opts.module), opts.sizes, opts.threads, opts.dtypes, opts.only)
    if opts.json:
        return print(json.dumps(ours))
    theirs = {}
    if opts.beside:
        command = [opts.beside, __file__, "--json", "--module", "torch", "--threads", str(opts.threads)]
        command += ["--only", opts.only, "--sizes", *map(str, opts.sizes), "--dtypes", *opts.dtypes]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
        theirs = json.loads(run.stdout.splitlines()[-1])
    for name, seconds in ours.items():
        beside = f"  PyTorch {theirs[name] * 1e3:9.3f} ms, {theirs[name] / seconds:5.2f} times ours" if theirs else ""
        if name.startswith("peak"):
            print(f"{name:32} {seconds / 1e9:9.1f} GFlop/s")
            continue
        what, _, dtype = name.partition(" ")
        share = ""
        if dtype.startswith(("float", "complex")):
            dtype, _, n = dtype.partition(" ")
            work = FACTORIZATIONS[what][1] * int(n) ** 3 * (4 if dtype.startswith("complex") else 1)
            share = f"  {100 * work / seconds / ours[f'peak {dtype}']:5.1f} % of the peak"
        print(f"{name:32} {seconds * 1e3:9.3f} ms{share}{beside}")


if __name__ == "__main__":
    main()
