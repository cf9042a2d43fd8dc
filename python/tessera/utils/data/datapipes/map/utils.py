"""Where pipelines with keys begin."""

import copy
import warnings

from tessera.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe):
    """A pipe over the items of a sequence or a dict.

    deepcopy: over a copy of it, made now; with a warning and without a copy where there can be none.
    """

    def __init__(self, sequence, deepcopy=True):
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "The sequence can't be copied and is used itself. deepcopy=False says so without a warning.",
                    stacklevel=2,
                )

    def __getitem__(self, index):
        return self.sequence[index]

    def __len__(self):
        return len(self.sequence)
