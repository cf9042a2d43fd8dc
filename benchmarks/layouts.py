"""Sparse and nested tensors beside PyTorch: its time over ours, and what is asked of each.

    python benchmarks/layouts.py --torch-python EXE [--python EXE] [--threads 1 2] [--rounds N] [--only REGEX]

Both sides run in turn, each round in a fresh process; the shortest time of all rounds counts. Jagged workloads are
compared with the padded tensors that PyTorch's programs use in their place, filled to 30 %. Status 1 if a workload is
below what is asked.
"""

import argparse
import json
import math
import re
import sys
import time

from _measure import command, run, table

N = 2048
WORKLOADS = {}


def workload(name, asked):
    """Names a function of (torch, jagged) that makes the call to be timed."""

    def put(make):
        WORKLOADS[name] = make, asked
        return make

    return put


def csr(torch, density):
    return (torch.randn(N, N) * (torch.rand(N, N) < density)).to_sparse_csr()


def coo(torch, density):
    return (torch.randn(N, N) * (torch.rand(N, N) < density)).to_sparse_coo()


def times_dense(kind, density, columns):
    def make(torch, jagged):
        a, b = kind(torch, density), torch.randn(N, columns)
        return lambda: a @ b

    return make


for density, shown in ((0.001, "0.1"), (0.01, "1"), (0.1, "10")):
    for columns in (16, 64, 128, 512):
        workload(f"CSR {shown} % x dense {columns}", 1.5)(times_dense(csr, density, columns))
workload("COO 1 % x dense 128", 3)(times_dense(coo, 0.01, 128))


@workload("coalesce of 10M", 5)
def coalesce(torch, jagged):
    indices, values = torch.randint(0, 3000, (2, 10_000_000)), torch.randn(10_000_000)
    return lambda: torch.sparse_coo_tensor(indices, values, size=(3000, 3000)).coalesce()


@workload("CSR of COO, 420K", 1)
def csr_of_coo(torch, jagged):
    a = coo(torch, 0.1)
    return lambda: a.to_sparse_csr()


@workload("spdiags 5 x 10000", 1)
def diagonals(torch, jagged):
    values, offsets = torch.randn(5, 10000), torch.tensor([-2, -1, 0, 1, 2])
    return lambda: torch.sparse.spdiags(values, offsets, (10000, 10000))


@workload("embedding 50K x 64, SparseAdam", 2)
def embedding(torch, jagged):
    layer, gradient = torch.nn.Embedding(50000, 64, sparse=True), torch.randn(2048, 64)
    indices = torch.randint(0, 50000, (2048,))
    optimizer = torch.optim.SparseAdam(layer.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        layer(indices).backward(gradient)
        optimizer.step()

    return step


def lengths_of(torch, batch=32, longest=128):
    lengths = torch.randint(8, longest // 2, (batch,))
    lengths[0] = longest
    rest = (0.3 * batch * longest - longest) / float(lengths[1:].sum())
    lengths[1:] = (lengths[1:] * rest).round().clamp(1, longest)
    return lengths


def batch_of(torch, jagged, *features):
    """Sequences as a jagged tensor, or padded with the mask for attention."""
    lengths = lengths_of(torch)
    if not jagged:
        mask = torch.arange(128)[None, :] < lengths[:, None]
        return torch.randn(32, 128, *features), mask[:, None, None, :]
    offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    longest = {"min_seqlen": int(lengths.min()), "max_seqlen": int(lengths.max())}
    values = torch.randn(int(offsets[-1]), *features)
    return torch.nested.nested_tensor_from_jagged(values, offsets, **longest), None


@workload("jagged attention", 2)
def attention(torch, jagged):
    whole, mask = batch_of(torch, jagged, 4, 96)
    query, key, value = (t.transpose(1, 2) for t in whole.chunk(3, -1))
    return lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def block(torch, width=128, heads=4):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, mask):
            y = self.before(x)
            parts = [f(y).unflatten(-1, (heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value)]
            y = nn.functional.scaled_dot_product_attention(*parts, attn_mask=mask)
            x = x + self.out(y.transpose(1, 2).flatten(-2))
            return x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))

    return Block()


@workload("jagged encoder, 4 blocks", 2)
def encoder(torch, jagged):
    blocks = [block(torch) for _ in range(4)]
    given, mask = batch_of(torch, jagged, 128)

    def call():
        x = given
        for each in blocks:
            x = each(x, mask)
        return x

    return call


def best(function, clock, seconds):
    """The shortest of several calls."""
    function()
    found, end, calls = math.inf, time.perf_counter() + seconds, 0
    while calls < 3 or time.perf_counter() < end:
        start = clock()
        function()
        found, calls = min(found, clock() - start), calls + 1
    return found


def measure(opts):
    """{workload: seconds} on this side."""
    import torch

    torch.set_num_threads(opts.threads[0])
    clock = time.process_time if opts.threads[0] == 1 else time.perf_counter
    found = {}
    for name, (make, _) in WORKLOADS.items():
        if re.search(opts.only, name):
            torch.manual_seed(0)
            with torch.set_grad_enabled("Adam" in name):
                found[name] = best(make(torch, opts.measure == "jagged"), clock, opts.seconds)
    print(json.dumps(found))


def compare(opts, threads):
    """Rows of the table; whether all is as asked."""
    env = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    options = ["--threads", str(threads), "--only", opts.only, "--seconds", str(opts.seconds), "--measure"]
    sides = {
        "padded": [*command(opts.torch_python), "-W", "ignore", __file__, *options, "padded"],
        "jagged": [*command(opts.python, "tessera"), __file__, *options, "jagged"],
    }
    least = {"padded": {}, "jagged": {}}
    for turn in range(opts.rounds):
        for side in sorted(sides, reverse=bool(turn % 2)):
            for name, seconds in json.loads(run(sides[side], env)[0].splitlines()[-1]).items():
                least[side][name] = min(seconds, least[side].get(name, math.inf))
    rows, good = [], True
    for name, ours in least["jagged"].items():
        ratio, asked = least["padded"][name] / ours, WORKLOADS[name][1]
        good &= ratio >= asked
        shown = [f"{seconds * 1e3:.3f} ms" for seconds in (least["padded"][name], ours)]
        rows.append([name, threads, *shown, f"{ratio:.2f}", asked, "" if ratio >= asked else "below"])
    return rows, good


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--torch-python", metavar="EXE")
    ap.add_argument("--python", metavar="EXE")
    ap.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=0.3, help="for a workload in a round")
    ap.add_argument("--only", default="")
    ap.add_argument("--measure", choices=("jagged", "padded"), help=argparse.SUPPRESS)
    opts = ap.parse_args()
    if opts.measure:
        return measure(opts)
    found = [compare(opts, threads) for threads in opts.threads]
    table([row for rows, _ in found for row in rows], ["", "threads", "PyTorch", "ours", "ratio", "asked", ""])
    sys.exit(not all(good for _, good in found))


if __name__ == "__main__":
    main()
