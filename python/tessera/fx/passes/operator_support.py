"""Which nodes of a graph a backend can take."""

import abc

from tessera.fx.node import Node
from tessera.fx.passes.tools_common import get_node_target

__all__ = ["OperatorSupportBase", "OperatorSupport", "OpSupports", "any_chain", "chain", "create_op_support"]


class OperatorSupportBase(abc.ABC):
    """Says of nodes whether they are supported. Subclass it."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        """Whether a node is. submodules: {path: Module} of the graph's module."""


def _dtype_of(arg):
    if not isinstance(arg, Node):
        return None
    known = arg.meta.get("tensor_meta") or arg.meta.get("val")
    return getattr(known, "dtype", None)


class OperatorSupport(OperatorSupportBase):
    """Supports targets of a table.

    Args:
        support_dict: {name of a target (see tools_common.get_node_target): None, or (a tuple of allowed dtypes for each
            argument, {name: allowed dtypes})}. The dtypes of nodes are those that ShapeProp has found.
    """

    def __init__(self, support_dict=None):
        self._support_dict = dict(support_dict or {})

    def is_node_supported(self, submodules, node):
        """Whether a node is a call of the table, with arguments of allowed dtypes; what is no call is not."""
        if not node.op.startswith("call_"):
            return False
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        allowed = self._support_dict[target]
        if allowed is None:
            return True
        by_place, by_name = allowed
        pairs = [*zip(node.args, by_place), *((node.kwargs.get(name), dtypes) for name, dtypes in by_name.items())]
        return all(_dtype_of(arg) is None or _dtype_of(arg) in dtypes for arg, dtypes in pairs)


class _Function(OperatorSupportBase):
    def __init__(self, function):
        self._function = function

    def is_node_supported(self, submodules, node):
        return self._function(submodules, node)


def create_op_support(is_node_supported):
    """The support that a function of (submodules, node) says."""
    return _Function(is_node_supported)


def chain(*op_support):
    """Supports what all of these do."""
    return _Function(lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support))


def any_chain(*op_support):
    """Supports what one of these does."""
    return _Function(lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support))


class OpSupports:
    """Parts for chain()."""

    @staticmethod
    def decline_if_input_dtype(dtype):
        """No node with an argument of this dtype."""
        return _Function(lambda _, node: all(_dtype_of(arg) is not dtype for arg in node.all_input_nodes))

    @staticmethod
    def decline_if_node_in_names(disallow_set):
        """No node of these names."""
        return _Function(lambda _, node: node.name not in disallow_set)
