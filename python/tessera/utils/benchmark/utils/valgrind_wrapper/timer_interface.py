"""Counts of instructions: a statement runs in a process under Callgrind, whose files are read here."""

import collections
import dataclasses
import functools
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap

import tessera
from tessera.utils.benchmark.utils.common import TaskSpec, _make_temp_dir

__all__ = ["CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"]

FunctionCount = collections.namedtuple("FunctionCount", ["count", "function"])
FunctionCount.__doc__ = 'Instructions of a function: their number, and "file:function".'

# What the interpreter does with names, which depends on where strings lie and not on the program.
_NOISE = ("dictobject.c:lookdict_unicode", "dictobject.c:unicodekeys_lookup", "unicodeobject.c:unicode_eq")
_PREFIXES = re.compile(r"^.*?(?=(?:Python|Objects|Modules|Parser)/|(?:tensor|nn|autograd|python/bindings)/)")


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Functions with their numbers of instructions, most first, like a tuple of `FunctionCount`. Sums and differences
    are of functions of the same name; inclusive: numbers include those of what a function calls."""

    _data: tuple
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: "int | None" = None

    def __iter__(self):
        return iter(self._data)

    def __len__(self):
        return len(self._data)

    def __getitem__(self, item):
        found = self._data[item]
        return (
            FunctionCounts(found, self.inclusive, truncate_rows=False)
            if isinstance(found, tuple) and isinstance(item, slice)
            else found
        )

    def __repr__(self):
        rows = list(self._data)
        if self.truncate_rows and len(rows) > 18:
            rows = [*rows[:9], None, *rows[-9:]]
        width = max([len(f"{row.count}") for row in rows if row is not None], default=0)
        lines = [f"{'...':>{width}}" if row is None else f"{row.count:>{width}}  {row.function}" for row in rows]
        lines = [line[: self._linewidth] if self._linewidth else line for line in lines]
        return "\n".join([object.__repr__(self), *(f"  {line}" for line in lines), "", f"Total: {self.sum()}"])

    def __add__(self, other):
        return self._merged(other, lambda count: count)

    def __sub__(self, other):
        return self._merged(other, lambda count: -count)

    def __mul__(self, other):
        return self._from_dict({c.function: int(c.count * other) for c in self._data})

    def transform(self, map_fn):
        """The same with other names: `map_fn(name)`; functions that get the same one are added."""
        counts = collections.Counter()
        for count, function in self._data:
            counts[map_fn(function)] += count
        return self._from_dict(counts)

    def filter(self, filter_fn):
        """Those for whose name `filter_fn` is true."""
        return self._from_dict({c.function: c.count for c in self._data if filter_fn(c.function)})

    def sum(self):
        """Of all numbers."""
        return sum(c.count for c in self._data)

    def denoise(self):
        """Without the interpreter's functions that look up names, whose numbers change from run to run."""
        return self.filter(lambda function: not any(noise in function for noise in _NOISE))

    def _merged(self, other, weight):
        if self.inclusive != other.inclusive:
            raise AssertionError("Cannot merge inclusive and exclusive counts.")
        counts = collections.Counter({c.function: c.count for c in self._data})
        for count, function in other:
            counts[function] += weight(count)
        return self._from_dict(counts)

    def _from_dict(self, counts):
        rows = sorted((FunctionCount(count, function) for function, count in counts.items() if count), reverse=True)
        return FunctionCounts(tuple(rows), self.inclusive, self.truncate_rows, self._linewidth)


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """What `Timer.collect_callgrind` counted: of `number_per_run` runs of the statement, and of an empty one (the
    baseline)."""

    task_spec: TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: "str | None"

    def __repr__(self):
        rows = [("Instructions:", self.counts(), self.baseline_exclusive_stats.sum())]
        rows.append(
            ("Noisy symbols removed:", self.counts(denoise=True), self.baseline_exclusive_stats.denoise().sum())
        )
        lines = [f"  {name:<24}{count:>16}{baseline:>16}" for name, count, baseline in rows]
        head = f"  {'':<24}{'All':>16}{'Baseline':>16}"
        runs = f"{self.number_per_run} runs per measurement, {self.task_spec.num_threads} thread(s)"
        return "\n".join([object.__repr__(self), self.task_spec.summarize(), head, *lines, runs])

    def stats(self, inclusive=False):
        """The functions, without what the baseline has of them."""
        if inclusive:
            return self.stmt_inclusive_stats - self.baseline_inclusive_stats
        return self.stmt_exclusive_stats - self.baseline_exclusive_stats

    def counts(self, *, denoise=False):
        """The number of instructions of the statement's runs; denoise: see `FunctionCounts.denoise`."""
        stats = self.stmt_exclusive_stats
        return (stats.denoise() if denoise else stats).sum()

    def delta(self, other, inclusive=False):
        """The functions, with what they have more (or less) here than in another one."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self):
        """The same with names that don't say where things were built."""

        def standard(counts):
            return counts.transform(lambda name: _PREFIXES.sub("", name.partition(" [")[0]))

        names = [field.name for field in dataclasses.fields(self) if field.name.endswith("_stats")]
        return dataclasses.replace(self, **{name: standard(getattr(self, name)) for name in names})


class CopyIfCallgrind:
    """Marks a variable of a Timer's `globals` that `collect_callgrind` may give to its process as a pickle.

    Args:
        value: the variable's value, for timers in this process.
        setup: Python source that the other process runs before it is unpickled, such as an import.

    Raises: ValueError for what can't be given to a process.
    """

    def __init__(self, value, *, setup=None):
        if isinstance(value, (CopyIfCallgrind, type(sys))):
            raise ValueError(f"CopyIfCallgrind: {type(value).__name__} objects can't be given to another process")
        self._value, self._setup = value, setup

    @property
    def value(self):
        """What is marked."""
        return self._value

    @property
    def setup(self):
        """Run before it is unpickled."""
        return self._setup

    @property
    def serialization(self):
        """How it is given away."""
        return "torch" if isinstance(self._value, (tessera.Tensor, tessera.nn.Module)) else "pickle"

    @staticmethod
    def unwrap_all(globals):
        """A dict of variables without the marks."""
        return {k: v.value if isinstance(v, CopyIfCallgrind) else v for k, v in globals.items()}


_GIVEN_TYPES = (int, float, complex, bool, str, bytes, type(None), list, tuple, dict, set)


def collect(task, variables, number, collect_baseline, retain_out_file):
    """CallgrindStats of a task. See `Timer.collect_callgrind`."""
    for tool in ("valgrind", "callgrind_control", "callgrind_annotate"):
        if shutil.which(tool) is None:
            raise OSError(f"collect_callgrind needs {tool}, which is not installed")
    inclusive, exclusive, out = _run(task, variables, number, retain_out_file)
    empty = FunctionCounts((), True), FunctionCounts((), False)
    baseline = _baseline(number, task.num_threads) if collect_baseline else empty
    return CallgrindStats(
        task_spec=task,
        number_per_run=number,
        built_with_debug_symbols=any(".cc:" in c.function or ".h:" in c.function for c in exclusive),
        baseline_inclusive_stats=baseline[0],
        baseline_exclusive_stats=baseline[1],
        stmt_inclusive_stats=inclusive,
        stmt_exclusive_stats=exclusive,
        stmt_callgrind_out=out,
    )


@functools.lru_cache(None)
def _baseline(number, num_threads):
    return _run(TaskSpec("pass", "pass", num_threads=num_threads), {}, number, False)[:2]


def _run(task, variables, number, retain_out_file):
    folder = _make_temp_dir(prefix="callgrind")
    try:
        script = os.path.join(folder, "run.py")
        with open(script, "w") as file:
            file.write(_script(task, _give(variables, folder), number))
        out = os.path.join(folder, "callgrind.out")
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            "--instr-atstart=no",
            "--dump-line=yes",
            sys.executable,
            script,
        ]
        run = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        if run.returncode:
            raise OSError(
                f"collect_callgrind: the process under valgrind failed:\n{run.stdout[-2000:]}{run.stderr[-4000:]}"
            )
        text = None
        parts = sorted(name for name in os.listdir(folder) if name.startswith("callgrind.out"))
        # The first part ends where the counted block does.
        counted = os.path.join(folder, "callgrind.out.1" if "callgrind.out.1" in parts else parts[0])
        if retain_out_file:
            with open(counted) as file:
                text = file.read()
        return _annotated(counted, True), _annotated(counted, False), text
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give(variables, folder):
    """Lines of source that bring the variables into the other process."""
    lines = []
    for name, value in variables.items():
        if isinstance(value, type(sys)) and value is tessera:
            lines.append(f"{name} = tessera")
            continue
        if name.startswith("__"):
            continue
        mark = value if isinstance(value, CopyIfCallgrind) else None
        value = mark.value if mark else value
        kind = "torch" if isinstance(value, (tessera.Tensor, tessera.nn.Module)) else "pickle"
        if mark is None and kind == "pickle" and not isinstance(value, _GIVEN_TYPES):
            raise ValueError(
                f"collect_callgrind: the variable {name!r} is a {type(value).__name__}, which is not given to another "
                f"process unless it is marked: CopyIfCallgrind(value)"
            )
        if mark is not None and mark.setup:
            lines.append(textwrap.dedent(mark.setup))
        path = os.path.join(folder, f"{name}.data")
        if kind == "torch":
            tessera.save(value, path)
            lines.append(f"{name} = tessera.load({path!r}, weights_only=False)")
        else:
            with open(path, "wb") as file:
                pickle.dump(value, file)
            lines.append(f"with open({path!r}, 'rb') as _file: {name} = __import__('pickle').load(_file)")
    return lines


def _script(task, given, number):
    where = os.path.dirname(os.path.dirname(os.path.abspath(tessera.__file__)))
    return "\n".join(
        [
            "import subprocess, sys, os, timeit",
            f"sys.path[:0] = {json.dumps([where])}",
            f"sys.path += {json.dumps(sys.path)}",
            "import tessera",
            "sys.modules.setdefault('torch', tessera)",
            *given,
            f"tessera.set_num_threads({task.num_threads})",
            f"_timer = timeit.Timer({task.stmt!r}, {task.setup!r}, globals=globals())",
            f"_timer.timeit({max(number // 10, 2)})",
            "def _control(*options):",
            "    command = ['callgrind_control', *options, str(os.getpid())]",
            "    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)",
            "_control('--instr=on')",
            f"_setup = compile('def _block(_n):\\n' + __import__('textwrap').indent({task.setup!r}, '    ') + "
            f"'\\n    for _ in range(_n):\\n' + __import__('textwrap').indent({task.stmt!r}, '        ') + '\\n', "
            f"'<timed>', 'exec')",
            "exec(_setup, globals())",
            "_block(1)",
            "_control('-z')",
            f"_block({number})",
            "_control('-d')",
            "os._exit(0)",
        ]
    )


def _annotated(path, inclusive):
    command = [
        "callgrind_annotate",
        "--auto=no",
        "--threshold=100",
        f"--inclusive={'yes' if inclusive else 'no'}",
        path,
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counts = collections.Counter()
    for line in text.splitlines():
        found = re.match(r"^\s*([\d,]+)\s+\([^)]*\)\s+(.+)$", line)
        if found and "PROGRAM TOTALS" not in line:
            counts[found.group(2).strip()] += int(found.group(1).replace(",", ""))
    rows = sorted((FunctionCount(count, function) for function, count in counts.items()), reverse=True)
    return FunctionCounts(tuple(rows), inclusive)
