"""Derivatives run on the streams of the forward calls, graphs hold what their copies use, errors say what is wrong."""

import os
import subprocess
import sys

import pytest
import tessera as torch

HAVE_DEVICE = torch.cuda.is_available()
on_device = pytest.mark.skipif(not HAVE_DEVICE, reason="no CUDA device")


class Twice(torch.autograd.Function):
    """Notes the stream that its derivative runs on."""

    seen = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Twice.seen.append(torch.cuda.current_stream())
        return grad * 2


@on_device
def test_derivatives_run_on_the_streams_of_the_forward_calls():
    Twice.seen.clear()
    first, second, callers = (torch.cuda.Stream() for _ in range(3))
    x = torch.ones(8, device="cuda", requires_grad=True)
    with torch.cuda.stream(first):
        y = Twice.apply(x)
    second.wait_stream(first)
    with torch.cuda.stream(second):
        z = Twice.apply(y).sum()
    hooked = []
    y.register_hook(lambda grad: hooked.append(torch.cuda.current_stream()))
    with torch.cuda.stream(callers):
        z.backward()
        assert torch.cuda.current_stream() == callers
        assert x.grad.tolist() == [4.0] * 8
    assert Twice.seen == [second, first] and hooked == [first]


@on_device
def test_the_default_stream_is_one_too():
    Twice.seen.clear()
    x = torch.ones(8, device="cuda", requires_grad=True)
    y = Twice.apply(x)
    with torch.cuda.stream(torch.cuda.Stream()):
        (grad,) = torch.autograd.grad(y.sum(), x)
    assert Twice.seen == [torch.cuda.default_stream()]
    assert grad.tolist() == [2.0] * 8


@on_device
def test_a_captured_backward_joins_all_streams_that_it_ran_on():
    side = torch.cuda.Stream()
    x = torch.ones(8, device="cuda", requires_grad=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = (x * 3).sum()
        (grad,) = torch.autograd.grad(y, x)
    grad.zero_()
    graph.replay()
    assert grad.tolist() == [3.0] * 8


@on_device
def test_copies_of_pageable_memory_are_not_captured():
    x = torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="unless the CPU tensor is pinned"):
        with torch.cuda.graph(graph):
            x.copy_(torch.ones(4), non_blocking=True)
    with pytest.raises(RuntimeError, match="non_blocking=True"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.copy_(torch.ones(4).pin_memory())
    assert x.tolist() == [0] * 4


@on_device
def test_pinned_memory_of_a_captured_copy_stays():
    x = torch.zeros(1000, device="cuda")
    source = torch.full((1000,), 5.0).pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(source, non_blocking=True)
    address = source.data_ptr()
    del source
    others = [torch.zeros(1000).pin_memory() for _ in range(4)]
    assert address not in [t.data_ptr() for t in others]
    graph.replay()
    assert x.tolist() == [5.0] * 1000
    graph.reset()
    assert torch.zeros(1000).pin_memory().data_ptr() == address


@on_device
def test_streams_of_other_devices_may_use_memory():
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    x = torch.ones(1000, device="cuda:0")
    x.record_stream(torch.cuda.Stream(device=1))
    x.record_stream(torch.cuda.default_stream(1))
    address = x.data_ptr()
    del x
    torch.cuda.synchronize()
    assert torch.ones(1000, device="cuda:0").data_ptr() == address


def script(text, **environment):
    child = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def emulation():
    library = os.environ.get("TESSERA_CUDA_LIBRARY") or os.environ.get("TESSERA_TEST_CUDA_LIBRARY")
    if not library or not os.path.exists(library) or "emulated" not in os.path.basename(library):
        pytest.skip("no emulated device: TESSERA_TEST_CUDA_LIBRARY names no file")
    return library


@pytest.mark.parametrize(
    ("variable", "value", "texts"),
    [
        ("CONNECTION", "35", ("error 35,", "driver on your system is too old: it supports CUDA 11.4")),
        ("CONNECTION", "802", ("error 802,", "fabric manager")),
        ("CONNECTION", "999", ("error 999,", "nvidia-smi")),
        ("CAPABILITY", "7.5", ("capability sm_75 is not compatible", "compiled for sm_", 'ARCHITECTURES="7.5"')),
    ],
)
def test_a_machine_whose_devices_do_not_work_says_why(variable, value, texts):
    shown = script(
        """
import warnings
import tessera as t
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert not t.cuda.is_available() and t.cuda.device_count() == 0
    t.cuda.is_available()
print(len(caught), caught[0].message)
for use in (lambda: t.ones(2, device="cuda"), t.cuda.init):
    try:
        use()
    except RuntimeError as e:
        print(e)
""",
        TESSERA_CUDA_LIBRARY=emulation(),
        **{f"TESSERA_EMULATED_{variable}": value},
    )
    lines = shown.splitlines()
    assert len(lines) == 3 and lines[0].startswith("1 ")
    assert all(text in line for line in lines for text in texts)


def test_two_devices():
    shown = script(
        "import pytest, sys; "
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {__file__!r}, '-k', 'test_streams_of_other_devices']))",
        TESSERA_CUDA_LIBRARY=emulation(),
        TESSERA_EMULATED_DEVICES="2",
    )
    assert " passed" in shown and "skipped" not in shown
