"""tools/build_wheel stops when Bazel does, and writes no wheel that lacks what it should hold."""

import os
import pathlib
import subprocess
import sys
import sysconfig
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


sys.path.insert(0, str(ROOT / "tools"))
import cpp_files  # noqa: E402


def bazel_bin(folder, *names):
    paths = [folder / "bin" / "python" / name for name in names]
    for path in [*paths, *cpp_files.not_built(ROOT, folder / "bin")]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"built")
    return folder / "bin"


def write_wheel(folder, *options):
    command = [
        sys.executable,
        str(ROOT / "tools" / "wheel.py"),
        "--root",
        str(ROOT),
        "--bazel-bin",
        str(folder / "bin"),
        "--out",
        str(folder),
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_wheel_holds_extension_and_stubs(tmp_path):
    bazel_bin(tmp_path, "_C" + SUFFIX, "_distributed" + SUFFIX, "tessera/_operators.pyi")
    result = write_wheel(tmp_path)
    assert result.returncode == 0, result.stderr
    names = zipfile.ZipFile(result.stdout.splitlines()[-1]).namelist()
    assert {"tessera/_C" + SUFFIX, "tessera/_operators.pyi", "tessera/__init__.py"} <= set(names)
    assert "tessera/_cuda" + SUFFIX not in names


@pytest.mark.parametrize(
    "built, options, missing",
    [
        (["_C" + SUFFIX, "_distributed" + SUFFIX], [], "_operators.pyi"),
        (["_distributed" + SUFFIX, "tessera/_operators.pyi"], [], "_C"),
        (["_C" + SUFFIX, "tessera/_operators.pyi"], [], "_distributed"),
        (["_C" + SUFFIX, "_distributed" + SUFFIX, "tessera/_operators.pyi"], ["--cuda"], "_cuda"),
    ],
)
def test_what_is_not_built_is_an_error(tmp_path, built, options, missing):
    bazel_bin(tmp_path, *built)
    result = write_wheel(tmp_path, *options)
    assert result.returncode == 1 and "not built" in result.stderr and missing in result.stderr
    assert not list(tmp_path.glob("*.whl"))


# Stands for Bazel: notes how it is called; the command in $FAILS fails, `cquery` prints $CONSTRAINTS.
FAKE_BAZEL = """#!/bin/sh
echo "$*" >> "$CALLS"
[ "$1" != "$FAILS" ] || { echo "cannot do that" >&2; exit 7; }
case $1 in
  cquery) printf "$CONSTRAINTS" ;;
  info) echo "$BIN" ;;
esac
"""


def build_wheel(folder, *options, fails="", constraints="@cuda//:installed"):
    fake = folder / "path" / "bazel"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(FAKE_BAZEL)
    fake.chmod(0o755)
    calls = folder / "calls"
    calls.write_text("")
    environment = dict(
        os.environ,
        PATH="%s:%s" % (fake.parent, os.environ["PATH"]),
        CALLS=str(calls),
        FAILS=fails,
        CONSTRAINTS=constraints,
        BIN=str(folder / "bin"),
    )
    command = [str(ROOT / "tools" / "build_wheel"), "--python", sys.executable, *options, str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, env=environment), calls.read_text()


@pytest.mark.parametrize("command", ["cquery", "build", "info"])
def test_an_error_of_bazel_stops_it(tmp_path, command):
    bazel_bin(tmp_path, "_C" + SUFFIX, "_distributed" + SUFFIX, "tessera/_operators.pyi")
    result, _ = build_wheel(tmp_path, fails=command)
    assert result.returncode != 0 and "cannot do that" in result.stderr
    assert not list((tmp_path / "out").glob("*.whl"))


def test_the_cuda_library_belongs_to_the_wheel_where_there_is_a_toolkit(tmp_path):
    bazel_bin(tmp_path, "_C" + SUFFIX, "_distributed" + SUFFIX, "tessera/_operators.pyi")
    result, calls = build_wheel(tmp_path)
    assert result.returncode == 0 and "//python:_cuda" not in calls
    result, calls = build_wheel(tmp_path, constraints="")
    assert "//python:_cuda" in calls and result.returncode == 1 and "_cuda" in result.stderr  # the fake builds nothing
    result, calls = build_wheel(tmp_path, "--no-cuda", constraints="")
    assert result.returncode == 0 and "//python:_cuda" not in calls
    bazel_bin(tmp_path, "_cuda" + SUFFIX)
    result, calls = build_wheel(tmp_path, constraints="")
    assert result.returncode == 0
    assert "tessera/_cuda" + SUFFIX in zipfile.ZipFile(result.stdout.splitlines()[-1]).namelist()
