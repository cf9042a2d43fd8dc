"""The stubs that the wheel carries: a type checker accepts right calls and finds wrong ones."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest
import tessera

RIGHT = """
import tessera

x: tessera.Tensor = tessera.randn(2, 3)
y: tessera.Tensor = tessera.add(x, 1.5).relu() @ x.t()
n: int = y.dim() + len(y.shape)
values, indices = tessera.max(y, 0)
layer = tessera.nn.Linear(3, 2)
"""
WRONG = """
import tessera

tessera.add(tessera.ones(2), "one")
"""


def check(tmp_path, text):
    program = tmp_path / "program.py"
    program.write_text(text)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    return [line for line in run.stdout.splitlines() if line.startswith("program.py") and "error:" in line]


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="no type checker here")
def test_a_type_checker_reads_the_stubs(tmp_path):
    if not (pathlib.Path(tessera.__file__).parent / "_operators.pyi").exists():
        pytest.skip("the package is not installed from a wheel")
    assert check(tmp_path, RIGHT) == []
    assert len(check(tmp_path, WRONG)) == 1
