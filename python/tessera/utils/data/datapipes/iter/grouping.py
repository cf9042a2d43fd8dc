"""Steps that put samples together, and take them apart."""

import itertools

from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import DataChunk, IterDataPipe

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


def check_batch_size(batch_size):
    if batch_size <= 0:
        raise AssertionError(f"Batch size is required to be larger than 0, but got {batch_size}")


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Batches of `batch_size` samples as `wrapper_class` (functional: `batch`).

    drop_last: leave out a smaller last one. Raises: AssertionError for a size below 1.
    """

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        check_batch_size(batch_size)
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self):
        samples = iter(self.datapipe)
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self):
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The samples of batches (functional: `unbatch`), of `unbatch_level` levels of them; -1: of all levels.

    Raises: ValueError for another negative level, IndexError for more levels than there are.
    """

    def __init__(self, datapipe, unbatch_level=1):
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self):
        if self.unbatch_level < -1:
            raise ValueError(f"unbatch_level must be -1 or at least 0, but got {self.unbatch_level}")
        for sample in self.datapipe:
            yield from self._samples(sample, self.unbatch_level)

    def _samples(self, sample, level):
        is_batch = isinstance(sample, (list, DataChunk))
        if level == 0 or (level < 0 and not is_batch):
            yield sample
        elif not is_batch:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for item in sample:
                yield from self._samples(item, level - 1 if level > 0 else level)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Batches of samples with the same key (functional: `groupby`).

    Samples wait in a buffer, group by group. A group goes out when it has `group_size` samples; when the buffer is
    full, the largest; in the end, all.

    Args:
        datapipe: the source.
        group_key_fn: sample -> key.
        keep_key: give (key, batch).
        buffer_size: number of samples that wait.
        group_size: number of samples of a group; by default as many as there are.
        guaranteed_group_size: the least number of samples of a group that goes out because the buffer is full; by
            default group_size.
        drop_remaining: leave out a group with fewer samples than that when the buffer is full.

    Raises: AssertionError for sizes that do not fit together, RuntimeError when the buffer is full of groups that are
        too small and may not be dropped.
    """

    def __init__(
        self,
        datapipe,
        group_key_fn,
        *,
        keep_key=False,
        buffer_size=10000,
        group_size=None,
        guaranteed_group_size=None,
        drop_remaining=False,
    ):
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError(f"group_size must be in 1 ... buffer_size={buffer_size}, but got {group_size}")
        if guaranteed_group_size is not None and not 0 < guaranteed_group_size <= (group_size or 0):
            raise AssertionError(
                f"guaranteed_group_size must be in 1 ... group_size={group_size}, but got {guaranteed_group_size}"
            )
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size
        self.wrapper_class = DataChunk
        self.reset()

    def reset(self):
        """Begins a pass: nothing waits."""
        self._groups, self._waiting = {}, 0

    def _take(self, key):
        group = self._groups.pop(key)
        self._waiting -= len(group)
        batch = self.wrapper_class(group)
        return (key, batch) if self.keep_key else batch

    def _largest(self):
        """The key of the largest group, of those the first."""
        key = max(self._groups, key=lambda k: len(self._groups[k]))
        least = self.guaranteed_group_size
        is_enough = least is None or len(self._groups[key]) >= least
        if not is_enough and not self.drop_remaining:
            raise RuntimeError(
                f"Failed to group items: the buffer is full of groups with fewer than {least} samples, such as that of "
                f"{key!r} with {len(self._groups[key])}. A larger buffer_size, or drop_remaining=True, would do."
            )
        return key, is_enough

    def __iter__(self):
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            self._groups.setdefault(key, []).append(sample)
            self._waiting += 1
            if len(self._groups[key]) == self.group_size:
                yield self._take(key)
            if self._waiting == self.max_buffer_size:
                key, is_enough = self._largest()
                batch = self._take(key)
                if is_enough:
                    yield batch
        for key in list(self._groups):
            yield self._take(key)
