"""Flattening a call's arguments by a description of a tree made when the function was traced."""

from collections import namedtuple

from tessera.utils import _pytree

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Tells how values of a class come apart by a known description: flatten_fn_spec(value, spec) -> children."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _children(value, spec):
    by_spec = SUPPORTED_NODES.get(spec.type)
    if by_spec is not None:
        return by_spec(value, spec)
    if spec.type is dict:
        return [value[k] for k in spec.context]
    if spec.type in (list, tuple) or spec.type is namedtuple:
        return [value[i] for i in range(len(spec.children_specs))]
    return _pytree.SUPPORTED_NODES[spec.type].flatten_fn(value)[0]


def tree_flatten_spec(pytree, spec):
    """The leaves of a tree that looks like spec (a TreeSpec), in order.

    Values that have more entries than the spec lose them. Errors: KeyError and IndexError where one is missing.
    """
    if spec.is_leaf():
        return [pytree]
    if isinstance(pytree, (list, tuple)) and len(pytree) < len(spec.children_specs):
        raise IndexError(f"expected a {spec.type.__name__} of {len(spec.children_specs)} values, got {len(pytree)}")
    leaves = []
    for child, of_child in zip(_children(pytree, spec), spec.children_specs):
        leaves += tree_flatten_spec(child, of_child)
    return leaves
