"""tools/setup leaves a user's environment alone, and tools/pythons finds the interpreters that there are."""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(command, **environment):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env={**os.environ, **environment})


def checkout(folder):
    """Of the tree what tools/setup reads; all of Debian's packages are there."""
    shutil.copytree(ROOT / "tools" / "requirements", folder / "tools" / "requirements")
    shutil.copy(ROOT / "tools" / "setup", folder / "tools" / "setup")
    fake = folder / "path" / "dpkg-query"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nprintf installed\n")
    fake.chmod(0o755)
    return {"PATH": "%s:%s" % (fake.parent, os.environ["PATH"])}


def test_an_environment_of_another_interpreter_is_not_removed(tmp_path):
    environment = checkout(tmp_path)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "thesis.txt").write_text("mine")
    result = run([tmp_path / "tools" / "setup"], **environment, TESSERA_PYTHON=sys.executable)
    assert result.returncode == 1
    assert ".venv holds no Python that runs" in result.stderr and "rm -r .venv" in result.stderr
    assert (tmp_path / ".venv" / "thesis.txt").read_text() == "mine"


def test_what_only_a_build_needs_makes_no_environment(tmp_path):
    environment = checkout(tmp_path)
    result = run([tmp_path / "tools" / "setup", "--build-only"], **environment, TESSERA_PYTHON=sys.executable)
    assert result.returncode == 0, result.stderr
    assert not (tmp_path / ".venv").exists()


def test_wrong_arguments_are_refused(tmp_path):
    environment = checkout(tmp_path)
    for arguments in (["--no-such-option"], ["--venv"]):
        result = run([tmp_path / "tools" / "setup", *arguments], **environment)
        assert result.returncode == 2 and "Usage: tools/setup" in result.stderr


def test_every_version_is_pinned():
    files = sorted((ROOT / "tools" / "requirements").glob("*.txt"))
    assert files
    for path in files:
        lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
        assert any(lines)
        assert [line for line in lines if line and "==" not in line] == []


def test_interpreters_are_found_once_a_version_oldest_first(tmp_path):
    versions = []
    for version in ("3.13.1", "3.10.2", "3.9.9"):
        exe = tmp_path / "versions" / version / "bin" / "python"
        exe.parent.mkdir(parents=True)
        exe.write_text("#!/bin/sh\necho %s %s\n" % (version.rpartition(".")[0], exe))
        exe.chmod(0o755)
        versions.append(exe)
    broken = tmp_path / "versions" / "3.12.0" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    result = run([ROOT / "tools" / "pythons"], PYENV_ROOT=str(tmp_path), PATH="/bin:/usr/bin", TESSERA_PYTHON="")
    found = dict(line.split() for line in result.stdout.splitlines())
    assert result.returncode == 0
    assert list(found) == sorted(found, key=lambda v: int(v.split(".")[1]))
    assert found["3.13"] == str(versions[0]) or found["3.13"].startswith("/usr")
    assert "3.10" in found and "3.9" not in found
    assert found.get("3.12", "").startswith("/usr") or "3.12" not in found
