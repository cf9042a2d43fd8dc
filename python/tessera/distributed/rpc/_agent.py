"""What carries remote calls: connections to all other workers, threads that carry out what they ask."""

import atexit
import heapq
import itertools
import os
import re
import threading
import time
import weakref
from collections import deque, namedtuple

from tessera.distributed import _native
from tessera.distributed._gloo import _address_of, _collect, own_address
from tessera.distributed._work import complete
from tessera.distributed.rpc import _wire
from tessera.futures import Future

_HELLO = b"tessera-rpc-1 "


class WorkerInfo(namedtuple("WorkerInfo", ["name", "id"])):
    """Which worker: its name and its rank. Raises: RuntimeError for a name that is not allowed."""

    __slots__ = ()

    def __new__(cls, name, id):
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_:-]{1,127}", name):
            raise RuntimeError(
                "Worker name must match ^[A-Za-z0-9-_:]*$, must be non-empty and must be shorter than 128 characters, "
                f"but got {name!r}"
            )
        return super().__new__(cls, name, id)

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, name={self.name})"


class Present:
    """The agent of this process; how many there were before; and the functions of api.py, which
    references call."""

    agent, ended, calls = None, 0, {}  # type: ignore[var-annotated]


def current():
    """The agent. Raises: RuntimeError before init_rpc."""
    if Present.agent is None:
        raise RuntimeError("RPC has not been initialized: remote calls need init_rpc() first")
    return Present.agent


def is_async(function):
    """Whether a function is under async_execution."""
    return getattr(function, "_wrapped_async_rpc_function", None) is not None


def check_future(value):
    """Raises: RuntimeError for what a function under async_execution must not return."""
    if not isinstance(value, Future):
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise RuntimeError(
            "Functions decorated with @rpc.async_function must return a torch.futures.Future object, but got "
            f"{kind}; without rpc.functions.async_execution they return what they like"
        )


class _Clock:
    """One thread that ends futures whose time is over."""

    def __init__(self):
        self._changed, self._heap, self._numbers, self._closed = threading.Condition(), [], itertools.count(), False
        self._thread = None

    def limit(self, future, seconds, text):
        """Ends a future with RuntimeError(text) after so many seconds."""
        with self._changed:
            # Most calls end long before their time: what they return must not stay until then.
            entry = time.monotonic() + seconds, next(self._numbers), weakref.ref(future), text
            heapq.heappush(self._heap, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            elif self._heap[0] is entry:
                self._changed.notify()

    def close(self):
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self):
        while True:
            with self._changed:
                if self._closed:
                    return
                now = time.monotonic()
                if not self._heap or self._heap[0][0] > now:
                    self._changed.wait(self._heap[0][0] - now if self._heap else None)
                    continue
                _, _, reference, text = heapq.heappop(self._heap)
            future = reference()
            if future is not None:
                complete(future, error=RuntimeError(text))


class Answer(Future):
    """What a call returns, once it has come.

    Args:
        agent: of this process.
        rank: of the worker that is asked.
        number: of the call.
        history: how gradients of it get back (rpc._history), or None.
        watch: what a profiler sees of it (rpc._profiled), or None.
    """

    def __init__(self, agent, rank, number, history=None, watch=None):
        super().__init__()
        self._agent, self._rank, self._number, self._history, self._watch = agent, rank, number, history, watch
        if watch is not None:
            self._when_done(watch.ended)

    def wait(self):
        """Blocks until the answer is there. The thread that waits reads it itself, if no other one does."""
        while not self._done and self._rank != self._agent.info.id:
            message = self._agent.await_answer(self._rank, self._number)
            if message is None:
                break  # it is on its way to here
            if message is not True:
                self._agent.answered(message)
        return super().wait()

    def is_watched(self):
        """Whether a profiler sees it."""
        return self._watch is not None

    def take(self, good, data, rows, trail):
        """Completes itself with an answer."""
        try:
            tensors = _wire.placed(rows)
            if self._history is not None:
                tensors = self._history.received(tensors, trail)
            value = _wire.unpack(data, tensors, self._agent.resolve)
        except Exception as error:
            return complete(self, error=error)
        if good:
            return complete(self, value if self._watch is None else self._watch.value_of(value))
        return complete(self, error=value.as_error())


# Kinds of messages, as in distributed/calls.h.
_CALL, _GOOD, _BAD, _READ, _LOST, _POSTED = range(6)
_SLICE, _FOREVER = 1.0, 1e12
_MOST = 1024  # workers of a group without world_size


def _place_of(told):
    """A worker as the connections take it, of what it told."""
    name, host, port, process, address, shown = told[:6]
    return name, host, int(port), int(process), int(address), bytes.fromhex(shown)


class _Found(dict):
    """WorkerInfos by rank: those that were asked for, or that asked.

    Args:
        agent: of this process.
    """

    def __init__(self, agent):
        super().__init__()
        self._agent = agent

    def __missing__(self, rank):
        return self._agent.look_up(rank)


class Agent:
    """The workers' connections and threads.

    Args:
        info: this worker.
        size: number of workers; -1: any, which come and go.
        store: over which they find each other.
        options: TensorPipeRpcBackendOptions.
        hooks: what RRefs and gradients make of messages (rpc.api).
    """

    def __init__(self, info, size, store, options, hooks):
        self.info, self.size, self.store, self.options, self.hooks = info, size, store, options, hooks
        self.timeout = options.rpc_timeout
        self._numbers, self._lock, self._answers, self._posted = itertools.count(1), threading.Lock(), {}, {}
        self._clock, self._pending, self._finished = _Clock(), 0, threading.Condition()
        # Memory that others may still read: of calls by their number, of answers by their connection and number.
        self._kept: dict = {}
        self._threads, self._idle, self._busy, self._later = [], 0, 0, deque()
        self._native = _native.load()
        self._meet() if size > 0 else self._join()

    def _listen(self):
        """(listening descriptor, what the others are told of this worker)."""
        interface = os.environ.get("TP_SOCKET_IFNAME", "").split(",")[0]
        host = _address_of(interface) if interface else own_address()
        listener, port = self._native.listen(host, 0)
        process, address, shown = self._native.calls_place()
        return listener, f"{self.info.name}|{host}|{port}|{process}|{address}|{shown.hex()}"

    def _meet(self):
        listener, told = self._listen()
        secret = os.urandom(16).hex() if self.info.id == 0 else ""
        try:
            self.store.set(f"worker/{self.info.id}", f"{told}|{secret}")
            values = _collect(self.store, self.info.id, self.size, "worker", self.store.timeout)
            found = [value.decode().split("|") for value in values]
            names = [one[0] for one in found]
            if len(set(names)) != len(names):
                raise RuntimeError(f"the name of a worker is not unique: {names}")
        except BaseException:
            os.close(listener)
            raise
        self.workers = {rank: WorkerInfo(name, rank) for rank, name in enumerate(names)}
        self._places = [_place_of(one) for one in found]
        self._secret = _HELLO + found[0][-1].encode()
        self._calls = self._native.calls_make(self.info.id, self._places, self._secret, listener)

    def _join(self):
        """Joins a group of any size. Who asks for another worker finds it in the store."""
        if self.info.id >= _MOST:
            raise RuntimeError(f"ranks of groups without world_size are below {_MOST}, but got {self.info.id}")
        listener, told = self._listen()
        rank, store = str(self.info.id), self.store
        try:
            for key, value in ((f"name/{self.info.name}", rank), (f"worker/{rank}", told)):
                if store.compare_set(key, "", value).decode() != value:
                    raise RuntimeError(f"the name and the rank of {self.info} are not unique: another worker has {key}")
            secret = store.compare_set("secret", "", os.urandom(16).hex())
        except BaseException:
            os.close(listener)
            raise
        self.workers, self._secret = _Found(self), _HELLO + secret
        self.workers[self.info.id] = self.info
        self._places = [("", "", 0, 0, 0, b"")] * _MOST
        self._places[self.info.id] = _place_of(told.split("|"))
        self._calls = self._native.calls_make(self.info.id, self._places, self._secret, listener)
        store.set(f"member/{store.add('members', 1)}", rank)

    def look_up(self, rank):
        """The WorkerInfo of one that joined. Raises: RuntimeError if there is none, or if it has left."""
        key = f"worker/{rank}"
        told = self.store.get(key).decode().split("|") if self.store.check([key]) else []
        if len(told) < 2:
            raise RuntimeError(f"could not find destination: there is no worker {rank}, or it has left")
        self._native.calls_introduce(self._calls, rank, _place_of(told))
        self.workers[rank] = WorkerInfo(told[0], rank)
        return self.workers[rank]

    def leave(self):
        """Tells those who look for this worker that it is gone."""
        self.store.set(f"worker/{self.info.id}", "left")

    def admit(self):
        """Begins to answer the others, who may be ready earlier: what they ask needs this agent in its place."""
        self._native.calls_admit(self._calls)
        with self._lock:
            self._start_thread()
        atexit.register(self._end_threads)

    # ---- threads: there is always one that waits for messages, whatever the others do

    def _start_thread(self):
        self._idle += 1
        self._threads.append(threading.Thread(target=self._work, name="tessera-rpc", daemon=True))
        self._threads[-1].start()

    def _work(self):
        while (message := self._native.calls_take(self._calls)) is not None:
            with self._lock:
                self._idle -= 1
                if not self._idle:
                    self._start_thread()
            kind, number, link, rank, pieces = message
            if kind == _CALL:
                self._serve_call(link, number, rank, pieces)
            elif kind == _POSTED:
                self.serve(*self._posted.pop(number))
            else:
                self.answered(message)
            del message, pieces  # not to outlive their use
            with self._lock:
                self._idle += 1
        with self._lock:
            self._idle -= 1

    def _run(self, *task):
        """Carries a task out, unless as many threads do already as may: then one of them will."""
        with self._lock:
            if self._busy >= self.options.num_worker_threads:
                self._later.append(task)
                return
            self._busy += 1
        while task is not None:
            self._carry_out(*task)
            with self._lock:
                task = self._later.popleft() if self._later else None
                self._busy -= task is None

    def _end_threads(self):
        """Before the interpreter ends: threads must not come back to it later."""
        self._native.calls_close(self._calls)
        end = time.monotonic() + 1
        while self._idle and time.monotonic() < end:
            time.sleep(0.001)

    def get_worker_infos(self):
        """The WorkerInfos of all workers; of those that come and go, who is there now."""
        if self.size > 0:
            return list(self.workers.values())
        ranks = [int(self.store.get(f"member/{i}")) for i in range(1, self.store.add("members", 0) + 1)]
        return [self.workers[rank] for rank in ranks if self.store.get(f"worker/{rank}") != b"left"]

    def find(self, to):
        """The WorkerInfo of a name, a rank or a WorkerInfo.

        Raises: RuntimeError for one that there is not, ValueError for what is no such."""
        if isinstance(to, WorkerInfo):
            return to
        if not isinstance(to, (str, int)):
            raise ValueError(f"a worker is a name, a rank or a WorkerInfo, but got {to!r}")
        for one in list(self.workers.values()):
            if to == (one.name if isinstance(to, str) else one.id):
                return one
        if self.size < 0 and isinstance(to, int):
            return self.look_up(to)
        if self.size < 0 and self.store.check([f"name/{to}"]):
            return self.look_up(int(self.store.get(f"name/{to}")))
        raise RuntimeError(
            f"could not find destination: there is no worker {to!r}; the workers are "
            f"{[one.name for one in self.workers.values()]}"
        )

    # ---- asking

    def call(self, to, function, args, kwargs, timeout, history=None, watch=None):
        """Starts a call. Returns: its future."""
        if not callable(function):
            raise TypeError(f"a remote call takes a function, but got {type(function).__name__}")
        if isinstance(timeout, str):
            raise TypeError(f"the timeout of a remote call is a number of seconds, but got {timeout!r}")
        number = next(self._numbers)
        answer = Answer(self, to.id, number, history, watch)
        device_map = self.options.device_maps.get(to.name, {})
        data, tensors = _wire.pack((function, args, kwargs), lambda obj: self.hooks.refer(obj, to))
        trail = None
        if history is not None:
            tensors, trail = history.sent(tensors, to.id)
        rows = _wire.table(tensors, to.name, device_map)
        seconds = self.timeout if timeout < 0 else timeout
        if seconds > 0:
            name = getattr(function, "__qualname__", function)
            self._clock.limit(
                answer, seconds, f"RPC ran for more than set timeout ({seconds * 1000:g} ms): {name} at {to.name}"
            )
        self._count(1)
        self._answers[number] = answer
        answer._when_done(lambda _: self._ended(number))
        if to.id == self.info.id:
            self._posted[number] = _Here(self, answer), data, rows, trail
            self._native.calls_post(self._calls, number)
            return answer
        pieces, kept = _wire.encode(data, rows, trail)
        self._kept[number] = pieces, kept
        try:
            self._native.calls_ask(self._calls, to.id, number, pieces, seconds or _FOREVER)
        except RuntimeError as error:
            self._kept.pop(number, None)
            complete(answer, error=RuntimeError(str(error)))
        return answer

    def await_answer(self, rank, number):
        """The message with an answer; True if there is none yet; None if another thread has it."""
        return self._native.calls_wait(self._calls, rank, number, _SLICE)

    def answered(self, message):
        """Completes what waits for an answer."""
        kind, number, link, _, pieces = message
        if self._kept.pop((link, number), None) is not None:
            return  # one of this worker's has been read, or nobody is left who could
        self._kept.pop(number, None)
        answer = self._answers.get(number)
        if answer is None:
            return
        if kind == _LOST:
            complete(answer, error=RuntimeError(bytes(pieces[0]).decode()))
            return
        try:
            parts = _wire.decode(pieces)
        except Exception as error:
            complete(answer, error=error)
        else:
            answer.take(kind == _GOOD, *parts)

    def _ended(self, number):
        self._answers.pop(number, None)
        self._count(-1)

    def _count(self, change):
        with self._finished:
            self._pending += change
            if not self._pending:
                self._finished.notify_all()

    def wait_until_idle(self, seconds):
        """Waits until all calls of this process have ended."""
        with self._finished:
            self._finished.wait_for(lambda: self._pending == 0, seconds)

    # ---- answering

    def resolve(self, pid):
        """What stands for an RRef, as an RRef."""
        return self.hooks.resolve(pid)

    def _serve_call(self, connection, number, rank, pieces):
        try:
            link = _There(self, connection, self.workers[rank], number)
        except RuntimeError:
            return  # who asked has left meanwhile
        try:
            parts = _wire.decode(pieces)
        except Exception as error:
            self._reply(link, False, _wire.RemoteFailure(error, self.info), None)
        else:
            self.serve(link, *parts)

    def serve(self, link, data, rows, trail):
        """Carries a request out: at once what never waits, else if there is a thread for it."""
        try:
            tensors = _wire.placed(rows)
            history, tensors = self.hooks.arrived(tensors, trail)
            function, args, kwargs = _wire.unpack(data, tensors, self.resolve)
        except Exception as error:
            return self._reply(link, False, _wire.RemoteFailure(error, self.info), None)
        if getattr(function, "_runs_at_once", False):
            return self._carry_out(link, function, args, kwargs, history)
        return self._run(link, function, args, kwargs, history)

    def _carry_out(self, link, function, args, kwargs, history):
        try:
            with self.hooks.within(history):
                value = function(*args, **kwargs)
            waits = is_async(function)
            if waits:
                check_future(value)
        except Exception as error:
            return self._reply(link, False, _wire.RemoteFailure(error, self.info), None)
        if not waits:
            return self._reply(link, True, value, history)

        def later(done):
            try:
                self._reply(link, True, done.value(), history)
            except Exception as error:
                self._reply(link, False, _wire.RemoteFailure(error, self.info), None)

        value._when_done(later)
        return None

    def _reply(self, link, good, value, history):
        to = link.worker
        try:
            data, tensors = _wire.pack(value, lambda obj: self.hooks.refer(obj, to))
            trail = None
            if history is not None:
                tensors, trail = history.sent(tensors, to.id)
            rows = _wire.table(tensors, to.name, self.options.device_maps.get(to.name, {}))
            link.send(good, data, rows, trail)
        except Exception as error:
            data, _ = _wire.pack(_wire.RemoteFailure(error, self.info), lambda obj: None)
            link.send(False, data, [], None)

    def close(self):
        """Ends threads and connections."""
        atexit.unregister(self._end_threads)
        self._clock.close()
        self._end_threads()


class _There:
    """The way back to who asked.

    Args:
        agent: of this process.
        connection: the number of it.
        worker: who asked.
        number: of the call.
    """

    def __init__(self, agent, connection, worker, number):
        self.worker, self._agent, self._connection, self._number = worker, agent, connection, number

    def send(self, good, data, rows, trail):
        """Sends an answer; if the connection is lost, who asked knows it."""
        pieces, kept = _wire.encode(data, rows, trail)
        agent, key = self._agent, (self._connection, self._number)
        agent._kept[key] = pieces, kept
        try:
            stay = agent._native.calls_answer(agent._calls, *key, good, pieces, _FOREVER)
        except RuntimeError:
            stay = False
        if not stay:
            agent._kept.pop(key, None)


class _Here:
    """The link of a worker to itself.

    Args:
        agent: of this process.
        answer: takes the answer.
    """

    def __init__(self, agent, answer):
        self.worker, self._answer = agent.info, answer

    def send(self, good, data, rows, trail):
        """Completes the answer."""
        self._answer.take(good, data, rows, trail)
