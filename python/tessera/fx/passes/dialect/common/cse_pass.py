"""Common subexpressions: the same operator with the same arguments is called once."""

import tessera
from tessera._ops import OpOverload
from tessera.fx.graph_module import GraphModule
from tessera.fx.node import Node
from tessera.fx.passes.infra.pass_base import PassBase, PassResult
from tessera.utils import _pytree as pytree

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_RANDOM = """dropout _fused_dropout _standard_gamma bernoulli multinomial native_dropout normal poisson binomial rrelu
rand_like rand randint randn randperm""".split()
_IN_PLACE = "add_ sub_ mul_ div_ pow_ lerp_ relu_ sigmoid_ tanh_".split()


def get_CSE_banned_ops():
    """The set of operators (packets) whose calls are never joined by default: random ones and in-place ones."""
    aten = tessera.ops.aten
    return {getattr(aten, name) for name in _RANDOM + _IN_PLACE if hasattr(aten, name)}


class CSEPass(PassBase):
    """Joins the calls of a graph of operators that compute the same value; the call returns PassResult with a new
    GraphModule.

    Args:
        banned_ops: set of operators (overloads or packets) whose calls stay; None for get_CSE_banned_ops().

    Whatever the set, calls of operators that write into an argument or draw random numbers stay, and so do values
    that something writes into, or that were read before a write.
    """

    def __init__(self, banned_ops=None):
        self.banned_ops = get_CSE_banned_ops() if banned_ops is None else set(banned_ops)

    def call(self, graph_module):
        """See the class."""
        graph = tessera.fx.Graph()
        written = _written(graph_module.graph)
        new, known, modified = {}, {}, False
        for node in graph_module.graph.nodes:
            if node.op == "output":
                continue
            if node.op == "call_function" and _writes(node):
                known.clear()
            key = self._key(node, new) if node not in written else None
            if key in known:
                new[node], modified = known[key], True
                continue
            new[node] = graph.node_copy(node, new.__getitem__)
            if key is not None:
                known[key] = new[node]
        graph.node_copy(graph_module.graph.output_node(), new.__getitem__)
        made = GraphModule(graph_module, graph)
        made.meta = dict(graph_module.meta)
        return PassResult(made, modified)

    def _key(self, node, new):
        """What calls must share to be joined; None where this one stays."""
        target = node.target
        if node.op != "call_function" or not isinstance(target, OpOverload) or _writes(node):
            return None
        random = any(tag.name == "nondeterministic_seeded" for tag in target.tags)
        if random or target in self.banned_ops or target.overloadpacket in self.banned_ops:
            return None
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        values = tuple(new[v] if isinstance(v, Node) else (type(v), v) for v in leaves)
        key = (target, values, str(spec))
        try:
            hash(key)
        except TypeError:
            return None
        return key


def _writes(node):
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _written(graph):
    """The nodes with memory of their own that a later one writes into, itself or through a view."""
    found = set()
    for node in reversed(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        views = node in found
        for argument, value in zip(node.target._schema.arguments, node.args):
            kind = argument.alias_info
            if kind is not None and (kind.is_write or views):
                found.update(n for n in pytree.tree_flatten(value)[0] if isinstance(n, Node))
        if views and any(a.alias_info for a in node.target._schema.arguments):
            found.discard(node)
    return found
