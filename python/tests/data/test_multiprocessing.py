"""tessera.multiprocessing: tensors keep their memory on the way to other processes, and nothing is left behind."""

import gc
import os
import signal
import subprocess
import sys
import time

import numpy
import pytest
import tessera
import tessera.multiprocessing as mp
from tessera import _shared_memory

WAIT = 60
METHODS = ("fork", "spawn", "forkserver")


def named_files():
    return {name for name in os.listdir("/dev/shm") if name.startswith("torch_")}


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy("file_descriptor")


def add_one(tasks, results):
    while True:
        message = tasks.get()
        if message is None:
            return
        for tensor in message:
            if tensor.device.type == "cpu" and tensor.numel():
                tensor.detach().add_(1)
        results.put(message)


@pytest.fixture(params=METHODS)
def other(request, strategy):
    """Sends a list of tensors to a process that adds 1 to each and sends them back."""
    context = mp.get_context(request.param)
    tasks, results = context.Queue(), context.Queue()
    process = context.Process(target=add_one, args=(tasks, results))
    process.start()

    def call(*tensors):
        tasks.put(list(tensors))
        return results.get(timeout=WAIT)

    yield call
    tasks.put(None)
    process.join(WAIT)
    assert process.exitcode == 0


def test_all_processes_see_one_memory(other):
    a = tessera.zeros(3, 4)
    row = a[1]
    (b,) = other(a)
    assert a.eq(1).all() and b.eq(1).all() and row.eq(1).all() and a.is_shared() and b.is_shared()
    b.add_(10)
    assert a.eq(11).all()
    (c,) = other(b)  # memory that came from elsewhere is sent on
    (d,) = other(a[:, 1])
    assert a[:, 1].eq(13).all() and a[:, 0].eq(12).all() and c.equal(a) and d.eq(13).all() and d.stride() == (4,)


def test_tensors_that_share_a_storage_still_do(other):
    a = tessera.zeros(6)
    x, y = other(a[:3], a.view(2, 3))
    assert a.tolist() == [2, 2, 2, 1, 1, 1]
    x.fill_(7)
    assert y[0].eq(7).all()


def test_what_else_can_be_sent(other):
    parameter, leaf = tessera.nn.Parameter(tessera.ones(2)), tessera.ones(2, dtype=tessera.float64, requires_grad=True)
    flags, conjugate = tessera.tensor([3], dtype=tessera.int8), tessera.tensor([1 + 2j]).conj()
    back = other(parameter, leaf, flags, conjugate, tessera.empty(0, 3), tessera.empty(2, 3, device="meta"))
    assert type(back[0]) is tessera.nn.Parameter and back[0].requires_grad and back[0].tolist() == [2, 2]
    assert back[1].requires_grad and back[1].dtype is tessera.float64 and back[1].tolist() == [2, 2]
    assert back[2].tolist() == [4] and back[3].is_conj() and back[3].tolist() == [2 - 2j]
    assert back[4].shape == (0, 3) and back[5].is_meta and back[5].shape == (2, 3)


def test_memory_of_somebody_else_is_copied(other):
    array = numpy.zeros(4)
    (b,) = other(tessera.from_numpy(array))
    assert b.tolist() == [1] * 4 and array.tolist() == [0] * 4
    a = tessera.zeros(4)
    view = memoryview(a.untyped_storage()).cast("f")  # has the address: the memory stays
    (b,) = other(a)
    a.fill_(5)
    assert view.tolist() == [5] * 4 and b.tolist() == [1] * 4


def put_shared(tensor, queue, seen):
    queue.put(tensor)
    seen.wait(WAIT)


def test_a_child_sends_what_it_inherited(strategy):
    """Memory that was shared before the fork stays the same for the parent when the child puts it into a queue."""
    context = mp.get_context("fork")
    a, queue, seen = tessera.zeros(4).share_memory_(), context.Queue(), context.Event()
    process = context.Process(target=put_shared, args=(a, queue, seen))
    process.start()
    b = queue.get(timeout=WAIT)
    seen.set()
    process.join(WAIT)
    b.add_(3)
    assert a.tolist() == [3] * 4 and process.exitcode == 0


def test_a_module_is_trained_by_its_processes(strategy):
    model = tessera.nn.Linear(2, 2)
    tied = model.weight
    model.share_memory()
    with tessera.no_grad():
        model.weight.zero_()
    assert model.weight is tied and model.weight.is_shared()
    mp.start_processes(write_row, args=(model,), nprocs=2, start_method="spawn")
    assert model.weight.tolist() == [[1, 1], [2, 2]]


def write_row(number, model):
    with tessera.no_grad():
        model.weight[number] = number + 1


def test_sending_many_keeps_few_files(strategy):
    queue = mp.get_context("spawn").SimpleQueue()
    kept = tessera.ones(3)
    queue.put(kept)
    again = queue.get()
    mine = f"torch_{os.getpid()}_"  # others may run beside this
    before, names = descriptors(), named_files()
    for i in range(200):
        queue.put(tessera.full((1000,), float(i)))
        assert queue.get()[-1] == i
    gc.collect()
    assert descriptors() <= before + 4 and sum(n.startswith(mine) for n in named_files() - names) <= 4
    again.add_(1)
    queue.put(kept)
    assert queue.get().tolist() == [2, 2, 2]
    kept.add_(1)
    assert again.tolist() == [3, 3, 3]


def test_descriptors_are_left_for_others(monkeypatch):
    limit = 2 * descriptors()
    monkeypatch.setattr(_shared_memory.resource, "getrlimit", lambda which: (limit, 0))
    tensors = [tessera.full((2,), float(i)).share_memory_() for i in range(limit)]
    regions = [_shared_memory.region_to_send(t.untyped_storage())[0] for t in tensors]
    assert any(r.path is not None for r in regions) and all(t.is_shared() for t in tensors)
    assert [t[0].item() for t in tensors] == list(range(len(tensors)))


def test_what_can_not_be_sent():
    queue = mp.get_context("spawn").SimpleQueue()
    with pytest.raises(RuntimeError, match=r"only if it is a leaf: this one is the result of MulBackward0.*detach\(\)"):
        queue.put(tessera.ones(1, requires_grad=True) * 2)
    with pytest.raises(AssertionError, match="file_descriptor, file_system, but got 'pigeon'"):
        mp.set_sharing_strategy("pigeon")
    assert mp.get_sharing_strategy() == "file_descriptor"
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}


def test_names_of_the_standard_package():
    import multiprocessing

    assert set(multiprocessing.__all__) <= set(mp.__all__) and mp.Queue is multiprocessing.Queue
    assert all(hasattr(mp, name) for name in mp.__all__) and mp.get_context("fork").Pool


def square(x):
    return x * x


@pytest.mark.parametrize("method", METHODS)
def test_pool(method):
    with mp.get_context(method).Pool(2) as pool:
        results = pool.map(square, [tessera.full((2,), float(i)) for i in range(5)])
    assert [r.tolist() for r in results] == [[i * i] * 2 for i in range(5)]


# --- spawn ---


def fill(number, values, text):
    values[number] = number + len(text)


def test_spawn_runs_all():
    values = tessera.zeros(3).share_memory_()
    assert mp.spawn(fill, (values, "ab"), nprocs=3) is None
    assert values.tolist() == [2, 3, 4]


def fail(number, how):
    if number == 0:
        time.sleep(WAIT)
    if how == "raise":
        raise ValueError("broken worker")
    if how == "exit":
        sys.exit(7)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("method", METHODS)
def test_the_first_failure_ends_all(method):
    for how in ("raise", "exit", "kill"):
        context = mp.start_processes(fail, args=(how,), nprocs=2, join=False, start_method=method)
        assert len(context.pids()) == 2
        expected = mp.ProcessRaisedException if how == "raise" else mp.ProcessExitedException
        with pytest.raises(expected) as caught:
            while not context.join(timeout=1):
                pass
        error = caught.value
        assert error.error_index == 1 and error.error_pid == context.pids()[1]
        assert not any(p.is_alive() for p in context.processes) and not any(map(os.path.exists, context.error_files))
        if how == "raise":
            assert "Process 1 terminated with the following error" in str(error) and "broken worker" in str(error)
        else:
            assert (error.exit_code, error.signal_name) == {"exit": (7, None), "kill": (-9, "SIGKILL")}[how]


def test_join_with_a_timeout():
    context = mp.start_processes(time.sleep, nprocs=2, join=False, start_method="fork")
    assert context.join(timeout=0) is False  # the second sleeps a second
    while not context.join(timeout=5):
        pass


def test_other_start_methods_are_for_start_processes():
    values = tessera.zeros(1).share_memory_()
    with pytest.warns(FutureWarning, match=r"start_processes\(\.\.\., start_method='fork'\)"):
        mp.spawn(fill, (values, "a"), start_method="fork")
    assert values.tolist() == [1]


PROGRAM = """
import os, sys, time
import tessera
import tessera.multiprocessing as mp

def work(number, tensor, queue):
    queue.put(os.getpid())
    while True:
        tensor.add_(1)
        queue.put(tensor)
        time.sleep(0.001)

if __name__ == "__main__":
    mp.set_sharing_strategy(sys.argv[1])
    queue = mp.get_context(sys.argv[2]).SimpleQueue()
    tensor = tessera.zeros(1000)
    context = mp.start_processes(work, (tensor, queue), nprocs=2, join=False, start_method=sys.argv[2])
    started = 0
    while True:
        got = queue.get()
        if isinstance(got, int):
            started += 1
            if started == 2:
                print(*context.pids(), flush=True)
"""


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for(condition):
    until = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("interrupts", ["SIG_DFL", "SIG_IGN"])
def test_a_killed_parent_leaves_nothing(tmp_path, strategy, method, interrupts):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    before = named_files()
    # A shell's background programs, and their children, ignore SIGINT.
    way = f"import os, signal, sys; signal.signal(2, signal.{interrupts}); os.execv(sys.argv[1], sys.argv[1:])"
    program = [sys.executable, str(script), strategy, method]
    parent = subprocess.Popen(
        [sys.executable, "-c", way, *program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pids = parent.stdout.readline().split()
    assert len(pids) == 2
    parent.kill()
    parent.communicate(timeout=WAIT)
    wait_for(lambda: all(gone(pid) for pid in pids))
    wait_for(lambda: not (named_files() - before))
