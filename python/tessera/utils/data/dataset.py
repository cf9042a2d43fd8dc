"""Datasets: map-style (indexed) and iterable-style."""

import bisect
import math
from itertools import accumulate

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class Dataset:
    """A map from indices to samples: subclasses define `__getitem__` and usually `__len__`.

    `__getitems__(indices)`, if defined, fetches a whole batch at once. `a + b` concatenates.
    """

    def __class_getitem__(cls, item):
        return cls

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """A stream of samples: subclasses define `__iter__`. With several workers each gets a copy, see
    `get_worker_info`.
    """

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


def samples_at(dataset, indices):
    """The samples of a list of indices: all at once, if the dataset can."""
    if not getattr(dataset, "__getitems__", None):
        return [dataset[index] for index in indices]
    return dataset.__getitems__(indices)


class TensorDataset(Dataset):
    """Samples are tuples of rows of the given tensors.

    Raises: AssertionError if the tensors differ in their first dimension.
    """

    def __init__(self, *tensors):
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Samples are tuples (or dicts, for keyword arguments) with one entry of each dataset.

    Raises: ValueError for no dataset, positional and keyword ones together, or different lengths.
    """

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, "
                "but both types are given."
            )
        self.datasets = args or kwargs
        lengths = {len(part) for part in self._parts()}
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets" if lengths else "At least one dataset should be passed")
        (self._length,) = lengths

    def _parts(self):
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _sample(self, row):
        return dict(zip(self.datasets, row)) if isinstance(self.datasets, dict) else tuple(row)

    def __getitem__(self, index):
        return self._sample(part[index] for part in self._parts())

    def __getitems__(self, indices):
        columns = [samples_at(part, indices) for part in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
        return [self._sample(row) for row in zip(*columns)]

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """Map-style datasets one after the other; `cumulative_sizes` has the end of each.

    Raises: AssertionError for an empty list or an IterableDataset, ValueError for an index before the beginning.
    """

    @staticmethod
    def cumsum(sequence):
        return list(accumulate(len(part) for part in sequence))

    def __init__(self, datasets):
        parts = self.datasets = list(datasets)
        problem = "" if parts else "datasets should not be an empty iterable"
        if any(isinstance(part, IterableDataset) for part in parts):
            problem = "ConcatDataset does not support IterableDataset"
        if problem:
            raise AssertionError(problem)
        self.cumulative_sizes = self.cumsum(parts)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self):
        import warnings

        warnings.warn("cummulative_sizes attribute is renamed to cumulative_sizes", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other."""

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def _check(self, dataset):
        if not isinstance(dataset, IterableDataset):
            raise AssertionError("ChainDataset only supports IterableDataset")
        return dataset

    def __iter__(self):
        for dataset in self.datasets:
            yield from self._check(dataset)

    def __len__(self):
        return sum(len(self._check(dataset)) for dataset in self.datasets)


class Subset(Dataset):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset, indices):
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices):
        return samples_at(self.dataset, [self.indices[i] for i in indices])

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Splits a dataset at random into subsets that don't overlap.

    Args:
        lengths: sizes that sum to `len(dataset)`, or fractions that sum to 1; what rounding leaves over goes to the
            subsets in turn.
        generator: source of the permutation; the default generator if None.

    Raises: ValueError if the lengths don't sum up.
    """
    import warnings

    import tessera

    lengths = list(lengths)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        sizes = []
        for i, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
            sizes.append(math.floor(len(dataset) * fraction))
        for i in range(len(dataset) - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
        lengths = sizes
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = tessera.randperm(sum(lengths), generator=generator).tolist()
    ends = accumulate(lengths)
    return [Subset(dataset, indices[end - length : end]) for end, length in zip(ends, lengths)]
