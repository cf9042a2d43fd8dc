"""The named tuples that functions with several results return, such as `return_types.max`. The extension makes them."""

import collections as _collections

from tessera import _C as _extension

_made = _extension._return_types


class histogramdd(_collections.namedtuple("histogramdd", ("hist", "bin_edges"))):
    """hist: the counts; bin_edges: a tuple of edges for each dimension."""

    __slots__ = ()

    def __repr__(self):
        return f"torch.return_types.histogramdd(\nhist={self.hist},\nbin_edges={self.bin_edges})"


def _callable_of(name):
    """The operator function of that name; "linalg_qr" is the one of namespace linalg. None if there is none."""
    namespace = getattr(_extension, "_" + name.partition("_")[0], None)
    return getattr(namespace, name, None) or getattr(_extension._VariableFunctions, name, None)


def pytree_register_structseq(cls):
    """Nothing to do: trees know every class with named fields. Raises: TypeError for another class."""
    from tessera.utils import _pytree

    if not _pytree.is_structseq_class(cls):
        raise TypeError(f"expected a class such as return_types.max, but got {cls}")


def __getattr__(name):
    if name == "all_return_types":
        return [getattr(_made, made) for made in __dir__() if made != "histogramdd"]
    # Each is made when its function first returns one, or here.
    value = getattr(_made, name, None)
    if value is None:
        getattr(_callable_of(name.removesuffix("_out")), "_result_types", None)
        value = getattr(_made, name, None)
    if value is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
    return value


def __dir__():
    for name in dir(_extension._VariableFunctions) + dir(_extension._linalg):
        getattr(_callable_of(name), "_result_types", None)
    return sorted(name for name in dir(_made) if not name.startswith("__")) + ["histogramdd"]
