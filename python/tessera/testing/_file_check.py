"""`FileCheck`: what a text has to hold, in which order."""

import re

__all__ = ["FileCheck"]

_KINDS = (
    "CHECK",
    "CHECK-SAME",
    "CHECK-NEXT",
    "CHECK-NOT",
    "CHECK-DAG",
    "CHECK-REGEX",
    "CHECK-SOURCE-HIGHLIGHTED",
)


class FileCheck:
    """Checks of a text, collected by methods that give the object itself, and made by `run`.

    Each looks behind what the one before it found: `check` for the text somewhere there, `check_same` on the same line,
    `check_next` on the line below, `check_count` for so many of them, `check_dag` in any order with the `check_dag`s
    beside it, `check_not` for none until the next check's place, `check_regex` for a regular expression.

        >>> tessera.testing.FileCheck().check("conv").check_next("relu").check_not("dropout").run("a conv\\na relu")
    """

    def __init__(self):
        self._checks = []

    def _add(self, kind, text, count=1, exactly=False):
        if not isinstance(text, str):
            raise TypeError(f"FileCheck: expected a str to look for, but got {type(text).__name__}")
        self._checks.append((kind, text, count, exactly))
        return self

    def check(self, text):
        """The text stands behind the last place."""
        return self._add("CHECK", text)

    def check_same(self, text):
        """The text stands behind the last place, on the same line."""
        return self._add("CHECK-SAME", text)

    def check_next(self, text):
        """The text stands on the line below the last place."""
        return self._add("CHECK-NEXT", text)

    def check_not(self, text):
        """The text does not stand between the last place and that of the next check."""
        return self._add("CHECK-NOT", text)

    def check_dag(self, text):
        """The text stands behind the last place, before or behind the other check_dag beside this one."""
        return self._add("CHECK-DAG", text)

    def check_count(self, text, count, exactly=False):
        """The text stands `count` times behind the last place; with `exactly`, not once more behind these."""
        if count < 0 or (count == 0 and not exactly):
            raise RuntimeError(f"FileCheck: expected a count of at least 1 (or exactly 0), but got {count}")
        return self._add("CHECK-COUNT" if count else "CHECK-NOT", text, count, exactly)

    def check_regex(self, text):
        """Something that the regular expression matches stands behind the last place."""
        return self._add("CHECK-REGEX", text)

    def check_source_highlighted(self, text):
        """The text stands behind the last place, and the line below it marks it with ~ under every character."""
        return self._add("CHECK-SOURCE-HIGHLIGHTED", text)

    def run(self, text, test_string=None):
        """Makes the checks, in their order.

        Args:
            text: what to look into; or, with `test_string`, a program's source whose comments hold further checks:
                "# CHECK: text", "# CHECK-NEXT: text", "# CHECK-COUNT-2: text", "# CHECK-COUNT-EXACTLY-2: text" ...
            test_string: what to look into then.

        Raises: RuntimeError for the first one that fails, with the place, or if there is none.
        """
        if test_string is not None:
            self._read(text)
            text = test_string
        if not self._checks:
            raise RuntimeError("No checks have been added to this instance of FileCheck! Check for bad input.")
        if type(text).__module__.endswith("_C._jit") or type(text).__name__ == "Graph":
            text = str(text)
        if not isinstance(text, str):
            raise TypeError(f"FileCheck.run: expected a str or a graph, but got {type(text).__name__}")
        position, i = 0, 0
        pending = []
        while i < len(self._checks):
            kind, wanted, count, exactly = self._checks[i]
            if kind == "CHECK-NOT":
                pending.append(wanted)
                i += 1
                continue
            start = position
            if kind == "CHECK-DAG":
                first, position, i = self._group(text, start, i)
            else:
                first, position = self._one(kind, text, start, wanted, count, exactly)
                i += 1
            self._absent(text, start, first, pending)
            pending = []
        self._absent(text, position, len(text), pending)

    def _read(self, source):
        """Adds the checks that stand in comments."""
        pattern = r"#\s*(CHECK(?:-COUNT(-EXACTLY)?-(\d+)|(?:-[A-Z]+)*)):[ \t]*(.*)"
        for kind, exactly, count, wanted in re.findall(pattern, source):
            if count:
                self.check_count(wanted, int(count), bool(exactly))
            elif kind in _KINDS:
                self._add(kind, wanted)
            else:
                raise RuntimeError(f"FileCheck: {kind} is no check; there are {', '.join(_KINDS)} and CHECK-COUNT-n")

    def _group(self, text, start, i):
        """The places of neighbouring check_dag: (where the first begins, where the last ends, the check behind)."""
        first, last = len(text), start
        while i < len(self._checks) and self._checks[i][0] == "CHECK-DAG":
            begin, end = _find(text, self._checks[i][1], start, len(text), "CHECK-DAG")
            first, last, i = min(first, begin), max(last, end), i + 1
        return first, last, i

    def _one(self, kind, text, start, wanted, count, exactly):
        """(where it begins, where it ends) of a check."""
        if kind == "CHECK-REGEX":
            found = re.compile(wanted).search(text, start)
            if found is None:
                raise _failure(text, start, kind, wanted)
            return found.span()
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        if kind == "CHECK-SAME":
            return _find(text, wanted, start, line_end, kind)
        if kind == "CHECK-NEXT":
            end = text.find("\n", line_end + 1)
            return _find(text, wanted, min(line_end + 1, len(text)), len(text) if end < 0 else end, kind)
        if kind == "CHECK-SOURCE-HIGHLIGHTED":
            return _highlighted(text, wanted, start)
        first, position = _find(text, wanted, start, len(text), kind)
        for _ in range(count - 1):
            _, position = _find(text, wanted, position, len(text), f"{kind} of {count}")
        if exactly and text.find(wanted, position) >= 0:
            raise _failure(text, position, f"{kind} of exactly {count}", wanted, found=True)
        return first, position

    @staticmethod
    def _absent(text, start, end, unwanted):
        for wanted in unwanted:
            if text.find(wanted, start, end) >= 0:
                raise _failure(text, text.find(wanted, start, end), "CHECK-NOT", wanted, found=True)

    def __repr__(self):
        checks = "".join(f"\n\t{kind}: {text}" for kind, text, _, _ in self._checks)
        return f"FileCheck checks:{checks}"


def _failure(text, position, check, wanted, found=False):
    """The error of a check that finds what it should not, or does not find what it should."""
    line = text.count("\n", 0, position) + 1
    excerpt = "\n".join(f"    {row}" for row in text[text.rfind("\n", 0, position) + 1 :].split("\n")[:12])
    expected = (
        f'Expected to not find "{wanted}" but found it'
        if found
        else (f'Expected to find "{wanted}" but did not find it')
    )
    return RuntimeError(f"{expected}, from line {line} on:\n{excerpt}\nFrom {check}: {wanted}")


def _find(text, wanted, start, end, kind):
    position = text.find(wanted, start, end)
    if position < 0:
        raise _failure(text, start, kind, wanted)
    return position, position + len(wanted)


def _highlighted(text, wanted, start):
    """A line with the text, over a line with ~ under all of it."""
    kind = "CHECK-SOURCE-HIGHLIGHTED"
    position = start
    while True:
        begin, end = _find(text, wanted, position, len(text), kind)
        column = begin - (text.rfind("\n", 0, begin) + 1)
        below = text.find("\n", end) + 1
        if below and text[below + column : below + column + len(wanted)] == "~" * len(wanted):
            return begin, below + column + len(wanted)
        position = end
