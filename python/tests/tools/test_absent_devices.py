"""mps, xpu and mtia, which no build knows; what backends and accelerator answer without a device."""

import inspect
import os
import subprocess
import sys

import pytest
import tessera
from tessera import accelerator, backends, mps, mtia, xpu


def test_what_needs_no_device_is_answered():
    assert not mps.is_available() and not xpu.is_available() and not mtia.is_available()
    assert mps.device_count() == xpu.device_count() == mtia.device_count() == 0
    assert xpu.memory_stats() == {} and xpu.memory_allocated("xpu:0") == 0 and mtia.memory_stats() == {}
    assert xpu.memory_stats() is not xpu.memory_stats()
    for module in (mps, xpu, mtia):
        module.manual_seed(3)
    with xpu.device(None), xpu.device(-1), xpu.stream(None), xpu.device_of(tessera.ones(1)), mtia.stream(None):
        pass


@pytest.mark.parametrize(
    "call",
    [
        mps.synchronize,
        xpu.synchronize,
        mtia.init,
        mps.Event,
        lambda: xpu.Stream(priority=1),
        lambda: mtia.set_rng_state_all([tessera.ones(1)]),
        lambda: xpu.device(0).__enter__(),
        lambda: xpu.XPUGraph(),
        backends.mps.get_name,
    ],
)
def test_what_needs_one_says_so(call):
    with pytest.raises(RuntimeError, match=r"knows no \w+ devices.*is_available\(\) first"):
        call()


def test_wrong_arguments_are_wrong_without_a_device():
    with pytest.raises(TypeError, match="unexpected keyword"):
        xpu.synchronize(devce=0)
    with pytest.raises(TypeError, match="too many positional"):
        xpu.is_available(1)
    with pytest.raises(TypeError, match="float"):
        mps.set_per_process_memory_fraction("a")
    with pytest.raises(ValueError, match="0 to 2"):
        mps.set_per_process_memory_fraction(3.0)


def test_signatures_are_shown():
    assert str(inspect.signature(xpu.set_per_process_memory_fraction)) == "(fraction, device=None)"
    assert (
        str(inspect.signature(mtia.Event))
        == "(device=None, *, enable_timing=False, blocking=False, interprocess=False)"
    )
    assert str(inspect.signature(mps.Event.elapsed_time)) == "(self, end_event)"
    assert xpu.init.__module__ == "tessera.xpu" and "raises RuntimeError" in xpu.init.__doc__


@pytest.mark.skipif(accelerator.is_available(), reason="there is a device")
def test_memory_of_no_accelerator():
    assert accelerator.memory_stats() == {} and accelerator.memory_allocated() == 0
    accelerator.empty_cache()
    accelerator.memory.reset_peak_memory_stats()
    for needs_one in (accelerator.get_memory_info, accelerator.get_device_capability):
        with pytest.raises(RuntimeError, match="Cannot access accelerator"):
            needs_one()


def test_preferred_libraries():
    cuda = backends.cuda
    try:
        assert str(cuda.preferred_blas_library("cublaslt")) == "_BlasBackend.Cublaslt"
        assert cuda.preferred_blas_library(cuda.preferred_blas_library("ck")) == cuda.preferred_blas_library()
    finally:
        cuda.preferred_blas_library("default")
    with pytest.raises(RuntimeError, match="Choose from: default, cublas"):
        cuda.preferred_blas_library("lapack")


def test_settings_of_libraries_that_are_not_used():
    assert backends.quantized.engine in backends.quantized.supported_engines
    with pytest.raises(RuntimeError, match="engine"):
        backends.quantized.engine = "fbgemm9"
    with backends.nnpack.flags(enabled=False):
        assert backends.nnpack.set_flags(False) == (False,)
    assert backends.nnpack.enabled is True
    with backends.mkldnn.verbose(backends.mkldnn.VERBOSE_ON_CREATION):
        pass
    with pytest.raises(ValueError, match="level"):
        backends.mkl.verbose(2)
    assert backends.cudnn.rnn.get_cudnn_mode("LSTM") == 2


PRINT = "import os, sys; print(os.environ['OMP_NUM_THREADS'], len(os.sched_getaffinity(0)), sys.argv[1:])"


def run_cpu(tmp_path, *options):
    program = tmp_path / "program.py"
    program.write_text(PRINT)
    return subprocess.run(
        [sys.executable, "-m", "tessera.backends.xeon.run_cpu", *options, str(program), "--epochs", "3"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux")
def test_instances_run_on_cores_of_their_own(tmp_path):
    cores = len(os.sched_getaffinity(0))
    result = run_cpu(tmp_path, "--ncores-per-instance", "1", "--ninstances", "1")
    assert result.stdout.splitlines() == ["1 1 ['--epochs', '3']"], result.stderr
    logs = tmp_path / "logs"
    result = run_cpu(tmp_path, "--ninstances", str(min(cores, 2)), "--use-logical-cores", "--log-path", str(logs))
    assert result.returncode == 0, result.stderr
    assert [len(p.read_text().splitlines()) for p in sorted(logs.iterdir())] == [1] * min(cores, 2)
    result = run_cpu(tmp_path, "--ninstances", str(cores + 1), "--use-logical-cores")
    assert result.returncode == 1 and f"but there are {cores} cores" in result.stderr


def test_kernels_from_text():
    from tessera.cuda import jiterator

    kernel = jiterator._create_jit_fn(
        "template <typename T> T sum(T x, T y, T alpha) { return x + alpha * y; }", alpha=1
    )
    with pytest.raises(KeyError, match="beta"):
        kernel(tessera.ones(2), tessera.ones(2), beta=1)
    with pytest.raises(Exception, match="Couldn't parse"):
        jiterator._create_jit_fn("T sum(T x) { return x; }")
    with pytest.raises(Exception, match="no parameters beta"):
        jiterator._create_jit_fn("template <typename T> T one(T x) { return x; }", beta=2)


def test_tuning_keeps_its_settings():
    from tessera.cuda import tunable

    assert tunable.is_enabled() is False and tunable.tuning_is_enabled() is True and tunable.get_results() == ()
    before = tunable.get_filename()
    try:
        tunable.enable()
        tunable.set_max_tuning_duration(5)
        tunable.set_filename("a.csv")
        assert tunable.is_enabled() and tunable.get_max_tuning_duration() == 5 and tunable.get_filename() == "a.csv"
    finally:
        tunable.enable(False)
        tunable.set_max_tuning_duration(30)
        tunable.set_filename(before)
    with pytest.raises(FileNotFoundError):
        tunable.read_file("no/such/file.csv")
