"""References to values of other workers. The owner keeps a value while one of the references to it, each of which it
knows, is left; a reference that goes to another worker is made known to the owner before it leaves."""

import itertools
import threading
import weakref

import tessera
from tessera.distributed import autograd as dist_autograd
from tessera.distributed._work import complete
from tessera.distributed.rpc._agent import Present, check_future, current, is_async
from tessera.futures import Future

_numbers = itertools.count()


def _unique(key):
    return f"GloballyUniqueId(created_on={key[0]}, local_id={key[1]})"


class _Owned:
    """A value of this worker, and who refers to it."""

    def __init__(self):
        self.value, self.forks, self.creator = Future(), set(), None


class Table:
    """The values that this worker owns for others."""

    def __init__(self):
        self._lock, self._owned = threading.Lock(), {}

    def entry(self, key):
        """The entry of a key, made if need be."""
        with self._lock:
            return self._owned.setdefault(key, _Owned())

    def add(self, key, fork):
        """A reference more."""
        with self._lock:
            self._owned.setdefault(key, _Owned()).forks.add(fork)

    def drop(self, key, fork):
        """A reference less; the last one takes the value along."""
        with self._lock:
            found = self._owned.get(key)
            if found is None:
                return
            found.forks.discard(fork)
            if not found.forks:
                del self._owned[key]

    def size(self):
        """The number of values."""
        with self._lock:
            return len(self._owned)


class RRef:
    """A reference to a value that a worker owns: `RRef(value)` makes this worker the owner.

    Args:
        value: what to refer to.
        type_hint: its type, for what compiles programs; kept.
    """

    def __init__(self, value, type_hint=None):
        if Present.agent is None:
            raise RuntimeError(
                "Current RPC agent is not set! Did you initialize the RPC framework? An RRef needs init_rpc()"
            )
        agent, owned = Present.agent, _Owned()
        complete(owned.value, value)
        self._bind(agent, agent.info, (agent.info.id, next(_numbers)), owned, None)
        self._hint = type_hint
        with agent.hooks.table._lock:
            agent.hooks.table._owned[self._key] = owned
        self._hold(self._key)

    def _bind(self, agent, owner, key, owned, created):
        self._agent, self._owner, self._key, self._owned = agent, owner, key, owned
        self._created, self._hint, self._fork = created, None, None

    @classmethod
    def _made(cls, agent, owner, key, owned, created):
        made = cls.__new__(cls)
        made._bind(agent, owner, key, owned, created)
        return made

    def _hold(self, fork=None):
        """Counts this reference as long as it lives."""
        agent, owner, key = self._agent, self._owner, self._key
        fork = fork or new_fork(agent)
        self._fork = fork
        if owner.id == agent.info.id:
            agent.hooks.table.add(key, fork)
        weakref.finalize(self, _let_go, weakref.ref(agent), owner, key, fork).atexit = False

    def owner(self):
        """The WorkerInfo of the owner."""
        return self._owner

    def owner_name(self):
        """The name of the owner."""
        return self._owner.name

    def is_owner(self):
        """Whether this worker is the owner."""
        return self._owned is not None

    def confirmed_by_owner(self):
        """Whether the owner knows of it."""
        return self._created is None or self._created.done()

    def local_value(self):
        """The value, at the owner; waits until it is there. Raises: RuntimeError elsewhere."""
        if self._owned is None:
            raise RuntimeError(
                f"For UserRRef(rref_id={_unique(self._key)}, fork_id={_unique(self._fork)}), can't call localValue() "
                f"on user {self._agent.info}. Call it on owner {self._owner}; to_here() brings the value"
            )
        return self._owned.value.wait()

    def to_here(self, timeout=-1.0):
        """The value, copied from the owner. Raises: what computing it raised, RuntimeError after `timeout` seconds."""
        if self._owned is not None:
            return self.local_value()
        if self._agent.hooks.closed:
            raise RuntimeError("Cannot call to_here() on it after deletion: remote calls have ended")
        if self._created is not None and (self._created.done() or self._created.is_watched()):
            self._created.wait()
        return self._call(_fetch, (self._key,), timeout).wait()

    def _call(self, function, args, timeout=-1.0):
        history = dist_autograd.outgoing(self._owner.id)
        return self._agent.call(self._owner, function, args, {}, timeout, history)

    def _get_future(self):
        if self._created is not None:
            return self._created
        return self._owned.value

    def _get_type(self, timeout=-1.0, blocking=True):
        future = self._call(_type_of, (self,), timeout)
        return future.wait() if blocking else future

    def rpc_sync(self, timeout=-1.0):
        """What calls the value's methods at the owner and waits: `rref.rpc_sync().method(args)`."""
        return Proxy(Present.calls["rpc_sync"], self, timeout)

    def rpc_async(self, timeout=-1.0):
        """As rpc_sync, with a Future as result."""
        return Proxy(Present.calls["rpc_async"], self, timeout)

    def remote(self, timeout=-1.0):
        """As rpc_sync, with an RRef as result."""
        return Proxy(Present.calls["remote"], self, timeout)

    def backward(self, dist_autograd_ctx_id=-1, retain_graph=False):
        """Backward from the value, at the owner: in a distributed autograd context, or without one for a value of the
        owner's own graph.

        Args:
            dist_autograd_ctx_id: of the context; -1: none, for the owner alone.
            retain_graph: whether it may be called again.

        Raises: RuntimeError elsewhere without a context, and for a value that is no tensor.
        """
        if self._owned is None and dist_autograd_ctx_id == -1:
            raise RuntimeError(
                "User RRefs require 'dist_autograd_ctx_id' to be specified: without a context, backward() is for the "
                f"owner, {self._owner.name}"
            )
        if self._owned is None:
            self._call(_backward_at_owner, (self, dist_autograd_ctx_id, retain_graph)).wait()
        else:
            _backward_at_owner(self, dist_autograd_ctx_id, retain_graph)

    def __repr__(self):
        if self._owned is not None:
            return f"OwnerRRef({_unique(self._key)})"
        return f"UserRRef(RRefId = {_unique(self._key)}, ForkId = {_unique(self._fork)})"

    def __reduce_ex__(self, protocol):
        raise RuntimeError("Can not pickle rref in python pickler: RRefs can be pickled in remote calls only")

    def __class_getitem__(cls, item):
        return cls


PyRRef = RRef


def new_fork(agent):
    """A name for one reference."""
    return (agent.info.id, next(_numbers))


def _let_go(weak, owner, key, fork):
    agent = weak()
    if agent is None or agent.hooks.closed:
        return
    if owner.id == agent.info.id:
        agent.hooks.table.drop(key, fork)
    else:
        # on another thread: this may run anywhere, also while a lock is held
        agent.hooks.later(agent.call, owner, _drop, (key, fork), {}, 0.0)


def _table():
    return current().hooks.table


# ---- what others ask of an owner


def _fetch(key):
    return _table().entry(key).value


_fetch._wrapped_async_rpc_function = _fetch  # type: ignore[attr-defined]


def _create(key, fork, function, args, kwargs):
    """Computes a value for a reference of another worker."""
    owned = _table().entry(key)
    owned.forks.add(fork)
    try:
        value = function(*args, **kwargs)
        if is_async(function):
            check_future(value)
            value = value.wait()
    except Exception as error:
        complete(owned.value, error=error)
        raise
    complete(owned.value, value)


def _add(key, fork):
    _table().add(key, fork)


def _drop(key, fork):
    _table().drop(key, fork)


_fetch._runs_at_once = _add._runs_at_once = _drop._runs_at_once = True  # type: ignore[attr-defined]


def _type_of(rref):
    return type(rref.local_value())


def _backward_at_owner(rref, context_id, retain_graph):
    value = rref.local_value()
    if not isinstance(value, tessera.Tensor):
        raise RuntimeError(f"RRef should contain a tensor for .backward(), but this one has a {type(value).__name__}")
    if context_id == -1:
        value.backward(retain_graph=retain_graph)
    else:
        dist_autograd.backward(context_id, [value], retain_graph)


def call_method(rref, name, args, kwargs):
    """Calls a method of a value, at its owner."""
    return getattr(rref.local_value(), name)(*args, **kwargs)


def call_async_method(rref, name, args, kwargs):
    """Calls a method under async_execution of a value, at its owner."""
    return getattr(rref.local_value(), name)(*args, **kwargs)


call_async_method._wrapped_async_rpc_function = call_async_method  # type: ignore[attr-defined]


class Proxy:
    """Calls methods of an RRef's value.

    Args:
        call: rpc_sync, rpc_async or remote.
        rref: the reference.
        timeout: seconds; negative: the agent's.
    """

    def __init__(self, call, rref, timeout):
        self._call, self._rref, self._timeout = call, rref, timeout

    def __getattr__(self, name):
        rref = self._rref
        if name.startswith("__"):
            raise AttributeError(name)

        def called(*args, **kwargs):
            kind = rref.local_value().__class__ if rref.is_owner() else rref._get_type(self._timeout)
            if not hasattr(kind, "__getattr__"):
                getattr(kind, name)  # raises at once, not only at the owner
            waits = is_async(getattr(kind, name, None))
            function = call_async_method if waits else call_method
            return self._call(rref.owner(), function, (rref, name, args, kwargs), timeout=self._timeout)

        return called
