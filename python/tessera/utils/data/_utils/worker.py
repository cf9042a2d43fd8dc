"""What runs in a worker process of a DataLoader."""

import contextlib
import os
import queue
import random
import signal
import sys
import threading

import tessera
from tessera._utils import ExceptionWrapper
from tessera.utils.data._utils import MP_STATUS_CHECK_INTERVAL, pipelines, transport

_worker_info = None


class WorkerInfo:
    """Facts about the worker process: id, num_workers, seed, dataset (its own copy), rng. Read only."""

    _initialized = False

    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)
        self._keys = tuple(kwargs)
        self._initialized = True

    def __setattr__(self, key, value):
        if self._initialized:
            raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")
        super().__setattr__(key, value)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{key}={getattr(self, key)}' for key in self._keys)})"


def get_worker_info():
    """The WorkerInfo of this process, None outside workers."""
    return _worker_info


class _IterableDatasetStopIteration:
    def __init__(self, worker_id):
        self.worker_id = worker_id


class _ResumeIteration:
    """Begins a new pass in a persistent worker; sent back when the worker is ready."""

    def __init__(self, number, shared_seed):
        self.number, self.shared_seed = number, shared_seed


def _seed(base_seed, worker_id):
    seed = base_seed + worker_id
    random.seed(seed)
    tessera.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_generate_state(base_seed, worker_id))
    return seed


def _generate_state(base_seed, worker_id):
    """Four numbers of 32 bits from which a worker seeds NumPy, which has to be there."""
    from numpy.random import SeedSequence

    return SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4).tolist()


def _read_tasks(connection, tasks, parent, results):
    """Thread: moves tasks from the pipe to a queue at once, so that the loader never waits to send one."""
    try:
        while True:
            if connection.poll(MP_STATUS_CHECK_INTERVAL):
                tasks.put(connection.recv())
            elif os.getppid() != parent:
                break
    except (EOFError, OSError):
        pass
    tasks.put(None)
    transport.hang_up(results)  # the loader is gone; the main thread may be waiting for it to take a batch


def _fetch(fetcher, index, dataset_kind, worker_id):
    try:
        return fetcher.fetch(index), False
    except Exception as error:
        if isinstance(error, StopIteration) and dataset_kind == 1:
            return _IterableDatasetStopIteration(worker_id), True
        return ExceptionWrapper(where=f"in DataLoader worker process {worker_id}"), False


def _pack(key, data, worker_id):
    try:
        return transport.pack(key, data)
    except Exception:  # a sample, or the type of an exception, that can't be pickled
        if not isinstance(data, ExceptionWrapper):
            return _pack(key, ExceptionWrapper(where=f"in DataLoader worker process {worker_id}"), worker_id)
    data.exc_type = RuntimeError
    return transport.pack(key, data)


def _send(connection, parcel):
    """Whether the loader is still there."""
    try:
        transport.write(connection, parcel)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


_INTERRUPTS = {signal.SIGINT}


@contextlib.contextmanager
def interrupts_wait(start_method):
    """While a process is forked: an interrupt would go up the caller's stack in the child as well, before it has begun.
    The child has them wait until it says otherwise.
    """
    if start_method != "fork":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(*arguments):
    """What a worker's process runs. An interrupt from the terminal, which the loader gets as well, ends it quietly."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
        _worker_loop(*arguments)
    except KeyboardInterrupt:
        pass


def _worker_loop(
    dataset_kind,
    dataset,
    task_connection,
    result_connection,
    auto_collation,
    collate_fn,
    drop_last,
    base_seed,
    shared_seed,
    init_fn,
    worker_id,
    num_workers,
    parent,
):
    """Fetches batches until told to end. `parent` is the pid of the loader, None where it can't be known (spawn)."""
    global _worker_info
    make_fetcher = tessera.utils.data._DatasetKind.create_fetcher
    tessera.set_num_threads(1)
    seed = _seed(base_seed, worker_id)
    tasks = queue.SimpleQueue()
    reading = (task_connection, tasks, parent or os.getppid(), result_connection)
    threading.Thread(target=_read_tasks, args=reading, daemon=True).start()
    rng = random.Random(seed)
    _worker_info = WorkerInfo(id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset, rng=rng)
    failure, fetcher, ended = None, None, False
    try:
        if init_fn is not None:
            init_fn(worker_id)
        pipelines.share_among_workers(dataset, num_workers, worker_id)
        pipelines.set_seeds(dataset, shared_seed)
        fetcher = make_fetcher(dataset_kind, dataset, auto_collation, collate_fn, drop_last)
    except Exception:
        failure = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
    while True:
        task = tasks.get()
        if task is None:
            break
        if isinstance(task, _ResumeIteration):
            ended = False
            try:
                pipelines.set_seeds(dataset, task.shared_seed)
                fetcher = make_fetcher(dataset_kind, dataset, auto_collation, collate_fn, drop_last)
            except Exception:
                failure = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
            if not _send(result_connection, _pack(task, None, worker_id)):
                break
            continue
        key, index = task
        if ended:
            continue
        if failure is not None:
            data, failure = failure, None
        else:
            data, ended = _fetch(fetcher, index, dataset_kind, worker_id)
        parcel = _pack(key, data, worker_id)
        del data
        if not _send(result_connection, parcel):
            break
    result_connection.close()
