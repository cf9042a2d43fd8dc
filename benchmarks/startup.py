"""What it costs to have the library: import time over a bare interpreter, memory after the import, installed size.

    python benchmarks/startup.py [--runs N] [--torch-python EXE]

Times are wall times of whole processes, the smallest of N runs, taken in turn. --torch-python: an interpreter that has
PyTorch, for comparison.
"""

import argparse
import json
import os

from _measure import command, folder_bytes, run, table

PROBE = """
import json, os, sys
import {name} as library
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
folder = os.path.dirname(os.path.realpath(library.__file__))
resident = int(status["VmRSS"].split()[0]) * 1024
print(json.dumps({{"rss": resident, "modules": len(sys.modules), "folder": folder, "version": library.__version__}}))
"""


def measure(python, name, runs):
    """(seconds over the bare interpreter, what the probe printed)"""
    best = bare = float("inf")
    program = PROBE.format(name=name)
    run(command(python) + ["-c", program])  # warms the page cache and the compiled modules
    for _ in range(runs):
        out, wall = run(command(python) + ["-c", program])
        best = min(best, wall)
        bare = min(bare, run(command(python) + ["-c", "import json, os, sys"])[1])
    return best - bare, json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--torch-python")
    args = parser.parse_args()
    rows = []
    for python, name in [(None, "tessera")] + ([(args.torch_python, "torch")] if args.torch_python else []):
        seconds, info = measure(python, name, args.runs)
        rows.append(
            (
                f"{name} {info['version']}",
                f"{seconds:.3f} s",
                f"{info['rss'] / 1e6:.0f} MB",
                info["modules"],
                f"{folder_bytes(info['folder']) / 1e6:.1f} MB",
            )
        )
        if os.path.islink(info["folder"]):
            print(f"{info['folder']} is a link: sizes are of what it points to")
    table(rows, ("", "import", "resident", "modules", "installed"))


if __name__ == "__main__":
    main()
