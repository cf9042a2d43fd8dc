"""Standard output and error of this process, C's included, into files."""

import ctypes
import os
import sys
from contextlib import contextmanager
from functools import partial

IS_WINDOWS, IS_MACOS = sys.platform == "win32", sys.platform == "darwin"


def get_libc():
    """The C library."""
    return ctypes.CDLL(None)


@contextmanager
def redirect(std, to_file):
    """A context in which a stream of this process goes into a file.

    Args:
        std: "stdout" or "stderr".
        to_file: path.

    Raises: ValueError for another stream.
    """
    if std not in ("stdout", "stderr"):
        raise ValueError(f"a stream is 'stdout' or 'stderr', but got '{std}'")
    stream = getattr(sys, std)
    number = {"stdout": 1, "stderr": 2}[std]
    kept = os.dup(number)

    def turn(descriptor):
        stream.flush()
        get_libc().fflush(None)
        os.dup2(descriptor, number)

    with open(to_file, "w+b") as file:
        turn(file.fileno())
        try:
            yield
        finally:
            turn(kept)
            os.close(kept)


redirect_stdout, redirect_stderr = partial(redirect, "stdout"), partial(redirect, "stderr")
