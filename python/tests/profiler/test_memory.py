"""Counters of CPU memory, timelines of memory, pages of snapshots."""

import gzip
import json

import pytest
import tessera
from tessera.profiler import _memory, profile


def test_counters_follow_tensors():
    before = tessera.cpu.memory_stats()
    x = tessera.ones(1 << 20)
    now = tessera.cpu.memory_stats()
    assert now["requested_bytes.all.current"] - before["requested_bytes.all.current"] == 4 << 20
    assert now["allocation.all.allocated"] > before["allocation.all.allocated"]
    assert tessera.cpu.max_memory_allocated() >= tessera.cpu.memory_allocated() >= 4 << 20
    del x
    assert tessera.cpu.memory_allocated() <= now["allocated_bytes.all.current"] - (4 << 20)
    assert tessera.cpu.max_memory_allocated() >= now["allocated_bytes.all.current"]
    tessera.cpu.reset_peak_memory_stats()
    assert tessera.cpu.max_memory_allocated() < now["allocated_bytes.all.current"]
    tessera.cpu.reset_accumulated_memory_stats()
    assert tessera.cpu.memory_stats()["allocation.all.freed"] == 0
    tessera.cpu.empty_cache()
    assert tessera.cpu.memory_cached() == 0


def test_failures_are_counted():
    before = tessera.cpu.memory_stats()["num_ooms"]
    with pytest.raises(RuntimeError, match="not enough memory"):
        tessera.empty(1 << 58)
    assert tessera.cpu.memory_stats()["num_ooms"] == before + 1


@pytest.fixture
def training():
    net = tessera.nn.Linear(64, 64)
    optimizer = tessera.optim.Adam(net.parameters())
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        x = tessera.ones(8, 64)
        net(x).relu().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return prof


def test_what_memory_is_for(training):
    blocks = _memory.blocks_of(training.profiler._ready().raw)
    sizes = {}
    for _, _, nbytes, category, *_ in blocks:
        sizes.setdefault(_memory._CATEGORIES[category], []).append(nbytes)
    assert 64 * 64 * 4 in sizes["gradient"] and sizes["optimizer state"].count(64 * 64 * 4) >= 2
    assert 8 * 64 * 4 in sizes["activation"]
    added = training.key_averages()
    assert any(e.key == "Optimizer.step#Adam.step" and e.cpu_memory_usage >= 2 * 64 * 64 * 4 for e in added)


def test_timelines_of_memory(training, tmp_path):
    training.export_memory_timeline(str(tmp_path / "m.json"))
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    assert len(times) == len(sizes) > 10 and times == sorted(times)
    training.export_memory_timeline(str(tmp_path / "m.raw.json.gz"), "cpu")
    raw = json.loads(gzip.open(tmp_path / "m.raw.json.gz").read())
    assert {"CREATE", "DESTROY"} <= {action for _, action, _, _ in raw}
    assert sum(n if action == "CREATE" else -n for _, action, n, _ in raw if action != "PREEXISTING") == sum(
        sizes[-1]
    ) - sum(n for _, action, n, _ in raw if action == "PREEXISTING")
    training.export_memory_timeline(str(tmp_path / "m.html"))
    assert "gradient" in (tmp_path / "m.html").read_text()
    with pytest.raises(ValueError, match="device"):
        training.export_memory_timeline(str(tmp_path / "m.json"), "cuda:0")


def test_timelines_need_what_they_are_made_of(tmp_path):
    with profile(profile_memory=True) as prof:
        tessera.ones(1)
    with pytest.raises(ValueError, match="required for memory profiling"):
        prof.export_memory_timeline(str(tmp_path / "m.html"))
