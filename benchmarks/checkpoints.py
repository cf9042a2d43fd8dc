#!/usr/bin/env python3
"""Time of save and load: one large checkpoint (512 MB in 32 tensors), one of many small tensors (3,000 of 1 KB); by
path, by io.BytesIO, mapped.

    benchmarks/checkpoints.py [--torch-python EXE] [--folder DIR] [--rounds N] [--threads 1 2]

The smallest time of all rounds counts, wall and the process's CPU time. DIR: where the files go; /dev/shm by default,
so that it is not the disk that is measured.
"""

import argparse
import json
import os
import sys

from _measure import command, run, table

SIDE = """
import io, json, os, sys, time
name, folder, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
lib = __import__(name)
large, small = lambda: lib.randn(1024, 4096), lambda: lib.randn(16, 16)
checkpoints = {"large": {f"w{i}": large() for i in range(32)},
               "small": {f"layer.{i}.weight": small() for i in range(3000)}}

def best(function):
    times = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        function()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [1e3 * min(column) for column in zip(*times)]

for label, obj in checkpoints.items():
    path, memory = os.path.join(folder, f"{name}_{os.getpid()}.pt"), io.BytesIO()
    works = {"save": lambda: lib.save(obj, path), "load": lambda: lib.load(path),
             "load mmap": lambda: lib.load(path, mmap=True),
             "save BytesIO": lambda: (memory.seek(0), lib.save(obj, memory)),
             "load BytesIO": lambda: (memory.seek(0), lib.load(memory))}
    try:
        for work, function in works.items():
            print(json.dumps([f"{label} {work}", *best(function)]))
    finally:
        os.unlink(path)
"""


def measure(side, name, args, threads):
    out, _ = run(
        side + ["-W", "ignore", "-c", SIDE, name, args.folder, str(args.rounds)],
        env={"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
    )
    return {row[0]: row[1:] for row in map(json.loads, out.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch-python")
    parser.add_argument("--folder", default="/dev/shm" if os.path.isdir("/dev/shm") else ".")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    args = parser.parse_args()
    for threads in args.threads:
        ours = measure(command(args.python), "tessera", args, threads)
        theirs = measure(command(args.torch_python), "torch", args, threads) if args.torch_python else {}
        rows = [[name, *(f"{t:.1f}" for t in ours[name]), *(f"{t:.1f}" for t in theirs.get(name, ()))] for name in ours]
        print(f"{threads} threads, milliseconds")
        table(rows, ["", "Tessera", "CPU"] + (["PyTorch", "CPU"] if theirs else []))


if __name__ == "__main__":
    main()
