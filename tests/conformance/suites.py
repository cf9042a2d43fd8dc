"""The conformance suites: where their data lies, how each is run, and how many checks passed.

    python tests/conformance/suites.py [SUITE ...] [--raise-floors]

runs them with this interpreter, which must have tessera installed. Floors never sink.
"""

import argparse
import ast
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
FLOORS = HERE / "floors.json"
TIMEOUT = 1200  # seconds for one suite


@dataclasses.dataclass
class Result:
    """passed, failed: all checks of the suite; present: checks of the names that exist here (passed ones are among
    them).
    """

    passed: int
    failed: int
    present: int
    output: str

    def __str__(self):
        share = 100.0 * self.passed / self.present if self.present else 0.0
        return "%d passed, %d failed; %.2f %% of the %d checks of names that exist" % (
            self.passed,
            self.failed,
            share,
            self.present,
        )


def data_folder():
    """The folder of recorded cases, or None."""
    folder = pathlib.Path(os.environ.get("TESSERA_CONFORMANCE") or HERE.parents[2] / "shared" / "conformance")
    return folder if (folder / "golden").is_dir() else None


def floors():
    return json.loads(FLOORS.read_text())


def run(command, cwd=None):
    """The output of a command, whatever its exit code."""
    process = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )
    return process.stdout


def totals(output):
    """N and M of the last 'N passed, M failed'; a suite that ended without that line passed nothing."""
    found = re.findall(r"^(\d+) passed, (\d+) failed", output, re.M)
    return (int(found[-1][0]), int(found[-1][1])) if found else (0, 0)


def run_golden_ops(data):
    with tempfile.TemporaryDirectory() as scratch:
        summary = os.path.join(scratch, "summary.json")
        output = run(
            [
                sys.executable,
                str(data / "golden/replay.py"),
                "--module",
                "tessera",
                "--grad",
                "--quiet",
                "--summary",
                summary,
            ]
        )
        if not os.path.exists(summary):
            return Result(0, 0, 0, output)
        with open(summary) as f:
            counts = json.load(f)
    callees = recorded_callees(data / "golden/ops")
    existing = expressions_that_exist(callees.values())
    absent = {name for name, callee in callees.items() if callee not in existing}
    present = sum(c["passed"] + c["failed"] for name, c in counts["ops"].items() if name not in absent or c["passed"])
    worst = sorted(counts["ops"].items(), key=lambda item: -item[1]["failed"])
    lines = [
        "%-40s %4d passed %4d failed" % (n, c["passed"], c["failed"])
        for n, c in worst
        if c["failed"] and (n not in absent or c["passed"])
    ]
    return Result(counts["passed"], counts["failed"], present, output + "\n".join(["", "worst:"] + lines[:25]))


def recorded_callees(ops):
    """Of each recorded operator the public name ('torch.linalg.svd') or expression ('lambda x: x.mT') that was
    called.
    """
    callees = {}
    for path in sorted(ops.glob("*.npz")):
        with zipfile.ZipFile(path) as pack:
            callees[path.stem] = json.loads(pack.read("manifest.json"))["callee"]
    return callees


def public_names(expression):
    """The dotted names from torch in an expression, and as 'Tensor.x' the attributes of whatever else it touches."""
    names = set()

    def visit(node, tail=""):
        if isinstance(node, ast.Attribute):
            visit(node.value, "." + node.attr + tail)
            return
        if isinstance(node, ast.Name) and node.id == "torch":
            if tail:
                names.add("torch" + tail)
            return
        if tail:  # an attribute of a value, which here is a tensor
            names.add("torch.Tensor." + tail.split(".")[1])
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(expression.strip(), mode="eval"))
    return names


def expressions_that_exist(expressions):
    """Those whose names tessera has, whether they work or not: what exists and fails counts as failed."""
    names = {e: public_names(e) for e in set(expressions)}
    output = run([sys.executable, "-c", _RESOLVE, json.dumps(sorted(set().union(*names.values())))])
    existing = set(json.loads(output.splitlines()[-1]))
    return {e for e, needed in names.items() if needed <= existing}


_RESOLVE = """
import importlib, json, sys
import tessera

def exists(name):
    obj, path = tessera, "tessera"
    for part in name.split(".")[1:]:
        path += "." + part
        try:
            obj = getattr(obj, part)
        except AttributeError:
            try:
                obj = importlib.import_module(path)
            except ImportError:
                return False
    return True

print(json.dumps([n for n in json.loads(sys.argv[1]) if exists(n)]))
"""


def failed_groups(output):
    """{name: (failed, all)} of the line 'groups with failures: nn.Linear/0 1/20, ...'."""
    line = (re.findall(r"^groups with failures: (.*)$", output, re.M) or [""])[-1]
    return {name: (int(n), int(of)) for name, n, of in re.findall(r"(\S+) (\d+)/(\d+)(?:,|$)", line)}


def run_golden_modules(data):
    folder = data / "golden/modules"
    output = run([sys.executable, str(folder / "replay_modules.py"), "--module", "tessera"])
    passed, failed = totals(output)
    classes = {}
    for name in ("modules.json", "optim.json"):
        for case in json.loads((folder / name).read_text())["cases"]:
            classes["/".join(case["id"].split("/")[:2])] = case["cls"]
    existing = expressions_that_exist(classes.values())
    absent = sum(n for group, (n, of) in failed_groups(output).items() if n == of and classes[group] not in existing)
    return Result(passed, failed, passed + failed - absent, output)


def run_golden_random(data):
    output = run([sys.executable, str(data / "golden/random/replay_random.py"), "--module", "tessera"])
    passed, failed = totals(output)
    expressions = {case["name"]: case["expr"] for case in json.loads((data / "golden/random/streams.json").read_text())}
    existing = expressions_that_exist(expressions.values())
    without_success = re.findall(r"^(\S+) +0 passed +(\d+) failed$", output, re.M)
    absent = sum(int(bad) for name, bad in without_success if expressions[name] not in existing)
    return Result(passed, failed, passed + failed - absent, output)


def run_pytest_folder(data, name):
    output = run(
        [
            sys.executable,
            "-m",
            "tessera",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--continue-on-collection-errors",
            name,
        ],
        cwd=data,
    )
    found = re.findall(r"(\d+) (passed|failed|error)", output.splitlines()[-1] if output else "")
    counts = {"passed": 0, "failed": 0, "error": 0, **{kind: int(n) for n, kind in found}}
    failed = counts["failed"] + counts["error"]
    return Result(counts["passed"], failed, counts["passed"] + failed, output)


_GOLDEN = {"golden_ops": run_golden_ops, "golden_modules": run_golden_modules, "golden_random": run_golden_random}


def run_suite(name, data):
    return _GOLDEN[name](data) if name in _GOLDEN else run_pytest_folder(data, name)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help="names from floors.json, or folders of the data (default: all of floors.json)",
    )
    ap.add_argument(
        "--raise-floors", action="store_true", help="write counts that are higher than the floors into floors.json"
    )
    ap.add_argument("-v", "--verbose", action="store_true", help="print the output of the suites")
    opts = ap.parse_args()
    data = data_folder()
    if data is None:
        sys.exit("no recorded cases here")
    lowest = floors()
    for name in opts.suites or list(lowest):
        result = run_suite(name, data)
        if opts.verbose:
            print(result.output)
        print("%s: %s (floor %d)" % (name, result, lowest.get(name, 0)), flush=True)
        if opts.raise_floors:
            lowest[name] = max(result.passed, lowest.get(name, 0))
    if opts.raise_floors:
        FLOORS.write_text(json.dumps(lowest, indent=2) + "\n")


if __name__ == "__main__":
    main()
