"""Where pipelines begin."""

import copy
import warnings

from tessera.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe):
    """A pipe over the items of an iterable.

    deepcopy: each pass is over a copy, which what the steps do to items does not outlive; with a warning and without
        a copy where there can be none.
    """

    def __init__(self, iterable, deepcopy=True):
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self):
        items = self.iterable
        if self.deepcopy:
            try:
                items = copy.deepcopy(items)
            except TypeError:
                warnings.warn(
                    "The items can't be copied: each pass is over the items themselves. deepcopy=False says so without "
                    "a warning.",
                    stacklevel=3,
                )
        yield from items

    def __len__(self):
        return len(self.iterable)
