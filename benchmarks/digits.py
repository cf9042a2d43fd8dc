"""Trains the digits example at 1 and at 2 threads: how long it takes, and that the weights are the same bits.

    python benchmarks/digits.py [--epochs N] [--threads 1 2 ...]

Exits with status 1 if the checkpoints of two runs differ in any byte of any tensor.
"""

import argparse
import hashlib
import os
import re
import sys
import tempfile
import zipfile

from _measure import ROOT, command, run, table


def fingerprints(folder):
    """Checkpoint -> hash of the bytes of all its tensors."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".pt"):
            digest = hashlib.sha256()
            with zipfile.ZipFile(os.path.join(folder, name)) as archive:
                for member in sorted(archive.namelist()):
                    if "/data/" in member:
                        digest.update(member.split("/", 1)[1].encode() + b"\0" + archive.read(member))
            found[name] = digest.hexdigest()[:16]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    rows, prints = [], []
    for threads in args.threads:
        with tempfile.TemporaryDirectory() as out:
            program = [os.path.join(ROOT, "examples", "digits", "train.py"), "--epochs", str(args.epochs), "--out", out]
            text, wall = run(command() + program, env={"OMP_NUM_THREADS": str(threads)})
            prints.append(fingerprints(out))
        results = dict(re.findall(r"^(\w+): (test accuracy .*)$", text, re.M))
        for name, digest in prints[-1].items():
            rows.append((f"{name[:-3]}, {threads} thread{'s' * (threads > 1)}", results.get(name[:-3], "?"), digest))
        rows.append((f"whole program, {threads} thread{'s' * (threads > 1)}", f"{wall:.1f} s", ""))
    table(rows, ("", "", "hash of the weights"))
    same = bool(prints[0]) and all(p == prints[0] for p in prints)
    print("the same bits at all thread counts" if same else "DIFFERENT BITS")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
