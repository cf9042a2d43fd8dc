"""Steps that call a function for each sample."""

from tessera.utils.data._utils.collate import default_collate
from tessera.utils.data.datapipes._columns import call_on, check_columns, with_result
from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """`fn` of each sample (functional: `map`).

    Args:
        datapipe: the source.
        fn: of the whole sample; of columns, if input_col says which.
        input_col: a position or key of the sample, or a list of them, one for each argument.
        output_col: where the result goes, -1 for behind the last column; by default in place of the input column, of
            which there is one left.

    Raises: ValueError for an output column without an input column, for several, and for a function that takes another
        number of arguments.
    """

    def __init__(self, datapipe, fn, input_col=None, output_col=None):
        if input_col is None and output_col is not None:
            raise ValueError(f"output_col goes with input_col, but got output_col={output_col!r} alone")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError(f"output_col is one column, but got {output_col}")
            output_col = output_col[0]
        check_columns(fn, input_col)
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def __iter__(self):
        for sample in self.datapipe:
            result = call_on(self.fn, sample, self.input_col)
            yield result if self.input_col is None else with_result(sample, result, self.input_col, self.output_col)

    def __len__(self):
        return len(self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Makes tensors of batches (functional: `collate`), with `conversion`, or `collate_fn` if it is given.

    Raises: TypeError for a `conversion` that is not callable: there are no pipes of data frames, for whose columns it
        could name functions.
    """

    def __init__(self, datapipe, conversion=default_collate, collate_fn=None):
        fn = conversion if collate_fn is None else collate_fn
        if not callable(fn):
            raise TypeError(f"collate() needs a function of batches, but got {type(fn).__name__}")
        super().__init__(datapipe, fn=fn)
