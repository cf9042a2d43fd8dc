"""What carries remote calls: connections to all other workers, threads that carry out what they ask."""

import errno
import hmac
import heapq
import itertools
import os
import socket
import threading
import time
import weakref
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

from tessera.distributed import _native
from tessera.distributed._gloo import _address_of, _collect, own_address
from tessera.distributed._work import complete
from tessera.distributed.rpc import _wire
from tessera.futures import Future

_HELLO = b"tessera-rpc-1 "


class WorkerInfo(namedtuple("WorkerInfo", ["name", "id"])):
    """Which worker: its name and its rank."""

    __slots__ = ()

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, name={self.name})"


class Present:
    """The agent of this process; how many there were before; and the functions of api.py, which
    references call."""

    agent, ended, calls = None, 0, {}  # type: ignore[var-annotated]


def current():
    """The agent. Raises: RuntimeError before init_rpc."""
    if Present.agent is None:
        raise RuntimeError("remote calls need init_rpc() first")
    return Present.agent


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


class _Link:
    """A connection: one side asks, the other answers.

    Args:
        agent: of this process.
        connection: the socket.
        peer: the other worker's name, for errors.
    """

    def __init__(self, agent, connection, peer):
        self._agent, self._connection, self._peer = agent, connection, peer
        self._writing, self._lock, self._waiting, self._broken = threading.Lock(), threading.Lock(), {}, None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, number, future, message):
        """Sends a request; the future takes the answer."""
        with self._lock:
            if self._broken is not None:
                return complete(future, error=RuntimeError(self._broken))
            self._waiting[number] = future
        self.send(message)
        return None

    def send(self, message):
        """Sends a message; if that fails, all that wait get the error."""
        try:
            with self._writing:
                _wire.send_message(self._connection, message)
        except OSError as error:
            self._end(str(error))

    def _read(self):
        reader = _wire.Reader(self._connection)
        try:
            while True:
                kind, number, *rest = reader.message()
                if kind == "call":
                    self._agent.serve(self, number, *rest)
                else:
                    with self._lock:
                        future = self._waiting.pop(number, None)
                    if future is not None:
                        future.take(*rest)
        except Exception as error:  # whatever it was, this connection has ended
            self._end(str(error))

    def _end(self, why):
        with self._lock:
            self._broken = self._broken or f"the connection to the worker {self._peer} is lost: {why}"
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            complete(future, error=RuntimeError(self._broken))
        self.close()

    def close(self):
        """Closes the connection."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was
        self._connection.close()


class Answer(Future):
    """What a call returns, once it has come.

    Args:
        agent: of this process.
        history: how gradients of it get back (rpc._history), or None.
    """

    def __init__(self, agent, history=None):
        super().__init__()
        self._agent, self._history = agent, history

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
            return complete(self, value)
        return complete(self, error=value.as_error())


class Agent:
    """The workers' connections and threads.

    Args:
        info: this worker.
        size: number of workers.
        store: over which they find each other.
        options: TensorPipeRpcBackendOptions.
        hooks: what RRefs and gradients make of messages (rpc.api).
    """

    def __init__(self, info, size, store, options, hooks):
        self.info, self.size, self.store, self.options, self.hooks = info, size, store, options, hooks
        self.timeout = options.rpc_timeout
        self._numbers, self._lock, self._links, self._open = itertools.count(1), threading.Lock(), {}, set()
        self._pool = ThreadPoolExecutor(options.num_worker_threads, thread_name_prefix="tessera-rpc")
        self._clock, self._pending, self._idle = _Clock(), 0, threading.Condition()
        self._meet()

    def _meet(self):
        interface = os.environ.get("TP_SOCKET_IFNAME", "").split(",")[0]
        host = _address_of(interface) if interface else own_address()
        descriptor, port = _native.load().listen(host, 0)
        self._listener = socket.socket(fileno=descriptor)
        secret = os.urandom(16).hex() if self.info.id == 0 else ""
        self.store.set(f"worker/{self.info.id}", f"{self.info.name}|{host}|{port}|{secret}")
        values = _collect(self.store, self.info.id, self.size, "worker", self.store.timeout)
        found = [value.decode().split("|") for value in values]
        names = [one[0] for one in found]
        if len(set(names)) != len(names):
            self._listener.close()
            raise RuntimeError(f"the names of workers have to be different, but got {names}")
        self.workers = [WorkerInfo(name, rank) for rank, name in enumerate(names)]
        self._places = [(one[1], int(one[2])) for one in found]
        self._secret = _HELLO + found[0][3].encode()

    def admit(self):
        """Begins to answer the others, who may be ready earlier: what they ask needs this agent in its place."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED):
                    time.sleep(0.05)  # who knocked has to wait
                    continue
                return  # closed
            threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection):
        """Only who knows the secret is listened to."""
        try:
            connection.settimeout(30)
            hello = bytes(_wire.read_exactly(connection, len(self._secret) + 4))
            if not hmac.compare_digest(hello[:-4], self._secret):
                raise _wire.Disconnected("a stranger")
            rank = int.from_bytes(hello[-4:], "little")
            connection.settimeout(None)
            link = _Link(self, connection, self.workers[rank].name)
            with self._lock:
                self._open.add(link)
        except (OSError, _wire.Disconnected, IndexError):
            connection.close()

    def _link(self, rank):
        with self._lock:
            link = self._links.get(rank)
            if link is None:
                connection = socket.create_connection(self._places[rank], timeout=30)
                connection.settimeout(None)
                connection.sendall(self._secret + self.info.id.to_bytes(4, "little"))
                link = self._links[rank] = _Link(self, connection, self.workers[rank].name)
            return link

    def find(self, to):
        """The WorkerInfo of a name, a rank or a WorkerInfo.

        Raises: RuntimeError for one that there is not, ValueError for what is no such."""
        if isinstance(to, WorkerInfo):
            return to
        for one in self.workers:
            if to == (one.name if isinstance(to, str) else one.id):
                return one
        if not isinstance(to, (str, int)):
            raise ValueError(f"a worker is a name, a rank or a WorkerInfo, but got {to!r}")
        raise RuntimeError(f"there is no worker {to!r}; the workers are {[one.name for one in self.workers]}")

    # ---- asking

    def call(self, to, function, args, kwargs, timeout, history=None):
        """Starts a call. Returns: its future."""
        if not callable(function):
            raise TypeError(f"a remote call takes a function, but got {type(function).__name__}")
        if isinstance(timeout, str):
            raise TypeError(f"the timeout of a remote call is a number of seconds, but got {timeout!r}")
        answer = Answer(self, history)
        device_map = self.options.device_maps.get(to.name, {})
        data, tensors = _wire.pack((function, args, kwargs), lambda obj: self.hooks.refer(obj, to))
        trail = None
        if history is not None:
            tensors, trail = history.sent(tensors, to.id)
        message = ("call", next(self._numbers), data, _wire.table(tensors, to.name, device_map), trail)
        seconds = self.timeout if timeout < 0 else timeout
        if seconds > 0:
            name = getattr(function, "__qualname__", function)
            self._clock.limit(
                answer, seconds, f"RPC of {name} at {to.name} ran for more than the timeout of {seconds:g} s"
            )
        self._count(1)
        answer._when_done(lambda _: self._count(-1))
        if to.id == self.info.id:
            self.serve(_Here(self, answer), *message[1:])
        else:
            try:
                self._link(to.id).ask(message[1], answer, message)
            except OSError as error:
                complete(answer, error=RuntimeError(f"the worker {to.name} cannot be reached: {error}"))
        return answer

    def _count(self, change):
        with self._idle:
            self._pending += change
            if not self._pending:
                self._idle.notify_all()

    def wait_until_idle(self, seconds):
        """Waits until all calls of this process have ended."""
        with self._idle:
            self._idle.wait_for(lambda: self._pending == 0, seconds)

    # ---- answering

    def resolve(self, pid):
        """What stands for an RRef, as an RRef."""
        return self.hooks.resolve(pid)

    def serve(self, link, number, data, rows, trail):
        """Carries a request out: at once what never waits, else on one of the threads."""
        try:
            tensors = _wire.placed(rows)
            history, tensors = self.hooks.arrived(tensors, trail)
            function, args, kwargs = _wire.unpack(data, tensors, self.resolve)
        except Exception as error:
            return self._reply(link, number, False, _wire.RemoteFailure(error, self.info.name), None)
        if getattr(function, "_runs_at_once", False):
            return self._carry_out(link, number, function, args, kwargs, history)
        try:
            self._pool.submit(self._carry_out, link, number, function, args, kwargs, history)
        except RuntimeError:
            pass  # the agent has ended
        return None

    def _carry_out(self, link, number, function, args, kwargs, history):
        try:
            with self.hooks.within(history):
                value = function(*args, **kwargs)
            waits = getattr(function, "_wrapped_async_rpc_function", None) is not None
            if waits and not isinstance(value, Future):
                raise RuntimeError(f"functions under async_execution return a Future, but got {type(value).__name__}")
        except Exception as error:
            return self._reply(link, number, False, _wire.RemoteFailure(error, self.info.name), None)
        if not waits:
            return self._reply(link, number, True, value, history)

        def later(done):
            try:
                self._reply(link, number, True, done.value(), history)
            except Exception as error:
                self._reply(link, number, False, _wire.RemoteFailure(error, self.info.name), None)

        value._when_done(later)
        return None

    def _reply(self, link, number, good, value, history):
        to = link.worker if isinstance(link, _Here) else self.find(link._peer)
        try:
            data, tensors = _wire.pack(value, lambda obj: self.hooks.refer(obj, to))
            trail = None
            if history is not None:
                tensors, trail = history.sent(tensors, to.id)
            rows = _wire.table(tensors, to.name, self.options.device_maps.get(to.name, {}))
            link.send(("answer", number, good, data, rows, trail))
        except Exception as error:
            data, _ = _wire.pack(_wire.RemoteFailure(error, self.info.name), lambda obj: None)
            link.send(("answer", number, False, data, [], None))

    def close(self):
        """Ends threads and connections."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # as it listens
        self._listener.close()
        self._clock.close()
        self._pool.shutdown(wait=False)
        for link in [*self._links.values(), *self._open]:
            link.close()


class _Here:
    """The link of a worker to itself.

    Args:
        agent: of this process.
        answer: takes the answer.
    """

    def __init__(self, agent, answer):
        self.worker, self._answer = agent.info, answer

    def send(self, message):
        """Completes the answer."""
        self._answer.take(*message[2:])
