"""`finfo` and `iinfo`: the limits of dtypes."""

import tessera

# dtype name -> (bits, bits of the fraction, smallest normal exponent, largest finite value, decimal resolution)
_FLOATS = {
    "float64": (64, 52, -1022, (2 - 2.0**-52) * 2.0**1023, 1e-15),
    "float32": (32, 23, -126, (2 - 2.0**-23) * 2.0**127, 1e-6),
    "float16": (16, 10, -14, 65504.0, 1e-3),
    "bfloat16": (16, 7, -126, (2 - 2.0**-7) * 2.0**127, 1e-2),
    "float8_e4m3fn": (8, 3, -6, 448.0, 1.0),
    "float8_e5m2": (8, 2, -14, 57344.0, 1.0),
    "float8_e4m3fnuz": (8, 3, -7, 240.0, 1.0),
    "float8_e5m2fnuz": (8, 2, -15, 57344.0, 1.0),
    "float8_e8m0fnu": (8, 0, -127, 2.0**127, 1.0),
}


def _name(dtype):
    return str(dtype).rpartition(".")[2]


def _check(dtype, function):
    if not isinstance(dtype, tessera.dtype):
        raise TypeError(f"{function}(): argument 'type' (position 1) must be torch.dtype, not {type(dtype).__name__}")


class finfo:
    """Limits of a floating point dtype (the default one if none is given; a complex dtype gives those of its parts).

    bits, eps (distance from 1 to the next number), max, min, tiny and smallest_normal (smallest positive normal
    number), resolution,
    dtype (its name). Raises: TypeError for other dtypes.
    """

    __slots__ = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype")

    def __init__(self, type=None):
        dtype = tessera.get_default_dtype() if type is None else type
        _check(dtype, "finfo")
        if dtype.is_complex:
            dtype = dtype.to_real()
        name = _name(dtype)
        if name not in _FLOATS:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        self.bits, fraction, exponent, self.max, self.resolution = _FLOATS[name]
        self.eps = 2.0**-fraction
        self.tiny = self.smallest_normal = 2.0**exponent
        self.min = self.tiny if name == "float8_e8m0fnu" else -self.max  # that format has no sign
        self.dtype = name

    def __repr__(self):
        values = ", ".join(
            f"{name}={getattr(self, name):g}" for name in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        )
        return f"finfo({values}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(("finfo", self.dtype))


class iinfo:
    """Limits of an integer dtype: bits, max, min, dtype (its name). Raises: TypeError for other dtypes."""

    __slots__ = ("bits", "max", "min", "dtype")

    def __init__(self, type):
        _check(type, "iinfo")
        name = _name(type)
        if type == tessera.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if name.removeprefix("u") not in ("int8", "int16", "int32", "int64"):
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        self.bits = type.itemsize * 8
        unsigned = name[0] == "u"
        self.min = 0 if unsigned else -(1 << (self.bits - 1))
        self.max = (1 << (self.bits - (0 if unsigned else 1))) - 1
        self.dtype = name

    def __repr__(self):
        return f"iinfo(min={float(self.min):g}, max={float(self.max):g}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(("iinfo", self.dtype))
