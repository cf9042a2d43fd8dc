"""Timers of processes of one machine, over a named pipe."""

import json
import os
import select
import signal as signals
import threading
import time

from tessera.distributed.elastic.timer.api import TimerClient, TimerRequest
from tessera.distributed.elastic.timer.debug_info_logging import log_debug_info_for_expired_timers

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]


class FileTimerRequest(TimerRequest):
    """A timer of a process, and the signal that ends it.

    Args:
        worker_pid: the process.
        scope_id: of what.
        expiration_time: seconds since 1970.
        signal: 0: takes the timer away.
    """

    __slots__ = ("signal", "version")

    def __init__(self, worker_pid, scope_id, expiration_time, signal=0):
        super().__init__(worker_pid, scope_id, expiration_time)
        self.version, self.signal = 1, signal

    @property
    def worker_pid(self):
        """The process."""
        return self.worker_id

    def to_json(self):
        """The request as JSON."""
        return json.dumps(
            {
                "version": self.version,
                "pid": self.worker_pid,
                "scope_id": self.scope_id,
                "expiration_time": self.expiration_time,
                "signal": int(self.signal),
            }
        )


class FileTimerClient(TimerClient):
    """Sets timers of this process.

    Args:
        file_path: the server's pipe.
        signal: what ends this process when it is late.
    """

    def __init__(self, file_path, signal=signals.SIGKILL):
        super().__init__()
        self._file_path, self.signal = file_path, signal

    def _send(self, request):
        try:
            pipe = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise BrokenPipeError(f"no server of timers reads {self._file_path}: {error.strerror}") from error
        try:
            os.write(pipe, (request.to_json() + "\n").encode())
        finally:
            os.close(pipe)

    def acquire(self, scope_id, expiration_time):
        self._send(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id):
        self._send(FileTimerRequest(os.getpid(), scope_id, -1, 0))


class FileTimerServer:
    """Ends processes whose timers ended.

    Args:
        file_path: of the named pipe, which it makes, and removes at the end.
        run_id: the job's name.
        max_interval: seconds between two looks, at most.
        daemon: whether its thread may be left at the end of the process.
        log_event: called with what happens ("kill worker process", ...) and the request.
    """

    def __init__(self, file_path, run_id, max_interval=10, daemon=True, log_event=None):
        self._file_path, self._run_id, self._max_interval, self._daemon = file_path, run_id, max_interval, daemon
        self._log_event = log_event or (lambda name, request: None)
        self._timers, self._stopped, self._thread, self._pipe = {}, threading.Event(), None, None
        self._rest, self._once, self._last = b"", False, int(time.time())

    def start(self):
        """Makes the pipe and begins to look."""
        if os.path.exists(self._file_path):
            os.remove(self._file_path)
        os.mkfifo(self._file_path, 0o600)
        # Open for writing as well, so that it does not end with the last writer.
        self._pipe = os.open(self._file_path, os.O_RDWR | os.O_NONBLOCK)
        self._stopped.clear()
        self._thread = threading.Thread(target=self._watch, daemon=self._daemon)
        self._thread.start()

    def stop(self):
        """Ends, and removes the pipe."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._pipe is not None:
            os.close(self._pipe)
            os.remove(self._file_path)
            self._pipe = None

    def run_once(self):
        """Looks once more: takes what waits in the pipe, ends who is late, and stops."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._pipe is not None:
            self._look(0)
            self.stop()

    def get_last_progress_time(self):
        """When it last looked, in seconds since 1970."""
        return self._last

    @staticmethod
    def is_process_running(pid):
        """Whether there is a process of this number."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # somebody else's
        return True

    def _watch(self):
        while not self._stopped.is_set():
            self._look(self._max_interval)

    def _look(self, seconds):
        self.register_timers(self._requests(seconds))
        self._last, late = int(time.time()), self.get_expired_timers(time.time())
        log_debug_info_for_expired_timers(
            self._run_id, {pid: [one.to_json() for one in timers] for pid, timers in late.items()}
        )
        gone = set()
        for pid, timers in late.items():
            strongest = max(timers, key=lambda one: one.expiration_time)
            if not self.is_process_running(pid) or self._reap_worker(pid, strongest.signal):
                gone.add(pid)
                self._log_event("kill worker process", strongest)
        self.clear_timers(gone)

    def _requests(self, seconds):
        ready, _, _ = select.select([self._pipe], [], [], min(seconds, 1.0))
        if not ready:
            return []
        *lines, self._rest = (self._rest + os.read(self._pipe, 65536)).split(b"\n")
        found = []
        for line in lines:
            try:
                about = json.loads(line)
                found.append(
                    FileTimerRequest(about["pid"], about["scope_id"], about["expiration_time"], about["signal"])
                )
            except (ValueError, KeyError, TypeError):
                continue  # nobody's request
        return found

    def register_timers(self, timer_requests):
        """Takes requests."""
        for one in timer_requests:
            key = (one.worker_pid, one.scope_id)
            if one.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = one

    def clear_timers(self, worker_pids):
        """Forgets the timers of processes."""
        self._timers = {key: one for key, one in self._timers.items() if key[0] not in worker_pids}

    def get_expired_timers(self, deadline):
        """The timers that ended before a time, by process."""
        found = {}
        for one in self._timers.values():
            if one.expiration_time <= deadline:
                found.setdefault(one.worker_pid, []).append(one)
        return found

    @staticmethod
    def _reap_worker(pid, signal):
        if signal <= 0:
            return True
        try:
            os.kill(pid, signal)
        except ProcessLookupError:
            pass  # it has ended
        except PermissionError:
            return False
        return True
