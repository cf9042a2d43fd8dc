"""tools/cpp_modules: torch::nn and torch::optim have what Python's have."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_nothing_is_missing():
    run = subprocess.run([sys.executable, ROOT / "tools" / "cpp_modules"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    for line, least in zip(run.stdout.splitlines(), (130, 28), strict=True):
        have, _, of = line.split()[:3]
        assert have == of and int(of) >= least
