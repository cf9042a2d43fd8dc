"""Remote calls, as users make them."""

import contextlib
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from tessera.distributed import autograd as dist_autograd
from tessera.distributed._stores import PrefixStore
from tessera.distributed.rendezvous import rendezvous
from tessera.distributed.rpc import _rref
from tessera.distributed.rpc._agent import Agent, Present, WorkerInfo, current
from tessera.distributed.rpc._rref import RRef
from tessera.distributed.rpc.constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from tessera.distributed.rpc.options import RpcBackendOptions, TensorPipeRpcBackendOptions
from tessera.profiler._recording import is_recording

__all__ = [
    "get_worker_info",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


class _Hooks:
    """What RRefs and gradients make of an agent's messages."""

    def __init__(self):
        self.table, self.closed, self.agent = _rref.Table(), False, None
        self._later = ThreadPoolExecutor(1, thread_name_prefix="tessera-rpc-later")

    def later(self, function, *args):
        """Runs something small, soon."""
        with contextlib.suppress(RuntimeError):  # the agent has ended
            self._later.submit(function, *args)

    def close(self):
        """Ends."""
        self.closed = True
        self._later.shutdown(wait=False)

    def refer(self, obj, to):
        """What stands for an RRef that goes to a worker; the owner knows of it before it leaves."""
        if not isinstance(obj, RRef):
            return None
        agent, fork = self.agent, _rref.new_fork(self.agent)
        if obj.is_owner():
            self.table.add(obj._key, fork)
        else:
            agent.call(obj.owner(), _rref._add, (obj._key, fork), {}, UNSET_RPC_TIMEOUT).wait()
        return ("rref", obj.owner().id, obj._key, fork, to.id)

    def resolve(self, pid):
        """The RRef that something stands for."""
        _, owner, key, fork, _ = pid
        agent = self.agent
        if owner == agent.info.id:
            made = RRef._made(agent, agent.info, key, self.table.entry(key), None)
        else:
            made = RRef._made(agent, agent.workers[owner], key, None, None)
        made._hold(fork)
        return made

    @staticmethod
    def arrived(tensors, trail):
        """(history, tensors) of a request."""
        history = dist_autograd.arriving(trail)
        return history, tensors if history is None else history.received(tensors, trail)

    within = staticmethod(dist_autograd.within)


_agent = _get_current_rpc_agent = current


def _require_initialized(func):
    """A function that raises RuntimeError before init_rpc."""

    @functools.wraps(func)
    def checked(*args, **kwargs):
        _agent()
        return func(*args, **kwargs)

    return checked


def _is_current_rpc_agent_set():
    return Present.agent is not None


def is_available():
    """Whether remote calls are there."""
    from tessera.distributed import is_available as found

    return found()


def init_rpc(name, backend=None, rank=-1, world_size=None, rpc_backend_options=None):
    """Makes this process a worker, and waits until all are.

    What workers send each other is pickled: all of them have to trust each other.

    Args:
        name: of this worker, different from all others.
        backend: BackendType.TENSORPIPE (there is no other).
        rank: of this worker.
        world_size: number of workers; None: as many as the environment says, else any: workers come when they like,
            and go without waiting for others. Ranks and names are used once.
        rpc_backend_options: TensorPipeRpcBackendOptions.

    Raises: RuntimeError for a second call, for a name that is not allowed or taken, and if the others do not come.
    """
    from tessera.distributed.rpc.backend_registry import BackendType

    if Present.agent is not None:
        raise RuntimeError("RPC is already initialized: shutdown() comes before another init_rpc()")
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError(f"Argument backend must be a member of BackendType, but got {type(backend).__name__}")
    options = TensorPipeRpcBackendOptions() if rpc_backend_options is None else rpc_backend_options
    if not isinstance(options, RpcBackendOptions):
        kind = type(options).__name__
        raise TypeError(f"Argument rpc_backend_options must be an instance of RpcBackendOptions, but got {kind}")
    if not isinstance(options, TensorPipeRpcBackendOptions):
        raise TypeError(
            f"Could not infer backend for options {options!r}: they are an instance of TensorPipeRpcBackendOptions"
        )
    WorkerInfo(name, rank)
    timeout = timedelta(minutes=30)
    store, rank, size = next(iter(rendezvous(options.init_method, rank, world_size, timeout=timeout)))
    store.set_timeout(timeout)
    own = PrefixStore(f"rpc/{Present.ended}", store)
    kind = b"static" if size > 0 else b"dynamic"
    if (first := own.compare_set("kind", "", kind.decode())) != kind:
        raise RuntimeError(
            "RPC group mixes statically and dynamically initialized members which is not supported: the group is "
            f"{first.decode()}, and this worker {'has' if size > 0 else 'lacks'} a world_size"
        )
    hooks = _Hooks()
    dist_autograd._init(rank)
    own = own if size > 0 else PrefixStore("rpc/any", store)
    hooks.agent = Agent(WorkerInfo(name, rank), size, own, options, hooks)
    dist_autograd._call = lambda peer, function, args: hooks.agent.call(
        hooks.agent.workers[peer], function, args, {}, UNSET_RPC_TIMEOUT
    )
    Present.agent = hooks.agent
    hooks.agent.admit()


def get_worker_info(worker_name=None):
    """The WorkerInfo of a name; None: of this worker. Raises: RuntimeError for a name that there is not."""
    return _agent().info if worker_name is None else _agent().find(worker_name)


def get_rpc_timeout():
    """Seconds that calls may take."""
    return _agent().timeout


def _set_rpc_timeout(seconds):
    _agent().timeout = float(seconds)


def rpc_async(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Calls a function at a worker.

    Args:
        to: its name, rank or WorkerInfo.
        func: a function that can be pickled.
        args: its arguments.
        kwargs: the same, by name.
        timeout: seconds; negative: the agent's; 0: without end.

    Returns: a Future of what it returns. Waiting raises what it raised, or RuntimeError after the timeout.
    """
    return _ask("async", to, func, args, kwargs, timeout)


def _start(kind, worker, func, args, kwargs, timeout, recorded=None):
    """Starts a call, which profilers see as one of `recorded`."""
    agent, history = _agent(), dist_autograd.outgoing(worker.id)
    watch = None
    if is_recording():
        from tessera.distributed.rpc._profiled import Watch

        watch = Watch(kind, func if recorded is None else recorded, agent.info, worker)
        func, args, kwargs = watch.wrapped(func, args, kwargs)
    return agent.call(worker, func, args, kwargs, timeout, history, watch)


def _ask(kind, to, func, args, kwargs, timeout):
    answer = _start(kind, _agent().find(to), func, tuple(args or ()), dict(kwargs or {}), timeout)
    batch = getattr(_batch, "futures", None)
    if batch is not None:
        batch.append(answer)
    return answer


def rpc_sync(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Calls a function at a worker, and waits for what it returns. Arguments as rpc_async."""
    return _ask("sync", to, func, args, kwargs, timeout).wait()


def remote(to, func, args=None, kwargs=None, timeout=UNSET_RPC_TIMEOUT):
    """Calls a function at a worker, which keeps what it returns.

    Args:
        to: its name, rank or WorkerInfo.
        func: a function that can be pickled.
        args: its arguments.
        kwargs: the same, by name.
        timeout: seconds that it may take; negative: the agent's; 0: without end.

    Returns: an RRef of the value, at once.
    """
    agent = _agent()
    worker = agent.find(to)
    key, fork = _rref.new_fork(agent), _rref.new_fork(agent)
    arguments = (key, fork, func, tuple(args or ()), dict(kwargs or {}))
    here = worker.id == agent.info.id
    owned = agent.hooks.table.entry(key) if here else None
    created = _start("remote", worker, _rref._create, arguments, {}, timeout, func)
    made = RRef._made(agent, worker, key, owned, created)
    made._hold(fork)
    return made


Present.calls.update(rpc_sync=rpc_sync, rpc_async=rpc_async, remote=remote)

# ---- several at once

_batch = threading.local()


@contextlib.contextmanager
def _wait_all():
    """A context that waits for all calls that were made in it."""
    _batch.futures = []
    try:
        yield
        for future in _batch.futures:
            future.wait()
    finally:
        _batch.futures = None


def _barrier(worker_names):
    """Waits until these workers have come."""
    _all_gather(None, sorted(worker_names))


_gathered: dict = {}
_gathered_lock = threading.Lock()
_rounds: dict = {}


class AllGatherStates:
    """What has come of one gathering.

    Attributes:
        gathered_objects: {name of a worker: its object}.
        proceed_signal: threading.Event, set when all are there.
    """

    def __init__(self):
        self.gathered_objects, self.proceed_signal = {}, threading.Event()


def method_factory(method_name, docstring):
    """A method of RRef that calls PyRRef's of that name, documented as given."""

    def method(self, *args, **kwargs):
        return getattr(_rref.PyRRef, method_name)(self, *args, **kwargs)

    method.__doc__ = docstring
    return method


def _collect_one(name, key, value):
    with _gathered_lock:
        entry = _gathered.setdefault(key, AllGatherStates())
        entry.gathered_objects[name] = value
        if len(entry.gathered_objects) == len(key[0]):
            entry.proceed_signal.set()
    return True


def _all_gather(obj, worker_names=None, timeout=UNSET_RPC_TIMEOUT):
    """Objects of workers (None: of all) by their names, at all of them.

    Args:
        obj: what this one gives.
        worker_names: whose.
        timeout: seconds.
    """
    agent = _agent()
    names = sorted(one.name for one in agent.get_worker_infos()) if worker_names is None else sorted(worker_names)
    with _gathered_lock:
        number = _rounds[tuple(names)] = _rounds.get(tuple(names), -1) + 1
    key, seconds = (tuple(names), number), agent.timeout if timeout < 0 else timeout
    text = f"timed out in _all_gather after {seconds:.2f} seconds: not all of {names} came"
    try:
        for future in [rpc_async(name, _collect_one, (agent.info.name, key, obj), timeout=timeout) for name in names]:
            future.wait()
    except RuntimeError as error:
        raise RuntimeError(f"{text}: {error}") from error
    with _gathered_lock:
        entry = _gathered.setdefault(key, AllGatherStates())
    if not entry.proceed_signal.wait(seconds or None):
        raise RuntimeError(text)
    with _gathered_lock:
        return _gathered.pop(key).gathered_objects


# ---- the end


def _meet_at_the_store(agent, name, seconds):
    agent.store.add(name, 1)
    end = time.monotonic() + seconds
    while agent.store.add(name, 0) < agent.size:
        if time.monotonic() >= end:
            raise RuntimeError(f"shutdown: not all workers came within {seconds:g} s")
        time.sleep(0.005)


def _wait_all_workers(timeout=DEFAULT_SHUTDOWN_TIMEOUT):
    """Waits until all workers have called this, and their calls have ended."""
    agent = _agent()
    seconds = timeout or 1800.0
    agent.wait_until_idle(seconds)
    _meet_at_the_store(agent, "idle", seconds)


def shutdown(graceful=True, timeout=DEFAULT_SHUTDOWN_TIMEOUT):
    """Ends this worker.

    Args:
        graceful: whether to wait until all workers have called this and all calls have ended; in a group without
            world_size until this one's have.
        timeout: seconds to wait; 0: long.

    Raises: RuntimeError before init_rpc, and if others do not come.
    """
    agent = _agent()
    try:
        if graceful and agent.size < 0:
            agent.wait_until_idle(timeout or 1800.0)
            agent.hooks.closed = True
            agent.leave()
        elif graceful:
            _wait_all_workers(timeout)
            agent.hooks.closed = True
            # the one that serves the store goes last
            _meet_at_the_store(agent, "end", timeout or 1800.0)
            if agent.info.id == 0:
                with contextlib.suppress(RuntimeError):
                    _meet_at_the_store(agent, "gone", 5.0)
            else:
                agent.store.add("gone", 1)
    finally:
        agent.hooks.close()
        agent.close()
        dist_autograd._call = None
        Present.agent, Present.ended = None, Present.ended + 1


def _rref_context_get_debug_info():
    return {"num_owner_rrefs": str(_agent().hooks.table.size())}
