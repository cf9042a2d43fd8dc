"""Tessera and PyTorch on one CUDA device, in one process, measured in turn: `python benchmarks/cuda.py [--only REGEX]
[--csv FILE]`.

Columns: microseconds of one call for each library (the median of rounds, each waiting for the device once), PyTorch's
time divided by Tessera's, and Tessera's rate: GB/s for
what moves memory, TFLOP/s for products. Without PyTorch there is one library.
"""

import argparse
import importlib
import re
import statistics
import sys
import time


def libraries():
    found = [("tessera", importlib.import_module("tessera"))]
    try:
        found.append(("torch", importlib.import_module("torch")))
    except ImportError:
        print("PyTorch is not installed: Tessera alone", file=sys.stderr)
    return found


def elementwise(t, n, f):
    a, b = t.randn(n, device="cuda"), t.randn(n, device="cuda")
    return lambda: f(t, a, b)


def product(t, n, dtype):
    kind = getattr(t, dtype)
    a, b = t.randn(n, n, device="cuda").to(kind), t.randn(n, n, device="cuda").to(kind)
    return lambda: t.mm(a, b)


def convolution(t, dtype):
    kind = getattr(t, dtype)
    x, w = t.randn(32, 64, 56, 56, device="cuda").to(kind), t.randn(64, 64, 3, 3, device="cuda").to(kind)
    return lambda: t.nn.functional.conv2d(x, w, padding=1)


def attention(t, causal, dtype="bfloat16", sizes=(8, 16, 1024, 64), backward=False, queries=None, kv_heads=None):
    batch, heads, positions, features = sizes
    q = t.randn(batch, heads, queries or positions, features, device="cuda").to(getattr(t, dtype))
    k, v = (
        t.randn(batch, kv_heads or heads, positions, features, device="cuda").to(getattr(t, dtype)) for _ in range(2)
    )
    shared = {"enable_gqa": True} if kv_heads else {}
    if not backward:
        return lambda: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **shared)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out = t.nn.functional.scaled_dot_product_attention(*inputs, is_causal=causal, **shared)
    grad = t.ones_like(out)
    return lambda: t.autograd.grad(out, inputs, grad, retain_graph=True)


def softmax(t):
    x = t.randn(8192, 4096, device="cuda")
    return lambda: t.softmax(x, -1)


def layer_norm(t):
    x, w, b = t.randn(8192, 4096, device="cuda"), t.ones(4096, device="cuda"), t.zeros(4096, device="cuda")
    return lambda: t.nn.functional.layer_norm(x, (4096,), w, b)


def reduction(t, shape, dim):
    x = t.randn(*shape, device="cuda")
    return lambda: x.sum() if dim is None else x.sum(dim)


def sort(t):
    x = t.randn(1 << 24, device="cuda")
    return lambda: t.sort(x)


def adam(t, count):
    parameters = [t.nn.Parameter(t.randn(64, 64, device="cuda")) for _ in range(count)]
    for p in parameters:
        p.grad = t.randn(64, 64, device="cuda")
    optimizer = t.optim.Adam(parameters, lr=1e-3, fused=True)
    return optimizer.step


def training(t, layers, batch):
    model = t.nn.Sequential(*[m for size in layers for m in (t.nn.Linear(*size), t.nn.ReLU())]).cuda()
    optimizer = t.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    x, y = t.randn(batch, layers[0][0], device="cuda"), t.randn(batch, layers[-1][1], device="cuda")

    def step():
        optimizer.zero_grad()
        t.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    return step


GIB = 1e9
WORKLOADS = {
    # name: (make(library), amount of work per call, its unit)
    "overhead a + b": (lambda t: elementwise(t, 16, lambda t, a, b: a + b), None, ""),
    "overhead a + 1": (lambda t: elementwise(t, 16, lambda t, a, b: a + 1), None, ""),
    "overhead a.sum()": (lambda t: elementwise(t, 16, lambda t, a, b: a.sum()), None, ""),
    "add 64M": (lambda t: elementwise(t, 1 << 26, lambda t, a, b: a + b), 3 * 4 * (1 << 26) / GIB, "GB/s"),
    "exp 64M": (lambda t: elementwise(t, 1 << 26, lambda t, a, b: a.exp()), 2 * 4 * (1 << 26) / GIB, "GB/s"),
    "gelu 64M": (
        lambda t: elementwise(t, 1 << 26, lambda t, a, b: t.nn.functional.gelu(a)),
        2 * 4 * (1 << 26) / GIB,
        "GB/s",
    ),
    "to bfloat16 64M": (
        lambda t: elementwise(t, 1 << 26, lambda t, a, b: a.to(t.bfloat16)),
        6 * (1 << 26) / GIB,
        "GB/s",
    ),
    "transpose copy 8192": (
        lambda t: (lambda x: lambda: x.t().contiguous())(t.randn(8192, 8192, device="cuda")),
        2 * 4 * 8192**2 / GIB,
        "GB/s",
    ),
    "sum 64M": (lambda t: reduction(t, (1 << 26,), None), 4 * (1 << 26) / GIB, "GB/s"),
    "sum rows": (lambda t: reduction(t, (65536, 1024), 1), 4 * (1 << 26) / GIB, "GB/s"),
    "sum columns": (lambda t: reduction(t, (65536, 1024), 0), 4 * (1 << 26) / GIB, "GB/s"),
    "softmax 8192 x 4096": (softmax, 2 * 4 * 8192 * 4096 / GIB, "GB/s"),
    "layer_norm 8192 x 4096": (layer_norm, 2 * 4 * 8192 * 4096 / GIB, "GB/s"),
    "sort 16M": (sort, None, ""),
    "mm float32 4096": (lambda t: product(t, 4096, "float32"), 2 * 4096**3 / 1e12, "TFLOP/s"),
    "mm bfloat16 8192": (lambda t: product(t, 8192, "bfloat16"), 2 * 8192**3 / 1e12, "TFLOP/s"),
    "conv2d float32": (lambda t: convolution(t, "float32"), 2 * 32 * 64 * 64 * 9 * 56 * 56 / 1e12, "TFLOP/s"),
    "conv2d float16": (lambda t: convolution(t, "float16"), 2 * 32 * 64 * 64 * 9 * 56 * 56 / 1e12, "TFLOP/s"),
    "attention": (lambda t: attention(t, False), 4 * 8 * 16 * 1024**2 * 64 / 1e12, "TFLOP/s"),
    "attention causal": (lambda t: attention(t, True), 2 * 8 * 16 * 1024**2 * 64 / 1e12, "TFLOP/s"),
    "attention 128 features": (
        lambda t: attention(t, True, sizes=(2, 16, 4096, 128)),
        2 * 2 * 16 * 4096**2 * 128 / 1e12,
        "TFLOP/s",
    ),
    "attention 256 features": (
        lambda t: attention(t, True, sizes=(2, 8, 4096, 256)),
        2 * 2 * 8 * 4096**2 * 256 / 1e12,
        "TFLOP/s",
    ),
    "attention float32": (lambda t: attention(t, True, "float32"), 2 * 8 * 16 * 1024**2 * 64 / 1e12, "TFLOP/s"),
    "attention backward": (lambda t: attention(t, True, backward=True), 5 * 8 * 16 * 1024**2 * 64 / 1e12, "TFLOP/s"),
    "attention backward 128": (
        lambda t: attention(t, True, sizes=(2, 16, 4096, 128), backward=True),
        5 * 2 * 16 * 4096**2 * 128 / 1e12,
        "TFLOP/s",
    ),
    "attention backward float32": (
        lambda t: attention(t, True, "float32", backward=True),
        5 * 8 * 16 * 1024**2 * 64 / 1e12,
        "TFLOP/s",
    ),
    "attention decoding": (
        lambda t: attention(t, False, sizes=(8, 32, 8192, 128), queries=1, kv_heads=8),
        2 * 2 * 8 * 8 * 8192 * 128 / GIB,
        "GB/s",
    ),
    "Adam 100 small": (lambda t: adam(t, 100), None, ""),
    "step of a small MLP": (lambda t: training(t, [(64, 128), (128, 128), (128, 10)], 32), None, ""),
    "step of a large MLP": (lambda t: training(t, [(4096, 4096), (4096, 4096), (4096, 1024)], 4096), None, ""),
}


def seconds(library, call, calls):
    library.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    library.cuda.synchronize()
    return (time.perf_counter() - start) / calls


def measure(name, found, rounds):
    make, amount, unit = WORKLOADS[name]
    calls = {key: make(library) for key, library in found}
    counts, times = {}, {key: [] for key, _ in found}
    for key, library in found:
        seconds(library, calls[key], 3)
        counts[key] = max(3, min(2000, int(0.05 / max(seconds(library, calls[key], 3), 1e-7))))
    for _ in range(rounds):
        for key, library in found:
            times[key].append(seconds(library, calls[key], counts[key]))
    return {key: statistics.median(v) for key, v in times.items()}, amount, unit


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--csv", metavar="FILE")
    options = parser.parse_args()
    found = libraries()
    if not found[0][1].cuda.is_available():
        sys.exit("there is no CUDA device")
    lines, missing = [], []
    print(f"{'':26}{'tessera us':>12}{'torch us':>12}{'ratio':>8}   tessera")
    for name in WORKLOADS:
        if not re.search(options.only, name):
            continue
        try:
            times, amount, unit = measure(name, found, options.rounds)
        except Exception as error:  # the table goes on: one missing entry is a line of its own
            print(f"{name:26}{type(error).__name__}: {error}"[:160])
            missing.append(name)
            continue
        mine, other = times["tessera"], times.get("torch")
        ratio = f"{other / mine:8.2f}" if other else " " * 8
        rate = f"{amount / mine:10.1f} {unit}" if amount else ""
        print(f"{name:26}{mine * 1e6:12.1f}{(other or 0) * 1e6:12.1f}{ratio}   {rate}", flush=True)
        lines.append(f"{name},{mine * 1e6:.2f},{(other or 0) * 1e6:.2f}")
    if options.csv:
        with open(options.csv, "w") as file:
            file.write("name,tessera_us,torch_us\n" + "\n".join(lines) + "\n")
    if missing or not lines:
        sys.exit(f"not measured: {', '.join(missing) or 'anything'}")


if __name__ == "__main__":
    main()
