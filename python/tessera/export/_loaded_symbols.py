"""Symbols of programs that are read from files."""

from tessera.export._tracer import export_mode


class LoadedSymbols:
    """The symbols of a program.

    Args:
        ranges: {expression as text: {"min_val", "max_val"}}.
    """

    def __init__(self, ranges):
        if ranges:
            raise NotImplementedError("programs with symbolic sizes cannot be loaded yet")
        self.mode = export_mode(allow_non_fake_inputs=True)

    def size(self, data):
        """A size: a number, or an expression of symbols."""
        if type(data["as_int"]) is not int or data["as_int"] < 0:
            raise ValueError(f"expected a size, got {data!r}")
        return data["as_int"]

    def ranges(self):
        """{symbol: range}."""
        return {}
