"""What profilers see of remote calls: an event for each call, "rpc_sync#f(a -> b)", from its beginning until its answer
is there, and what happened at the other worker, "rpc_sync#f(a -> b)#remote_op: aten::add", by each machine's own clock.

A worker records one call at a time: of one that has to wait longer than a second for that, the call alone is seen.
"""

import threading
import time

import tessera
from tessera.distributed.rpc._agent import check_future, is_async
from tessera.futures import Future
from tessera.profiler import _recording

_OPTIONS = "record_shapes", "profile_memory", "with_flops", "use_cpu"
_one = threading.Lock()


def _key_of(kind, function, here, to):
    if type(function) is type(tessera.add) and function.__module__ == tessera.__name__:
        name = f"aten::{function.__name__}"
    else:
        name = getattr(function, "qualified_name", None) or getattr(
            function, "__qualname__", type(function).__qualname__
        )
    return f"rpc_{kind}#{name}({here} -> {to})"


class Watch:
    """Adds a call to the recording of this thread.

    Args:
        kind: "sync", "async" or "remote".
        function: what is called.
        here, to: WorkerInfos of who asks and who answers.
    """

    def __init__(self, kind, function, here, to):
        options, self._added = _recording.additions()
        self._options = {name: options[name] for name in _OPTIONS if name in options}
        self._key, self._here, self._to = _key_of(kind, function, here.name, to.name), here, to
        self._begin = time.time_ns()

    def wrapped(self, function, args, kwargs):
        """The function and arguments that are asked for in the place of these."""
        return run, (self._options, self._key, self._to.id, function, args, kwargs), {}

    def value_of(self, answer):
        """The value in what `run` gave; its events are added."""
        value, rows = answer
        self._added.append(rows)
        return value

    def ended(self, _):
        """Adds the call, which has ended."""
        row = {"name": self._key, "begin": self._begin, "end": time.time_ns(), "thread": 0, "shapes": [], "memory": 0}
        self._added.append([{**row, "node": self._here.id, "parent": None, "kind": "call"}])


def run(options, key, node, function, args, kwargs):
    """Calls a function and records it. Returns: a Future of what it returns, and of the rows of its events."""
    rows: list = []
    recording = _begin(options)
    try:
        value = function(*args, **kwargs)
    finally:
        if recording:
            try:
                rows += _recording.stop(options).rows(f"{key}#remote_op: ", node)
            finally:
                _one.release()
    done: Future = Future()
    if not is_async(function):
        done.set_result((value, rows))
        return done
    check_future(value)
    return value.then(lambda future: (future.value(), rows))


run._wrapped_async_rpc_function = run  # type: ignore[attr-defined]


def _begin(options):
    """Whether a recording of this call begins."""
    if not _one.acquire(timeout=1.0):
        return False
    try:
        _recording.start({**options, "all_threads": False})
    except RuntimeError:  # this process records for itself
        _one.release()
        return False
    return True
