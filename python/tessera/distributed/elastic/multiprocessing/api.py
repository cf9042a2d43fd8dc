"""The workers of one machine: started, watched, ended together."""

import abc
import atexit
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from enum import IntFlag
from multiprocessing import connection, get_context

from tessera.distributed.elastic.multiprocessing import redirects
from tessera.distributed.elastic.multiprocessing.errors import ProcessFailure, record
from tessera.distributed.elastic.multiprocessing.subprocess_handler import get_subprocess_handler
from tessera.distributed.elastic.multiprocessing.tail_log import TailLog

_log = logging.getLogger(__name__)

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "get_std_cm",
    "to_map",
]


class SignalException(Exception):
    """A signal asked the agent to end.

    Args:
        msg: what to say.
        sigval: the signal.
    """

    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = sigval


class Std(IntFlag):
    """Streams of a worker: NONE, OUT, ERR, ALL."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3

    @classmethod
    def from_str(cls, vm):
        """Streams from a number as text, for all workers or as pairs: "3", "0:1,1:2".

        Raises: ValueError for another text."""
        by_value = {str(int(one)): one for one in cls} | {str(i): cls(i) for i in range(4)}
        if vm in by_value:
            return by_value[vm]
        found = {}
        for pair in vm.split(","):
            rank, _, value = pair.partition(":")
            if not rank.isdigit() or value not in by_value:
                raise ValueError(f"streams are a number from 0 to 3, or pairs such as 0:1,1:2; got '{vm}'")
            found[int(rank)] = by_value[value]
        return found


def to_map(val_or_map, local_world_size):
    """A dictionary with a value for each worker, from one value or a dictionary with some (others: NONE)."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Paths for each worker: of what it writes, of what is shown besides, of its error file."""

    stdouts: dict = field(default_factory=dict)
    stderrs: dict = field(default_factory=dict)
    tee_stdouts: dict = field(default_factory=dict)
    tee_stderrs: dict = field(default_factory=dict)
    error_files: dict = field(default_factory=dict)
    filtered_stdout: str = field(default_factory=str)
    filtered_stderr: str = field(default_factory=str)


class LogsSpecs(abc.ABC):
    """Where workers' output goes.

    Args:
        log_dir: the folder; None: a temporary one.
        redirects: which streams go into files only: for all workers or a dictionary.
        tee: which streams go into files and are shown.
        local_ranks_filter: whose output is shown at all; None: everyone's.
    """

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._local_ranks_filter = local_ranks_filter

    @abc.abstractmethod
    def reify(self, envs):
        """The paths, made for workers with these environments (local rank to variables). Returns: a LogsDest."""

    @property
    @abc.abstractmethod
    def root_log_dir(self):
        """The folder."""


class DefaultLogsSpecs(LogsSpecs):
    """Output in FOLDER/RUN_ID/attempt_N/RANK/stdout.log, stderr.log and error.json."""

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        if log_dir and os.path.exists(log_dir) and not os.path.isdir(log_dir):
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir = None

    @property
    def root_log_dir(self):
        return str(self._root_log_dir)

    def reify(self, envs):
        count = len(envs)
        if not count:
            return LogsDest()
        about = envs[0]
        run_id, attempt = about.get("TORCHELASTIC_RUN_ID", "run"), about.get("TORCHELASTIC_RESTART_COUNT", "0")
        if self._run_log_dir is None:
            base = self._root_log_dir
            if not base:
                base = tempfile.mkdtemp(prefix="torchelastic_")
                if not (self._redirects or self._tee):  # error files alone, which have been read by then
                    atexit.register(shutil.rmtree, base, ignore_errors=True)
            os.makedirs(base, exist_ok=True)
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{run_id}_", dir=base)
            self._root_log_dir = base
        folder = os.path.join(self._run_log_dir, f"attempt_{attempt}")
        shutil.rmtree(folder, ignore_errors=True)
        dest = LogsDest(stdouts=dict.fromkeys(range(count), ""), stderrs=dict.fromkeys(range(count), ""))
        dest.filtered_stdout = os.path.join(folder, "filtered_stdout.log")
        dest.filtered_stderr = os.path.join(folder, "filtered_stderr.log")
        to_file, shown = to_map(self._redirects, count), to_map(self._tee, count)
        for rank in range(count):
            own = os.path.join(folder, str(rank))
            os.makedirs(own)
            dest.error_files[rank] = os.path.join(own, "error.json")
            silent = self._local_ranks_filter and rank not in self._local_ranks_filter
            for bit, name, paths, tees in (
                (Std.OUT, "stdout.log", dest.stdouts, dest.tee_stdouts),
                (Std.ERR, "stderr.log", dest.stderrs, dest.tee_stderrs),
            ):
                path = os.path.join(own, name)
                if shown[rank] & bit and not silent:
                    tees[rank] = path
                if (to_file[rank] | shown[rank]) & bit:
                    paths[rank] = path
                elif silent:
                    paths[rank] = os.devnull
        return dest


@dataclass
class RunProcsResult:
    """How workers ended: what their functions returned, which failed, and where their output is, by local rank."""

    return_values: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    stdouts: dict = field(default_factory=dict)
    stderrs: dict = field(default_factory=dict)

    def is_failed(self):
        """Whether a worker failed."""
        return bool(self.failures)


def get_std_cm(std_rd, redirect_fn):
    """The context of `redirect_fn(path)`, or none for an empty path."""
    return redirect_fn(std_rd) if std_rd else contextlib.nullcontext()


def _raise_signal(number, frame):
    raise SignalException(f"process {os.getpid()} got signal {number}", signal.Signals(number))


class PContext(abc.ABC):
    """Workers that run one function or program.

    Args:
        name: to call them in output.
        entrypoint: a function or the path of a program.
        args: its arguments, by local rank.
        envs: variables, by local rank.
        logs_specs: where output goes.
        log_line_prefixes: what comes before shown lines, by local rank.
        duplicate_stdout_filters: texts; lines with one of them are copied to filtered_stdout.log.
        duplicate_stderr_filters: the same for errors.
    """

    def __init__(
        self,
        name,
        entrypoint,
        args,
        envs,
        logs_specs,
        log_line_prefixes=None,
        duplicate_stdout_filters=None,
        duplicate_stderr_filters=None,
    ):
        if set(args) != set(range(len(args))) or set(envs) != set(args):
            raise RuntimeError(
                f"args and envs need an entry for each of the local ranks, but got {set(args)}, {set(envs)}"
            )
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.nprocs = len(args)
        self._dest = logs_specs.reify(envs)
        self.stdouts, self.stderrs, self.error_files = self._dest.stdouts, self._dest.stderrs, self._dest.error_files
        for rank, path in self.error_files.items():
            envs[rank].setdefault("TORCHELASTIC_ERROR_FILE", path)
            self.error_files[rank] = envs[rank]["TORCHELASTIC_ERROR_FILE"]
        self._tails = [
            TailLog(name, self._dest.tee_stdouts, sys.stdout, log_line_prefixes),
            TailLog(name, self._dest.tee_stderrs, sys.stderr, log_line_prefixes),
        ]
        self._tails += self._copies(duplicate_stdout_filters, self.stdouts, self._dest.filtered_stdout)
        self._tails += self._copies(duplicate_stderr_filters, self.stderrs, self._dest.filtered_stderr)

    def _copies(self, texts, paths, target):
        if not texts:
            return []
        files = {rank: path for rank, path in paths.items() if path and path != os.devnull}
        return [TailLog(self.name, files, target, log_line_filter=lambda line: any(text in line for text in texts))]

    def start(self):
        """Starts the workers. Signals that TORCHELASTIC_SIGNALS_TO_HANDLE names become SignalException."""
        if threading.current_thread() is threading.main_thread():
            wanted = os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")
            for text in wanted.split(","):
                number = getattr(signal, text.strip(), None)
                if number is None:
                    raise ValueError(f"TORCHELASTIC_SIGNALS_TO_HANDLE: there is no signal '{text}'")
                signal.signal(number, _raise_signal)
        self._start()
        for tail in self._tails:
            tail.start()

    @abc.abstractmethod
    def _start(self):
        """Starts the workers."""

    @abc.abstractmethod
    def _poll(self):
        """How they ended (RunProcsResult) once all have, or one has failed; else None."""

    def wait(self, timeout=-1, period=1):
        """Waits for the workers; those that run on when one fails are ended.

        Args:
            timeout: seconds; 0: looks once; negative: without end.
            period: seconds between two looks.

        Returns: a RunProcsResult, or None when the time is over.
        """
        end = time.monotonic() + timeout
        while True:
            result = self._poll()
            if result is not None:
                for rank, failure in result.failures.items():
                    code, pid = failure.exitcode, failure.pid
                    _log.error("failed (exitcode: %d) local_rank: %d (pid: %d) of %s", code, rank, pid, self.name)
                self.close()
                last = self._poll() if result.is_failed() else None
                for rank, failure in (last.failures if last else {}).items():
                    result.failures.setdefault(rank, failure)  # which ended by the signal
                return result
            if timeout == 0 or (timeout > 0 and time.monotonic() >= end):
                return None
            time.sleep(min(period, max(0.0, end - time.monotonic())) if timeout > 0 else period)

    @abc.abstractmethod
    def pids(self):
        """The process of each local rank."""

    @abc.abstractmethod
    def _close(self, death_sig, timeout=30):
        """Ends the workers: with a signal, then with SIGKILL."""

    def close(self, death_sig=None, timeout=30):
        """Ends the workers.

        Args:
            death_sig: the signal; None: SIGTERM.
            timeout: seconds until those that are left are killed.
        """
        self._close(signal.SIGTERM if death_sig is None else death_sig, timeout)
        for tail in self._tails:
            tail.stop()

    def _failure(self, rank, pid, code):
        return ProcessFailure(rank, pid, code, self.error_files[rank])


class SubprocessContext(PContext):
    """Workers that are programs. Arguments as PContext, and

    Args:
        numa_options: must be None.
    """

    def __init__(
        self,
        name,
        entrypoint,
        args,
        envs,
        logs_specs,
        log_line_prefixes=None,
        numa_options=None,
        duplicate_stdout_filters=None,
        duplicate_stderr_filters=None,
    ):
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        self._numa, self.subprocess_handlers = numa_options, {}
        self._running, self._failures = set(range(self.nprocs)), {}

    def _start(self):
        for rank in range(self.nprocs):
            self.subprocess_handlers[rank] = get_subprocess_handler(
                self.entrypoint,
                self.args[rank],
                self.envs[rank],
                self.stdouts[rank],
                self.stderrs[rank],
                rank,
                self._numa,
            )

    def _poll(self):
        for rank in sorted(self._running):
            process = self.subprocess_handlers[rank].proc
            code = process.poll()
            if code is None:
                continue
            self._running.discard(rank)
            if code != 0:
                self._failures[rank] = self._failure(rank, process.pid, code)
        if self._running and not self._failures:
            return None
        values = {} if self._failures else dict.fromkeys(range(self.nprocs))
        return RunProcsResult(values, dict(self._failures), self.stdouts, self.stderrs)

    def pids(self):
        return {rank: handler.proc.pid for rank, handler in self.subprocess_handlers.items()}

    def _close(self, death_sig, timeout=30):
        live = [one for one in self.subprocess_handlers.values() if one.proc.poll() is None]
        for handler in self.subprocess_handlers.values():
            handler.close(death_sig)
        end = time.monotonic() + timeout
        for handler in live:
            while handler.proc.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            if handler.proc.poll() is None:
                handler.close(signal.SIGKILL)
                handler.proc.wait()


def _call(fn, args, env, out, err, result):
    os.environ.update(env)
    with get_std_cm(out, redirects.redirect_stdout), get_std_cm(err, redirects.redirect_stderr):
        value = record(fn)(*args)
    result.send(value)


class MultiprocessContext(PContext):
    """Workers that are functions. Arguments as PContext, and

    Args:
        start_method: "spawn", "fork" or "forkserver".
        numa_options: must be None.
    """

    def __init__(
        self,
        name,
        entrypoint,
        args,
        envs,
        start_method,
        logs_specs,
        log_line_prefixes=None,
        numa_options=None,
        duplicate_stdout_filters=None,
        duplicate_stderr_filters=None,
    ):
        super().__init__(
            name,
            entrypoint,
            args,
            envs,
            logs_specs,
            log_line_prefixes,
            duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
        if numa_options is not None:
            raise ValueError("workers cannot be bound to NUMA nodes here; start them with numactl")
        self.start_method, self._processes, self._pipes, self._values = start_method, [], [], {}

    def _start(self):
        context = get_context(self.start_method)
        for rank in range(self.nprocs):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (
                self.entrypoint,
                self.args[rank],
                self.envs[rank],
                self.stdouts[rank],
                self.stderrs[rank],
            )
            process = context.Process(target=_call, args=(*arguments, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def _receive(self):
        for rank, pipe in enumerate(self._pipes):
            if rank not in self._values and connection.wait([pipe], 0):
                try:
                    self._values[rank] = pipe.recv()
                except EOFError:
                    pass  # its exit code says why

    def _poll(self):
        self._receive()
        codes = [process.exitcode for process in self._processes]
        self._receive()
        failures = {
            rank: self._failure(rank, self._processes[rank].pid, code) for rank, code in enumerate(codes) if code
        }
        if not failures and any(code is None for code in codes):
            return None
        return RunProcsResult({} if failures else self._values, failures, self.stdouts, self.stderrs)

    def pids(self):
        return {rank: process.pid for rank, process in enumerate(self._processes)}

    def _close(self, death_sig, timeout=30):
        for process in self._processes:
            if process.is_alive():
                os.kill(process.pid, death_sig)
        end = time.monotonic() + timeout
        for process in self._processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
