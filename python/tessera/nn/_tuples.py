"""Sizes given as one number or as a tuple."""


def _ntuple(n, name="parse"):
    def parse(x):
        if type(x) is int:
            return (x,) * n
        if isinstance(x, (tuple, list)) or hasattr(x, "__iter__"):
            return tuple(x)
        return (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    """(a, b), 2 -> (b, b, a, a): paddings of a convolution in the order that functional.pad wants."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """`out_size` with the input's own size where None stands. ValueError if `defaults` has too few entries."""
    if isinstance(out_size, (int,)):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [v if v is not None else d for v, d in zip(out_size, defaults[-len(out_size) :])]
