"""Steps that leave samples out."""

import tessera
from tessera.utils.data.datapipes._columns import call_on, check_columns
from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The samples for which `filter_fn` is True (functional: `filter`).

    input_col: call it with this column of the sample, or these. Raises: ValueError for results other than bools, and
        for a function that takes another number of arguments.
    """

    def __init__(self, datapipe, filter_fn, input_col=None):
        check_columns(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self):
        for sample in self.datapipe:
            keep = call_on(self.filter_fn, sample, self.input_col)
            if isinstance(keep, tessera.Tensor) and keep.dtype is tessera.bool and keep.numel() == 1:
                keep = bool(keep)
            if not isinstance(keep, bool):
                raise ValueError(
                    f"Boolean output is required for `filter_fn` of {type(self).__name__}, got {type(keep).__name__}"
                )
            if keep:
                yield sample
