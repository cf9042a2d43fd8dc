"""Decompositions of a compiler's own, besides the table of `_decomp`."""

from tessera._decomp import core_aten_decompositions, register_decomposition as _register

__all__ = ["decompositions", "register_decomposition", "select_decomp_table"]

decompositions = {}  # those that register_decomposition was given


def register_decomposition(ops):
    """Decorator: the function is the decomposition of operators in this table; a later one replaces an earlier one.

    Args:
        ops: OpOverload, OpOverloadPacket or a list of them.
    """

    def register(function):
        found = {}
        _register(ops, found)(function)
        decompositions.update(found)
        return function

    return register


def select_decomp_table():
    """{operator: function}: those to the core set, and what was registered here."""
    return {**core_aten_decompositions(), **decompositions}
