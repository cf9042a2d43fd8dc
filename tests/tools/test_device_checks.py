"""tools/device_checks on a machine without a GPU: what it would run, and that each part of it can fail."""

import importlib.util
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Stands for every command: writes down how it was called; fails where FAIL is part of that.
STAND_IN = """#!/usr/bin/env bash
called="$(basename "$0") $*"
echo "$called" >> "$CALLS"
case "$called" in
  "bazel query"*) echo //tensor/cuda/sort:sort_test ;;
  "bazel info"*) echo "$BIN" ;;
  pythons*) echo 3.10 python3.10; echo 3.13 python3.13 ;;
  setup*--venv*) mkdir -p "$2/bin"; cp "$0" "$2/bin/python" ;;
  build_wheel*) mkdir -p "$3"; touch "$3/tessera-0-cp313-cp313-linux.whl" ;;
esac
[[ -z ${FAIL:-} || $called != *"$FAIL"* ]]
"""
COMMANDS = ["nvidia-smi", "nvcc", "bazel", "compute-sanitizer"]
TOOLS = ["setup", "pythons", "build_wheel"]


@pytest.fixture
def checks(tmp_path):
    """A call of the script among stand-ins: exit status, output and the calls it made."""
    programs = [tmp_path / "path" / name for name in COMMANDS] + [tmp_path / "tools" / name for name in TOOLS]
    programs.append(tmp_path / "bin/tensor/cuda/sort/sort_test")
    for program in programs:
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(STAND_IN)
        program.chmod(0o755)
    shutil.copy(ROOT / "tools/device_checks", tmp_path / "tools")

    def run(*stages, fail="", without=()):
        for name in without:
            (tmp_path / "path" / name).unlink()
        calls = tmp_path / "calls"
        calls.write_text("")
        path = f"{tmp_path / 'path'}:/usr/bin:/bin"
        environment = {**os.environ, "PATH": path, "CALLS": str(calls), "BIN": str(tmp_path / "bin"), "FAIL": fail}
        for name in ("TESSERA_DEVICE_TESTS", "TESSERA_SANITIZER_TOOLS", "TESSERA_TORCH_PYTHON"):
            environment.pop(name, None)
        done = subprocess.run(
            ["bash", str(tmp_path / "tools/device_checks"), *stages], env=environment, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr, calls.read_text().splitlines()

    return run


def test_all_stages_run_and_what_they_name_exists(checks):
    status, output, calls = checks()
    assert status == 0 and "all passed: tests sanitizer python replay benchmarks" in output
    assert any(c.startswith("bazel test") and c.endswith("//tensor/cuda/sort:sort_test") for c in calls)
    tools = [c.split()[2] for c in calls if c.startswith("compute-sanitizer --tool")]
    assert tools == ["memcheck", "racecheck", "synccheck", "initcheck"]
    programs = [c.split()[1:] for c in calls if c.startswith("python ")]
    assert [p[0] for p in programs if p[0].endswith(".py")] == ["tests/conformance/replay_on_device.py"] * 2 + [
        "benchmarks/cuda.py"
    ]
    assert [p[-1] for p in programs if "--suite" in p] == ["ops", "modules"]
    named = {word for p in programs for word in p if "/" in word and not word.startswith(("/", "import"))}
    assert "python/tests" in named and all((ROOT / name).exists() for name in named)
    for script, options in ((programs[-1][0], ["--csv"]), ("tests/conformance/replay_on_device.py", ["--suite"])):
        text = (ROOT / script).read_text()
        assert all(f'"{option}"' in text for option in options)


@pytest.mark.parametrize(
    "fail, stage",
    [
        ("bazel test", "tests"),
        ("--tool racecheck", "sanitizer-racecheck"),
        ("bazel build", "sanitizer-memcheck"),
        ("build_wheel", "wheel"),
        ("python -m pytest", "python"),
        ("--suite ops", "replay-ops"),
        ("--suite modules", "replay-modules"),
        ("benchmarks/cuda.py", "benchmarks"),
        ("setup", "setup"),
    ],
)
def test_each_part_can_fail(checks, fail, stage):
    status, output, _ = checks(fail=fail)
    assert status == 1
    failed = output.splitlines()[-1]
    assert "failed:" in failed and stage in failed.replace(";", "").split()


def test_what_is_missing_is_said(checks):
    status, output, _ = checks("measure")
    assert status == 2 and "there is no stage measure" in output
    status, output, _ = checks("sanitizer", without=["compute-sanitizer"])
    assert status == 1 and "compute-sanitizer is not here" in output
    status, output, calls = checks(without=["nvidia-smi"])
    assert status == 1 and "there is no driver" in output and not calls


def test_a_replay_fails_by_what_only_the_device_gets_wrong(capsys):
    spec = importlib.util.spec_from_file_location("replay_on_device", ROOT / "tests/conformance/replay_on_device.py")
    replay = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(replay)

    def summary(*failures):
        names = ("op", "check", "why", "message")
        return {"failures": [dict(zip(names, failure)) for failure in failures]}

    here = summary(("add", "f32-1:forward", "value", "1 is not 2"))
    refused = ("sum", "f32-2:forward", "raised", "NotImplementedError: sparse tensors on cuda:0 are not supported")
    assert replay.judge(here, summary(("add", "f32-1:forward", "value", "3 is not 2"), refused)) == 0
    assert capsys.readouterr().out == "1 checks fail on the CPU, 1 are refused on the device, 0 fail there\n"
    assert replay.judge(here, summary(("add", "f32-2:forward", "value", "1 is not 2"))) == 1
    assert "add f32-2:forward: value: 1 is not 2" in capsys.readouterr().out
