"""Timers of processes of one machine, over a multiprocessing queue."""

import os
import signal
import time
from queue import Empty

from tessera.distributed.elastic.timer.api import RequestQueue, TimerClient, TimerRequest, TimerServer

__all__ = ["LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"]


class LocalTimerClient(TimerClient):
    """Sets timers of this process.

    Args:
        mp_queue: that of the server.
    """

    def __init__(self, mp_queue):
        super().__init__()
        self._mp_queue = mp_queue

    def acquire(self, scope_id, expiration_time):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """Requests in a multiprocessing queue.

    Args:
        mp_queue: the queue.
    """

    def __init__(self, mp_queue):
        super().__init__()
        self._mp_queue = mp_queue

    def size(self):
        return self._mp_queue.qsize()

    def get(self, size, timeout):
        found, end = [], time.monotonic() + timeout
        while len(found) < size:
            try:
                found.append(self._mp_queue.get(block=True, timeout=max(0.0, end - time.monotonic())))
            except Empty:
                break
        return found


class LocalTimerServer(TimerServer):
    """Kills processes of this machine whose timers ended.

    Args:
        mp_queue: where requests come from.
        max_interval: seconds between two looks, at most.
        daemon: whether its thread may be left at the end of the process.
    """

    def __init__(self, mp_queue, max_interval=60, daemon=True):
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers = {}

    def register_timers(self, timer_requests):
        for one in timer_requests:
            key = (one.worker_id, one.scope_id)
            if one.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = one

    def clear_timers(self, worker_ids):
        self._timers = {key: one for key, one in self._timers.items() if key[0] not in worker_ids}

    def get_expired_timers(self, deadline):
        found = {}
        for one in self._timers.values():
            if one.expiration_time <= deadline:
                found.setdefault(one.worker_id, []).append(one)
        return found

    def _reap_worker(self, worker_id):
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended
        except PermissionError:
            return False
        return True
