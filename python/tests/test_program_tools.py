"""What programs use besides tensors: futures, monitor, logging, hub, configuration, module tracking."""

import datetime
import io
import logging
import subprocess
import sys
import threading
import zipfile

import pytest
import tessera as torch
from tessera import _logging, futures, hub, monitor
from tessera.utils.module_tracker import ModuleTracker

# --- Futures


def test_a_future_wakes_all_who_wait():
    future, seen = futures.Future(), []
    threads = [threading.Thread(target=lambda: seen.append(future.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    future.set_result("x")
    for thread in threads:
        thread.join()
    assert seen == ["x"] * 4


def test_callbacks_run_once_in_order():
    future, seen = futures.Future(), []
    for i in range(3):
        future.add_done_callback(lambda f, i=i: seen.append((i, f.value())))
    future.set_result(1)
    assert seen == [(0, 1), (1, 1), (2, 1)]
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(2)
    assert len(seen) == 3 and future.value() == 1


def test_failing_callbacks_are_logged(caplog):
    future = futures.Future()
    future.add_done_callback(lambda f: 1 / 0)
    with caplog.at_level(logging.ERROR):
        future.set_result(1)
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_of_then_fails_the_future_that_follows():
    future = futures.Future()
    following = future.then(lambda f: f.value() / 0)
    future.set_result(1)
    with pytest.raises(RuntimeError, match="running the callback: ZeroDivisionError: division by zero"):
        following.wait()


def test_all_of_no_futures_are_there():
    assert futures.wait_all([]) == []


def test_the_first_failure_completes_all():
    first, second = futures.Future(), futures.Future()
    together = futures.collect_all([first, second])
    first.set_exception(KeyError("k"))
    assert together.done() and not second.done()
    for wait in (together.wait, lambda: futures.wait_all([first, second])):
        with pytest.raises(KeyError):
            wait()
    second.set_result(3)


def test_futures_of_devices_need_streams():
    with pytest.raises(ValueError, match="cpu"):
        futures.Future(devices=["cpu"])


# --- Monitor


@pytest.fixture
def events():
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_a_full_window_drops_values_until_its_time_is_over(events):
    stat = monitor.Stat("s", [monitor.MEAN, monitor.VALUE], datetime.timedelta(hours=10000), 2)
    for value in (1, 3, 100):
        stat.add(value)
    assert [e.data for e in events] == [{"s.mean": 2.0, "s.value": 3.0}] and stat.count == 0
    assert stat.get() == {monitor.MEAN: 2.0, monitor.VALUE: 3.0}


def test_what_is_left_is_logged_at_the_end(events):
    stat = monitor.Stat("left", [monitor.SUM, monitor.COUNT], datetime.timedelta(hours=1))
    assert stat.get() == {monitor.SUM: 0.0, monitor.COUNT: 0.0}
    stat.add(2)
    stat.add(3)
    del stat
    assert [e.data for e in events] == [{"left.sum": 5.0, "left.count": 2.0}]


def test_windows_end_with_time(events):
    stat = monitor.Stat("s", [monitor.COUNT], datetime.timedelta(microseconds=1))
    stat.add(1)
    while not events:
        stat.add(1)
    assert events[0].data["s.count"] >= 1


@pytest.mark.parametrize(
    "arguments", [(1, datetime.datetime.now(), {}), ("n", 0.5, {}), ("n", datetime.datetime.now(), {"k": [1]})]
)
def test_events_check_their_types(arguments):
    with pytest.raises(TypeError, match="expected"):
        monitor.Event(*arguments)


def test_stats_as_scalars_of_a_writer():
    class Writer:
        def add_scalar(self, name, value, walltime):
            written.append((name, value, walltime > 0))

    written = []
    handle = monitor.register_event_handler(monitor.TensorboardEventHandler(Writer()))
    monitor.Stat("s", [monitor.SUM], datetime.timedelta(hours=10000), 1).add(2.0)
    monitor.log_event(monitor.Event("other", datetime.datetime.now(), {}))
    monitor.unregister_event_handler(handle)
    assert written == [("s.sum", 2.0, True)]


# --- Logging


@pytest.fixture
def defaults(monkeypatch):
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    yield
    _logging.set_logs()


def test_levels_are_set_and_taken_back(defaults):
    logger = logging.getLogger("tessera._dynamo")
    _logging.set_logs(dynamo=logging.DEBUG, modules={"my.logger": logging.INFO})
    assert logger.level == logging.DEBUG and logging.getLogger("my.logger").level == logging.INFO
    _logging.set_logs()
    assert logger.level == logging.NOTSET and logging.getLogger("my.logger").level == logging.NOTSET


def test_artifacts_are_silent_until_asked_for(defaults, caplog):
    logger = _logging.getArtifactLogger("tessera.x", "graph_breaks")
    logger.info("unseen")
    _logging.set_logs(graph_breaks=True)
    logger.info("seen")
    assert "unseen" not in caplog.text and "seen" in caplog.text


def test_bad_settings_change_nothing(defaults):
    _logging.set_logs(aot=logging.INFO)
    for error, options in ((TypeError, {"nothing": 1}), (ValueError, {"aot": "loud"}), (ValueError, {"graph": "yes"})):
        with pytest.raises(error):
            _logging.set_logs(dynamo=logging.DEBUG, **options)
    assert logging.getLogger("tessera._functorch").level == logging.INFO
    assert logging.getLogger("tessera._dynamo").level == logging.NOTSET


def in_a_process(program, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def test_the_environment_sets_levels():
    program = "import tessera._logging, logging; print(logging.getLogger('tessera._dynamo').level)"
    assert in_a_process(program, TORCH_LOGS="+dynamo,graph_breaks").stdout == "10\n"
    wrong = in_a_process(program, TORCH_LOGS="+dinamo")
    assert wrong.returncode == 1 and "unknown name 'dinamo'" in wrong.stderr


def test_structured_traces(tmp_path):
    program = """if True:
        from tessera import _logging
        _logging.trace_structured("step", lambda: {"n": 1}, payload_fn=lambda: "a\\nb")
        _logging.dtrace_structured("detail")
        assert _logging.get_structured_logging_overhead() > 0
    """
    assert in_a_process(program, TORCH_TRACE=str(tmp_path)).returncode == 0
    (file,) = tmp_path.iterdir()
    head, *payload = file.read_text().splitlines()
    assert '"step": {"n": 1}' in head and payload == ["\ta", "\tb"]


def test_warnings_once_and_hidden(caplog, recwarn):
    logger = logging.getLogger("tessera.test")
    for _ in range(3):
        _logging.warning_once(logger, "only once %s", 1)
    assert caplog.text.count("only once") == 1
    assert str(_logging.LazyString("{}{}".format, 1, 2)) == "12"


# --- Hub


def test_hub_runs_a_folder_and_its_neighbours(tmp_path):
    (tmp_path / "neighbour.py").write_text("value = 4\n")
    (tmp_path / "hubconf.py").write_text(
        "def model(x=1):\n    import neighbour\n    return x\nfrom neighbour import value\n"
    )
    assert hub.load(str(tmp_path), "model", source="local", x=7) == 7
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("text", ["name", "a/b/c", "/b", "a/"])
def test_hub_repositories_have_an_owner_and_a_name(text):
    with pytest.raises(ValueError, match="owner/name"):
        hub.load(text, "model")


def test_hub_asks_for_trust(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_folder", str(tmp_path))
    repository = tmp_path / "somebody_models_main"
    repository.mkdir()
    (repository / "hubconf.py").write_text("def model():\n    'A model.'\n    return 1\n")
    monkeypatch.setattr("builtins.input", lambda text: "n")
    with pytest.raises(Exception, match="Untrusted"):
        hub.load("somebody/models:main", "model", verbose=False)
    with pytest.warns(UserWarning, match="trusted"):
        assert hub.load("somebody/models:main", "model", verbose=False, trust_repo=None) == 1
    assert hub.load("somebody/models:main", "model", verbose=False, trust_repo=True) == 1
    assert hub.load("somebody/models:main", "model", verbose=False) == 1  # remembered
    assert hub.list("somebody/models:main", verbose=False) == ["model"]
    assert hub.help("somebody/models:main", "model") == "A model."


def test_hub_downloads_all_or_nothing(tmp_path):
    (tmp_path / "x-2cf24dba.bin").write_bytes(b"hello")
    address = (tmp_path / "x-2cf24dba.bin").as_uri()
    (tmp_path / "to").mkdir()
    with pytest.raises(RuntimeError, match="invalid hash"):
        hub.download_url_to_file(address, str(tmp_path / "to" / "y"), hash_prefix="00", progress=False)
    assert list((tmp_path / "to").iterdir()) == []


def test_hub_reads_checkpoints_in_zip_files_and_checks_names(tmp_path):
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(1)}, buffer)
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.writestr("inner.pt", buffer.getvalue())
    found = hub.load_state_dict_from_url((tmp_path / "outer.zip").as_uri(), str(tmp_path / "cache"), progress=False)
    assert found["w"].item() == 1
    (tmp_path / "model-00000000.pt").write_bytes(buffer.getvalue())
    with pytest.raises(RuntimeError, match="invalid hash"):
        hub.load_state_dict_from_url(
            (tmp_path / "model-00000000.pt").as_uri(), str(tmp_path / "cache"), progress=False, check_hash=True
        )


# --- The rest


def test_configuration_as_text():
    shown = torch.__config__.show()
    assert "GCC" in shown and "SIMD target" in shown
    assert f"get_num_threads): {torch.get_num_threads()}" in torch.__config__.parallel_info()


def test_modules_at_work_forward_and_backward():
    seen = []

    class Leaf(torch.nn.Module):
        def forward(self, x):
            seen.append(("forward", tracker.is_bw, sorted(tracker.parents)))
            x = x * 2
            x.register_hook(lambda g: seen.append(("backward", tracker.is_bw, sorted(tracker.parents))))
            return x + 1

    net = torch.nn.Sequential(torch.nn.Sequential(Leaf()), torch.nn.Linear(1, 1))
    with ModuleTracker() as tracker:
        net(torch.ones(1, 1, requires_grad=True)).sum().backward()
        after = set(tracker.parents)
    inner = ["Global", "Sequential", "Sequential.0", "Sequential.0.0"]
    assert seen == [("forward", False, inner), ("backward", True, inner)] and after == {"Global"}


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield torch.utils.deterministic
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


MAKERS = {
    "empty": lambda t: torch.empty(3, dtype=t),
    "empty_strided": lambda t: torch.empty_strided((2, 3), (3, 1), dtype=t),
    "empty_like": lambda t: torch.empty_like(torch.zeros(4, dtype=t)),
    "empty_permuted": lambda t: torch.empty_permuted((2, 3), (1, 0), dtype=t),
    "new_empty": lambda t: torch.zeros(1, dtype=t).new_empty(3),
    "new_empty_strided": lambda t: torch.zeros(1, dtype=t).new_empty_strided((2, 2), (2, 1)),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_uninitialized_memory_is_filled(deterministic, maker):
    assert maker(torch.float32).isnan().all() and maker(torch.bfloat16).isnan().all()
    assert maker(torch.complex64).real.isnan().all() and maker(torch.bool).all()
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint64):
        assert set(maker(dtype).flatten().tolist()) == {torch.iinfo(dtype).max}, dtype
    deterministic.fill_uninitialized_memory = False
    zeros = torch.zeros(3)
    del zeros
    assert not maker(torch.int64).eq(torch.iinfo(torch.int64).max).all()


def test_memory_that_resize_adds_is_filled(deterministic):
    grown = torch.ones(2).resize_(2, 2)
    assert grown[0].tolist() == [1, 1] and grown[1].isnan().all()
    assert torch.ones(3, dtype=torch.int16).resize_(4).tolist() == [1, 1, 1, 32767]
    assert torch.ones(4).resize_(2).resize_(4).tolist() == [1, 1, 1, 1]


def test_the_switch_is_a_bool(deterministic):
    with pytest.raises(RuntimeError, match="bool"):
        deterministic.fill_uninitialized_memory = 1


def test_a_backtrace_of_cpp():
    lines = torch.utils.get_cpp_backtrace(maximum_number_of_frames=3).splitlines()
    assert len(lines) == 3 and all(line.startswith(f"frame #{i}: ") for i, line in enumerate(lines))


# --- Weak references, batons, throughput


def test_dictionaries_by_identity():
    from tessera.utils.weak import TensorWeakRef, WeakIdKeyDictionary

    a, b = torch.ones(2), torch.ones(2)
    d = WeakIdKeyDictionary({a: 1})
    d[b] = 2
    assert d[a] == 1 and d[b] == 2 and len(d) == 2 and a in d and torch.ones(2) not in d and 3 not in d
    assert [k is a for k in d] == [True, False] and (d | {}).copy() == d and dict(d.items())[b] == 2
    reference = TensorWeakRef(b)
    assert reference() is b
    keys = iter(d)
    assert next(keys) is a
    del b
    assert list(keys) == []  # went meanwhile
    assert list(d.values()) == [1] and reference() is None


def test_a_baton_has_one_holder(tmp_path):
    from tessera.utils.file_baton import FileBaton

    path = str(tmp_path / "lock")
    first, second = FileBaton(path, 0.01), FileBaton(path, 0.01, warn_after_seconds=0.02)
    assert first.try_acquire() and not second.try_acquire()
    timer = threading.Timer(0.2, first.release)
    timer.start()
    with pytest.warns(UserWarning, match="lock"):
        second.wait()
    timer.join()
    assert second.try_acquire()
    second.release()


def test_throughput_of_threads():
    bench = torch.utils.ThroughputBenchmark(torch.nn.Linear(2, 3))
    with pytest.raises(RuntimeError, match="inputs"):
        bench.benchmark()
    bench.add_input(torch.ones(1, 2))
    assert bench.run_once(torch.ones(1, 2)).shape == (1, 3)
    stats = bench.benchmark(num_calling_threads=2, num_warmup_iters=1, num_iters=20)
    assert stats.num_iters == 20 and stats.iters_per_second > 0 and "Total time" in str(stats)
    bench.add_input(torch.ones(1, 5))
    with pytest.raises(RuntimeError):
        bench.benchmark(num_iters=20)


def test_warnings_alone_are_remembered_with_the_mode_off():
    torch.use_deterministic_algorithms(False, warn_only=True)
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.are_deterministic_algorithms_enabled() and torch.get_deterministic_debug_mode() == 0
    torch.use_deterministic_algorithms(False)
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
