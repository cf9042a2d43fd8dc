"""What devices do: kernels and copies joined to the operators that asked for them, in averages, traces and pages.

On machines without a GPU the tests run in a child on the emulated device, whose CUPTI is a stand-in.
"""

import json
import os
import subprocess
import sys
import warnings

import pytest
import tessera
from tessera.autograd.profiler_util import DeviceType
from tessera.profiler import ProfilerActivity, profile, record_function, supported_activities
from tessera.profiler._kinds import _ExperimentalConfig
from tessera.profiler._page import timeline_data

HAVE_DEVICE = tessera.cuda.is_available()
on_device = pytest.mark.skipif(not HAVE_DEVICE, reason="no CUDA device")
EMULATED = HAVE_DEVICE and tessera.cuda.get_device_name() == "Emulated Device"
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


def child(arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_on_the_emulated_device():
    library = os.environ.get("TESSERA_TEST_CUDA_LIBRARY")
    if HAVE_DEVICE:
        pytest.skip("the tests of this file run on a device already")
    if not library or not os.path.exists(library):
        pytest.skip("no emulated device: TESSERA_TEST_CUDA_LIBRARY names no file")
    done = child(["-m", "pytest", "-q", "-p", "no:cacheprovider", __file__], TESSERA_CUDA_LIBRARY=library)
    print(done.stdout[-4000:])
    assert done.returncode == 0 and " passed" in done.stdout


@pytest.fixture(scope="module")
def step():
    net = tessera.nn.Sequential(tessera.nn.Linear(4, 8), tessera.nn.ReLU(), tessera.nn.Linear(8, 2)).to("cuda")
    x = tessera.ones(16, 4)
    with profile(activities=BOTH) as prof:
        with record_function("training"):
            net(x.to("cuda")).sum().backward()
            tessera.zeros(3, device="cuda")
    return prof


@on_device
def test_activities_and_averages(step):
    assert supported_activities() == set(BOTH)
    averages = {a.key: a for a in step.key_averages()}
    kernels = [e for e in step.events() if e.device_type == DeviceType.CUDA]
    assert len(kernels) > 5 and all(e.device_index == 0 and e.self_cpu_time_total == 0 for e in kernels)
    on_device = sum(e.self_device_time_total for e in kernels)
    by_operators = sum(a.self_device_time_total for a in averages.values() if a.device_type == DeviceType.CPU)
    assert on_device == pytest.approx(by_operators) and on_device > 0
    # All was asked for inside of the annotation.
    assert averages["training"].device_time_total == pytest.approx(on_device)
    assert averages["training"].self_device_time_total == 0
    product = averages["aten::addmm"]
    assert product.count == 2 and product.device_time_total > 0
    assert averages["aten::relu"].self_device_time_total > 0
    (copy,) = (e for e in kernels if e.name.startswith("Memcpy HtoD"))
    assert copy.time_range.elapsed_us() > 0
    text = step.key_averages().table(sort_by="self_cuda_time_total")
    assert "Self CUDA" in text and "CUDA total" in text and "Self CUDA time total" in text


@on_device
def test_calls_are_inside_of_their_operators(step):
    calls = [e for e in step.events() if e.name == "cudaLaunchKernel"]
    assert calls
    for call in calls:
        assert call.device_type == DeviceType.CPU and call.cpu_parent.name.startswith(("aten::", "autograd::", "train"))
        assert call.cpu_parent.time_range.start <= call.time_range.start + 20
    relu = next(e for e in step.events() if e.name == "aten::relu")
    assert [k.name for k in relu.kernels] and relu.kernels[0].device == 0
    assert relu.self_cpu_time_total == pytest.approx(
        relu.cpu_time_total - sum(c.cpu_time_total for c in relu.cpu_children)
    )


@on_device
def test_traces_have_rows_of_streams_and_arrows(step, tmp_path):
    step.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    work = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    assert {e["pid"] for e in work} == {0} and any(
        e["ph"] == "M" and e["args"].get("labels") == "GPU 0" for e in events
    )
    starts = {e["id"]: e for e in events if e.get("cat") == "ac2g" and e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e.get("cat") == "ac2g" and e["ph"] == "f"}
    for e in work:
        number = e["args"]["correlation"]
        assert (starts[number]["tid"], starts[number]["ts"]) == (calls[number]["tid"], calls[number]["ts"])
        assert (ends[number]["pid"], ends[number]["tid"]) == (e["pid"], e["tid"])
        owner = next(o for o in events if o.get("args", {}).get("External id") == e["args"]["External id"])
        assert owner["ts"] <= calls[number]["ts"] + 20
    kernel = next(e for e in work if e["cat"] == "kernel")
    assert kernel["args"]["stream"] == kernel["tid"] and len(kernel["args"]["grid"]) == 3
    copy = next(e for e in work if e["cat"] == "gpu_memcpy")
    assert copy["args"]["bytes"] == 16 * 4 * 4
    total = sum(round(1000 * e["dur"]) for e in work)
    expected = sum(e.device_time_total for e in step.events() if e.device_type == DeviceType.CUDA)
    assert total == pytest.approx(1000 * expected, abs=len(work))
    assert trace["deviceProperties"][0]["name"] == tessera.cuda.get_device_name()


@on_device
def test_pages_have_rows_of_streams(step):
    data = timeline_data(step.profiler._ready(), False)
    rows = [row for row in data["threads"] if row.get("device")]
    assert rows and rows[0]["name"].startswith("GPU 0 stream")
    named = [(data["names"][e[0]], e[4]) for row in data["threads"] for e in row["events"] if not row.get("device")]
    assert any(name == "aten::relu" and more["device"] > 0 for name, more in named)
    assert any(name == "cudaLaunchKernel" for name, _ in named)


@on_device
def test_without_owners_the_times_of_calls_decide():
    x = tessera.ones(100, device="cuda")
    config = _ExperimentalConfig(disable_external_correlation=True)
    with profile(activities=BOTH, experimental_config=config) as prof:
        x.exp()
        x.sin()
    averages = {a.key: a for a in prof.key_averages()}
    assert averages["aten::exp"].self_device_time_total > 0 and averages["aten::sin"].self_device_time_total > 0


@on_device
def test_devices_are_recorded_only_if_asked_for():
    x = tessera.ones(100, device="cuda")
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        x.exp()
    assert prof.use_device is None and not prof.profiler._ready().raw["device"]
    with tessera.autograd.profiler.profile(use_device="cuda") as older:
        x.exp()
    assert any(e.device_type == DeviceType.CUDA for e in older.function_events)
    with profile(activities=[ProfilerActivity.CUDA]) as alone:
        x.exp()
    assert {e.name for e in alone.events() if e.device_type == DeviceType.CPU} <= {"cudaLaunchKernel", "cudaMalloc"}
    assert any(e.device_type == DeviceType.CUDA for e in alone.events())


@pytest.mark.skipif(not EMULATED, reason="needs the stand-in of CUPTI")
@pytest.mark.parametrize(("wish", "said"), [("none", "nvidia-cuda-cupti"), ("refused", "INSUFFICIENT_PRIVILEGES")])
def test_one_warning_says_why_devices_are_not_recorded(wish, said):
    done = child(
        ["-c", "import test_devices; test_devices.record_twice()"],
        TESSERA_EMULATED_CUPTI=wish,
        PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    )
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if "does not record" in line]
    assert len(lines) == 1 and said in lines[0]


def record_twice():
    """For the child of the test above."""
    warnings.simplefilter("always")
    for _ in range(2):
        with profile() as prof:
            tessera.ones(2, device="cuda").exp()
        averages = {a.key: a for a in prof.key_averages()}
        assert averages["aten::exp"].count == 1 and averages["aten::exp"].device_time_total == 0
