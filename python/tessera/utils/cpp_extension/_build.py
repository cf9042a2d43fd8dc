"""Runs compilers: steps with inputs and outputs, by ninja where it is installed, and else here."""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field


@dataclass
class Step:
    """One command: the file it makes, those it reads, and the words of the command line."""

    output: str
    inputs: list
    command: list
    # A file in which the compiler names the headers that it has read.
    headers: str | None = None
    # Files that are no part of the command line, but on which the output depends.
    implicit: list = field(default_factory=list)


def is_ninja_available():
    """Whether the program ninja can be run."""
    return shutil.which("ninja") is not None


def verify_ninja_availability():
    """Raises: RuntimeError if ninja cannot be run."""
    if not is_ninja_available():
        raise RuntimeError("ninja is needed to build this extension: pip install ninja")


def _get_num_workers(verbose):
    """How many compilers run at a time: MAX_JOBS, or None for as many as there are processors."""
    given = os.environ.get("MAX_JOBS", "")
    if given.isdigit() and int(given) > 0:
        if verbose:
            print(f"Using MAX_JOBS ({given}) as the number of workers", file=sys.stderr)
        return int(given)
    return None


def run(steps, folder, what, verbose=False, ninja=None):
    """Makes what is out of date, in the given order where one step needs another's output.

    Args:
        steps: a list of `Step`.
        folder: where the build's own records lie; created if need be.
        what: said in errors.
        verbose: shows commands and what they print.
        ninja: False for the builder of this file; None: ninja if there is one.

    Raises: RuntimeError with what the compiler said.
    """
    os.makedirs(folder, exist_ok=True)
    for step in steps:
        os.makedirs(os.path.dirname(step.output), exist_ok=True)
    if is_ninja_available() if ninja is None else ninja:
        _run_ninja(steps, folder, what, verbose)
    else:
        _run_here(steps, folder, what, verbose)


def _run_ninja(steps, folder, what, verbose):
    verify_ninja_availability()
    write_if_changed(os.path.join(folder, "build.ninja"), ninja_file(steps))
    workers = _get_num_workers(verbose)
    command = ["ninja", "-v"] + ([] if workers is None else ["-j", str(workers)])
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="replace")
    if verbose:
        print(said, flush=True)
    if done.returncode != 0:
        raise RuntimeError(f"Error building extension {what!r}: {said}")


def ninja_file(steps):
    """The text of a file for ninja."""
    lines = ["ninja_required_version = 1.3", ""]
    for number, step in enumerate(steps):
        command = shlex.join(step.command).replace("$", "$$").replace("\n", "$\n")
        lines += [f"rule step{number}", f"  command = {command}"]
        if step.headers:
            lines += [f"  depfile = {_escaped(step.headers)}", "  deps = gcc"]
        inputs, implicit = (" ".join(map(_escaped, names)) for names in (step.inputs, step.implicit))
        lines += [f"build {_escaped(step.output)}: step{number} {inputs}" + (f" | {implicit}" if implicit else ""), ""]
    return "\n".join(lines)


def _escaped(path):
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _run_here(steps, folder, what, verbose):
    record = os.path.join(folder, "commands.json")
    try:
        with open(record) as file:
            known = json.load(file)
    except (OSError, ValueError):
        known = {}
    outputs = {step.output for step in steps}
    # Steps that need no other step's output run side by side, then the others, one after the other.
    first = [step for step in steps if not outputs & set(step.inputs)]
    rest = [step for step in steps if outputs & set(step.inputs)]
    try:
        with concurrent.futures.ThreadPoolExecutor(_get_num_workers(verbose) or os.cpu_count() or 1) as pool:
            stale = [step for step in first if not _is_current(step, known)]
            list(pool.map(lambda step: _run_step(step, what, verbose, known), stale))
        for step in rest:
            if not _is_current(step, known):
                _run_step(step, what, verbose, known)
    finally:
        with open(record, "w") as file:
            json.dump(known, file)


def _run_step(step, what, verbose, known):
    known.pop(step.output, None)
    if verbose:
        print(shlex.join(step.command), flush=True)
    done = subprocess.run(step.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="replace")
    if verbose and said:
        print(said, flush=True)
    if done.returncode != 0:
        if os.path.exists(step.output):
            os.remove(step.output)
        raise RuntimeError(f"Error building extension {what!r}: {shlex.join(step.command)}\n{said}")
    known[step.output] = step.command


def _is_current(step, known):
    """Whether the output was made by this very command, after everything that it was made from."""
    if known.get(step.output) != step.command or not os.path.exists(step.output):
        return False
    read = [*step.inputs, *step.implicit]
    if step.headers:
        try:
            with open(step.headers) as file:
                text = file.read().replace("\\\n", " ").partition(":")[2]
        except OSError:
            return False
        read += [name.replace("\\ ", " ").replace("$$", "$") for name in re.findall(r"(?:\\ |\S)+", text)]
    made = os.stat(step.output).st_mtime_ns
    return all(os.path.exists(name) and os.stat(name).st_mtime_ns <= made for name in read)


def write_if_changed(path, text):
    """Writes a file, unless it holds that text already: so what depends on it stays up to date."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
