"""Reads Bazel's output (--color=no --curses=no) from the standard input; instead of its many lines of progress it
prints one now and then, with an estimate of what remains.

    bazel build --color=no --curses=no --show_progress_rate_limit=5 TARGETS 2>&1 | python tools/progress.py

Everything else passes unchanged.
"""

import collections
import re
import sys
import time

EVERY = 15.0  # seconds between two lines
WINDOW = 60.0  # seconds whose pace is taken for the rest
PROGRESS = re.compile(r"^\[([\d,]+) / ([\d,]+)\]")
NOISE = re.compile(
    r"^(Loading|Analyzing|Computing main repo mapping|Building|Starting local Bazel server"
    r"|INFO: (Analyzed|Found|Elapsed|\d+ process|Build option|Build completed success))|^(Target //| *bazel-)"
)


def number(text):
    return int(text.replace(",", ""))


def in_words(seconds):
    return (
        "less than a minute"
        if seconds < 60
        else "about %d minutes" % round(seconds / 60)
        if seconds >= 90
        else "about a minute"
    )


class Pace:
    """How many steps were done when; a step is an action, which Bazel counts."""

    def __init__(self):
        self.samples = collections.deque()

    def add(self, now, done):
        self.samples.append((now, done))
        while now - self.samples[0][0] > WINDOW and len(self.samples) > 2:
            self.samples.popleft()

    def remaining(self, steps):
        """Seconds that so many steps will take, or None where nothing is known yet."""
        (first, before), (last, after) = self.samples[0], self.samples[-1]
        if after <= before or last - first < EVERY / 2:
            return None
        return steps * (last - first) / (after - before)


def digest(lines, clock=time.monotonic):
    """The lines to show."""
    start, shown, pace = clock(), None, Pace()
    for line in lines:
        found = PROGRESS.match(line)
        if not found:
            if not NOISE.match(line):
                yield line
            continue
        now, done, of = clock(), number(found[1]), number(found[2])
        pace.add(now, done)
        if shown is not None and now - shown < EVERY:
            continue
        shown = now
        left = pace.remaining(of - done)
        estimate = "" if left is None else ", %s left" % in_words(left)
        yield "  %4d s: %d of %d steps%s\n" % (now - start, done, of, estimate)


def main():
    for line in digest(sys.stdin):
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
