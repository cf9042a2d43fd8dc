"""How batches come from workers: right bytes whatever a collate function does, no descriptor kept, no endless wait."""

import fcntl
import gc
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import termios
import time

import numpy
import pytest
import tessera
from tessera.utils.data import DataLoader, Dataset, default_collate
from tessera.utils.data._utils import transport

SHAPE = (64, 1024)  # 256 KiB of float32: four of them make a batch of 1 MiB
MIB = 2**20


class Images(Dataset):
    """(image filled with i, i)"""

    def __init__(self, n=32):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return tessera.full(SHAPE, float(i)), i


def keep_mean(samples):
    images, labels = default_collate(samples)
    return images.mean(dim=(1, 2)), labels


def mean_then_labels(samples):
    means = default_collate([image for image, _ in samples]).mean(dim=(1, 2))
    return means, tessera.tensor([label for _, label in samples])


def keep_labels(samples):
    _, labels = default_collate(samples)
    return tessera.zeros(4, *SHAPE) + labels.view(-1, 1, 1), labels


def keep_one_of_two(samples):
    images, labels = default_collate(samples)
    del images
    images, _ = default_collate(samples)
    return images, labels


def to_half(samples):
    images, labels = default_collate(samples)
    return images.half(), labels


def to_numpy(samples):
    images, labels = default_collate(samples)
    return images.numpy(), labels


def numpy_copy(samples):
    images, labels = default_collate(samples)
    return images.numpy().copy(), labels.numpy()


def wrapped_again(samples):
    images, labels = default_collate(samples)
    return tessera.from_numpy(images.numpy()), labels


def windows(samples):
    images, labels = default_collate(samples)
    last = images[-1]
    del images
    return tessera.stack([default_collate(samples)[0][0], *default_collate(samples)[0][1:3], last]), labels


def resized(samples):
    images, labels = default_collate(samples)
    images.untyped_storage().resize_(2 * MIB)
    return images, labels


def moved_to_shared_memory(samples):
    images, labels = default_collate(samples)
    return images.share_memory_(), labels


def one_storage_twice(samples):
    images, labels = default_collate(samples)
    return images, labels, images.view(-1), images.t_() if images.dim() == 2 else images.transpose(0, 1)


COLLATE = [
    keep_mean,
    mean_then_labels,
    keep_labels,
    keep_one_of_two,
    to_half,
    to_numpy,
    numpy_copy,
    wrapped_again,
    windows,
    resized,
    moved_to_shared_memory,
    one_storage_twice,
    default_collate,
]


def check_batches(batches, count):
    """Batches of four with the labels in order, and images or means that agree with them."""
    number = 0
    for number, batch in enumerate(batches, 1):
        images, labels = tessera.as_tensor(batch[0]), tessera.as_tensor(batch[1])
        want = list(range(4 * number - 4, 4 * number))
        assert labels.tolist() == want
        assert (images.double().view(4, -1) == tessera.tensor(want).double().view(4, 1)).all(), (number, images)
    assert number == count


@pytest.mark.parametrize("collate", COLLATE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("workers", [1, 2])
def test_collate_functions_that_keep_a_part(collate, workers):
    check_batches(DataLoader(Images(), batch_size=4, num_workers=workers, collate_fn=collate), 8)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_kept_parts_from_started_workers(method):
    loader = DataLoader(Images(16), batch_size=4, num_workers=2, collate_fn=keep_mean, multiprocessing_context=method)
    check_batches(loader, 4)


def test_tensors_that_share_a_storage_still_do():
    for images, _, flat, turned in DataLoader(Images(8), batch_size=4, num_workers=1, collate_fn=one_storage_twice):
        flat.fill_(9.0)
        assert (images == 9.0).all() and (turned == 9.0).all()


class KeepsItsBatch:
    """Sends one and the same tensor each time, after adding one to it."""

    batch = None

    def __call__(self, samples):
        if self.batch is None:
            self.batch = default_collate(samples)[0].zero_()
        self.batch.add_(1)
        return self.batch


def test_a_batch_that_is_sent_again_is_as_the_worker_has_it():
    received = []
    for batch in DataLoader(Images(), batch_size=4, num_workers=1, collate_fn=KeepsItsBatch()):
        received.append(batch)
        if len(received) % 2:
            batch.mul_(-1)  # ours alone
    assert [float(b.min()) for b in received] == [float(b.max()) for b in received] == [-1, 2, -3, 4, -5, 6, -7, 8]


class Nested(Dataset):
    """Each sample is the mean of a pass over another loader, inside the worker."""

    def __init__(self, workers):
        self.workers = workers

    def __len__(self):
        return 4

    def __getitem__(self, i):
        multiprocessing.current_process()._config["daemon"] = False  # may have children
        collate = default_collate if i % 2 else keep_mean
        inner = DataLoader(Images(8), batch_size=4, num_workers=self.workers, collate_fn=collate)
        total = [float(images.double().mean()) for images, _ in inner]
        return tessera.full(SHAPE, float(i)), i, total


@pytest.mark.parametrize("workers", [0, 1])
def test_loaders_inside_workers(workers):
    (batch,) = DataLoader(Nested(workers), batch_size=4, num_workers=1)
    assert batch[1].tolist() == [0, 1, 2, 3] and [t.tolist() for t in batch[2]] == [[1.5] * 4, [5.5] * 4]
    assert (batch[0].view(4, -1) == tessera.arange(4.0).view(4, 1)).all()


def settled_descriptors():
    gc.collect()
    return open_descriptors()


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


class CountsDescriptors:
    """Every way to lose a batch, and how many descriptors the worker has."""

    def __init__(self, keep=0):
        self.keep, self.kept = keep, []

    def __call__(self, samples):
        images, labels = default_collate(samples)
        default_collate(samples)
        self.kept = (self.kept + [default_collate(samples)[0]])[-self.keep :] if self.keep else []
        number = int(labels[0]) // 4
        pair = {"images": images, "other": tessera.ones(300_000)}
        parts = [images, images.half(), pair, images.numpy(), images[1:], labels][number % 6]
        return parts, os.getpid(), open_descriptors()


@pytest.mark.parametrize("keep", [0, 200])
def test_descriptors_do_not_grow(keep):
    before = settled_descriptors()
    collate = CountsDescriptors(keep)
    loader = DataLoader(Images(160), batch_size=4, num_workers=2, collate_fn=collate, persistent_workers=True)
    held, counts, own = [], {}, []
    for _ in range(4):
        for parts, pid, count in loader:
            held.append(parts)
            counts.setdefault(pid, []).append(count)
            own.append(open_descriptors())
    assert len(held) == 160 and len(counts) == 2
    for series in counts.values():
        assert len(series) > 60 and max(series) <= series[0] + (70 if keep else 6), series
    assert max(own) <= own[0] + 6, own  # all batches are held, none by a descriptor
    del loader, held, parts
    assert settled_descriptors() == before


def test_a_file_belongs_to_the_memory():
    before = settled_descriptors()
    new = tessera.UntypedStorage._new_in_file
    storage = new(MIB)
    storage.fill_(3)
    assert open_descriptors() == before + 1
    descriptor, number = storage._give_file()
    received = tessera.UntypedStorage._over_file(descriptor, MIB, False)
    os.close(descriptor)
    assert storage._give_file() is None and open_descriptors() == before
    storage[0], received[1] = 4, 5
    assert storage[:3].tolist() == [4, 3, 3] and received[:3].tolist() == [3, 5, 3]
    view = storage[8:16]
    del storage
    assert tessera.UntypedStorage._is_kept(number) and view[0] == 3
    del view
    assert not tessera.UntypedStorage._is_kept(number) and received[0] == 3
    changes = (lambda s: s.resize_(2 * MIB), True), (lambda s: s.share_memory_(), True), (lambda s: s.fill_(6), False)
    for change, lost in changes:
        storage = new(MIB).fill_(6)
        change(storage)
        given = storage._give_file()
        assert (given is None) is lost and storage[MIB - 1] == 6
        if given is not None:
            os.close(given[0])
    del storage
    gc.collect()  # which lets go of the file of shared memory
    assert open_descriptors() == before
    assert tessera.UntypedStorage(MIB)._give_file() is None and new(0) is None
    with pytest.raises(RuntimeError, match="the descriptor 0 is of no file of"):
        tessera.UntypedStorage._over_file(0, 2**40, True)


def where_bytes_are(parcel):
    return list(parcel.head()[transport._HEAD.size :][: len(parcel.files)])


def test_memory_that_the_sender_dropped_is_the_receivers_alone():
    for keep in (True, False):
        tensor = transport.empty((2**17,), tessera.float32).fill_(1)
        parcel = transport.pack("key", [tensor, tensor.view(2, -1)])
        if not keep:
            del tensor
        assert where_bytes_are(parcel) == [transport._KEPT if keep else transport._ALONE]
        ours, theirs = multiprocessing.Pipe()
        transport.write(ours, parcel)
        key, (first, second) = transport.receive(theirs, None)
        first.add_(1)
        assert key == "key" and (second == 2).all() and (not keep or (tensor == 1).all())


def _checks_that_batches_are_dropped(_):
    write = transport.write

    def checked(connection, parcel):
        assert where_bytes_are(parcel) == [transport._ALONE, transport._NO_FILE]
        write(connection, parcel)

    transport.write = checked


def test_workers_drop_their_batches_before_they_send_them():
    check_batches(DataLoader(Images(), batch_size=4, num_workers=2, worker_init_fn=_checks_that_batches_are_dropped), 8)


def test_a_forked_process_does_not_give_the_file_away():
    storage = tessera.UntypedStorage._new_in_file(MIB)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if storage._give_file() is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(storage._give_file()[0])


def test_few_files_are_open_at_a_time():
    before = settled_descriptors()
    kept = [transport.empty((2**17,), tessera.float32) for _ in range(200)]
    made = [t for t in kept if t is not None]
    assert 16 <= len(made) < 200 and open_descriptors() == before + len(made)
    del kept, made
    assert open_descriptors() == before and transport.empty((2, 2**17), tessera.float32).shape == (2, 2**17)


class BreaksThere:
    """Can be pickled, but not unpickled."""

    def __reduce__(self):
        return _fails, ()


def _fails():
    raise LookupError("not on this side")


class BreaksHere:
    def __reduce__(self):
        raise LookupError("not to be pickled")


def with_broken_objects(samples):
    images, labels = default_collate(samples)
    return images, labels, {1: BreaksThere(), 3: BreaksHere()}.get(int(labels[0]) // 4)


def test_batches_that_cannot_be_pickled_or_unpickled_are_errors_of_their_own():
    before = settled_descriptors()
    iterator = iter(DataLoader(Images(), batch_size=4, num_workers=1, collate_fn=with_broken_objects))
    seen = []
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            break
        except LookupError as error:
            seen.append(str(error).strip().splitlines()[-1])
            continue
        seen.append(int(batch[1][0]) // 4)
    assert seen == [0, "LookupError: not on this side", 2, "LookupError: not to be pickled", 4, 5, 6, 7]
    del iterator, batch
    assert settled_descriptors() == before


def raises_a_local_error(samples):
    class LocalError(Exception):
        pass

    raise LocalError("nobody else knows me")


def test_errors_of_types_that_cannot_be_pickled_arrive():
    with pytest.raises(RuntimeError, match="nobody else knows me"):
        next(iter(DataLoader(Images(), batch_size=4, num_workers=1, collate_fn=raises_a_local_error)))


def _stops_half_way(_):
    def write(connection, parcel):
        os.write(connection.fileno(), b"\0\1\0\0some of 65,536 bytes")
        raise ValueError("half way")

    transport.write = write


def _dies_half_way(_):
    def write(connection, parcel):
        connection.send_bytes(parcel.head())  # and no descriptor
        os.kill(os.getpid(), signal.SIGKILL)

    transport.write = write


@pytest.mark.parametrize("end", [_stops_half_way, _dies_half_way])
def test_a_worker_that_ends_while_it_sends(end, capfd):
    before = settled_descriptors()
    iterator = iter(DataLoader(Images(), batch_size=4, num_workers=2, worker_init_fn=end))
    with pytest.raises(RuntimeError, match="exited unexpectedly|closed its pipe"):
        next(iterator)
    assert not any(worker.is_alive() for worker in iterator._workers)
    with pytest.raises(StopIteration):
        next(iterator)
    del iterator
    assert settled_descriptors() == before


def through_the_pipe(samples):
    return tessera.ones(60_000)  # 240 KB: more than a socket takes at once, too little for a file


def _wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _wait_until_full(pipe):
    """Until a worker that has more to send than a socket takes has sent a part of it."""
    _wait_until(lambda: struct.unpack("i", fcntl.ioctl(pipe.fileno(), termios.FIONREAD, bytes(4)))[0] > 100_000)


def loader_that_fills_pipes():
    return iter(DataLoader(Images(400), batch_size=4, num_workers=2, prefetch_factor=40, collate_fn=through_the_pipe))


def test_a_worker_that_is_killed_while_it_waits_to_send():
    before = settled_descriptors()
    iterator = loader_that_fills_pipes()
    _wait_until_full(iterator._result_pipes[0])
    os.kill(iterator._workers[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(iterator)
    del iterator
    assert settled_descriptors() == before


@pytest.mark.parametrize("moment", ["between passes", "in a pass"])
def test_tasks_for_a_worker_that_was_killed(moment):
    """Its pipe is found closed before its end is known."""
    loader = DataLoader(Images(40), batch_size=4, num_workers=2, persistent_workers=True)
    iterator = iter(loader)
    labels = [label for _, label in iterator]
    assert len(labels) == 10
    if moment == "in a pass":
        iterator = iter(loader)
    dead = iterator._workers[0]
    is_alive, answers = dead.is_alive, iter([True])
    os.kill(dead.pid, signal.SIGKILL)
    _wait_until(lambda: not _runs(dead.pid))
    dead.is_alive = lambda: next(answers, None) or is_alive()  # as before the process is reaped
    with pytest.raises(RuntimeError, match=rf"pid\(s\) {dead.pid}\) exited unexpectedly|closed its pipe"):
        for _ in iter(loader) if moment == "between passes" else iterator:
            pass
    assert not any(worker.is_alive() for worker in iterator._workers)


def test_workers_that_wait_to_send_end_by_themselves():
    """Though each holds the ends of the pipes that were there when it was forked."""
    iterators = [loader_that_fills_pipes(), loader_that_fills_pipes()]
    workers = [worker for iterator in iterators for worker in iterator._workers]
    for iterator in iterators:
        for pipe in iterator._result_pipes:
            _wait_until_full(pipe)
    del iterator, pipe
    iterators.clear()
    gc.collect()
    assert [worker.exitcode for worker in workers] == [0] * 4  # by a signal, it would be negative


def test_workers_end_when_the_loader_is_killed():
    here = os.path.abspath(__file__)
    code = f"""if True:
        import importlib.util, signal
        spec = importlib.util.spec_from_file_location("tests", {here!r})
        tests = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tests)
        iterator = tests.loader_that_fills_pipes()
        for pipe in iterator._result_pipes:
            tests._wait_until_full(pipe)
        print(*(worker.pid for worker in iterator._workers), flush=True)
        signal.pause()
        """
    root = os.path.dirname(os.path.dirname(os.path.abspath(tessera.__file__)))
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as program:
        pids = [int(pid) for pid in program.stdout.readline().split()]
        program.kill()
    assert len(pids) == 2
    for pid in pids:
        _wait_until(lambda: not _runs(pid))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_arrays_arrive_writable_and_whole():
    def arrays(samples):
        return numpy.full((300, 300), float(samples[0][1])), numpy.arange(3), b"bytes", tessera.ones(100_000)

    batches = list(DataLoader(Images(8), batch_size=4, num_workers=1, collate_fn=arrays))
    assert len(batches) == 2
    for number, (large, small, text, tensor) in enumerate(batches):
        large += 1
        small += 1
        assert (large == 4 * number + 1).all() and small.tolist() == [1, 2, 3]
        assert text == b"bytes" and tensor.sum() == 100_000
