"""Runs other people's programs through `python -m tessera` and compares them with what PyTorch gave.

    python tests/programs/runner.py [NAME ...]           # with the interpreter that has the packages
    python tests/programs/runner.py --record PYTHON    # writes the curves anew with an interpreter that has PyTorch
    python tests/programs/runner.py --beside PYTHON    # runs both, alternating, and tells the better of two runs each
    python tests/programs/runner.py --pinned --jobs 2 --junitxml FILE   # those of continuous integration

A recipe is a file of a folder of `recipes/` (models, training, methods); `curves/NAME.json` has what PyTorch yielded,
its seconds and its peak of memory.
"""

import argparse
import ast
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 600.0  # seconds for one program
PINNED = HERE.parents[1] / "tools" / "requirements" / "programs.txt"
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


def packages_of(name):
    """The packages that a recipe names, with their versions."""
    for node in ast.parse(pathlib.Path(path_of(name)).read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PACKAGES":
            return {one.lower().replace("_", "-"): version for one, version in ast.literal_eval(node.value).items()}
    raise SystemExit(f"{name}: no PACKAGES")


def pinned(lines):
    """The recipes all of whose packages stand in a requirements file, in the versions of their curves."""
    stated = [line.split("#")[0].strip().partition("==") for line in lines]
    versions = {one.lower().replace("_", "-"): version for one, _, version in stated if one}
    found = []
    for name in names():
        packages = packages_of(name)
        if packages.keys() <= versions.keys():
            other = [
                f"{one} {versions[one]}, not {wanted}" for one, wanted in packages.items() if versions[one] != wanted
            ]
            if other:
                raise SystemExit(f"{name}: its curve is of other versions: {', '.join(other)}")
            found.append(name)
    return found


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


def record(name, python):
    """Writes a curve by an interpreter that has PyTorch."""
    found, error = run(name, [python])
    if found is None:
        raise SystemExit(f"{name}: {error}")
    (HERE / "curves" / f"{name}.json").write_text(json.dumps(found) + "\n")


def write_junit(path, cases):
    """Writes (name, (good, line), seconds) of recipes as pytest writes its tests."""
    suite = ElementTree.Element("testsuite", name="programs", tests=str(len(cases)))
    for name, (good, line), seconds in cases:
        case = ElementTree.SubElement(suite, "testcase", classname="programs", name=name, time=f"{seconds:.1f}")
        if not good:
            ElementTree.SubElement(case, "failure", message=line)
    ElementTree.ElementTree(suite).write(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--pinned", action="store_true", help=f"those whose packages stand in {PINNED.name}")
    parser.add_argument("--record", metavar="PYTHON", help="an interpreter that has PyTorch and the packages")
    parser.add_argument("--beside", metavar="PYTHON", help="an interpreter that has PyTorch and the packages")
    parser.add_argument("--jobs", type=int, default=1, help="how many to run side by side")
    parser.add_argument("--junitxml", metavar="FILE", help="write the results as pytest does")
    options = parser.parse_args()
    chosen = options.names or (pinned(PINNED.read_text().splitlines()) if options.pinned else names())
    if options.record:
        for name in chosen:
            record(name, options.record)
        return 0

    def timed(name):
        start = time.perf_counter()
        return name, row(name, options.beside), time.perf_counter() - start

    print("| recipe | outputs | result | PyTorch's s, ours of it | with start and imports | its MiB, ours of it |")
    print("|---|---|---|---|---|---|")
    cases = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case in pool.map(timed, chosen):
            cases.append(case)
            print(case[1][1], flush=True)
    if options.junitxml:
        write_junit(options.junitxml, cases)
    return 0 if cases and all(good for _, (good, _), _ in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
