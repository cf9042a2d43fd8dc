"""tools/progress.py: few lines, an estimate that follows the pace, and nothing lost that is no progress."""

import importlib.util
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "progress.py"
spec = importlib.util.spec_from_file_location("progress", PATH)
progress = importlib.util.module_from_spec(spec)
spec.loader.exec_module(progress)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def shown(build):
    """build: (seconds since the last line, line)."""
    clock = Clock()

    def lines():
        for seconds, line in build:
            clock.now += seconds
            yield line + "\n"

    return [line.rstrip("\n") for line in progress.digest(lines(), clock)]


def test_an_even_pace_is_extended_to_the_end():
    output = shown([(1, "[%d / 300] Compiling a.cc; 1s local" % n) for n in range(1, 201)])
    assert len(output) == 14  # one at once, then every 15 s of the 200
    assert output[0].split() == ["1", "s:", "1", "of", "300", "steps"]
    assert output[1].endswith("16 of 300 steps, about 5 minutes left")
    assert output[-1].endswith("196 of 300 steps, about 2 minutes left")


def test_the_last_minute_counts():
    # 300 steps from the cache in a moment, then one a second.
    build = [(0.01, "[%d / 400] cached" % n) for n in range(1, 301)] + [
        (1, "[%d / 400] Compiling" % n) for n in range(301, 386)
    ]
    output = shown(build)
    assert output[-1].endswith("steps, less than a minute left")
    assert "about a minute left" in output[-2] or "less than a minute" in output[-2]


def test_other_lines_pass():
    output = shown(
        [
            (0, "Loading: 3 packages loaded"),
            (0, "ERROR: a.cc failed"),
            (0, "INFO: Elapsed time: 3 s"),
            (0, "/out/tessera.whl"),
        ]
    )
    assert output == ["ERROR: a.cc failed", "/out/tessera.whl"]


def test_a_pause_is_no_division_by_zero():
    assert shown([(0, "[5 / 9] x"), (40, "[5 / 9] x")]) == ["     0 s: 5 of 9 steps", "    40 s: 5 of 9 steps"]
