"""Handles of collectives and messages that may still be on their way."""

import threading
from datetime import timedelta

from tessera.futures import Future

_NO_TIMEOUT = timedelta(0)
_FOREVER = 1e12


class Work:
    """A collective or a message on its way. Backends of third parties derive from it."""

    def is_completed(self):
        """Whether it has ended, well or not. Does not wait."""
        raise NotImplementedError(f"{type(self).__name__}.is_completed()")

    def is_success(self):
        """Whether it has ended well."""
        return self.is_completed() and self.exception() is None

    def exception(self):
        """What ended it badly, or None."""
        return None

    def wait(self, timeout=_NO_TIMEOUT):
        """Waits until it has ended, for at most `timeout` (0: the group's).

        Returns: True. Raises: DistBackendError, DistNetworkError or another RuntimeError if it failed."""
        raise NotImplementedError(f"{type(self).__name__}.wait()")

    def synchronize(self):
        """Waits for what the current stream, or the host, needs of it."""
        self.wait()

    def block_current_stream(self):
        """Makes what is queued on the current stream from now on wait for it; on the host, waits."""
        self.wait()

    def result(self):
        """The tensors that it wrote."""
        raise NotImplementedError(f"{type(self).__name__}.result()")

    def source_rank(self):
        """The rank that the message came from."""
        raise RuntimeError("source_rank() is for messages received from any rank")

    def get_future(self):
        """A future of the tensors that it writes."""
        raise NotImplementedError(f"{type(self).__name__}.get_future()")

    def get_future_result(self):
        """A future of how it ended. Raises: RuntimeError where the backend (all but NCCL) has none."""
        raise RuntimeError("get_future_result() is for the NCCL backend only")

    def boxed(self):
        """This handle, as what operators take."""
        return self

    @staticmethod
    def unbox(arg0):
        """The handle in what `boxed()` gave."""
        return arg0


class DoneWork(Work):
    """What ended before its caller could look.

    Args:
        outputs: the tensors that it wrote.
        error: what ended it badly, or None.
        source: the rank that a message came from.
    """

    def __init__(self, outputs=(), error=None, source=None):
        self._outputs, self._error, self._source = list(outputs), error, source

    def is_completed(self):
        return True

    def exception(self):
        return self._error

    def wait(self, timeout=_NO_TIMEOUT):
        if self._error is not None:
            raise self._error
        return True

    def result(self):
        return self._outputs

    def source_rank(self):
        return super().source_rank() if self._source is None else self._source

    def get_future(self):
        future = Future()
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(self._outputs)
        return future


class PendingWork(Work):
    """What the extension is at work on. It holds the memory until that has ended.

    Args:
        ask: the extension's functions: whether it is done, and a wait for so many seconds that returns whether it is
            done (an int stands for the rank that a message came from).
        outputs: the tensors that it writes.
        finish: called once after a good end, to bring the results to where they belong.
        timeout: seconds that a wait lasts at most.
        keep: what has to stay alive meanwhile.
    """

    def __init__(self, done, wait, outputs, finish, timeout, keep):
        self._done, self._wait, self._outputs, self._finish = done, wait, list(outputs), finish
        self._timeout, self._keep = timeout, keep
        self._lock = threading.RLock()
        self._ended, self._error, self._source, self._future = False, None, None, None

    def is_completed(self):
        if not self._ended and self._done():
            self._end(_FOREVER)
        return self._ended

    def exception(self):
        return self._error

    def _end(self, seconds):
        """Waits so long; True once it has ended."""
        error = source = None
        try:
            reply = self._wait(seconds)
            if reply is False:
                return False
            source = reply
        except RuntimeError as raised:
            error = raised
        with self._lock:
            if self._ended:
                return True
            if error is None and self._finish is not None:
                try:
                    self._finish()
                except RuntimeError as raised:
                    error = raised
            self._error, self._source = error, source
            self._keep = self._finish = None
            self._ended = True
        return True

    def wait(self, timeout=_NO_TIMEOUT):
        seconds = timeout.total_seconds() if timeout else self._timeout
        if not self._ended and not self._end(seconds):
            raise RuntimeError(f"the wait for a collective timed out after {seconds:g} s; it is still on its way")
        if self._error is not None:
            raise self._error
        return True

    def result(self):
        if not self.is_completed():
            raise RuntimeError("result() of a collective that is still on its way; wait() first")
        return self._outputs

    def source_rank(self):
        if type(self._source) is not int:
            return super().source_rank()
        return self._source

    def get_future(self):
        with self._lock:
            if self._future is None:
                self._future = _WorkFuture(self)
            return self._future


class _WorkFuture(Future):
    """The future of a Work: completed by who waits for it, or by a thread that looks after those with callbacks."""

    def __init__(self, work):
        super().__init__()
        self._work, self._once = work, threading.Lock()

    def settle(self):
        """Waits for the work, and completes the future."""
        try:
            self._work.wait()
        except RuntimeError:
            pass  # it is the future's, too
        with self._once:
            if self._done:
                return
            error = self._work.exception()
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(self._work._outputs)

    def done(self):
        if not self._done and self._work.is_completed():
            self.settle()
        return self._done

    def wait(self):
        if not self._done:
            self.settle()
        return super().wait()

    def _when_done(self, callback):
        super()._when_done(callback)
        if not self._done:
            _caretaker.look_after(self)


class _Caretaker:
    """One thread that completes futures whose callbacks somebody may wait for."""

    def __init__(self):
        self._changed, self._futures, self._thread, self._process = threading.Condition(), [], None, None

    def look_after(self, future):
        """Completes this future in its turn."""
        import os

        with self._changed:
            if self._process != os.getpid():  # a fork has the list, and no thread
                self._process, self._thread, self._futures = os.getpid(), None, []
            self._futures.append(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tessera-futures", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _work(self):
        while True:
            with self._changed:
                while not self._futures:
                    if not self._changed.wait(timeout=5) and not self._futures:
                        self._thread = None
                        return
                future = self._futures.pop(0)
            future.settle()
            del future


_caretaker = _Caretaker()


def complete(future, value=None, error=None):
    """Completes a future, unless that has been done."""
    with future._changed:
        if future._done:
            return
        future._value, future._error, future._done = value, error, True
        callbacks, future._callbacks = future._callbacks, []
        future._changed.notify_all()
    for callback in callbacks:
        callback(future)
