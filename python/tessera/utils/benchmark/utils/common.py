"""What was measured (`TaskSpec`), what came out (`Measurement`), and numbers as people read them."""

import contextlib
import dataclasses
import math
import os
import statistics
import tempfile
import textwrap
import time
import uuid

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]

_MAX_SIGNIFICANT_FIGURES = 4
# Of the interquartile range, in medians, above which a measurement is called noisy, and very noisy.
_NOISY, _VERY_NOISY = 0.1, 0.25
# Seconds for which a block should run at least: below, starting and stopping the clock counts.
_SHORTEST = 1e-5
_Z = 1.645  # of a two-sided confidence of 90 %
_UNITS = {1e-9: ("nanosecond", "ns"), 1e-6: ("microsecond", "us"), 1e-3: ("millisecond", "ms"), 1.0: ("second", "s")}


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What a Timer runs, and how results name it; see `Timer`."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: "str | None" = None
    sub_label: "str | None" = None
    description: "str | None" = None
    env: "str | None" = None
    num_threads: int = 1

    @property
    def title(self):
        """The label, else the statement, and the sub_label."""
        if self.label is not None or "\n" not in self.stmt:
            return (self.label or self.stmt) + (f": {self.sub_label}" if self.sub_label else "")
        return "stmt:" + (f" ({self.sub_label})" if self.sub_label else "") + "\n" + textwrap.indent(self.stmt, "  ")

    def setup_str(self):
        """The setup as text; empty if there is none."""
        if self.setup in ("", "pass"):
            return ""
        lines = self.setup.splitlines()
        return f"setup: {lines[0]}" if len(lines) == 1 else "setup:\n" + textwrap.indent(self.setup, "  ")

    def summarize(self):
        """Title, description and setup, a line each; an empty line follows what takes several."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(part + ("\n" if "\n" in part else "") for part in parts)


_TASK_FIELDS = [field.name for field in dataclasses.fields(TaskSpec)]


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """The result of a Timer: seconds of blocks of `number_per_run` runs, `raw_times`, of the task `task_spec`, whose
    fields are attributes here too. Statistics are of seconds per run. Pickles.
    """

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: "dict | None" = None

    def __getattr__(self, name):
        if name in _TASK_FIELDS and name != "task_spec":
            return getattr(self.__dict__["task_spec"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self):
        """Seconds per run, one number a block."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self):
        """Of `times`."""
        return statistics.fmean(self._some())

    @property
    def median(self):
        """Of `times`."""
        return statistics.median(self._some())

    @property
    def iqr(self):
        """The interquartile range: how far apart the first and the third quarter of `times` are."""
        lower, upper = self._quartiles()
        return upper - lower

    @property
    def significant_figures(self):
        """How many digits of the median mean something, 1 to 4: by the spread of the middle half of `times`, from which
        the error of the median is estimated at a confidence of 90 %."""
        lower, upper = self._quartiles()
        middle = [t for t in self.times if lower <= t <= upper]
        if len(middle) < 2:
            return 1
        # In the middle half of a normal distribution lies a ninth of its variance: what was cut off is put back.
        deviation = statistics.stdev(middle) * 2.6
        width = 2 * _Z * deviation / math.sqrt(len(middle))
        relative = max(width / statistics.fmean(middle), 1e-6)
        return max(1, min(int(-math.log10(relative)) + 1, _MAX_SIGNIFICANT_FIGURES))

    @property
    def has_warnings(self):
        """Whether `str` has noise to warn of."""
        return bool(self._warnings())

    @property
    def title(self):
        """Of the task."""
        return self.task_spec.title

    @property
    def as_row_name(self):
        """The name of a row in tables: sub_label, or statement."""
        return self.sub_label or self.stmt or "[Unknown]"

    def meets_confidence(self, threshold=_NOISY):
        """Whether the interquartile range is below that share of the median."""
        return self.iqr / self.median < threshold

    @staticmethod
    def merge(measurements):
        """One Measurement, with a number_per_run of 1 and without metadata, for all those of the same task: a list, in
        the order in which the tasks came first."""
        by_task = {}
        for measurement in measurements:
            by_task.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(number_per_run=1, raw_times=times, task_spec=task) for task, times in by_task.items()]

    def __repr__(self):
        unit, scale = select_unit(self.median)
        count = len(self.raw_times)
        lines = [f"{object.__repr__(self)}", self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count > 3:  # so few have no quarters
            lower, upper = self._quartiles()
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({lower / scale:.2f} to {upper / scale:.2f})")
        blocks = ("measurements", "per measurement") if count > 1 else ("measurement", "")
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines.append(f"  {count} {blocks[0]}, {self.number_per_run} runs {blocks[1]}, {threads}")
        return "\n".join(lines + self._warnings())

    def _some(self):
        if not self.raw_times:
            raise RuntimeError("Measurement: there are no times, so there are no statistics of them")
        return self.times

    def _quartiles(self):
        times = self._some()
        if len(times) == 1:
            return times[0], times[0]
        lower, _, upper = statistics.quantiles(times, n=4, method="inclusive")
        return lower, upper

    def _warnings(self):
        share = self.iqr / self.median if self.median else 0.0
        if share <= _NOISY:
            return []
        mild, strong = "could indicate system fluctuation", "suggests significant environmental influence"
        first = f"  WARNING: Interquartile range is {share * 100:.1f}% of the median measurement."
        return [first, f"           This {strong if share > _VERY_NOISY else mild}."]


def select_unit(t):
    """The unit for so many seconds and its seconds: ("us", 1e-06) for 0.0002."""
    scale = max((s for s in _UNITS if s <= t), default=min(_UNITS))
    return _UNITS[scale][1], scale


def unit_to_english(u):
    """The name of a unit: "microsecond" for "us"."""
    return next(name for name, short in _UNITS.values() if short == u)


def trim_sigfig(x, n):
    """x with n significant digits."""
    if n < 1 or n != int(n):
        raise ValueError(f"trim_sigfig: expected a number of digits of at least 1, but got {n}")
    return float(f"{x:.{int(n) - 1}e}")


def ordered_unique(elements):
    """The elements without repetitions, in order."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n):
    """Sets the number of threads in a block."""
    import tessera

    before = tessera.get_num_threads()
    tessera.set_num_threads(n)
    try:
        yield
    finally:
        tessera.set_num_threads(before)


def _make_temp_dir(prefix=None, gc_dev_shm=False):
    """A new folder; gc_dev_shm: in memory where that is, after those of processes that are gone have been removed."""
    room = "/dev/shm/pytorch_benchmark_utils"
    if not gc_dev_shm or not os.path.isdir("/dev/shm"):
        return tempfile.mkdtemp(prefix=prefix)
    import shutil

    os.makedirs(room, exist_ok=True)
    for entry in os.listdir(room):
        owner = entry.split("-")[1:2]
        if owner and owner[0].isdigit() and not os.path.exists(f"/proc/{owner[0]}"):
            shutil.rmtree(os.path.join(room, entry), ignore_errors=True)
    folder = os.path.join(room, f"{prefix or 'run'}-{os.getpid()}-{int(time.time())}-{uuid.uuid4()}")
    os.makedirs(folder)
    return folder
