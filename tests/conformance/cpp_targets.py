"""The C++ programs of the recorded cases against Bazel targets: each is linked with //frontend, run, and compared.

    python tests/conformance/cpp_targets.py [--only REGEX] [--set FOLDER]

The programs stay where they are: Bazel finds their package, which is written to a temporary folder, by its package
path. Prints a line for each and ends with `N passed, N failed`, as ../shared/conformance/cpp/run.py does for other
builds. Takes ten minutes of two cores; continuous integration does the same with the programs of examples/frontend.
"""

import argparse
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from suites import data_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "recorded_programs"
BUILD = """load("@rules_cc//cc:defs.bzl", "cc_binary")

[
    cc_binary(
        name = path[:-4],
        srcs = [path],
        copts = ["-O0", "-w"],
        deps = ["//frontend"],
    )
    for path in glob(["*.cpp"])
]
"""


def bazel(*words, cwd=ROOT):
    return subprocess.run(["bazel", *words], cwd=cwd, capture_output=True, text=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--only", default="", help="regular expression that a name must match")
    ap.add_argument("--set", type=pathlib.Path, help="folder of the programs")
    opts = ap.parse_args()
    folder = opts.set or pathlib.Path(data_folder()) / "cpp"
    spec = importlib.util.spec_from_file_location("run", folder / "run.py")
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    programs = [p for p in sorted(folder.glob("*.cpp")) if not p.with_suffix(".py").exists()]
    programs = [p for p in programs if re.search(opts.only, p.stem)]
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        package = pathlib.Path(root) / PACKAGE
        package.mkdir()
        (package / "BUILD").write_text(BUILD)
        for path in programs:
            shutil.copy(path, package)
        flags = [f"--package_path=%workspace%:{root}"]
        built = bazel("build", "--keep_going", *flags, f"//{PACKAGE}:all")
        place = pathlib.Path(bazel("info", "--color=no", *flags, "bazel-bin").stdout.strip()) / PACKAGE
        for path in programs:
            if (place / path.stem).exists():
                code, out, err = runner.call([str(place / path.stem)], 60, root, {"OMP_NUM_THREADS": "1"})
                reason = runner.difference(path.with_suffix(".txt").read_text(), out)
                reason = f"exit code {code}: {err[-200:]}" if code else reason
            else:
                reason = "does not build: " + runner.first_error(built.stderr)
            failed += reason is not None
            print(f"ok   {path.stem}" if reason is None else f"FAIL {path.stem}: {reason}", flush=True)
    print(f"{len(programs) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
