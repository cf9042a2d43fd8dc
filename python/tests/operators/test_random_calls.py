"""Random operators with random arguments, in processes of their own: documented exceptions only, no crash, no hang
(random_calls.py).

TESSERA_RANDOM_CALLS=100000 makes that many calls of each kind; the default is a few thousand.
"""

import os
import pathlib
import subprocess
import sys

import pytest
from random_calls import NAMESPACES

PROGRAM = pathlib.Path(__file__).with_name("random_calls.py")
CALLS = int(os.environ.get("TESSERA_RANDOM_CALLS", "4000"))
PER_PROCESS = 2000


KINDS = {"plain": [], "forward": ["--forward"], "vmap": ["--vmap"]}
KINDS |= {name: ["--namespace", name] for name in NAMESPACES}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(max(1, CALLS // PER_PROCESS)))
def test_random_calls(seed, kind, tmp_path):
    options = KINDS[kind]
    log = tmp_path / "last_call.txt"
    run = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            str(PROGRAM),
            "--calls",
            str(PER_PROCESS),
            "--seed",
            str(1000 + seed),
            "--log",
            str(log),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, f"exit code {run.returncode}\n{log.read_text()[:3000]}\n{run.stderr[-3000:]}"
    assert "returned" in run.stdout
    assert ("tangents" in run.stdout) == ("--forward" in options)
