"""Chains of nodes in a graph."""

import functools

from tessera.ao.quantization.utils import MatchAllNode
from tessera.nn.utils.parametrize import type_before_parametrizations

__all__ = ["apply_match", "member"]


def _fits(modules, node, wanted):
    if wanted is MatchAllNode:
        return True
    if node.op == "call_module":
        return isinstance(wanted, type) and type_before_parametrizations(modules[node.target]) is wanted
    if node.op == "call_function":
        return node.target is wanted
    return isinstance(wanted, str) and wanted in (node.op, node.target)


def apply_match(modules, pattern, node, matched_node_pattern=()):
    """The nodes of a chain that begins at `node` and fits the pattern, or None.

    Only the chain may use what its nodes give, since that becomes smaller.
    """
    found = [*matched_node_pattern, node]
    if not _fits(modules, node, pattern[0]):
        return None
    if len(pattern) == 1:
        return found
    users = [user for user in node.users if user.users or user.op == "output"]
    return apply_match(modules, pattern[1:], users[0], found) if len(users) == 1 else None


def member(modules, node):
    """What a pattern's function gets for a node: a module, a function of one tensor, or None."""
    if node.op == "call_module":
        return modules[node.target]
    if node.op != "call_function":
        return None
    keywords = dict(node.kwargs)
    return functools.partial(node.target, **keywords) if keywords else node.target
