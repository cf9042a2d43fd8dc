"""Other people's training scripts, unmodified, under PyTorch and under `python -m tessera`: the same numbers?

    python tests/programs/scripts.py CHECKOUTS --beside PYTHON_WITH_TORCH [--only NAME ...]

`scripts.json` lists them: repository and commit, and of each script its name, folder, command, the lines that count
(of them the group, if the expression has one) and how many of them. CHECKOUTS holds the repositories as OWNER+NAME. All
generators start at the same seed; the MNIST that torchvision reads is made up (`digits`), since nothing is downloaded.
"""

import argparse
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|\bnan\b|\binf\b")
LIMIT = 300.0  # seconds for one script
TOLERANCE = 1e-3  # relative
SEEDED = (
    "import os, random, runpy, sys, numpy, torch; random.seed(1); numpy.random.seed(1); torch.manual_seed(1); "
    "sys.argv = sys.argv[1:]; sys.path.insert(0, os.getcwd()); runpy.run_path(sys.argv[0], run_name='__main__')"
)
WITHOUT = "import torch; torch.backends.mkldnn.enabled = False; "


def digits(folder):
    """Writes noisy patterns as the files of MNIST into folder/MNIST/raw."""
    import numpy

    random = numpy.random.default_rng(0)
    patterns = numpy.kron(random.random((10, 7, 7)) > 0.6, numpy.ones((1, 4, 4))) * 200.0
    raw = pathlib.Path(folder) / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 6400), ("t10k", 1000)):
        labels = random.integers(0, 10, count)
        images = (patterns[labels] + random.normal(0, 20, (count, 28, 28))).clip(0, 255)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            (raw / f"{name}-{kind}-ubyte").write_bytes(header + array.astype("uint8").tobytes())


def run(command, folder, pattern, wanted):
    """(numbers of the lines that count, seconds, peak of memory in MiB, error or None) of a script, which is stopped
    when there are enough such lines."""
    variables = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": ""}
    start, found = time.time(), []
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        script = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **variables}, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        timer = threading.Timer(LIMIT, script.kill)
        timer.start()
        for line in script.stdout:
            line = re.sub("0x[0-9a-f]+", "", line)
            if match := re.search(pattern, line):
                found.append([float(n) for n in NUMBER.findall(match[1] if match.re.groups else line)])
                if len(found) == wanted:
                    script.kill()
                    break
        script.stdout.close()
        _, status, used = os.wait4(script.pid, 0)
        timer.cancel()
        script.returncode = status
        errors.seek(0)
        failed = status and len(found) != (wanted or None)
        return found, time.time() - start, used.ru_maxrss / 1024, errors.read().strip()[-300:] if failed else None


def first_difference(a, b):
    """The first line where numbers differ by more than TOLERANCE, or None."""
    for at, (x, y) in enumerate(zip(a, b)):
        near = (abs(u - v) <= TOLERANCE * max(abs(u), abs(v), 1e-2) or u != u and v != v for u, v in zip(x, y))
        if len(x) != len(y) or not all(near):
            return at
    return None if len(a) == len(b) else min(len(a), len(b))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkouts", type=pathlib.Path, help="the folder of the repositories, each as OWNER+NAME")
    parser.add_argument("--beside", required=True, metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these scripts")
    parser.add_argument(
        "--itself", action="store_true", help="PyTorch beside itself without oneDNN: how far rounding alone leads"
    )
    options = parser.parse_args()
    failed = 0
    print("| script | lines | result | PyTorch's time, ours of it | its memory, ours of it |\n|---|---|---|---|---|")
    for repository, listed in json.loads((HERE / "scripts.json").read_text()).items():
        for name, inside, command, pattern, wanted in listed["scripts"]:
            if options.only and name not in options.only:
                continue
            folder = options.checkouts / repository.replace("/", "+") / inside
            for place in ("../data", "mnist", "../../data/mnist", "../../data"):
                digits(folder / place)
            other = [options.beside, "-u"] if options.itself else [sys.executable, "-u", "-m", "tessera"]
            (a, there, peak, _), (b, here, ours, error) = (
                run([*python, "-c", before + SEEDED, *command.split()], folder, pattern, wanted)
                for python, before in (([options.beside, "-u"], ""), (other, WITHOUT if options.itself else ""))
            )
            at = first_difference(a, b)
            failed += at is not None or error is not None or not a
            state = error or ("nothing printed" if not a else "equal" if at is None else f"differs at line {at}")
            state = state.splitlines()[-1]
            times, peaks = f"{there:.1f} s, {here / there:.2f}", f"{peak:.0f} MiB, {ours / peak:.2f}"
            print(f"| {name} | {len(a)} | {state} | {times} | {peaks} |", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
