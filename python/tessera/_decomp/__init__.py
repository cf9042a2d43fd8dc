"""Operators by means of others: the way from what a program calls to the documented core set.

One table. An operator that the op tables compose of others needs no formula here: its entry is its composition
(`OpOverload.decompose`). What is written down is for fused operators alone.
"""

import contextlib
import itertools

import tessera
from tessera import _C
from tessera._decomp import decompositions  # noqa: F401 - fills the table
from tessera._decomp._core import core_table
from tessera._decomp._forms import documented_form
from tessera._decomp._registry import (
    KEPT,
    Composition,
    composites,
    explicit_composites,
    is_core,
    is_hiding,
    overloads_of,
    register_decomposition,
    tables,
)
from tessera._ops import _overload_of

__all__ = [
    "core_aten_decompositions", "decomposing", "decomposition_table", "documented_form", "get_decompositions",
    "global_decomposition_table",
    "meta_table", "pre_autograd_decomposition_table", "register_decomposition", "remove_decompositions",
]  # fmt: skip

global_decomposition_table = tables
decomposition_table = tables["post_autograd"]
pre_autograd_decomposition_table = tables["pre_autograd"]
meta_table = tables["meta"]


def get_decompositions(aten_ops, type="post_autograd"):
    """{operator: decomposition} of those of the operators that have one; packets stand for all of their overloads.

    Operators of the core set have one, too, where they are asked for here.

    Raises: ValueError for another type than "post_autograd", "pre_autograd" and "meta".
    """
    if type not in tables:
        raise ValueError(f"get_decompositions: expected type to be one of {sorted(tables)}, got {type!r}")
    table = tables[type]
    wanted = itertools.chain.from_iterable(overloads_of(op) for op in aten_ops)
    found, explicit = {}, frozenset(explicit_composites())
    for op in wanted:
        if op in table:
            found[op] = table[op]
        elif type == "post_autograd" and op in core_table:
            found[op] = core_table[op]
        elif type == "post_autograd" and composites().get(getattr(op, "_name", None)) and not is_core(op._name):
            found[op] = op.decompose
        elif type == "post_autograd" and getattr(op, "_name", None) in explicit:
            found[op] = Composition(op)
    return found


def remove_decompositions(table, aten_ops):
    """Takes the operators out of a table; those that it lacks are none of its business."""
    for op in itertools.chain.from_iterable(overloads_of(op) for op in aten_ops):
        table.pop(op, None)


def core_aten_decompositions():
    """{operator: function} of all operators that are not of the core set, as far as they can be made of it.

    For `make_fx(f, decomposition_table=...)` and exported programs.
    """
    found = {}
    for name, whole in composites().items():
        if whole and not is_core(name) and name.startswith("aten::") and name not in KEPT:
            op = _overload_of(*_split(name))
            found[op] = op.decompose
    for name in explicit_composites():
        op = _overload_of(*_split(name))
        found[op] = Composition(op)
    found.update(decomposition_table)
    return found


def _split(name):
    packet, _, overload = name.partition(".")
    return packet, overload


def _own(table):
    """The names of the operators for which the table has a function of its own: not the composition itself."""
    return {
        op._name
        for op, function in table.items()
        if hasattr(op, "_name") and getattr(function, "__self__", None) is not op
    }


def _set_of(wanted, own=()):
    """Composite operators that may stand as one call, and those that hide what they do if they are among `own`."""
    found = [name for name, may in composites().items() if may and wanted(name)]
    return _C._func._operators(found + [name for name in own if composites().get(name) is False and is_hiding(name)])


_made = {}  # what traces without a table use
# Calls with numbers that Python's operators make as calls with tensors.
_AS_TENSORS = frozenset(
    f"aten::{name}" for name in ("add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar", "div.Scalar_mode")
)


def _is_shown(name):
    return is_core(name) and name not in _AS_TENSORS


@contextlib.contextmanager
def decomposing(table):
    """Context manager: modes of `__torch_dispatch__` see composite operators as an exported program's table needs it.

    Those that the table gives a function of its own, and those that it does not name, come as one call (unless a
    gradient is wanted, or they make views or write); the others as what they are made of.
    """
    own = _own(table)
    named = {op._name for op in table if hasattr(op, "_name")}
    before = _C._func._keep_whole(_set_of(lambda name: name in own or name not in named, own))
    try:
        yield
    finally:
        _C._func._keep_whole(before)


def operators_seen_whole(table):
    """For a trace with a table of few operators: the core set and the operators that the table has functions for."""
    own = _own(table)
    if own:
        return _set_of(lambda name: name in own or _is_shown(name))
    if "core" not in _made:
        _made["core"] = _set_of(_is_shown)
    return _made["core"]


def documented():
    """{operator of the extension's own: the documented ones that do the same}: every trace shows those."""
    if "own" not in _made:
        names = "_batch_norm _native_layer_norm _gelu_erf _gelu_tanh _where _clamp_scalar _clamp_tensor _div_trunc"
        ops = [getattr(tessera.ops.aten, name).default for name in names.split()]
        _made["own"] = {op: decomposition_table[op] for op in ops}
    return _made["own"]
