"""tools/cpp_modules: torch::nn has the modules that Python's nn has."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_no_module_is_missing():
    run = subprocess.run([sys.executable, ROOT / "tools" / "cpp_modules"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    have, _, of = run.stdout.split()[:3]
    assert have == of and int(of) > 130
