"""Steps that change the order."""

import random

import tessera
from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import IterDataPipe
from tessera.utils.data.sampler import SequentialSampler

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe):
    """What a sampler makes of a pipe that has a length: `sampler(datapipe, *sampler_args, **sampler_kwargs)`."""

    def __init__(self, datapipe, sampler=SequentialSampler, sampler_args=None, sampler_kwargs=None):
        if not hasattr(type(datapipe), "__len__"):
            raise AssertionError(f"a sampler needs a pipe with a length, which {type(datapipe).__name__} has not")
        self.datapipe = datapipe
        self.sampler_args, self.sampler_kwargs = tuple(sampler_args or ()), dict(sampler_kwargs or {})
        self.sampler = sampler(*self.sampler_args, data_source=datapipe, **self.sampler_kwargs)

    def __iter__(self):
        return iter(self.sampler)

    def __len__(self):
        return len(self.sampler)


class RandomOrder:
    """A random source of a pipe's own: seeded once by `set_seed`, otherwise from the default generator in each pass."""

    def __init__(self):
        self.random, self.seed = random.Random(), None

    def begin(self):
        seed = self.seed
        if seed is None:
            seed = int(tessera.empty((), dtype=tessera.int64).random_().item())
        self.random.seed(seed)
        self.seed = None


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
    """The samples in a random order (functional: `shuffle`): each is drawn from a buffer that is kept full.

    Args:
        datapipe: the source.
        buffer_size: how many samples wait in the buffer; at least 1.
        unbatch_level: take so many levels of batches apart before, and put them together again with as many samples.
    """

    def __init__(self, datapipe, *, buffer_size=10000, unbatch_level=0):
        if buffer_size <= 0:
            raise ValueError(f"buffer_size must be at least 1, but got {buffer_size}")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size, self.unbatch_level = buffer_size, unbatch_level
        self._enabled, self._order, self._buffer = True, RandomOrder(), []

    def set_shuffle(self, shuffle=True):
        """Switches the step on or off; returns it."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        """The seed of the next pass; returns the step."""
        self._order.seed = seed
        return self

    def reset(self):
        """Begins a pass: an empty buffer, and the next seed."""
        self._buffer = []
        if self._enabled:
            self._order.begin()

    def __iter__(self):
        if not self._enabled:
            yield from self.datapipe
            return
        buffer, draw = self._buffer, self._order.random.randint
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            place = draw(0, len(buffer) - 1)
            sample, buffer[place] = buffer[place], sample
            yield sample
        while buffer:
            yield buffer.pop(draw(0, len(buffer) - 1))

    def __len__(self):
        return len(self.datapipe)
