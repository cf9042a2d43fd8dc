"""Recordings by steps, and the files of them: traces, stacks, execution traces."""

import gzip
import json
import warnings

import pytest
import tessera
from tessera.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    _ExperimentalConfig,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

NONE, WARMUP, RECORD, SAVE = ProfilerAction


def train(steps, prof, net):
    for _ in range(steps):
        net(tessera.ones(2, 4)).sum().backward()
        prof.step()


@pytest.fixture
def net():
    return tessera.nn.Sequential(tessera.nn.Linear(4, 8), tessera.nn.ReLU(), tessera.nn.Linear(8, 2))


@pytest.mark.parametrize(
    "options, wanted",
    [
        (dict(wait=1, warmup=1, active=2), [NONE, WARMUP, RECORD, SAVE] * 2),
        (dict(wait=0, warmup=1, active=1, repeat=2), [WARMUP, SAVE] * 2 + [NONE] * 4),
        (dict(wait=1, warmup=1, active=1, skip_first=2), [NONE, NONE, NONE, WARMUP, SAVE, NONE, WARMUP, SAVE]),
        (dict(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1), [NONE, WARMUP, SAVE, NONE, NONE, WARMUP]),
    ],
)
def test_plans(options, wanted):
    plan = schedule(**options)
    assert [plan(step) for step in range(len(wanted))] == wanted
    with pytest.raises(AssertionError, match="non-negative"):
        plan(-1)


def test_plans_that_make_no_sense():
    with pytest.raises(AssertionError, match="active=0"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.raises(AssertionError, match="wait=-1"):
        schedule(wait=-1, warmup=1, active=1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=1, warmup=0, active=1)
    with pytest.raises(TypeError, match="schedule must be callable"):
        profile(schedule=3)


def test_each_recording_has_its_steps(net):
    ready = []

    def take(prof):
        ready.append((prof.step_num, sorted({e.trace_name for e in prof.events() if e.name == "ProfilerStep*"})))

    with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=take) as prof:
        train(8, prof, net)
    assert ready == [(4, ["ProfilerStep#2", "ProfilerStep#3"]), (8, ["ProfilerStep#6", "ProfilerStep#7"])]


def test_ready_at_the_end_of_a_block():
    ready = []
    with profile(on_trace_ready=lambda prof: ready.append(prof.events()[0].name)):
        tessera.ones(1).exp()
    assert ready == ["aten::ones"]
    with profile(schedule=lambda step: NONE, on_trace_ready=ready.append) as prof:
        prof.step()
    assert len(ready) == 1


def test_a_plan_that_drops_what_it_recorded():
    plan = lambda step: [RECORD, NONE][step]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with profile(schedule=plan, on_trace_ready=lambda prof: pytest.fail("nothing is complete")) as prof:
            prof.step()
    assert any("Incorrect schedule" in str(w.message) for w in seen)


def test_before_and_without_a_recording(tmp_path):
    prof = profile()
    for call in (prof.events, prof.key_averages, lambda: prof.export_chrome_trace(tmp_path / "t"), prof.stop):
        with pytest.raises(AssertionError, match="Profiler must be initialized"):
            call()
    assert prof.get_trace_id() is None
    by_hand = _KinetoProfile()
    by_hand.start()
    tessera.ones(1).exp()
    assert by_hand.events() == []  # not yet
    by_hand.stop()
    assert "aten::exp" in {event.name for event in by_hand.events()}
    assert tessera.profiler.ProfilerActivity.CPU in supported_activities()


@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_traces(net, tmp_path, ending):
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        prof.add_metadata("who", 'me "and" you')
        prof.add_metadata_json("numbers", "[1, 2]")
        prof.preset_metadata_json("always", '{"x": 1}')
        with pytest.raises(ValueError):
            prof.add_metadata_json("bad", "{")
        net(tessera.ones(2, 4)).sum().backward()
    path = tmp_path / f"trace.{ending}"
    prof.export_chrome_trace(path)
    trace = json.loads(gzip.open(path).read() if ending.endswith("gz") else path.read_text())
    assert trace["who"] == 'me "and" you' and trace["numbers"] == [1, 2] and trace["always"] == {"x": 1}
    assert trace["schemaVersion"] == 1 and trace["trace_id"] == prof.get_trace_id() and trace["with_stack"] == 1
    entries = trace["traceEvents"]
    slices = [e for e in entries if e["ph"] == "X"]
    assert {"cpu_op", "python_function"} <= {e["cat"] for e in slices}
    (first, _) = [e for e in slices if e["name"] == "aten::addmm"]
    assert first["args"]["Input Dims"][:3] == [[8], [2, 4], [4, 8]] and first["args"]["Input type"][0] == "float"
    starts = {e["id"]: e for e in entries if e["ph"] == "s"}
    ends = {e["id"]: e for e in entries if e["ph"] == "f"}
    assert starts and set(starts) == set(ends) and all(starts[i]["ts"] < ends[i]["ts"] for i in starts)
    assert all(starts[i]["ts"] in {e["ts"] for e in slices} for i in starts)
    # Times are after the trace's base: exact to a nanosecond in a reader's floats.
    recorded = prof.profiler._ready().raw
    assert trace["baseTimeNanoseconds"] == recorded["start_ns"]
    assert sorted(round(1000 * e["ts"]) for e in slices) == sorted(
        e[5] - recorded["start_ns"] for e in recorded["events"]
    )
    assert any(e["ph"] == "i" and e["args"]["Bytes"] > 0 for e in entries)
    assert {e["name"] for e in entries if e["ph"] == "M"} >= {"process_name", "thread_name"}


def test_a_trace_agrees_with_the_table(net, tmp_path):
    optimizer = tessera.optim.Adam(net.parameters())
    with profile(record_shapes=True) as prof:
        for _ in range(5):
            net(tessera.ones(16, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    slices = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    counts, totals = {}, {}
    for entry in slices:
        counts[entry["name"]] = counts.get(entry["name"], 0) + 1
        totals[entry["name"]] = totals.get(entry["name"], 0) + entry["dur"]
    averages = prof.key_averages()
    assert len(averages) == len(counts) > 20
    for average in averages:
        assert average.count == counts[average.key]
        assert average.cpu_time_total == pytest.approx(totals[average.key], abs=0.01)
    # Every moment belongs to one event: own times add up to those of the outermost.
    outermost = sum(e.cpu_time_total for e in prof.events() if e.cpu_parent is None)
    assert averages.self_cpu_time_total == pytest.approx(outermost)
    assert prof.key_averages().total_average().count == len(slices)


def test_call_stacks_in_traces(net, tmp_path):
    config = _ExperimentalConfig(verbose=True)
    with profile(with_stack=True, experimental_config=config) as prof:
        net(tessera.ones(2, 4))
    prof.export_chrome_trace(tmp_path / "t.json")
    entries = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    (first, _) = [e for e in entries if e["name"] == "aten::addmm"]
    assert first["args"]["Call stack"].endswith(": forward") and ";\n" in first["args"]["Call stack"]


def test_identities_of_traces():
    with profile(custom_trace_id_callback=lambda: "mine") as prof:
        pass
    assert prof.get_trace_id() == "mine"
    prof.set_custom_trace_id_callback(lambda: "another")
    with prof:
        pass
    assert prof.get_trace_id() == "another"
    with profile() as prof:
        pass
    assert len(prof.get_trace_id()) == 32


def test_traces_in_a_folder(net, tmp_path):
    folder = tmp_path / "new" / "logs"
    for compressed in (False, True):
        handler = tensorboard_trace_handler(str(folder), "worker", use_gzip=compressed)
        with profile(schedule=schedule(wait=0, warmup=1, active=1), on_trace_ready=handler) as prof:
            train(2, prof, net)
    plain, compressed = sorted(folder.iterdir(), key=lambda path: path.name.endswith("gz"))
    assert plain.name.startswith("worker.") and plain.name.endswith(".pt.trace.json")
    assert json.loads(plain.read_text())["traceEvents"] and json.loads(gzip.open(compressed).read())["traceEvents"]
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory"):
        with profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "file" / "x"))):
            pass


def test_stacks_need_stacks(tmp_path):
    with profile() as prof:
        tessera.ones(1).exp()
    with pytest.raises(AssertionError, match="with_stack=True"):
        prof.export_stacks(str(tmp_path / "s"))
    with profile(with_stack=True) as prof:
        tessera.ones(300, 300) @ tessera.ones(300, 300)
    prof.export_stacks(str(tmp_path / "s"))
    lines = (tmp_path / "s").read_text().splitlines()
    assert any("test_stacks_need_stacks" in line and line.split(" ")[0].endswith("aten::mm") for line in lines)
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in lines)


def test_execution_traces(net, tmp_path):
    path = tmp_path / "et.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    assert observer.is_registered and not observer.is_running()
    observer.start()
    assert observer.is_running()
    net(tessera.ones(2, 4)).sum().backward()
    observer.stop()
    graph = json.loads(path.read_text())
    nodes = {node["id"]: node for node in graph["nodes"]}
    (first, _) = [node for node in graph["nodes"] if node["name"] == "aten::addmm"]
    assert first["inputs"]["shapes"][1] == [2, 4] and first["inputs"]["types"][1] == "float"
    assert nodes[first["ctrl_deps"]]["name"] == "aten::linear"
    assert all(node["ctrl_deps"] in nodes for node in graph["nodes"])
    made = next(node for node in graph["nodes"] if node["name"] == "AddmmBackward0")
    attributes = {a["name"]: a["value"] for a in made["attrs"]}
    assert nodes[attributes["fw_parent"]]["name"] == "aten::addmm"
    folder = observer.get_resources_dir(can_create=True)
    assert folder == str(tmp_path / "et_resources") and observer.get_resources_dir() == folder
    observer.unregister_callback()
    assert not observer.is_registered and observer.get_output_file_path() is None


def test_execution_traces_of_profilers(tmp_path, monkeypatch):
    observer = ExecutionTraceObserver()
    with pytest.raises(RuntimeError, match="register_callback"):
        with profile(execution_trace_observer=observer):
            pass
    observer.register_callback(str(tmp_path / "et.json"))
    with profile(execution_trace_observer=observer):
        tessera.ones(3).exp()
    names = {node["name"] for node in json.loads((tmp_path / "et.json").read_text())["nodes"]}
    assert "aten::exp" in names
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = ExecutionTraceObserver.build_execution_trace_obs_from_env()
    assert made.is_registered and made.get_output_file_path().startswith(str(tmp_path))


def test_traces_of_throughput(net, tmp_path):
    benchmark = tessera.utils.ThroughputBenchmark(net)
    benchmark.add_input(tessera.ones(2, 4))
    benchmark.benchmark(
        num_calling_threads=2, num_warmup_iters=1, num_iters=10, profiler_output_path=str(tmp_path / "t")
    )
    entries = json.loads((tmp_path / "t").read_text())["traceEvents"]
    products = [e for e in entries if e["name"] == "aten::addmm"]
    assert len(products) == 20 and len({e["tid"] for e in products}) <= 2
