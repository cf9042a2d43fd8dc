"""Functions of some columns of a sample: positions of a sequence, or keys of a dict."""

import inspect

__all__ = ["call_on", "check_columns"]


def _as_columns(column):
    return tuple(column) if isinstance(column, (list, tuple)) else (column,)


def check_columns(fn, input_col):
    """Raises: ValueError if `fn` can't be called with as many arguments as there are columns."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin that does not say
        return
    count = 1 if input_col is None else len(_as_columns(input_col))
    try:
        signature.bind(*range(count))
    except TypeError as error:
        name = getattr(fn, "__name__", repr(fn))
        raise ValueError(f"the function {name} can't be called with {count} columns: {error}") from None


def call_on(fn, sample, input_col):
    """`fn` of the whole sample, of one column, or of several."""
    if input_col is None:
        return fn(sample)
    return fn(*(sample[column] for column in _as_columns(input_col)))


def with_result(sample, result, input_col, output_col):
    """The sample with the result in the output column, by default in place of the (first) input column."""
    is_tuple = isinstance(sample, tuple)
    sample = list(sample) if is_tuple else sample
    if output_col == -1:
        sample.append(result)
    elif output_col is not None:
        sample[output_col] = result
    else:
        first, *others = _as_columns(input_col)
        sample[first] = result
        for column in sorted(others, reverse=True) if not isinstance(sample, dict) else others:
            del sample[column]
    return tuple(sample) if is_tuple else sample
