"""Steps that make one pipe of several, and several of one."""

import collections
import copy as copies
import warnings

from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import IterDataPipe

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


def check_pipes(datapipes, kind):
    """Raises: ValueError for none, TypeError for anything else than pipes of the kind."""
    if not datapipes:
        raise ValueError(f"expected at least one {kind.__name__}, but got nothing")
    for datapipe in datapipes:
        if not isinstance(datapipe, kind):
            raise TypeError(f"expected {kind.__name__}s, but got {type(datapipe).__name__}")


class _OfSeveral(IterDataPipe):
    def __init__(self, *datapipes):
        check_pipes(datapipes, IterDataPipe)
        self.datapipes = datapipes


@functional_datapipe("concat")
class ConcaterIterDataPipe(_OfSeveral):
    """One pipe after the other (functional: `concat`)."""

    def __iter__(self):
        for datapipe in self.datapipes:
            yield from datapipe

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperIterDataPipe(_OfSeveral):
    """Tuples with a sample of each pipe, until the shortest ends (functional: `zip`)."""

    def __iter__(self):
        yield from zip(*self.datapipes)

    def __len__(self):
        return min(map(len, self.datapipes))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(_OfSeveral):
    """A sample of each pipe in turn, until one of them has none for its turn (functional: `mux`)."""

    def reset(self):
        """Begins a pass; there is nothing to put back."""

    def __iter__(self):
        for samples in zip(*self.datapipes):
            yield from samples

    def __len__(self):
        return min(map(len, self.datapipes)) * len(self.datapipes)


class _Source(IterDataPipe):
    """One pass over a pipe for several children, each of which has a queue of what it has not taken yet.

    `_share_out(child, sample)` of subclasses stores a sample for others, and gives it if it is this child's.
    """

    def __init__(self, datapipe, num_instances, buffer_size, what):
        if num_instances < 1:
            raise ValueError(f"expected at least one instance, but got num_instances={num_instances}")
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for {what}, please be aware of OOM risk",
                UserWarning,
                stacklevel=4,
            )
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        self._what = what
        self._children_begun = {}  # number of a child -> the source's pass that it is in
        self._queues, self._samples, self._source_pass = [], None, 0

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.update(_queues=[], _samples=None, _children_begun={})
        return state

    def begin(self, child):
        """A child begins a pass. If it has begun this one before, or there is none, a new one begins for all."""
        if self._samples is None or child in self._children_begun:
            self._source_pass += 1
            self._children_begun = {}
            self._queues = [collections.deque() for _ in range(self.num_instances)]
            self._samples = iter(self.main_datapipe)
        self._children_begun[child] = self._source_pass
        return self._source_pass

    def _store(self, child, sample):
        if 0 <= self.buffer_size <= sum(map(len, self._queues)):
            raise BufferError(
                f"{self._what} buffer overflow, buffer size {self.buffer_size} is insufficient: the instances have to "
                "be iterated over side by side, or with a larger buffer_size"
            )
        self._queues[child].append(sample)

    def samples(self, child, number):
        """The samples of a child in one pass of the source."""
        while True:
            if number != self._source_pass:
                raise RuntimeError(
                    "This iterator has been invalidated, because another iterator has been created from one of the "
                    f"instances of the same {self._what}: they begin their passes together"
                )
            if self._queues[child]:
                yield self._queues[child].popleft()
                continue
            try:
                sample = next(self._samples)
            except StopIteration:
                return
            yield from self._share_out(child, sample)

    def __len__(self):
        return len(self.main_datapipe)


class _Instance(IterDataPipe):
    """One of the pipes that a step has made of one."""

    def __init__(self, main_datapipe, instance_id, has_length):
        self.main_datapipe, self.instance_id, self.has_length = main_datapipe, instance_id, has_length

    def __iter__(self):
        return self.main_datapipe.samples(self.instance_id, self.main_datapipe.begin(self.instance_id))

    def __len__(self):
        if not self.has_length:
            raise TypeError(f"how many samples an instance of {self.main_datapipe._what} gets is not known before")
        return len(self.main_datapipe)


def _instances(source, has_length):
    return [_Instance(source, i, has_length) for i in range(source.num_instances)]


_COPIES = {None: lambda sample: sample, "shallow": copies.copy, "deep": copies.deepcopy}


class _ForkSource(_Source):
    def __init__(self, datapipe, num_instances, buffer_size, copy):
        if copy not in _COPIES:
            raise ValueError(f"copy is None, 'shallow' or 'deep', but got {copy!r}")
        super().__init__(datapipe, num_instances, buffer_size, "ForkerIterDataPipe")
        self.copy = copy

    def _share_out(self, child, sample):
        for other in range(self.num_instances):
            if other != child:
                self._store(other, sample)
        yield sample

    def samples(self, child, number):
        return map(_COPIES[self.copy], super().samples(child, number))


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe):
    """A list of pipes with the same samples, or the source itself for one (functional: `fork`). The source is read
    once; samples wait for the pipes that are behind.

    Args:
        datapipe: the source.
        num_instances: number of pipes.
        buffer_size: number of samples that may wait; -1 for any, with a warning.
        copy: None, "shallow" or "deep" copies of the samples for each.

    Raises: BufferError when too many samples wait; ValueError for unusable arguments.
    """

    def __new__(cls, datapipe, num_instances, buffer_size=1000, copy=None):
        source = _ForkSource(datapipe, num_instances, buffer_size, copy)
        return datapipe if num_instances == 1 and copy is None else _instances(source, True)


class _DemuxSource(_Source):
    def __init__(self, datapipe, num_instances, buffer_size, classifier_fn, drop_none):
        super().__init__(datapipe, num_instances, buffer_size, "DemultiplexerIterDataPipe")
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def _share_out(self, child, sample):
        place = self.classifier_fn(sample)
        if place is None and self.drop_none:
            return
        if place is None or not 0 <= place < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {place} is "
                "returned."
            )
        if place == child:
            yield sample
        else:
            self._store(place, sample)


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe):
    """A list of pipes, each with the samples that `classifier_fn` gives its number (functional: `demux`).

    Args:
        datapipe: the source.
        num_instances: number of pipes.
        classifier_fn: sample -> 0 ... num_instances - 1, or None.
        drop_none: leave out samples with None, which are an error otherwise.
        buffer_size: number of samples that may wait; -1 for any, with a warning.

    Raises: BufferError when too many samples wait; ValueError for other numbers and for unusable arguments.
    """

    def __new__(cls, datapipe, num_instances, classifier_fn, drop_none=False, buffer_size=1000):
        return _instances(_DemuxSource(datapipe, num_instances, buffer_size, classifier_fn, drop_none), False)
