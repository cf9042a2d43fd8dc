"""The named tuples that functions with several results return, such as `return_types.max`. The extension makes them."""

import collections as _collections

from tessera import _C as _extension

_made = getattr(_extension, "_return_types", None)


class histogramdd(_collections.namedtuple("histogramdd", ("hist", "bin_edges"))):
    """hist: the counts; bin_edges: a tuple of edges for each dimension."""

    __slots__ = ()


def __getattr__(name):
    value = getattr(_made, name, None)
    if value is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
    return value


def __dir__():
    return sorted(name for name in dir(_made) if not name.startswith("__")) + ["histogramdd"]
