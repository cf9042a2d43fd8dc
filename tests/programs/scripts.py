"""Other people's training scripts, unmodified, under PyTorch and under `python -m tessera`: the same numbers?

    python tests/programs/scripts.py CHECKOUTS --beside PYTHON_WITH_TORCH [--only NAME ...]

`scripts.json` lists them: repository and commit, and of each script its name, folder, command, the lines that count
(of them the group, if the expression has one) and how many of them. CHECKOUTS holds the repositories as OWNER+NAME. All
generators start at the same seed; the MNIST that torchvision reads is made up (`digits`), since nothing is downloaded.

Where a script's numbers drift apart, two runs say whether that is rounding: `--double` has both systems compute in
float64, and `--itself WAY` puts PyTorch beside itself with other rounding (`WAYS`).
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
VARIABLES = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": ""}
SEEDED = (
    "import os, random, runpy, sys, numpy, torch; random.seed(1); numpy.random.seed(1); torch.manual_seed(1); "
    "sys.argv = sys.argv[1:]; sys.path.insert(0, os.getcwd()); runpy.run_path(sys.argv[0], run_name='__main__')"
)
# For a script that names its type, too (`torch.FloatTensor`).
DOUBLE = (
    "import torch; torch.set_default_dtype(torch.float64); torch.FloatTensor = torch.DoubleTensor; "
    "torch.float = torch.float32 = torch.float64; "
)
# The first number of the first result moves by a unit in its last place.
ULP = """
import torch
def moved(function):
    done = []
    def call(*args, **options):
        result = function(*args, **options)
        with torch.no_grad():
            if not done and result.is_floating_point() and result.numel():
                first = result.view(-1)[:1]
                first.copy_(torch.nextafter(first, torch.full_like(first, torch.inf)))
                done.append(True)
        return result
    return call
for where, name in (torch, "randn"), (torch.nn.init, "kaiming_uniform_"), (torch.nn.init, "normal_"):
    setattr(where, name, moved(getattr(where, name)))
"""
# Of --itself: (what runs before the script, variables of its environment).
WAYS = {
    "onednn": ("import torch; torch.backends.mkldnn.enabled = False; ", {}),
    "avx2": ("", {"MKL_CBWR": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}),
    "sse": ("", {"MKL_CBWR": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"}),
    "ulp": (ULP, {}),
}


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


def run(command, folder, pattern, wanted, more=None, limit=LIMIT):
    """(numbers of the lines that count, seconds, peak of memory in MiB, error or None) of a script, which is stopped
    when there are enough such lines."""
    start, found = time.time(), []
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        script = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **VARIABLES, **(more or {})}, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        timer = threading.Timer(limit, script.kill)
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
    parser.add_argument("--lines", type=int, metavar="N", help="not more than the first N lines that count")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for one script")
    parser.add_argument("--double", action="store_true", help="float64 in place of float32")
    parser.add_argument(
        "--itself", choices=sorted(WAYS), metavar="WAY",
        help="PyTorch beside itself, to see how far rounding alone leads: " + ", ".join(sorted(WAYS)),
    )  # fmt: skip
    options = parser.parse_args()
    failed = 0
    first, changed = DOUBLE * options.double, WAYS.get(options.itself, ("", {}))
    other = [options.beside, "-u"] if options.itself else [sys.executable, "-u", "-m", "tessera"]
    print("| script | lines | result | PyTorch's time, ours of it | its memory, ours of it |\n|---|---|---|---|---|")
    for repository, listed in json.loads((HERE / "scripts.json").read_text()).items():
        for name, inside, command, pattern, wanted in listed["scripts"]:
            if options.only and name not in options.only:
                continue
            wanted = min(wanted or options.lines, options.lines) if options.lines else wanted
            folder = options.checkouts / repository.replace("/", "+") / inside
            for place in ("../data", "mnist", "../../data/mnist", "../../data"):
                digits(folder / place)
            (a, there, peak, _), (b, here, ours, error) = (
                run(
                    [*python, "-c", first + before + SEEDED, *command.split()],
                    folder, pattern, wanted, variables, options.limit,
                )
                for python, before, variables in (([options.beside, "-u"], "", {}), (other, *changed))
            )  # fmt: skip
            at = first_difference(a, b)
            failed += at is not None or error is not None or not a
            state = error or ("nothing printed" if not a else "equal" if at is None else f"differs at line {at}")
            state = state.splitlines()[-1]
            times, peaks = f"{there:.1f} s, {here / there:.2f}", f"{peak:.0f} MiB, {ours / peak:.2f}"
            print(f"| {name} | {len(a)} | {state} | {times} | {peaks} |", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
