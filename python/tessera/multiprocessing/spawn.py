"""Several processes that run one function; the first that fails ends all."""

import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from multiprocessing import connection, get_context, parent_process

_PATIENCE = 30.0  # seconds that processes have to end by themselves when they are told to

_ELSEWHERE = (
    "spawn() starts processes with the method 'spawn', but got start_method={0!r}: call "
    "start_processes(..., start_method={0!r}) for it"
)


class ProcessException(Exception):
    """A process of `spawn` failed: error_index is its number, error_pid its pid."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised in a process; the message has the traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal (signal_name) or with an exit code other than 0."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self._ended = exit_code, signal_name

    exit_code = property(lambda self: self._ended[0], doc="Negative: the number of the signal.")
    signal_name = property(lambda self: self._ended[1], doc="Such as SIGKILL, or None.")

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _end_with_parent():
    """Thread: interrupts this process when its parent is gone, and kills it if that does not help."""
    connection.wait([parent_process().sentinel])
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as it is in programs that shells start with `&`
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(_PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)


def _run(fn, number, args, error_file):
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        fn(number, *args)
    except KeyboardInterrupt:  # from the terminal, where the parent gets it as well, or because the parent is gone
        sys.exit(130)
    except Exception:
        with open(error_file, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes that `start_processes` started.

    Args:
        processes: the process objects, started.
        error_files: for each a path to which it writes the traceback of an error.
    """

    def __init__(self, processes, error_files):
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: number for number, process in enumerate(processes)}

    def pids(self):
        """The processes' pids, in the order of their numbers."""
        return [int(process.pid) for process in self.processes]

    def _end_all(self, grace_period):
        """Ends what still runs: SIGTERM, then, after `grace_period` seconds, SIGKILL."""
        running = [process for process in self.processes if process.is_alive()]
        for process in running:
            process.terminate()
        until = time.monotonic() + (_PATIENCE if grace_period is None else grace_period)
        for process in running:
            process.join(max(until - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join()

    def _failure(self, number):
        process, traceback_text = self.processes[number], ""
        try:
            with open(self.error_files[number], encoding="utf-8") as file:
                traceback_text = file.read()
        except FileNotFoundError:
            pass
        code, pid = process.exitcode, process.pid
        if traceback_text:
            text = f"\n\n-- Process {number} terminated with the following error:\n{traceback_text}"
            return ProcessRaisedException(text, number, pid)
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<unknown signal {-code}>"
            return ProcessExitedException(f"process {number} terminated with signal {name}", number, pid, code, name)
        return ProcessExitedException(f"process {number} terminated with exit code {code}", number, pid, code)

    def _remove_error_files(self):
        for path in self.error_files:
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass

    def join(self, timeout=None, grace_period=None):
        """Waits for processes to end, at most `timeout` seconds (None: until one of them ends).

        Returns: True if all have ended well, False if some still run.

        Raises: ProcessRaisedException, ProcessExitedException for the first that failed; the others are ended before,
            with SIGTERM and, `grace_period` seconds later (None: 30), with SIGKILL.
        """
        if not self.sentinels:
            return True
        ended = [self.sentinels.pop(sentinel) for sentinel in connection.wait(list(self.sentinels), timeout)]
        failed = None
        for number in sorted(ended):
            self.processes[number].join()
            if self.processes[number].exitcode != 0 and failed is None:
                failed = number
        if failed is not None:
            self._end_all(grace_period)
            self.sentinels.clear()
            error = self._failure(failed)
            self._remove_error_files()
            raise error
        if not self.sentinels:
            self._remove_error_files()
        return not self.sentinels


class SpawnContext(ProcessContext):
    """Deprecated name of ProcessContext."""

    def __init__(self, processes, error_files):
        warnings.warn("SpawnContext has the name ProcessContext now.", FutureWarning, stacklevel=2)
        super().__init__(processes, error_files)


def _error_path():
    descriptor, path = tempfile.mkstemp(prefix="tessera-spawn-", suffix=".txt")
    os.close(descriptor)
    return path


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs `fn(i, *args)` in `nprocs` processes, i = 0 ... nprocs - 1.

    Args:
        fn: a function that the start method can bring to a process (for "spawn" one on a module's top level).
        args: further arguments.
        nprocs: number of processes.
        join: wait for all of them.
        daemon: make them daemons, which end with this process and can't have children.
        start_method: "spawn", "fork" or "forkserver".

    Returns: None after joining, otherwise a ProcessContext, to be joined until `join()` is True.

    Raises: ProcessRaisedException with the traceback if `fn` raises in a process, ProcessExitedException if a process
        ends otherwise; then the others are ended. Processes end, too, when this one is killed.
    """
    context = get_context(start_method)
    started = ProcessContext([], [])
    try:
        for number in range(nprocs):
            started.error_files.append(_error_path())
            process = context.Process(target=_run, args=(fn, number, args, started.error_files[-1]), daemon=daemon)
            process.start()
            started.processes.append(process)
            started.sentinels[process.sentinel] = number
        if not join:
            return started
        while not started.join():
            pass
    except BaseException:
        started._end_all(None)
        started._remove_error_files()
        raise
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`start_processes` in the order of arguments that is documented; another `start_method` than "spawn" is for that
    function.
    """
    if start_method != "spawn":
        warnings.warn(_ELSEWHERE.format(start_method), FutureWarning, stacklevel=2)
    return start_processes(fn, args=args, nprocs=nprocs, join=join, daemon=daemon)
