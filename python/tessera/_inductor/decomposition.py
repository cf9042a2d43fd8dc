"""Decompositions of the default backend."""

from tessera._decomp import core_aten_decompositions, register_decomposition as _register

__all__ = ["decompositions", "register_decomposition", "select_decomp_table"]

decompositions = dict(core_aten_decompositions())


def register_decomposition(ops):
    """Decorator: the function computes one or several operators with others."""
    return _register(ops, registry=decompositions)


def select_decomp_table():
    """{operator: function} that the default backend uses."""
    return decompositions
