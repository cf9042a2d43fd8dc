"""Timers."""

import enum
import textwrap
import timeit

import tessera
from tessera.utils.benchmark.utils.common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]

_LANGUAGES = {"py": "PYTHON", "python": "PYTHON", "c++": "CPP", "cpp": "CPP"}
# The share of a block that reading the clock may take.
_OVERHEAD = 1e-3


class Language(enum.Enum):
    """Of a Timer's statement."""

    PYTHON = 0
    CPP = 1


def timer():
    """The time in seconds, after the current CUDA device, if one is in use, has done all its work."""
    if tessera.cuda.is_available() and tessera.cuda.is_initialized():
        tessera.cuda.synchronize()
    return timeit.default_timer()


class Timer:
    """Times a statement: it is warmed up, run with a given number of threads, and many times.

    Args:
        stmt: the statement, Python source.
        setup: run once before.
        global_setup: for C++: what stands before the function.
        timer: returns the time in seconds.
        globals: the variables that the statement sees.
        label, sub_label: what results call the statement, and this variant of it: "ReLU(x + 1)", "float".
        description: what distinguishes measurements of the same label and sub_label: the column of a table ("n=4").
        env: where it ran, for comparisons between builds.
        num_threads: threads of operators while it runs.
        language: of the statement, "python" or "c++".

    Raises: ValueError for another language or for a setup of another one.
    """

    def __init__(
        self,
        stmt="pass",
        setup="pass",
        global_setup="",
        timer=timer,
        globals=None,
        label=None,
        sub_label=None,
        description=None,
        env=None,
        num_threads=1,
        language=Language.PYTHON,
    ):
        if not isinstance(stmt, str):
            raise ValueError(f"Currently only a `str` stmt is supported, but got {type(stmt).__name__}")
        name = language.name if isinstance(language, Language) else _LANGUAGES.get(str(language).lower())
        if name is None:
            raise ValueError(f"Invalid language `{language}`: expected one of {', '.join(_LANGUAGES)}")
        self._language = Language[name]
        if self._language is Language.CPP:
            from tessera._lazy import require

            require("utils.cpp_extension.load_inline", "Timer(language='c++')")
            raise NotImplementedError("Timer: statements in C++ are not timed by this version")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, but got {global_setup!r} for a statement in Python")
        # Names of this package for a statement that says `torch`, and for one that says its own.
        names = {"torch": tessera, "tessera": tessera, **(globals or {})}
        self._globals = names
        self._task_spec = TaskSpec(
            stmt=textwrap.dedent(stmt).strip(),
            setup=textwrap.dedent(setup).strip() or "pass",
            global_setup=global_setup,
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=num_threads,
        )
        self._clock = timer
        self._timer = timeit.Timer(self._task_spec.stmt, self._task_spec.setup, timer=timer, globals=names)

    def timeit(self, number=1000000):
        """A Measurement of one block of `number` runs, after a shorter one to warm up."""
        with set_torch_threads(self._task_spec.num_threads):
            self._time(max(number // 100, 2))
            return self._measurement(number, [self._time(number)])

    def repeat(self, repeat=-1, number=-1):
        """Not there, as documented: the number of blocks is the Timer's business."""
        raise NotImplementedError("Timer.repeat: use blocked_autorange, or timeit as often as is wanted")

    def autorange(self, callback=None):
        """Not there, as documented: see `blocked_autorange`."""
        raise NotImplementedError("Timer.autorange: use blocked_autorange")

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """A Measurement of as many blocks as fit into `min_run_time` seconds. Blocks are so long that reading the clock
        takes less than a thousandth of their time. callback(number, seconds) is called after each block."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times = self._blocks(number, min_run_time, callback, lambda times: True)
        return self._measurement(number, times)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Like `blocked_autorange`, but goes on until the interquartile range is below that share of the median, at
        most for `max_run_time` seconds."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)

            def steady(times):
                if sum(times) > max_run_time:
                    return True
                return len(times) > 3 and self._measurement(number, times).meets_confidence(threshold)

            times = self._blocks(number, min_run_time, callback, steady)
        return self._measurement(number, times)

    def collect_callgrind(self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False):
        """Counts the instructions that `number` runs execute, in a process under Valgrind's tool Callgrind.

        Variables of `globals` are given to that process as builtins, tensors, modules, or by `CopyIfCallgrind`.
        repeats: do it so many times, and return a tuple. collect_baseline: count those of an empty statement too, for
        `CallgrindStats.counts`. retain_out_file: keep Callgrind's own file.

        Returns: `CallgrindStats`. Raises: OSError if valgrind, callgrind_control or callgrind_annotate is missing,
        ValueError for variables that can't be given away.
        """
        from tessera.utils.benchmark.utils.valgrind_wrapper.timer_interface import collect

        results = tuple(
            collect(self._task_spec, self._globals, number, collect_baseline, retain_out_file)
            for _ in range(repeats or 1)
        )
        return results[0] if repeats is None else results

    def _time(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def _measurement(self, number, times):
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)

    def _blocks(self, number, min_run_time, callback, enough):
        times, total = [], 0.0
        while total < min_run_time or not enough(times):
            times.append(self._time(number))
            total += times[-1]
            if callback is not None:
                callback(number, times[-1])
        return times

    def _block_size(self, min_run_time):
        # What a block costs without its runs: of an empty statement.
        empty = timeit.Timer("pass", timer=self._clock)
        overhead = sorted(empty.timeit(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._time(number)
            if overhead / taken <= _OVERHEAD and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time or number >= 2**31:
                return number
            number *= 10
