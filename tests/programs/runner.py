"""Runs other people's programs through `python -m tessera` and compares them with what PyTorch gave.

    python tests/programs/runner.py [NAME ...]           # with the interpreter that has the packages
    python tests/programs/runner.py --record PYTHON    # writes the curves anew with an interpreter that has PyTorch
    python tests/programs/runner.py --beside PYTHON    # runs both, alternating, and tells the better of two runs each

A recipe is a file of a folder of `recipes/` (models, training, methods); `curves/NAME.json` has what PyTorch yielded,
its seconds and its peak of memory.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 600.0  # seconds for one program
TOLERANCE = 1e-3  # relative
# Seconds without and with the start of the process and its imports, and the peak of memory in MiB.
MEASURES = ("time", "whole", "peak")


def names():
    """All recipes."""
    return sorted(path.stem for path in (HERE / "recipes").glob("*/*.py"))


def path_of(name):
    """The file of a recipe."""
    (path,) = (HERE / "recipes").glob(f"*/{name}.py")
    return str(path)


def curve_of(name):
    """What PyTorch gave; None if it was not recorded."""
    path = HERE / "curves" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def run(name, command):
    """(result, None) of a recipe under a command, or (None, the end of its errors)."""
    environment = dict(os.environ, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    paths = [str(HERE), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    path = path_of(name)
    start = time.perf_counter()
    try:
        done = subprocess.run([*command, path], capture_output=True, text=True, timeout=LIMIT, env=environment)
    except subprocess.TimeoutExpired:
        return None, f"more than {LIMIT:.0f} s"
    whole = time.perf_counter() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"out"')]
    if done.returncode or not lines:
        return None, done.stderr.strip()[-2000:]
    return json.loads(lines[-1]) | {"whole": round(whole, 3)}, None


def difference(expected, found):
    """None where two runs are equal: numbers to TOLERANCE, texts exactly; else what differs."""
    if len(expected) != len(found):
        return f"{len(found)} outputs instead of {len(expected)}"
    for at, (want, got) in enumerate(zip(expected, found)):
        if isinstance(want, str) or isinstance(got, str):
            if want != got:
                return f"output {at}: {got!r} instead of {want!r}"
        elif not abs(got - want) <= TOLERANCE * max(abs(want), 1e-6):
            return f"output {at}: {got} instead of {want}"
    return None


def best_of_two(name, beside):
    """(PyTorch's result, ours, error): with the shorter time and the lower peak of two runs each."""
    runs = [(run(name, [beside])[0], *run(name, [sys.executable, "-m", "tessera"])) for _ in range(2)]
    error = next((e for *_, e in runs if e), None)
    for one in (0, 1):
        if runs[0][one] and runs[1][one]:
            runs[0][one].update({key: min(r[one][key] for r in runs) for key in MEASURES})
    return runs[0][0], runs[0][1], error


def row(name, beside=None):
    """(ok, a line of the table) of one program."""
    if beside:
        expected, found, error = best_of_two(name, beside)
    else:
        expected = curve_of(name)
        found, error = run(name, [sys.executable, "-m", "tessera"])
    if found is None:
        return False, f"| {name} | fails: {error.splitlines()[-1] if error else 'no output'} | | | | |"
    if expected is None:
        return False, f"| {name} | {len(found['out'])} | no curve | | | |"
    wrong = difference(expected["out"], found["out"])
    there = [f"{expected[key]:.2f}, {found[key] / expected[key]:.2f}" if key in expected else "" for key in MEASURES]
    return wrong is None, f"| {name} | {len(found['out'])} | {wrong or 'equal'} | {' | '.join(there)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--record", metavar="PYTHON", help="an interpreter that has PyTorch and the packages")
    parser.add_argument("--beside", metavar="PYTHON", help="an interpreter that has PyTorch and the packages")
    options = parser.parse_args()
    chosen = options.names or names()
    if options.record:
        for name in chosen:
            found, error = run(name, [options.record])
            if found is None:
                raise SystemExit(f"{name}: {error}")
            (HERE / "curves" / f"{name}.json").write_text(json.dumps(found) + "\n")
        return 0
    print("| recipe | outputs | result | PyTorch's s, ours of it | with start and imports | its MiB, ours of it |")
    print("|---|---|---|---|---|---|")
    good = True
    for name in chosen:
        ok, line = row(name, options.beside)
        good = good and ok
        print(line, flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
