"""Tables of measurements."""

import enum
import itertools

from tessera.utils.benchmark.utils.common import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

_BETTER, _WORSE, _MUCH_WORSE, _BEST, _PLAIN = (
    "\033[92m",
    "\033[2m\033[91m",
    "\033[91m\033[1m",
    "\033[92m\033[1m",
    "\033[0m",
)


class Colorize(enum.Enum):
    """Among which cells a table shows the best and the worst: none, those of a column, those of a row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table a label: rows by sub_label (in groups of equal num_threads), columns by description, a further one for
    each env. Measurements of the same task are merged. `str` gives the text, `print` prints it.

    Args:
        results: `Measurement`s.
    """

    def __init__(self, results):
        self._results = []
        self.extend_results(results)
        self._trim = False
        self._colorize = Colorize.NONE
        self._warnings = False

    def __str__(self):
        return "\n".join(self._tables())

    def extend_results(self, results):
        """Adds measurements. Raises: ValueError for anything else."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Compare: expected an instance of `Measurement`, but got {type(result).__name__}")
        self._results.extend(results)

    def trim_significant_figures(self):
        """Shows digits only as far as they mean something (`Measurement.significant_figures`)."""
        self._trim = True

    def colorize(self, rowwise=False):
        """Shows the best in green and the worst in red, of a column, or of a row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self):
        """Marks measurements that have warnings."""
        self._warnings = True

    def print(self):
        """Prints the tables."""
        print(self)

    def _tables(self):
        merged = Measurement.merge(self._results)
        for label in ordered_unique(m.label for m in merged):
            yield _Table([m for m in merged if m.label == label], self._trim, self._colorize, self._warnings).text()


class _Table:
    def __init__(self, results, trim, colorize, warnings):
        self.results, self.trim, self.colorize, self.warnings = results, trim, colorize, warnings
        self.unit, self.scale = select_unit(min(m.median for m in results))
        several = len({m.env for m in results}) > 1
        self.rows = ordered_unique(self._row(m) for m in results)
        self.rows.sort(key=lambda row: row[0])  # by number of threads, else as they came
        self.columns = ordered_unique((m.description, m.env if several else None) for m in results)
        self.cells = {(self._row(m), (m.description, m.env if several else None)): m for m in results}

    @staticmethod
    def _row(m):
        return m.num_threads, m.env, m.as_row_name

    def text(self):
        envs = ordered_unique(row[1] for row in self.rows)
        names = {row: "      " + (f"({row[1]}) " if len(envs) > 1 else "") + row[2] for row in self.rows}
        first = max(map(len, names.values()))
        heads = [column[0] or "" for column in self.columns]
        shown = {key: self._number(m) for key, m in self.cells.items()}
        widths = [
            max([len(head), *(len(shown[row, column]) for row in self.rows if (row, column) in shown)])
            for head, column in zip(heads, self.columns)
        ]
        header = " " * first + "  |  " + "  |  ".join(h.center(w) for h, w in zip(heads, widths))
        lines = []
        for threads, rows in itertools.groupby(self.rows, key=lambda row: row[0]):
            lines.append(f"{threads} threads: ".ljust(len(header), "-"))
            for row in rows:
                cells = [
                    self._color(row, column, shown.get((row, column), "").rjust(w))
                    for column, w in zip(self.columns, widths)
                ]
                lines.append(names[row].ljust(first) + "  |  " + "  |  ".join(cells))
        title = f" {self.results[0].label or self.results[0].stmt} "
        top = "[" + title.center(len(header) - 2, "-") + "]"
        notes = [f"Times are in {unit_to_english(self.unit)}s ({self.unit})."]
        if self.warnings and any(m.has_warnings for m in self.results):
            notes.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join([top, header, *lines, "", *notes, ""])

    def _number(self, m):
        value = m.median / self.scale
        digits = m.significant_figures if self.trim else None
        text = f"{trim_sigfig(value, digits):g}" if digits else f"{value:.1f}"
        if self.warnings and m.has_warnings:
            text += f" (! {m.iqr / m.median * 100:.0f}%)"
        return text

    def _color(self, row, column, text):
        m = self.cells.get((row, column))
        if self.colorize is Colorize.NONE or m is None:
            return text
        same = 0 if self.colorize is Colorize.ROWWISE else 1
        others = [other.median for key, other in self.cells.items() if key[same] == (row, column)[same]]
        best, worst = min(others), max(others)
        if best == worst:
            return text
        if m.median == best:
            return f"{_BEST}{text}{_PLAIN}"
        ratio = m.median / best
        shade = _BETTER if ratio < 1.1 else _MUCH_WORSE if ratio > 2 else _WORSE if ratio > 1.25 else ""
        return f"{shade}{text}{_PLAIN}" if shade else text
