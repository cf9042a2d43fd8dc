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


def _positive(name, value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _flag(name, value, error=ValueError):
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


_DRAWS_AT_ONCE = 32


def _draws(size, count, generator):
    """Independent indices below `size`."""
    whole, rest = divmod(count, _DRAWS_AT_ONCE)
    for n in itertools.chain(itertools.repeat(_DRAWS_AT_ONCE, whole), (rest,)):
        yield from tessera.randint(high=size, size=(n,), dtype=tessera.int64, generator=generator).tolist()


def _shuffles(size, count, generator):
    """Permutations of the indices below `size`, one after the other; the last one is cut."""
    whole, rest = divmod(count, size)
    for n in itertools.chain(itertools.repeat(size, whole), (rest,)):
        yield from tessera.randperm(size, generator=generator).tolist()[:n]


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
        self.data_source, self.generator = data_source, generator
        self.replacement, self._num_samples = replacement, num_samples
        _flag("replacement", replacement, TypeError)
        _positive("num_samples", self.num_samples)

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        order = _draws if self.replacement else _shuffles
        return order(len(self.data_source), self.num_samples, self.generator or _fresh_generator())

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
        _positive("num_samples", num_samples)
        _flag("replacement", replacement)
        weights = tessera.as_tensor(weights, dtype=tessera.float64)
        if weights.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(weights.shape)}")
        self.weights, self.generator = weights, generator
        self.num_samples, self.replacement = num_samples, replacement

    def __iter__(self):
        chosen = tessera.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(chosen.tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Groups the indices of another sampler into lists of `batch_size`; `drop_last` leaves out a smaller last one.

    Raises: ValueError for a `batch_size` that is no positive integer or a `drop_last` that is no bool.
    """

    def __init__(self, sampler, batch_size, drop_last):
        _positive("batch_size", batch_size)
        _flag("drop_last", drop_last)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        shortest = self.batch_size if self.drop_last else 1
        while len(batch := list(itertools.islice(indices, self.batch_size))) >= shortest:
            yield batch

    def __len__(self):
        spare = 0 if self.drop_last else self.batch_size - 1
        return (len(self.sampler) + spare) // self.batch_size
