"""Steps that change the order: of keys, so that what comes out is iterated over."""

from tessera.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from tessera.utils.data.datapipes.iter.combinatorics import RandomOrder

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(IterDataPipe):
    """The samples in a random order (functional: `shuffle`).

    indices: the keys of the samples, by default 0 ... len(datapipe) - 1.
    """

    def __init__(self, datapipe, *, indices=None):
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._enabled, self._order, self._shuffled = True, RandomOrder(), []

    def set_shuffle(self, shuffle=True):
        """Switches the step on or off; returns it."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed):
        """The seed of the next pass; returns the step."""
        self._order.seed = seed
        return self

    def reset(self):
        """Begins a pass: with the next seed, another order."""
        if self._enabled:
            self._order.begin()
            self._shuffled = self._order.random.sample(self.indices, len(self.indices))[::-1]

    def __iter__(self):
        for index in self._shuffled if self._enabled else self.indices:
            yield self.datapipe[index]

    def __len__(self):
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
