"""The `reduction` argument of losses: names, enum values, and the two deprecated flags before it."""

import warnings

_VALUES = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction):
    """0 none, 1 mean, 2 sum. ValueError for another name."""
    value = _VALUES.get(reduction)
    if value is not None:
        return value
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=3)
        return 1
    raise ValueError(f"{reduction} is not a valid value for reduction")


def legacy_get_string(size_average, reduce, emit_warning=True):
    """The name of the reduction that the deprecated flags ask for (None means True)."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    ret = "none" if not reduce else "mean" if size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{ret}' instead.", stacklevel=3
        )
    return ret


def legacy_get_enum(size_average, reduce, emit_warning=True):
    """As legacy_get_string, as an enum value."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
