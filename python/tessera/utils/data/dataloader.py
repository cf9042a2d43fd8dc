"""DataLoader: batches of a dataset, fetched in this process or by worker processes."""

import itertools
import os
import warnings
from collections.abc import Callable
from typing import TypeVar

import tessera
from tessera import _C
from tessera._utils import ExceptionWrapper
from tessera.utils.data._utils import MP_STATUS_CHECK_INTERVAL, pipelines, transport
from tessera.utils.data._utils.collate import default_collate, default_convert
from tessera.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from tessera.utils.data._utils.pin_memory import check_pinning_device
from tessera.utils.data._utils.pin_memory import pin_memory as _pin
from tessera.utils.data._utils.worker import (
    WorkerInfo,
    _IterableDatasetStopIteration,
    _ResumeIteration,
    _run_worker,
    get_worker_info,
    interrupts_wait,
)
from tessera.utils.data.dataset import IterableDataset
from tessera.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_begin_event, _end_event = _C._profiler.begin, _C._profiler.end  # None while nobody records

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


T_co = TypeVar("T_co", covariant=True)
_collate_fn_t = Callable[[list], object]
_worker_init_fn_t = Callable[[int], None]


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        cls = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return cls(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """None, for ever: the index of an iterable dataset."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader:
    """Iterates over a dataset in batches.

    Args:
        dataset: map-style or iterable dataset.
        batch_size: samples in a batch; None turns batching off.
        shuffle: new random order in every pass; for pipelines: switches their shuffling steps on or off.
        sampler, batch_sampler: own source of indices, or of lists of indices.
        num_workers: worker processes; 0 loads in this process.
        collate_fn: list of samples -> batch (`default_collate`; `default_convert` of a sample without batching).
        pin_memory: put batches into page-locked memory, if there is a GPU.
        pin_memory_device: the device that reads them, "cuda" or "cuda:<index>" (any other is a ValueError).
        drop_last: leave out a smaller last batch.
        timeout: seconds to wait for a worker, 0 for ever.
        worker_init_fn: called with the worker's number in each worker, after seeding.
        multiprocessing_context: start method or context of the workers.
        generator: source of the order and of the workers' base seed.
        prefetch_factor: batches that each worker has under way (2).
        persistent_workers: keep the workers for the next pass.
        in_order: False gives batches as they come.

    Raises: ValueError for arguments that exclude each other; errors of the dataset come with their own type.
    """

    _initialized = False
    _iterator = None
    _multiprocessing_context = None

    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor=None,
        persistent_workers=False,
        pin_memory_device="",
        in_order=True,
    ):
        _check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = check_pinning_device(pin_memory_device)
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self._dataset_kind = _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        if pipelines.is_pipe(dataset, only_iterated=True):
            self.dataset, shuffle = pipelines.with_shuffling(dataset, shuffle), None
        if self._dataset_kind == _DatasetKind.Iterable:
            _check_iterable_options(shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler)
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._dataset_kind == _DatasetKind.Iterable:
                sampler = _InfiniteConstantSampler()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.persistent_workers = persistent_workers
        self._initialized = True
        self._IterableDataset_len_called = None
        self.check_worker_number_rationality()

    def __class_getitem__(cls, item):
        return cls

    def __setattr__(self, name, value):
        if self._initialized and name in (
            "batch_size",
            "batch_sampler",
            "sampler",
            "drop_last",
            "dataset",
            "persistent_workers",
        ):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self):
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                    f"but got num_workers={self.num_workers}"
                )
            import multiprocessing

            if isinstance(context, str):
                valid = multiprocessing.get_all_start_methods()
                if context not in valid:
                    raise ValueError(
                        f"multiprocessing_context option should specify a valid start method in {valid!r}, but got "
                        f"multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string specifying the start "
                    "method, "
                    f"but got multiprocessing_context={context}"
                )
        self._multiprocessing_context = context

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self):
        if self._iterator is not None:  # of persistent workers
            self._iterator._reset(self)
            return self._iterator
        iterator = self._get_iterator()
        if self.persistent_workers and self.num_workers:
            self._iterator = iterator
        return iterator

    def __len__(self):
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
        return length

    def check_worker_number_rationality(self):
        """Warns if there are more workers than CPUs that this process may use."""
        if not self.num_workers:
            return
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if cpus is not None and self.num_workers > cpus:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in "
                f"current system is {cpus}, which is smaller than what this DataLoader is going to create. Please be "
                f"aware that "
                "excessive worker creation might get DataLoader running slow or even freeze, lower the worker number "
                "to avoid "
                "potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def _check_worker_options(num_workers, timeout, prefetch_factor, persistent_workers):
    alone = num_workers == 0
    wrong = {
        "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.": num_workers < 0,
        "timeout option should be non-negative": timeout < 0,
        "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
        "multiprocessing, otherwise set prefetch_factor to None.": alone and prefetch_factor is not None,
        "prefetch_factor option should be non-negative": prefetch_factor is not None and prefetch_factor < 0,
        "persistent_workers option needs num_workers > 0": alone and persistent_workers,
    }
    for text, holds in wrong.items():
        if holds:
            raise ValueError(text)


def _check_iterable_options(**options):
    for name, value in options.items():
        if not (value is None or name == "shuffle" and value is False):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _pins(loader):
    if not loader.pin_memory:
        return False
    if tessera.cuda.is_available():
        return True
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
        stacklevel=4,
    )
    return False


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._loader = loader
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = _pins(loader)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._shared_seed = pipelines.draw_seed(self._dataset, loader.generator)
        self._base_seed = int(tessera.empty((), dtype=tessera.int64).random_(generator=loader.generator).item())
        self._begin(loader)

    def _begin(self, loader):
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._length_called = loader._IterableDataset_len_called

    def __iter__(self):
        return self

    def _next_index(self):
        return next(self._sampler_iter)

    def _next_data(self):
        raise NotImplementedError

    def __next__(self):
        event = _begin_event(f"enumerate(DataLoader)#{type(self).__name__}.__next__")
        try:
            return self._counted(self._next_data())
        finally:
            _end_event(event)

    def _counted(self, data):
        self._num_yielded += 1
        if (
            self._dataset_kind == _DatasetKind.Iterable
            and self._length_called is not None
            and self._num_yielded > self._length_called
        ):
            message = (
                f"Length of IterableDataset {self._dataset} was reported to be {self._length_called} (when accessing "
                f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
            )
            if self._num_workers > 0:
                message += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the "
                    "IterableDataset replica "
                    "at each worker."
                )
            warnings.warn(message, stacklevel=3)
        return _pin(data) if self._pin_memory else data

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        if loader.timeout:
            raise AssertionError("_SingleProcessDataLoaderIter expects timeout == 0")
        pipelines.share_among_machines(self._dataset)
        pipelines.set_seeds(self._dataset, self._shared_seed)
        how = self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        self._fetcher = _DatasetKind.create_fetcher(self._dataset_kind, *how)

    def _next_data(self):
        return self._fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Hands numbered tasks to the workers in turn and gives the results out in the order of the numbers."""

    def __init__(self, loader):
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._persistent = loader.persistent_workers
        self._shutdown = False
        self._passes = 0
        self._ended = set()  # workers that were told to end
        self._workers, self._task_pipes, self._result_pipes = [], [], []
        pipelines.share_among_machines(self._dataset)
        self._start_workers(loader)
        self._shared_seed = pipelines.draw_seed(
            self._dataset, loader.generator
        )  # PyTorch's stream has one that is unused
        self._restart()

    def _start_workers(self, loader):
        from tessera import multiprocessing  # where a worker is spawned, tensors of the dataset go by their memory

        context = loader.multiprocessing_context or multiprocessing.get_context()
        parent = os.getpid() if context.get_start_method() in ("fork", "spawn") else None
        try:
            for number in range(self._num_workers):
                task_reader, task_writer = context.Pipe(duplex=False)
                result_reader, result_writer = context.Pipe(duplex=True)  # a socket, which can carry file descriptors
                args = (
                    self._dataset_kind,
                    self._dataset,
                    task_reader,
                    result_writer,
                    self._auto_collation,
                    self._collate_fn,
                    self._drop_last,
                    self._base_seed,
                    self._shared_seed,
                    loader.worker_init_fn,
                    number,
                    self._num_workers,
                    parent,
                )
                worker = context.Process(target=_run_worker, args=args, daemon=True)
                with interrupts_wait(context.get_start_method()):
                    worker.start()
                task_reader.close()
                result_writer.close()
                self._workers.append(worker)
                self._task_pipes.append(task_writer)
                self._result_pipes.append(result_reader)
        except BaseException:
            self._shutdown_workers()
            raise

    def _restart(self):
        self._send_number = 0
        self._next_number = 0
        self._tasks = {}  # number -> [worker] or [worker, data]
        self._active = [True] * self._num_workers
        self._turn = itertools.cycle(range(self._num_workers))
        for _ in range(self._prefetch_factor * self._num_workers):
            self._hand_out()

    def _reset(self, loader):
        """Begins another pass with the same workers; what is left of the last one is thrown away."""
        self._begin(loader)
        self._passes += 1
        self._shared_seed = pipelines.draw_seed(self._dataset, loader.generator)
        for worker in range(self._num_workers):
            self._tell(worker, _ResumeIteration(self._passes, self._shared_seed))
        waiting = set(range(self._num_workers))
        while waiting:
            worker, (key, _) = self._receive()
            if isinstance(key, _ResumeIteration) and key.number == self._passes:
                waiting.discard(worker)
        self._restart()

    def _hand_out(self):
        try:
            index = self._next_index()
        except StopIteration:
            return
        for _ in range(self._num_workers):
            worker = next(self._turn)
            if self._active[worker]:
                break
        else:
            return
        self._tell(worker, (self._send_number, index))
        self._tasks[self._send_number] = [worker]
        self._send_number += 1

    def _tell(self, worker, message):
        try:
            self._task_pipes[worker].send(message)
        except OSError as error:
            if message is not None:  # a worker that is told to end may have done so
                self._report_closed_pipe(worker, error)

    def _report_closed_pipe(self, worker, error):
        """Ends the pass because of a worker that does not answer any more."""
        self._workers[worker].join(1.0)
        self._report_dead_workers()
        self._shutdown_workers()
        raise RuntimeError(f"DataLoader worker {worker} closed its pipe unexpectedly") from error

    def _report_dead_workers(self):
        dead = [
            str(worker.pid)
            for number, worker in enumerate(self._workers)
            if number not in self._ended and not worker.is_alive()
        ]
        if dead:
            self._shutdown_workers()
            raise RuntimeError(f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly")

    def _receive(self):
        """(worker, (number, data)) of the next result of any worker."""
        from multiprocessing.connection import wait

        waited = 0.0
        while True:
            step = (
                min(self._timeout - waited, MP_STATUS_CHECK_INTERVAL) if self._timeout > 0 else MP_STATUS_CHECK_INTERVAL
            )
            ready = wait([pipe for number, pipe in enumerate(self._result_pipes) if number not in self._ended], step)
            if ready:
                return self._receive_from(self._result_pipes.index(ready[0]))
            self._report_dead_workers()
            waited += step
            if 0 < self._timeout <= waited:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _receive_from(self, worker):
        def failed():
            return ExceptionWrapper(where=f"while a batch of DataLoader worker process {worker} was unpickled")

        try:
            return worker, transport.receive(self._result_pipes[worker], failed)
        except EOFError as error:
            self._report_closed_pipe(worker, error)

    def _skip_ended(self):
        """Moves to the next number that will have a result. False at the end of the pass."""
        while self._next_number < self._send_number:
            task = self._tasks.get(self._next_number)
            if task is not None:
                if len(task) == 2 or self._active[task[0]]:
                    return True
                del self._tasks[self._next_number]
            self._next_number += 1
        return False

    def _next_data(self):
        while True:
            if self._shutdown or not self._skip_ended():
                if not self._persistent:
                    self._shutdown_workers()
                raise StopIteration
            if len(self._tasks[self._next_number]) == 2:
                data = self._tasks.pop(self._next_number)[1]
                self._next_number += 1
                return self._give_out(data)
            worker, (number, data) = self._receive()
            if isinstance(number, _ResumeIteration):
                continue
            if isinstance(data, _IterableDatasetStopIteration):
                self._active[worker] = False
                if not self._persistent:
                    self._ended.add(worker)
                    self._tell(worker, None)
                self._hand_out()
            elif number == self._next_number or not self._in_order:
                del self._tasks[number]
                return self._give_out(data)
            else:
                self._tasks[number].append(data)

    def _give_out(self, data):
        self._hand_out()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _shutdown_workers(self):
        if self._shutdown:
            return
        self._shutdown = True
        for pipe in self._task_pipes:
            try:
                pipe.send(None)
            except (BrokenPipeError, OSError):
                pass
        for pipe in self._result_pipes:
            transport.hang_up(pipe)  # a worker that is sending gets EPIPE and ends, whoever has inherited this end
            pipe.close()
        for worker in self._workers:
            worker.join(MP_STATUS_CHECK_INTERVAL)
            if worker.is_alive():
                worker.terminate()
                worker.join(MP_STATUS_CHECK_INTERVAL)
        for pipe in self._task_pipes:
            pipe.close()

    def __del__(self):
        if not getattr(self, "_shutdown", True) and self._workers and self._workers[0]._parent_pid == os.getpid():
            self._shutdown_workers()
