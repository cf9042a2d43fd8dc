"""Runs a program under Python's profiler and under that of the operators, and prints what both saw.

    python -m tessera.utils.bottleneck [--top N] program.py [arguments]

The program runs once for each profiler, so it should end by itself, and soon. Work on devices goes on after the call
that started it: times of calls are too short there.
"""

import argparse
import cProfile
import io
import os
import pstats
import runpy
import sys

import tessera
from tessera.autograd.profiler import profile
from tessera.utils import collect_env

_LINE = "-" * 80


def _parser():
    parser = argparse.ArgumentParser(
        prog=f"python -m {tessera._display_name}.utils.bottleneck",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--top", type=int, default=15, help="how many functions and operators are shown (default: 15)")
    parser.add_argument("scriptfile", help="the program")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


class Program:
    """A program that can be run several times, each time as if it were started by itself."""

    def __init__(self, path, arguments):
        if not os.path.isfile(path):
            raise SystemExit(f"bottleneck: there is no file {path}")
        self.path, self.arguments = path, arguments

    def run(self):
        """Runs it as __main__. What it ends with, if that is no error, is dropped."""
        saved = sys.argv, sys.path[:], sys.modules.get("__main__")
        sys.argv = [self.path, *self.arguments]
        sys.path[0:1] = [os.path.dirname(os.path.abspath(self.path))]
        try:
            runpy.run_path(self.path, run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        finally:
            sys.argv, sys.path[:], sys.modules["__main__"] = saved[0], saved[1], saved[2]


def python_report(program, top):
    """The functions in which Python spent most time, as text."""
    functions = cProfile.Profile()
    functions.enable()
    try:
        program.run()
    finally:
        functions.disable()
    text = io.StringIO()
    pstats.Stats(functions, stream=text).sort_stats("tottime").print_stats(top)
    return f"{_LINE}\n  cProfile output, by time in the functions themselves\n{_LINE}\n{text.getvalue().strip()}"


def operator_report(program, top):
    """The operators that took most time, forward and backward, as text."""
    with profile() as seen:
        program.run()
    table = seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=top)
    return f"{_LINE}\n  autograd profiler output, by time in the operators themselves\n{_LINE}\n{table}"


def main(argv=None):
    """The command line. Raises: SystemExit for a file that is not there or a program that fails."""
    options = _parser().parse_args(argv)
    program = Program(options.scriptfile, options.args)
    parts = [
        f"{_LINE}\n  Environment Summary\n{_LINE}\n{_environment()}",
        python_report(program, options.top),
        operator_report(program, options.top),
    ]
    print("\n" + "\n\n".join(parts))


def _environment():
    python = ".".join(map(str, sys.version_info[:3]))
    cuda = tessera.version.cuda if tessera.cuda.is_available() else None
    pip, packages = collect_env.get_pip_packages(collect_env.run)
    lines = [
        f"{tessera._display_name} {tessera.__version__}, {'CUDA ' + cuda if cuda else 'without CUDA'}",
        f"running under Python {python} with {tessera.get_num_threads()} threads",
        f"`{pip} list`, of which matter:",
        packages or "nothing",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
