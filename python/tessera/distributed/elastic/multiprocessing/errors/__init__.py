"""How a worker that fails tells its agent why: a file with the exception, which TORCHELASTIC_ERROR_FILE names.

>>> from tessera.distributed.elastic.multiprocessing.errors import record
>>> @record
... def main():
...     return 3
>>> main()
3
"""

import json
import os
import signal
import socket
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from string import Template

from tessera.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler
from tessera.distributed.elastic.multiprocessing.errors.handlers import get_error_handler

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_NO_FILE = "<N/A>"


@dataclass
class ProcessFailure:
    """A worker that failed: why and when are read from its error file, if it wrote one.

    Args:
        local_rank: its number on the machine.
        pid: of its process.
        exitcode: negative: the signal that ended it.
        error_file: path of the file.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict = field(init=False)
    message: str = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self):
        self.error_file_data, self.message, self.timestamp = {"message": "<NONE>"}, "", int(time.time())
        if os.path.isfile(self.error_file or ""):
            self._read()
        else:
            self.error_file = _NO_FILE
        if not self.message:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
                if self.exitcode < 0
                else "the process wrote no error file; the decorator errors.record makes it write one"
            )

    def _read(self):
        try:
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            message = self.error_file_data["message"]
            if "timestamp" in self.error_file_data:
                self.timestamp = int(self.error_file_data["timestamp"])
            if isinstance(message, dict):
                self.timestamp = int(message["extraInfo"]["timestamp"])
                message = message["extraInfo"].get("py_callstack", "").rstrip() or message["message"]
            self.message = message
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.message = f"its error file {self.error_file} cannot be read: {error!r}"

    def signal_name(self):
        """The name of the signal that ended it; "<N/A>" if none did."""
        if self.exitcode >= 0:
            return _NO_FILE
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return f"<Invalid>: {-self.exitcode}"

    def timestamp_isoformat(self):
        """When it failed, as date and time."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


_REPORT = Template("""
$bar
$title
$line
Failures:
$others
$line
Root Cause (first observed failure):
$first
$bar""")


class ChildFailedError(Exception):
    """Workers failed. `failures` maps their global ranks to what is known of them.

    Args:
        name: of what they ran.
        failures: rank to ProcessFailure, at least one.
    """

    def __init__(self, name, failures):
        if not failures:
            raise ValueError("ChildFailedError needs at least one failure")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """(rank, ProcessFailure) of the one that failed first."""
        rank = min(self.failures, key=lambda one: self.failures[one].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim="=", section_delim="-"):
        """What happened, as text of several lines.

        Args:
            boarder_delim: what lines around it are made of.
            section_delim: what lines in it are made of.
        """
        first, _ = self.get_first_failure()
        others = [self._describe(i, rank) for i, rank in enumerate(self.failures) if rank != first]
        width = max(60, len(self.name) + 8)
        return _REPORT.substitute(
            bar=boarder_delim * width,
            line=section_delim * width,
            title=f"{self.name} FAILED",
            first=self._describe(0, first),
            others="\n".join(others) or "  <NO_OTHER_FAILURES>",
        )

    def _describe(self, number, rank):
        failure = self.failures[rank]
        indented = failure.message.replace("\n", "\n  ")
        return (
            f"[{number}]:\n  time      : {failure.timestamp_isoformat()}\n  host      : {socket.getfqdn()}\n"
            f"  rank      : {rank} (local_rank: {failure.local_rank})\n"
            f"  exitcode  : {failure.exitcode} (pid: {failure.pid})\n"
            f"  error_file: {failure.error_file}\n  traceback : {indented}"
        )

    def __reduce__(self):
        return type(self), (self.name, self.failures)


def record(fn, error_handler=None):
    """A function that writes what `fn` raises into the error file, and raises it.

    Args:
        fn: the main function of a worker.
        error_handler: what writes; None: get_error_handler().
    """

    @wraps(fn)
    def recorded(*args, **kwargs):
        handler = error_handler or get_error_handler()
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as ended:
            if ended.code == 0 or ended.code is None:
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != _NO_FILE:  # the worker's words, not those of its agent
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return recorded
