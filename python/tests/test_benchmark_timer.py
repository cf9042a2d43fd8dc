"""tessera.utils.benchmark: timers, measurements, tables, random tensors, instruction counts."""

import pickle
import shutil

import pytest
import tessera as torch
from tessera.utils.benchmark import (
    CallgrindStats,
    Compare,
    CopyIfCallgrind,
    FunctionCount,
    FunctionCounts,
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    Measurement,
    ParameterAlias,
    TaskSpec,
    Timer,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)


def measurement(times, number=1, **task):
    return Measurement(number, times, TaskSpec(**{"stmt": "f()", "setup": "pass", **task}))


class Clock:
    """A clock for statements that turn it on themselves."""

    now = 0.0

    def __call__(self):
        return self.now


def clocked(stmt="clock.now += 0.5"):
    clock = Clock()
    return Timer(stmt, timer=clock, globals={"clock": clock})


def test_statistics_are_of_seconds_per_run():
    m = measurement([10.0, 20.0, 30.0, 40.0, 50.0], number=10)
    assert (m.mean, m.median, m.iqr, m.times[0]) == (3.0, 3.0, 2.0, 1.0) and m.has_warnings
    assert measurement([1.0] * 8, number=2).significant_figures == 4
    assert measurement([1.0, 2.0, 3.0]).significant_figures == 1
    assert not m.meets_confidence() and measurement([1.0] * 3).meets_confidence()
    with pytest.raises(RuntimeError, match="no times"):
        _ = measurement([]).mean


def test_names_of_a_task():
    m = measurement([2e-5], label="L", sub_label="S", description="D", env="E", num_threads=2)
    assert m.title == "L: S" and m.env == "E" and m.num_threads == 2 and m.as_row_name == "S"
    text = repr(m)
    assert "L: S" in text and "D" in text and "20.00 us" in text and "2 threads" in text and "WARNING" not in text
    assert measurement([1.0]).title == "f()" and measurement([1.0]).env is None
    with pytest.raises(AttributeError, match="nothing"):
        _ = m.nothing
    assert pickle.loads(pickle.dumps(m)) == m


def test_a_measurement_as_text():
    def lines(times, number=1, **task):
        return repr(measurement(times, number=number, **task)).splitlines()[1:]

    assert lines([1e-3]) == ["f()", "  1.00 ms", "  1 measurement, 1 runs , 1 thread"]
    assert lines([7e-3] * 3, 7, setup="import x") == [
        "f()",
        "setup: import x",
        "  Median: 1.00 ms",
        "  3 measurements, 7 runs per measurement, 1 thread",
    ]
    shown = ["stmt: (S)", "  f()", "  g()", "", "setup:", "  a", "  b", "", "  Median: 1.00 us"]
    noisy = lines([9e-7, 1e-6, 1e-6, 1.15e-6, 1.2e-6], stmt="f()\ng()", setup="a\nb", sub_label="S")
    assert noisy == [
        *shown,
        "  IQR:    0.15 us (1.00 to 1.15)",
        "  5 measurements, 1 runs per measurement, 1 thread",
        "  WARNING: Interquartile range is 15.0% of the median measurement.",
        "           This could indicate system fluctuation.",
    ]


def test_measurements_of_a_task_are_merged():
    a, b, c = measurement([2.0], number=2), measurement([3.0]), measurement([4.0], stmt="g()")
    merged = Measurement.merge([a, c, b])
    assert [m.raw_times for m in merged] == [[1.0, 3.0], [4.0]] and merged[0].number_per_run == 1


def test_the_timer_counts_by_its_clock():
    m = clocked().timeit(10)
    assert m.raw_times == [5.0] and m.number_per_run == 10 and m.mean == 0.5
    seen = []
    m = clocked().blocked_autorange(callback=lambda n, t: seen.append((n, t)), min_run_time=2)
    assert m.raw_times == [0.5] * 4 and seen == [(1, 0.5)] * 4
    m = clocked().adaptive_autorange(min_run_time=1)
    assert m.raw_times == [0.5] * 4 and m.meets_confidence()
    m = clocked("clock.now += 1 + clock.now").adaptive_autorange(min_run_time=1, max_run_time=1000)
    assert sum(m.raw_times) > 1000 and not m.meets_confidence()


def test_statements_see_globals_and_setup():
    seen = []
    Timer("seen.append(x + y)", setup="y = 2", globals={"seen": seen, "x": 1}).timeit(1)
    assert seen and set(seen) == {3}
    Timer("torch.ones(1)").timeit(1)


def test_bad_timers():
    for error, options in (
        (ValueError, {"language": "fortran"}),
        (ValueError, {"stmt": 1}),
        (ValueError, {"global_setup": "#include <x>"}),
        (NotImplementedError, {"language": "c++"}),
    ):
        with pytest.raises(error):
            Timer(**{"stmt": "pass", **options})
    with pytest.raises(SyntaxError):
        Timer("x +")
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        Timer().autorange()


def test_threads_are_put_back():
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), set_torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        _ = 1 / 0
    assert torch.get_num_threads() == before


def test_tables():
    rows = [
        measurement([1e-3], label="L", sub_label=s, description=d, num_threads=n)
        for n in (2, 1)
        for s in ("first", "second")
        for d in ("n=1", "n=4")
    ]
    other = measurement([5.0], label="other", sub_label="x", description="n=1")
    text = str(Compare([*rows, other]))
    lines = text.splitlines()
    assert text.index("1 thread:") < text.index("2 threads:") and text.count("first") == 2
    assert "n=1" in lines[1] and "n=4" in lines[1] and "milliseconds (ms)" in text and "seconds (s)" in text
    table = Compare(rows)
    assert "\033[" not in str(table)
    table.extend_results([measurement([9e-3], label="L", sub_label="slow", description="n=1")])
    table.colorize()
    assert "\033[91m" in str(table)
    with pytest.raises(ValueError, match="Measurement"):
        table.extend_results([1])


def test_noisy_cells_are_marked():
    table = Compare([measurement([1.0, 2.0, 3.0, 4.0], label="L")])
    table.highlight_warnings()
    table.trim_significant_figures()
    assert "(! 60%)" in str(table)


def test_numbers_for_people():
    assert select_unit(2e-4) == ("us", 1e-6) and select_unit(1e-12)[0] == "ns" and select_unit(70)[0] == "s"
    assert unit_to_english("ms") == "millisecond" and trim_sigfig(1234.5, 2) == 1200.0
    assert ordered_unique([3, 1, 3]) == [3, 1]
    with pytest.raises(ValueError, match="digits"):
        trim_sigfig(1.0, 0)


def fuzzer(**options):
    return Fuzzer(
        [
            FuzzedParameter("n", 4, 32, "loguniform"),
            FuzzedParameter("m", distribution={ParameterAlias("n"): 0.5, 7: 0.5}),
            FuzzedParameter("d", distribution={1: 0.3, 2: 0.7}),
        ],
        [
            FuzzedTensor(
                "x", size=("n", "m"), steps=(2, 1), dim_parameter="d", probability_contiguous=0.3, min_elements=8
            )
        ],
        **options,
    )


def test_random_tensors_repeat_and_keep_their_bounds():
    first, again = list(fuzzer(seed=3).take(20)), list(fuzzer(seed=3).take(20))
    assert [p for _, _, p in first] == [p for _, _, p in again]
    for tensors, known, parameters in first:
        x = tensors["x"]
        assert x.shape == (parameters["n"], parameters["m"])[: parameters["d"]] and x.numel() >= 8
        assert parameters["m"] in (7, parameters["n"]) and known["x"]["is_contiguous"] == x.is_contiguous()
    assert len({t["x"].stride()[0] == 2 for t, _, _ in first}) == 2


def test_draws_that_are_not_wanted():
    drawn = fuzzer(seed=1, constraints=[lambda n, m, d: n > 8])
    assert drawn.rejection_rate is None
    assert all(p["n"] > 8 for _, _, p in drawn.take(5)) and 0 < drawn.rejection_rate < 1
    with pytest.raises(ValueError, match="in a row"):
        next(fuzzer(constraints=[lambda **p: False]).take(1))
    with pytest.raises(ValueError, match="called"):
        Fuzzer([FuzzedParameter("a", 1, 2, "uniform")] * 2, [])
    with pytest.raises(ValueError, match="distribution"):
        FuzzedParameter("a", 1, 2, "normal")


def counts(**functions):
    return FunctionCounts(tuple(sorted((FunctionCount(c, f) for f, c in functions.items()), reverse=True)), False)


def test_counts_are_added_and_subtracted():
    a, b = counts(f=5, g=2), counts(f=3, h=1)
    assert dict((f, c) for c, f in a - b) == {"f": 2, "g": 2, "h": -1} and (a + b).sum() == 11
    assert a.filter(lambda f: f == "f").sum() == 5 and a.transform(lambda f: "all")[0] == (7, "all")
    assert counts(**{"dictobject.c:lookdict_unicode": 9, "f": 1}).denoise().sum() == 1
    assert len(a[:1]) == 1 and [c for c, _ in a] == [5, 2]


def test_instructions_are_counted():
    assert shutil.which("valgrind"), "valgrind is among what the tests need"
    timer = Timer("f(x)", globals={"x": torch.ones(4), "f": CopyIfCallgrind(torch.neg)}, label="neg")
    stats = timer.collect_callgrind(20)
    assert isinstance(stats, CallgrindStats) and stats.counts() > 20 * 100 and "neg" in repr(stats)
    assert stats.stats().sum() != 0 and stats.as_standardized().counts() == stats.counts()
    with pytest.raises(ValueError, match="CopyIfCallgrind"):
        Timer("f()", globals={"f": lambda: None}).collect_callgrind(1)
