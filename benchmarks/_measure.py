"""Shared by the scripts of this folder: running programs several times and taking the best."""

import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def command(python=None, module=None):
    """The start of a command line: Tessera under its launcher by default, or another interpreter."""
    return [python or sys.executable] + (["-m", module] if module else [])


def run(argv, env=None, timeout=1800):
    """(standard output, wall seconds). RuntimeError with the end of its error output if the program fails."""
    start = time.perf_counter()
    child = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, **(env or {})), text=True
    )
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise RuntimeError(f"{' '.join(argv)} ran longer than {timeout} s")
    wall = time.perf_counter() - start
    if child.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with status {child.returncode}:\n{err[-2000:]}")
    return out, wall


def folder_bytes(path):
    """Bytes of the files below `path`, without what Python compiles later."""
    total = 0
    for folder, _, names in os.walk(path):
        if os.path.basename(folder) != "__pycache__":
            total += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)
    return total


def table(rows, header):
    """Prints columns: the first left-aligned, the others right-aligned."""
    rows = [header] + rows
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(header))]
    for row in rows:
        print(
            "  ".join(
                str(cell).ljust(w) if i == 0 else str(cell).rjust(w) for i, (cell, w) in enumerate(zip(row, widths))
            )
        )
