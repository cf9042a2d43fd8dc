"""Remote calls, references, gradients through them."""

import ctypes
import datetime
import os
import pickle
import shutil
import signal
import socket
import tempfile
import threading
import time
import weakref

import pytest
import tessera
import tessera.distributed.autograd as dist_autograd
import tessera.distributed.rpc as rpc
from ranks import run
from tessera.distributed.nn import RemoteModule
from tessera.distributed.optim import DistributedOptimizer
from tessera.distributed.rpc import _wire, functions
from tessera.optim import SGD


class Keeper:
    """A value at another worker."""

    def __init__(self, value):
        self.value = value

    def add(self, n):
        self.value += n
        return self.value

    @functions.async_execution
    def later(self, n):
        return rpc.rpc_async("w0", divide, args=(n, 2))


def divide(a, b):
    return a / b


def value_of(reference):
    return reference.to_here().value


def forward(reference):
    """Gives a reference on to a third worker."""
    return rpc.rpc_sync("w2", value_of, args=(reference,))


def times(x, y):
    return x * y


def there_and_back(x):
    return rpc.rpc_sync("w0", times, args=(x, x)) * 2


def nap(seconds):
    time.sleep(seconds)


def owned():
    return int(rpc.api._rref_context_get_debug_info()["num_owner_rrefs"])


def workers(body, world=2):
    folder = tempfile.mkdtemp()

    def worker(rank, world):
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=world, rpc_backend_options=options)
        result = body(rank) if rank == 0 else None
        rpc.shutdown()
        return result

    try:
        return run(worker, world, backend=None)[0]
    finally:
        shutil.rmtree(folder)


def test_values_errors_and_futures():
    def body(rank):
        with pytest.raises(ZeroDivisionError, match=r"On WorkerInfo\(id=1, name=w1\):"):
            rpc.rpc_sync("w1", divide, args=(1, 0))
        with pytest.raises(RuntimeError, match=r"set timeout \(200 ms\)"):
            rpc.rpc_sync("w1", nap, args=(1.0,), timeout=0.2)
        with pytest.raises(RuntimeError, match="no worker 'w9'"):
            rpc.rpc_sync("w9", divide, args=(1, 1))
        calls = [rpc.rpc_async(1, divide, args=(n,), kwargs={"b": 4}) for n in range(50)]
        return [call.wait() for call in calls][-1], rpc.rpc_sync("w0", divide, args=(1, 2))

    assert workers(body) == (12.25, 0.5)


def test_tensors_of_all_kinds():
    def body(rank):
        x = tessera.arange(6.0).view(2, 3).t()
        found = rpc.rpc_sync("w1", times, args=({"x": 1} and x, tessera.tensor(2.0, dtype=tessera.float64)))
        return found.tolist(), rpc.rpc_sync("w1", tessera.add, args=(tessera.tensor([True]), 1)).tolist()

    assert workers(body) == ([[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]], [2])


def test_references_live_as_long_as_somebody_holds_them():
    def body(rank):
        keeper = rpc.remote("w1", Keeper, args=(10,))
        first = rpc.rpc_sync(keeper.owner(), forward, args=(keeper,))  # w1 -> w2 -> w1
        results = first, keeper.rpc_sync().add(5), keeper.rpc_async().later(7).wait(), keeper.to_here().value
        before = rpc.rpc_sync("w1", owned)
        del keeper
        end = time.monotonic() + 60
        while rpc.rpc_sync("w1", owned) and time.monotonic() < end:
            time.sleep(0.02)
        return results, before, rpc.rpc_sync("w1", owned)

    assert workers(body, 3) == ((10, 15, 3.5, 15), 1, 0)


def test_a_reference_shows_the_error_of_its_making():
    def body(rank):
        broken = rpc.remote("w1", divide, args=(1, 0))
        with pytest.raises(ZeroDivisionError):
            broken.to_here()
        with pytest.raises(RuntimeError, match="remote calls only"):
            import pickle

            pickle.dumps(broken)
        return broken.owner_name()

    assert workers(body) == "w1"


def test_gradients_cross_workers_twice():
    def body(rank):
        x, y = tessera.tensor([3.0], requires_grad=True), tessera.tensor([5.0], requires_grad=True)
        with dist_autograd.context() as number:
            z = rpc.rpc_sync("w1", there_and_back, args=(x,)) + rpc.rpc_sync("w1", times, args=(x, y))
            dist_autograd.backward(number, [z.sum()])
            found = dist_autograd.get_gradients(number)
            result = found[x].item(), found[y].item(), x.grad
        with pytest.raises(RuntimeError, match="autograd context with id"):
            dist_autograd.get_gradients(number)
        return result

    # d/dx (2 x^2 + x y) = 4 x + y
    assert workers(body) == (17.0, 3.0, None)


def parameter(value):
    return tessera.nn.Parameter(tessera.tensor([value]))


def scaled(reference, x):
    return reference.local_value() * x


def number_of(reference):
    return reference.local_value().item()


def test_an_optimizer_steps_parameters_where_they_are():
    def body(rank):
        references = [rpc.remote(f"w{i}", parameter, args=(1.0 + i,)) for i in (1, 2)]
        optimizer = DistributedOptimizer(SGD, references, lr=0.5)
        with dist_autograd.context() as number:
            parts = [rpc.rpc_sync(one.owner(), scaled, args=(one, tessera.tensor([4.0]))) for one in references]
            dist_autograd.backward(number, [sum(parts).sum()])
            optimizer.step(number)
        return [rpc.rpc_sync(one.owner(), number_of, args=(one,)) for one in references]

    assert workers(body, 3) == [0.0, 1.0]


def test_strangers_and_oversized_frames_lose_their_connection_only():
    def body(rank):
        host, port = rpc.api._agent()._places[1][1:3]
        for data in (b"x" * 200, rpc.api._agent()._secret + (0).to_bytes(4, "little") + b"\xff" * 12 + bytes(4)):
            with socket.create_connection((host, port)) as stranger:
                stranger.sendall(data)
                stranger.settimeout(10)
                try:
                    assert stranger.recv(1) == b""
                except ConnectionResetError:
                    pass  # what was not read is refused
        return rpc.rpc_sync("w1", divide, args=(1, 2))

    assert workers(body) == 0.5


def kept():
    """Messages whose memory this worker still has for others, once there are none or the time is over."""
    end = time.monotonic() + 10
    while rpc.api._agent()._kept and time.monotonic() < end:
        time.sleep(0.005)
    return len(rpc.api._agent()._kept)


@pytest.mark.parametrize("transport", ["", "tcp"])
def test_large_tensors_are_let_go_once_they_are_read(transport, monkeypatch):
    monkeypatch.setenv("TESSERA_DISTRIBUTED_TRANSPORT", transport)

    def body(rank):
        for i in range(5):
            x = tessera.full((1 << 18,), float(i))
            y = rpc.rpc_async("w1", times, args=(x, x.bfloat16().float())).wait()
            x.fill_(-1)
            assert (y == i * i).all()
        with pytest.raises(TypeError):
            rpc.rpc_sync("w1", times, args=(x, None))
        return kept() + rpc.rpc_sync("w1", kept)

    # of the last answer itself, which tells, nothing is large
    assert workers(body) == 0


def test_a_worker_that_is_gone_is_named():
    def body(rank):
        rpc.rpc_async("w1", os._exit, args=(0,))
        with pytest.raises(RuntimeError, match="w1 is lost|w1 cannot be reached"):
            for _ in range(100):
                rpc.rpc_sync("w1", divide, args=(1, 2))
                time.sleep(0.02)
        rpc.shutdown(graceful=False)
        return True

    folder = tempfile.mkdtemp()

    def worker(rank, world):
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=world, rpc_backend_options=options)
        if rank == 0:
            return body(rank)
        time.sleep(30)

    assert run(worker, 2, backend=None)[0] is True
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["", "a b", "x" * 128, 3])
def test_names_that_are_not_allowed(name):
    with pytest.raises(RuntimeError, match="Worker name must match"):
        rpc.init_rpc(name, rank=0, world_size=1)


def test_tensors_cross_a_connection_as_they_are():
    base = tessera.arange(24.0)
    sent = [
        base.view(2, 3, 4).permute(2, 0, 1),
        base[::2],
        base[:1].expand(5),
        tessera.tensor([1 + 2j]).conj(),
        tessera.empty(0, 3),
        tessera.tensor(True),
        tessera.arange(3, dtype=tessera.bfloat16),
        tessera.zeros(300_000),
        tessera.sparse_coo_tensor(tessera.tensor([[1]]), tessera.tensor([2.0]), (3,)),
    ]
    kept, trail = None, (1, 2, 3, [])
    said = pickle.dumps("head", 5)
    pieces, kept = _wire.encode(said, _wire.table(sent, "w", {}), trail)
    came = [piece if type(piece) is bytes else bytearray(ctypes.string_at(*piece)) for piece in pieces]
    head, rows, way = _wire.decode(came)
    assert (head, way) == (said, trail) and [len(one) for one in came[2:]] == [1_200_000]
    got = _wire.placed(rows)
    for one, other in zip(sent, got):
        assert one.layout == other.layout and one.dtype == other.dtype and one.shape == other.shape
        assert one.to_dense().equal(other.to_dense())
        assert one.layout != tessera.strided or one.stride() == other.stride()
    got[0].zero_()
    assert base[1] == 1


@pytest.mark.parametrize("piece", [b"", b"\x96" + bytes(6) + b"\x80\x00", pickle.dumps("other", 2), bytearray(5000)])
def test_bytes_that_are_no_pickles_are_not_unpickled(piece):
    good = pickle.dumps("head", 5)
    for pieces in ([piece], [good, piece]):
        with pytest.raises(ValueError, match="no message"):
            _wire.decode(pieces)


def blocks(numbers):
    started.set()
    released.wait(20)
    return numbers


def releases():
    assert started.wait(20)
    released.set()


started, released = threading.Event(), threading.Event()


def test_who_waits_and_who_does_not_get_their_answers_in_any_order():
    def body(rank):
        blocked = rpc.rpc_async("w1", blocks, args=(tessera.arange(100_000),))
        called = []
        doubled = blocked.then(lambda done: called.append(threading.current_thread().name) or done.value() * 2)
        others = [rpc.rpc_async("w1", times, args=(i, i)) for i in range(50)]
        waiters = [threading.Thread(target=blocked.wait) for _ in range(3)]
        for one in waiters:
            one.start()
        rpc.rpc_sync("w1", releases)
        assert [one.wait() for one in others] == [i * i for i in range(50)]
        assert doubled.wait().equal(tessera.arange(100_000) * 2) and len(called) == 1
        for one in waiters:
            one.join(20)
            assert not one.is_alive()
        here = rpc.rpc_async("w0", times, args=(3, 4))
        return here.wait()

    assert workers(body) == 12


def deep(n):
    """Calls back and forth, each from a thread that another call holds."""
    return n if n == 0 else 1 + rpc.rpc_sync(f"w{n % 2}", deep, args=(n - 1,))


def test_calls_nest_and_threads_are_as_many_as_asked_for():
    folder = tempfile.mkdtemp()

    def worker(rank, world):
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", num_worker_threads=4)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=world, rpc_backend_options=options)
        result = None
        if rank == 0:
            nested = rpc.rpc_sync("w1", deep, args=(6,))
            begin = time.monotonic()
            for future in [rpc.rpc_async("w1", nap, args=(0.1,)) for _ in range(12)]:
                future.wait()
            result = nested, time.monotonic() - begin
        rpc.shutdown()
        return result

    nested, seconds = run(worker, 2, backend=None)[0]
    shutil.rmtree(folder)
    assert nested == 6 and 0.3 <= seconds < 1.1


def test_a_stopped_worker_ends_calls_within_their_time():
    def body(rank):
        pid = rpc.rpc_sync("w1", os.getpid)
        os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        try:
            for what in (1, tessera.zeros(16 << 20)):  # the second one is more than the system takes
                with pytest.raises(RuntimeError, match="w1"):
                    rpc.rpc_sync("w1", times, args=(what, 1), timeout=0.5)
        finally:
            os.kill(pid, signal.SIGKILL)
        assert time.monotonic() - begin < 5
        rpc.shutdown(graceful=False)
        return True

    folder = tempfile.mkdtemp()

    def worker(rank, world):
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=world, rpc_backend_options=options)
        if rank == 0:
            return body(rank)
        time.sleep(60)

    assert run(worker, 2, backend=None)[0] is True
    shutil.rmtree(folder)


def test_an_answer_does_not_outlive_its_use():
    from tessera.distributed.rpc._agent import _Clock
    from tessera.futures import Future

    clock = _Clock()
    future, late = Future(), Future()
    clock.limit(future, 1000, "never")
    clock.limit(late, 0.01, "too late")  # which is earlier than what the clock waits for
    with pytest.raises(RuntimeError, match="too late"):
        late.wait()
    gone = weakref.ref(future)
    del future
    assert gone() is None
    clock.close()


@tessera.jit.script
def scripted(x: tessera.Tensor) -> tessera.Tensor:
    return x + 1


def is_a_leaf_with_gradients(x):
    return x.requires_grad and x.is_leaf


def test_scripted_functions_and_gradients_of_leaves_cross():
    def body(rank):
        x = tessera.ones(2, requires_grad=True)
        got = rpc.remote("w1", tessera.mul, (x, 2)).to_here()
        for wrong, kind in ((("w1", 5), TypeError), ((1.5, scripted), ValueError), (("w7", scripted), RuntimeError)):
            with pytest.raises(kind):
                rpc.rpc_sync(*wrong)
        with pytest.raises(RuntimeError, match="should contain a tensor"):
            rpc.RRef(5).backward()
        sums = rpc.rpc_sync("w1", scripted, (tessera.ones(2),)).tolist()
        return sums, rpc.rpc_sync("w1", is_a_leaf_with_gradients, (x,)), got.requires_grad and got.is_leaf

    assert workers(body) == ([2.0, 2.0], True, True)


def test_contexts_need_workers_and_options_are_checked():
    def body(rank, world):
        with pytest.raises(RuntimeError, match="init_rpc"), dist_autograd.context():
            pass
        with pytest.raises(RuntimeError, match="must be non-negative"):
            rpc.TensorPipeRpcBackendOptions(rpc_timeout=-1)
        return True

    assert run(body, backend=None) == [True, True]


def test_gradients_of_replicas_and_sparse_ones_cross_workers():
    folder = tempfile.mkdtemp()

    def worker(rank, world):
        tessera.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/group", rank=rank, world_size=world
        )
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=world, rpc_backend_options=options)
        tessera.manual_seed(0)
        model = tessera.nn.parallel.DistributedDataParallel(tessera.nn.Linear(3, 1))
        model.module.weight.grad = kept = tessera.full((1, 3), 7.0)
        rows = tessera.sparse_coo_tensor([[0, 2]], tessera.tensor([1.0, 3.0]), (3,)).requires_grad_()
        with dist_autograd.context() as context:
            x = rpc.rpc_sync(f"w{1 - rank}", times, (tessera.full((3,), rank + 1.0), 2))
            dist_autograd.backward(context, [model(x).sum()])
            found = dist_autograd.get_gradients(context)[model.module.weight].tolist()
        with dist_autograd.context() as context:
            total = rpc.rpc_sync(f"w{1 - rank}", tessera.sparse.sum, (rows,))
            dist_autograd.backward(context, [total * 2])
            sparse = dist_autograd.get_gradients(context)[rows].to_dense().tolist()
        rpc.shutdown()
        tessera.distributed.destroy_process_group()
        return found, sparse, model.module.weight.grad is kept

    assert run(worker, 2, backend=None) == [([[3.0] * 3], [2.0, 0.0, 2.0], True)] * 2
    shutil.rmtree(folder)


def test_many_passes_at_once_do_not_wait_for_threads():
    def several(rank):
        def once():
            x = tessera.ones(3, requires_grad=True)
            with dist_autograd.context() as context:
                y = x
                for _ in range(3):
                    y = rpc.rpc_sync("w1", there_and_back, (y,))
                dist_autograd.backward(context, [y.sum()])
                done.append(dist_autograd.get_gradients(context)[x][0].item())

        done = []
        threads = [threading.Thread(target=once) for _ in range(24)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        return done

    assert workers(several) == [8.0 * 2**7] * 24


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(b)


def odd():
    raise Odd(1, "two")


def future_of_one():
    made = tessera.futures.Future()
    made.set_result(1)
    return made


def fails_backward(x):
    return Failing.apply(x)


class Failing(tessera.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no way back")


def test_errors_say_what_and_where():
    def body(rank):
        for call, kind, text in (
            (lambda: rpc.rpc_sync("w1", odd), RuntimeError, "Original exception on remote side was Odd"),
            (lambda: rpc.rpc_sync("w1", future_of_one), RuntimeError, "Can not pickle torch.futures.Future"),
            (lambda: rpc.rpc_sync("w1", nap, (5,), timeout=0.1), RuntimeError, "RPC ran for more than"),
            (lambda: rpc.rpc_sync("w9", nap, (5,)), RuntimeError, "could not find destination"),
            (lambda: rpc.rpc_async("w1", divide, (1, 1)).then(None), TypeError, "function is needed"),
            (lambda: rpc.init_rpc("w0"), RuntimeError, "already initialized"),
        ):
            with pytest.raises(kind, match=text):
                call()
        with dist_autograd.context() as context:
            loss = rpc.rpc_sync("w1", fails_backward, (tessera.ones(2, requires_grad=True),)).sum()
            with pytest.raises(RuntimeError, match="Error on Node 1: no way back"):
                dist_autograd.backward(context, [loss])
        with pytest.raises(RuntimeError, match="Could not find autograd context"):
            dist_autograd.get_gradients(context)
        return [one.name for one in rpc.api._agent().get_worker_infos()]

    assert workers(body) == ["w0", "w1"]


def remote_facts(module, x):
    return module(x), module.on, hasattr(module, "note"), module.training


class Slow:
    def __init__(self):
        time.sleep(0.5)

    def get(self):
        return 3


def test_remote_modules_travel_and_proxies_know_their_time():
    def body(rank):
        module = RemoteModule("w1/cpu", tessera.nn.Linear, (2, 1))
        module.note = "stays here"
        module.eval()
        x = tessera.ones(2)
        there, on, noted, training = rpc.rpc_sync("w1", remote_facts, (module, x))
        assert there.equal(module(x)) and (on, noted, training) == ("w1", False, False)
        with pytest.raises(RuntimeError, match="only be pickled when using RPC"):
            pickle.dumps(module)
        slow = rpc.remote("w1", Slow)
        with pytest.raises(RuntimeError, match="RPC ran for more than"):
            slow.rpc_sync(timeout=0.05).get()
        with pytest.raises(TypeError, match="seconds"):
            rpc.TensorPipeRpcBackendOptions(rpc_timeout=datetime.timedelta(seconds=1))
        with dist_autograd.context() as context, pytest.raises(TypeError, match="incompatible"):
            dist_autograd.backward(context, None)
        return slow.rpc_sync().get()

    assert workers(body) == 3


def squares(x):
    return tessera.relu(x * x)


@functions.async_execution
def squares_later(x):
    return rpc.rpc_async("w0", squares, args=(x,))


@functions.async_execution
def no_future(x):
    return x


def test_profilers_see_calls_and_what_they_did():
    def body(rank):
        x = tessera.ones(2)
        with tessera.autograd.profiler.profile() as recorded:
            rpc.rpc_sync("w1", tessera.add, args=(x, 1))
            assert rpc.rpc_async("w1", squares_later, args=(x,)).wait().sum() == 2
            assert rpc.remote("w1", squares, args=(x,)).to_here().sum() == 2
        return [(e.name, e.node_id, e.is_async, e.is_remote) for e in recorded.function_events if "#" in e.name]

    found = workers(body)
    calls = ["rpc_sync#aten::add(w0 -> w1)", "rpc_async#squares_later(w0 -> w1)", "rpc_remote#squares(w0 -> w1)"]
    assert [row for row in found if row[2]] == [(call, 0, True, False) for call in calls]
    there = [(calls[0], "aten::add"), (calls[2], "aten::mul"), (calls[2], "aten::relu")]
    assert [row for row in found if row[3]] == [(f"{call}#remote_op: {op}", 1, False, True) for call, op in there]


def test_functions_that_have_to_return_a_future_are_named():
    def body(rank):
        with pytest.raises(RuntimeError, match="must return a torch.futures.Future object, but got builtins.int"):
            rpc.rpc_sync("w1", no_future, args=(1,))
        reference = rpc.remote("w1", no_future, args=(1,))
        with pytest.raises(RuntimeError, match="must return a torch.futures.Future object, but got builtins.int"):
            reference.to_here()
        with pytest.raises(RuntimeError, match=r"can't call localValue\(\) on user WorkerInfo\(id=0, name=w0\)"):
            reference.local_value()
        return True

    assert workers(body)


def infos():
    return sorted(one.name for one in rpc.api._agent().get_worker_infos())


def test_workers_of_a_group_without_a_size_come_and_go():
    folder = tempfile.mkdtemp()

    def options():
        return rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=20)

    def until(there):
        end = time.monotonic() + 20
        while infos() != there and time.monotonic() < end:
            time.sleep(0.01)
        return infos()

    def say(rank, what):
        open(f"{folder}/{rank} {what}", "w").close()

    def until_all(ranks, what):
        while not all(os.path.exists(f"{folder}/{rank} {what}") for rank in ranks):
            time.sleep(0.01)

    def worker(rank, world):
        names = [f"w{i}" for i in range(rank + 1)]
        if rank:
            until_all([rank - 1], "is there")
            with pytest.raises(RuntimeError, match="statically and dynamically"):
                rpc.init_rpc(f"w{rank}", rank=rank, world_size=3, rpc_backend_options=options())
            with pytest.raises(RuntimeError, match="not unique"):
                rpc.init_rpc("w0", rank=rank, rpc_backend_options=options())
        with pytest.raises(ValueError, match="rank"):
            rpc.init_rpc(f"w{rank}", rpc_backend_options=options())
        rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options())
        say(rank, "is there")
        found = [rpc.rpc_sync(name, divide, args=(rank, 2)) for name in names]
        say(rank, "has asked")
        if rank == 0:
            assert until(["w0", "w1", "w2"]) == ["w0", "w1", "w2"]
            found += [rpc.rpc_sync("w2", divide, args=(8, 2)), rpc.rpc_sync(1, forward_to, args=("w2", 6))]
            until_all(range(3), "has asked")
            say(0, "lets go")
            assert until(["w0"]) == ["w0"]
            until_all([1, 2], "is gone")
            with pytest.raises(RuntimeError, match="lost|cannot be reached"):
                rpc.rpc_sync("w2", divide, args=(8, 2))
            with pytest.raises(RuntimeError, match="could not find destination"):
                rpc.rpc_sync("w3", divide, args=(8, 2))
        until_all([0], "lets go")
        rpc.shutdown()
        say(rank, "is gone")
        return found

    try:
        assert run(worker, 3, backend=None) == [[0, 4, 3], [0.5, 0.5], [1, 1, 1]]
    finally:
        shutil.rmtree(folder)


def forward_to(name, n):
    return rpc.rpc_sync(name, divide, args=(n, 2))
