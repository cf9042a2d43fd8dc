"""What Bazel finds on a machine: C++ needs no Python, the emulated device needs the headers of CUDA alone. Nothing is
compiled here.
"""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def bazel(*arguments):
    return subprocess.run(["bazel", *arguments], cwd=ROOT, capture_output=True, text=True)


def analyzes(target, *flags):
    return bazel("build", "--nobuild", *flags, target)


def test_cpp_programs_need_no_python():
    for python in ("/nonexistent/python", "no_such_python"):
        result = analyzes("//examples/digits:train_static", "--repo_env=TESSERA_PYTHON=" + python)
        assert result.returncode == 0, result.stderr
    result = bazel("build", "--repo_env=TESSERA_PYTHON=/nonexistent/python", "@python//:python_h")
    assert result.returncode == 1
    assert "no interpreter /nonexistent/python; run tools/setup" in result.stderr


def test_an_interpreter_without_headers_is_named(tmp_path):
    exe = tmp_path / "python"
    exe.write_text("#!/bin/sh\necho %s/include\necho .so\n" % tmp_path)
    exe.chmod(0o755)
    (tmp_path / "include").mkdir()
    result = bazel("build", "--repo_env=TESSERA_PYTHON=%s" % exe, "@python//:python_h")
    assert result.returncode == 1
    assert "%s has no Python.h in %s/include" % (exe, tmp_path) in result.stderr


def test_the_emulated_device_needs_headers_alone(tmp_path):
    (tmp_path / "cuda_runtime_api.h").write_text("")
    headers, none = (
        ["--repo_env=CUDA_HOME=none", "--repo_env=TESSERA_CUDA_HEADERS=%s" % tmp_path],
        ["--repo_env=CUDA_HOME=none", "--repo_env=TESSERA_CUDA_HEADERS=none"],
    )
    for target in ("//python:_cuda_emulated", "//tensor/cuda/pointwise:pointwise_test_emulated"):
        assert analyzes(target, *headers).returncode == 0
        result = analyzes(target, *none)
        assert result.returncode == 1 and "incompatible" in result.stderr
    for target in ("//python:_cuda", "//tensor/cuda/pointwise:pointwise_test"):
        result = analyzes(target, *headers)
        assert result.returncode == 1 and "incompatible" in result.stderr
    assert analyzes("//python:_C", *none).returncode == 0


def test_a_named_folder_without_headers_is_an_error(tmp_path):
    result = analyzes(
        "//python:_cuda_emulated", "--repo_env=CUDA_HOME=none", "--repo_env=TESSERA_CUDA_HEADERS=%s" % tmp_path
    )
    assert result.returncode == 1
    assert "has no cuda_runtime_api.h" in result.stderr
