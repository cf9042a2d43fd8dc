"""Samplers: iterables over the indices of a dataset. The order for a given seed is PyTorch's."""

import itertools

import tessera

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


class Sampler:
    """Base class: `__iter__` gives indices (or lists of them); `__len__` is optional."""

    def __init__(self, data_source=None):
        pass

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        raise NotImplementedError


class SequentialSampler(Sampler):
    """0, 1, 2, ... in order."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def _fresh_generator():
    """A generator seeded from the default one, which advances by one draw."""
    generator = tessera.Generator()
    generator.manual_seed(int(tessera.empty((), dtype=tessera.int64).random_().item()))
    return generator


class RandomSampler(Sampler):
    """Indices in random order.

    Args:
        replacement: draw each index independently.
        num_samples: how many, by default `len(data_source)`; without replacement more than that takes several
            permutations.
        generator: source of randomness; by default one seeded from the default generator for each pass.

    Raises: TypeError or ValueError for bad arguments.
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        size = len(self.data_source)
        generator = self.generator if self.generator is not None else _fresh_generator()
        if self.replacement:
            chunk = 32
            for _ in range(self.num_samples // chunk):
                yield from tessera.randint(high=size, size=(chunk,), dtype=tessera.int64, generator=generator).tolist()
            rest = self.num_samples % chunk
            yield from tessera.randint(high=size, size=(rest,), dtype=tessera.int64, generator=generator).tolist()
            return
        for _ in range(self.num_samples // size):
            yield from tessera.randperm(size, generator=generator).tolist()
        yield from tessera.randperm(size, generator=generator).tolist()[: self.num_samples % size]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order."""

    def __init__(self, indices, generator=None):
        self.indices = indices
        self.generator = generator

    def __iter__(self):
        for i in tessera.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices 0 .. len(weights)-1 drawn with probabilities in proportion to `weights`.

    Raises: ValueError for a bad `num_samples`, `replacement` or shape of weights.
    """

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        weights = tessera.as_tensor(weights, dtype=tessera.float64)
        if weights.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(weights.shape)}")
        self.weights = weights
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self):
        chosen = tessera.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from iter(chosen.tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Groups the indices of another sampler into lists of `batch_size`; `drop_last` leaves out a smaller last one.

    Raises: ValueError for a `batch_size` that is no positive integer or a `drop_last` that is no bool.
    """

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while True:
            batch = list(itertools.islice(indices, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return
            yield batch

    def __len__(self):
        if self.drop_last:
            return len(self.sampler) // self.batch_size
        return (len(self.sampler) + self.batch_size - 1) // self.batch_size
