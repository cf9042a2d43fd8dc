"""Values that another thread, or another process, is still computing.

>>> result = tessera.futures.Future()
>>> doubled = result.then(lambda done: 2 * done.value())
>>> result.set_result(21)
>>> doubled.wait()
42
"""

import logging
import threading
from typing import Generic, TypeVar

import tessera

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")

_log = logging.getLogger(__name__)


class Future(Generic[T]):
    """A value to come. One thread completes it with `set_result` or `set_exception`, any number wait for it or leave
    callbacks.

    Args:
        devices: the CUDA devices on which tensors of the value may lie. The kernels that compute them may still run
            when the value is set: who waits for it makes the current streams of these devices wait for them.

    Raises: ValueError for a device that has no streams.
    """

    def __init__(self, *, devices=None):
        self._devices = [tessera.device(d) for d in devices or ()]
        for device in self._devices:
            if device.type == "cpu":
                raise ValueError("Future: expected devices that have streams, such as 'cuda:0', but got 'cpu'")
        self._changed = threading.Condition()
        self._done = False
        self._value = self._error = None
        self._callbacks = []
        self._events = []

    def done(self):
        """Whether there is a value, or an exception in its place. Kernels on devices may still be at work on it."""
        return self._done

    def wait(self):
        """Blocks until the future is completed, and returns its value. Raises: the exception that took its place."""
        with self._changed:
            self._changed.wait_for(self.done)
        for device, event in self._events:
            tessera.cuda.current_stream(device).wait_event(event)
        return self._outcome()

    def value(self):
        """The value of a completed future, without waiting for streams: for callbacks, which run when that has been
        done. Raises: RuntimeError if it is not completed, else the exception that took the value's place."""
        if not self._done:
            raise RuntimeError("Future.value() was called before the future was completed; wait() waits for that")
        return self._outcome()

    def then(self, callback):
        """A future of what `callback(self)` returns, which runs once this one is completed: at once if it is, else on
        the thread that completes it. What it raises is raised by the new future."""
        if not callable(callback):
            raise TypeError(f"then() has incompatible function arguments. A function is needed, got {callback!r}")
        following = Future(devices=self._devices)

        def complete(done):
            try:
                result = callback(done)
            except BaseException as error:  # whoever waits gets it
                kind = type(error).__name__
                told = RuntimeError(f"Got the following error when running the callback: {kind}: {error}")
                told.__cause__ = error
                following.set_exception(told)
            else:
                following.set_result(result)

        self._when_done(complete)
        return following

    def add_done_callback(self, callback):
        """Calls `callback(self)` once the future is completed, as `then` does, but what it returns is dropped and what
        it raises is only logged."""

        def guarded(done):
            try:
                callback(done)
            except Exception:
                _log.exception("a callback of a Future failed")

        self._when_done(guarded)

    def __reduce_ex__(self, protocol):
        raise RuntimeError("Can not pickle torch.futures.Future: send its value")

    def set_result(self, result):
        """Completes the future with a value. Raises: RuntimeError if it is completed already."""
        if self._devices:
            self._record_streams(result)
        self._complete(result, None)

    def set_exception(self, result):
        """Completes the future with an exception, which `wait` and `value` will raise.

        Raises: AssertionError if it is no exception, RuntimeError if the future is completed already."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result!r} is of type {type(result).__name__}, not an Exception")
        self._complete(None, result)

    def _outcome(self):
        if self._error is not None:
            raise self._error
        return self._value

    def _when_done(self, callback):
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def _record_streams(self, result):
        from tessera.utils._pytree import tree_leaves

        for leaf in tree_leaves(result):
            if isinstance(leaf, tessera.Tensor) and leaf.device.type != "cpu" and leaf.device not in self._devices:
                raise ValueError(f"Future: a tensor of the result is on {leaf.device}, not on one of {self._devices}")
        for device in self._devices:
            event = tessera.cuda.Event()
            event.record(tessera.cuda.current_stream(device))
            self._events.append((device, event))

    def _complete(self, value, error):
        with self._changed:
            if self._done:
                raise RuntimeError("Future can only be marked completed once, and this one was before")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)


def collect_all(futures):
    """A future of the list of these futures, completed when the last of them is, or when one of them fails: with its
    exception."""
    futures = list(futures)
    collected = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_more(done):
        with lock:
            before = left[0]
            left[0] = 0 if done._error is not None else max(before - 1, 0)
        if before == 0 or left[0] > 0:
            return
        if done._error is not None:
            collected.set_exception(done._error)
        else:
            collected.set_result(futures)

    if not futures:
        collected.set_result(futures)
    for future in futures:
        future.add_done_callback(one_more)
    return collected


def wait_all(futures):
    """Waits for all of them and returns the list of their values. Raises: the exception of the first that fails, and
    waits for no others then."""
    return [future.wait() for future in collect_all(futures).wait()]
