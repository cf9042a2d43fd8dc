"""Ranges for other profilers: NVTX and ITT, with recording doubles in the place of their libraries."""

import pytest
import tessera
from tessera.autograd.profiler import emit_itt, emit_nvtx, profile, record_function
from tessera.cuda import nvtx
from tessera.profiler import itt


class Double:
    def __init__(self):
        self.seen = []

    def push(self, name):
        self.seen.append(name)

    def pop(self):
        self.seen.append("/")

    def mark(self, name):
        self.seen.append(f"!{name}")


@pytest.fixture
def collector(monkeypatch):
    double = Double()
    monkeypatch.setattr(itt, "_collector", lambda: double)
    return double


@pytest.fixture
def nvidia(monkeypatch):
    double = Double()
    monkeypatch.setattr(nvtx, "_functions", lambda: None)
    monkeypatch.setattr(nvtx, "range_push", double.push)
    monkeypatch.setattr(nvtx, "range_pop", double.pop)
    return double


def test_operators_and_nodes_are_ranges(nvidia):
    x = tessera.ones(2, 3, requires_grad=True)
    with emit_nvtx(record_shapes=True):
        y = x * x
        with record_function("mine"):
            y.sum().backward()
    x * x
    seen = nvidia.seen
    assert seen.count("/") * 2 == len(seen)
    number = y.grad_fn._sequence_nr() if hasattr(y.grad_fn, "_sequence_nr") else None
    (made,) = [name for name in seen if name.startswith("aten::mul, seq") and "[[2, 3], [2, 3]]" in name][:1]
    (node,) = [name for name in seen if name.startswith("MulBackward0")]
    sequence = made.split("seq = ")[1].split(",")[0]
    assert node == f"MulBackward0, seq = {sequence}" and number in (None, int(sequence))
    assert "mine" in seen and seen.index("mine") < seen.index(node)


def test_ranges_beside_a_recording(collector):
    with profile() as prof, emit_itt():
        tessera.ones(2).exp()
    assert [name for name in collector.seen if name != "/"] == [event.name for event in prof.function_events]


def test_one_emitter_at_a_time(collector):
    with emit_itt() as ranges:
        with pytest.raises(RuntimeError, match="not reentrant"):
            ranges.__enter__()
        with pytest.raises(RuntimeError, match="emitted already"):
            emit_itt().__enter__()
        tessera.ones(2)
    assert collector.seen
    with emit_itt(enabled=False) as ranges:
        assert ranges is None


def test_an_error_ends_its_range(collector):
    with emit_itt():
        with pytest.raises(RuntimeError):
            tessera.ones(2).mm(tessera.ones(2))
    assert collector.seen.count("/") * 2 == len(collector.seen)


def test_marks_and_ranges_of_itt(collector):
    with itt.range("step {}", 5):
        itt.mark("here")
    assert collector.seen == ["step 5", "!here", "/"]


def test_without_a_collector(monkeypatch):
    monkeypatch.delenv("INTEL_LIBITTNOTIFY64", raising=False)
    itt._collector.cache_clear()
    assert itt.is_available()
    itt.range_push("nobody listens")
    itt.mark("here")
    itt.range_pop()
    monkeypatch.setenv("INTEL_LIBITTNOTIFY64", "/nonexistent/collector.so")
    itt._collector.cache_clear()
    with pytest.raises(RuntimeError, match="not a collector"):
        itt.range_push("x")
    itt._collector.cache_clear()


@pytest.mark.skipif(tessera.cuda.is_available(), reason="the CUDA library is there")
def test_nvtx_needs_the_library():
    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        with emit_nvtx():
            tessera.ones(1).exp()
