"""Steps that make one pipe of several, and batches of samples."""

from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import DataChunk, MapDataPipe
from tessera.utils.data.datapipes.iter.combining import check_pipes
from tessera.utils.data.datapipes.iter.grouping import check_batch_size

__all__ = ["BatcherMapDataPipe", "ConcaterMapDataPipe", "ZipperMapDataPipe"]


class _OfSeveral(MapDataPipe):
    def __init__(self, *datapipes):
        check_pipes(datapipes, MapDataPipe)
        self.datapipes = datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(_OfSeveral):
    """Pipes behind each other (functional: `concat`): positions count on. IndexError beyond the last."""

    def __getitem__(self, index):
        offset = 0
        for datapipe in self.datapipes:
            if index - offset < len(datapipe):
                return datapipe[index - offset]
            offset += len(datapipe)
        raise IndexError(f"Index {index} is out of range: there are {offset} samples")

    def __len__(self):
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(_OfSeveral):
    """Tuples with the samples of one key in each pipe (functional: `zip`). IndexError for a key that one has not."""

    def __getitem__(self, index):
        samples = []
        for datapipe in self.datapipes:
            try:
                samples.append(datapipe[index])
            except (IndexError, KeyError) as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {datapipe}."
                ) from error
        return tuple(samples)

    def __len__(self):
        return min(map(len, self.datapipes))


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe):
    """Batches of `batch_size` samples in a row as `wrapper_class` (functional: `batch`).

    drop_last: leave out a smaller last one. Raises: AssertionError for a size below 1, IndexError for a batch that is
        not there.
    """

    def __init__(self, datapipe, batch_size, drop_last=False, wrapper_class=DataChunk):
        check_batch_size(batch_size)
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound: there are {len(self)} batches")
        first = index * self.batch_size
        places = range(first, min(first + self.batch_size, len(self.datapipe)))
        return self.wrapper_class([self.datapipe[i] for i in places])

    def __len__(self):
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
