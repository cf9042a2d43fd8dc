"""Events, averages and tables by themselves; steps; files of nvprof."""

import contextlib
import sqlite3

import pytest
from tessera.autograd import profiler, profiler_util
from tessera.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg, Interval, Kernel
from tessera.profiler import DeviceType


def event(number, name, start, end, **more):
    return FunctionEvent(number, name, 1, start, end, input_shapes=[], stack=[], **more)


@pytest.fixture
def events():
    found = EventList(
        [
            event(1, "outer", 0, 10, cpu_memory_usage=5),
            event(2, "inner", 2, 5, cpu_memory_usage=7, flops=1500),
            event(3, "inner", 6, 7, flops=500),
            event(4, "alone", 12, 13),
        ],
        profile_memory=True,
        with_flops=True,
    )
    found._build_tree()
    return found


def test_a_tree_from_times(events):
    outer, first, second, alone = events
    assert first.cpu_parent is outer and second.cpu_parent is outer and alone.cpu_parent is None
    assert outer.self_cpu_time_total == 6 and outer.cpu_time_total == 10 and outer.cpu_time == 10
    assert outer.self_cpu_memory_usage == -2
    assert events.self_cpu_time_total == 11


def test_averages(events):
    found = {average.key: average for average in events.key_averages()}
    inner = found["inner"]
    assert (inner.count, inner.cpu_time_total, inner.cpu_time, inner.flops) == (2, 4, 2, 2000)
    assert inner.cpu_time_str == "2.000us" and inner.cpu_memory_usage == 7
    total = events.total_average()
    assert (total.key, total.count, total.self_cpu_time_total) == ("Total", 4, 11)
    assert "key=inner" in repr(inner) and "name=outer" in repr(events[0])
    with pytest.raises(AssertionError, match="cannot take"):
        inner.add(found["outer"])
    with pytest.raises(AssertionError, match="tree to be built"):
        EventList(events).key_averages()


def test_a_table(events):
    table = events.key_averages().table(sort_by="self_cpu_time_total", row_limit=2, header="Mine")
    lines = table.splitlines()
    assert lines[1] == "Mine" and "# of Calls" in lines[3] and "Total KFLOPs" in lines[3]
    assert lines[5].split()[0] == "outer" and lines[6].split()[0] == "inner" and "alone" not in table
    assert lines[6].split()[1] == "36.36%" and lines[6].split()[-1] == "2.000"
    assert lines[-1] == "Self CPU time total: 11.000us"
    assert "0.011ms" in events.table(time_unit="ms")
    assert "inner" not in events.table(top_level_events_only=True)
    assert "ou..." in EventList([event(1, "outermost", 0, 1)]).table(max_name_column_width=5)
    assert EventList().table() == ""
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        events.table(sort_by="colour")
    with pytest.raises(ValueError, match="time_unit"):
        events.table(time_unit="weeks")


def test_devices_have_columns_and_kernels():
    launch = event(1, "aten::mm", 0, 4, use_device="cuda")
    launch.append_kernel("gemm", 0, 9)
    work = event(2, "gemm", 5, 14, use_device="cuda", device_type=DeviceType.CUDA)
    assert launch.kernels == [Kernel("gemm", 0, 9)] and launch.device_time_total == 9
    assert work.cpu_time_total == 0 and work.self_cuda_time_total == 9
    table = EventList([launch], use_device="cuda").table(sort_by="cuda_time_total")
    assert "CUDA total" in table and "Self CUDA time total: 9.000us" in table
    with pytest.raises(AssertionError, match="CPU"):
        work.append_kernel("x", 0, 1)
    with pytest.raises(AssertionError, match="CPU"):
        launch.append_cpu_child(work)


@pytest.mark.parametrize(
    "text, wanted",
    [
        (profiler_util._format_time(12.3), "12.300us"),
        (profiler_util._format_time(2345.1), "2.345ms"),
        (profiler_util._format_time(1234567.8), "1.235s"),
        (profiler_util._format_memory(3), "3 B"),
        (profiler_util._format_memory(2048), "2.00 KB"),
        (profiler_util._format_memory(-5 * 1024 * 1024), "-5.00 MB"),
        (profiler_util._format_memory(2**31), "2.00 GB"),
    ],
)
def test_texts_of_numbers(text, wanted):
    assert text == wanted


def test_small_helpers():
    assert Interval(2, 9).elapsed_us() == 7
    names = profiler_util.StringTable()
    assert names["_ZN3foo3barEv"] == "foo::bar()" and names["plain"] == "plain" and names["t"] == "t"
    assert set(names) == {"_ZN3foo3barEv", "plain", "t"}
    assert FunctionEventAvg().count == 0

    class Record:
        def __init__(self, time):
            self.time = time

        def start_ns(self):
            return self.time

    records = [(Record(t), [False]) for t in (30, 10, 20)]
    assert [r.time for r, _ in profiler_util.MemRecordsAcc(records).in_interval(10, 25)] == [10, 20]


def test_stacks_as_lines(events, tmp_path):
    events[1].stack = ["b.py(2): g", "a.py(1): f"]
    events.export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert (tmp_path / "stacks").read_text() == "a.py(1):_f;b.py(2):_g;inner 3\n"
    assert "self_cuda_time_total" in events.supported_export_stacks_metrics()
    with pytest.raises(ValueError, match="metric should be one of"):
        events.export_stacks(str(tmp_path / "stacks"), "mood")


def test_steps_are_those_of_the_furthest():
    tracker = profiler.KinetoStepTracker
    base = tracker.current_step()
    tracker.init_step_count("one")
    tracker.init_step_count("two")
    assert [tracker.increment_step("one"), tracker.increment_step("one")] == [base + 1, base + 2]
    assert tracker.increment_step("two") == base + 2  # behind
    assert tracker.erase_step_count("one") and tracker.erase_step_count("two")
    assert not tracker.erase_step_count("one") and tracker.current_step() == base + 2


def test_keys_are_seen_once():
    unique = profiler.EnforceUnique()
    unique.see("a", 1)
    unique.see("a", 2)
    with pytest.raises(RuntimeError, match="duplicate key"):
        unique.see("a", 1)


def test_files_of_nvprof(tmp_path):
    path = tmp_path / "trace.prof"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(
            """
            CREATE TABLE StringTable (_id_ INTEGER, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (id INTEGER, name INTEGER, timestamp INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (_id_ INTEGER, start INTEGER, end INTEGER, cbid INTEGER,
                                                      correlationId INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (correlationId INTEGER, name INTEGER, start INTEGER,
                                                                end INTEGER);
            INSERT INTO StringTable VALUES (1, 'aten::mm'), (2, '_ZN4gemm6kernelEv');
            INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES (7, 1, 1000), (7, 0, 9000), (8, 1, 20000);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2000, 3000, 211, 5), (2, 2000, 3000, 13, 6);
            INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES (5, 2, 4000, 6500), (6, 2, 4000, 6500);
            """
        )
    (found,) = profiler.load_nvprof(str(path))
    assert found.name == "aten::mm" and found.time_range.elapsed_us() == 8
    assert found.kernels == [Kernel("gemm::kernel()", 0, 2.5)] and found.cuda_time_total == 2.5
    with pytest.raises(FileNotFoundError):
        profiler.parse_nvprof_trace(str(tmp_path / "none"))
    (tmp_path / "text").write_text("not a database, and long enough to be sure of it")
    with pytest.raises(sqlite3.DatabaseError):
        profiler.load_nvprof(str(tmp_path / "text"))
