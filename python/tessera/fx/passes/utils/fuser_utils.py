"""Parts of a graph as modules of their own."""

import operator

from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.fx.passes.tools_common import stable_topological_sort

__all__ = ["fuse_by_partitions", "validate_partition"]


def validate_partition(partition):
    """Whether nodes can be one call: no way leads out of them and back. partition: iterable of nodes."""
    inside = set(partition)
    todo = [user for node in inside for user in node.users if user not in inside]
    seen = set(todo)
    while todo:
        for user in todo.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                todo.append(user)
    return True


def _fuse(gm, nodes, name):
    graph, inner, inputs = Graph(), {}, []
    inside = set(nodes)

    def value(node):
        if node not in inner:
            inputs.append(node)
            inner[node] = graph.placeholder(node.name)
            inner[node].meta = dict(node.meta)
        return inner[node]

    order = sorted(inside)
    for node in order:
        for argument in node.all_input_nodes:
            if argument not in inside:
                value(argument)
    for node in order:
        inner[node] = graph.node_copy(node, value)
    results = [node for node in order if any(user not in inside for user in node.users)]
    graph.output(inner[results[0]] if len(results) == 1 else tuple(inner[n] for n in results))
    gm.add_submodule(name, GraphModule(gm, graph, name))
    with gm.graph.inserting_before(order[-1].next):
        call = gm.graph.call_module(name, tuple(inputs))
        for i, node in enumerate(results):
            new = call if len(results) == 1 else gm.graph.call_function(operator.getitem, (call, i))
            new.meta = dict(node.meta)
            node.replace_all_uses_with(new, delete_user_cb=lambda user: user not in inside)
    for node in reversed(order):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """Makes each of several sets of nodes a submodule, `fused_0` ..., and one call of it.

    Args:
        gm: GraphModule, which is changed. partitions: list of iterables of nodes (or of dicts with nodes as keys).
        always_return_tuple: False.

    Errors: ValueError if a way leads out of a set and back into it, or a node is in two. Returns: gm.
    """
    if always_return_tuple:
        raise NotImplementedError("fuse_by_partitions(always_return_tuple=True) is not supported: leave it out")
    seen = set()
    for nodes in partitions:
        twice = seen.intersection(nodes)
        if twice:
            names = sorted(n.name for n in twice)
            raise ValueError(f"Each node belongs to one partition, but these are in two: {names}")
        seen.update(nodes)
    for i, nodes in enumerate(partitions):
        if not validate_partition(nodes):
            raise ValueError(f"Invalid partition, found dependency cycles: {sorted(n.name for n in nodes)}")
        _fuse(gm, list(nodes), f"{prefix}{i}")
        stable_topological_sort(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
