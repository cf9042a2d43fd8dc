"""What passes over graphs share: names of targets, and orders of nodes."""

import heapq

from tessera.fx._names import qualified_name

__all__ = ["get_node_target", "legalize_graph", "stable_topological_sort"]


def get_node_target(submodules, node):
    """The name of what a node calls: `torch.relu`, `torch.nn.modules.linear.Linear`, a method's name.

    Args:
        submodules: {path: Module} of the graph's module. node: Node of a call (AssertionError for others).
    """
    assert node.op.startswith("call_"), f"expected a node of a call, got one of {node.op}"
    if node.op == "call_module":
        module = submodules[node.target]
        module = getattr(module, "_base_class_origin", type(module))
        return f"{module.__module__.replace('tessera', 'torch')}.{module.__name__}"
    if node.op == "call_method":
        return node.target
    return qualified_name(node.target)


def stable_topological_sort(gm):
    """Puts the nodes of a GraphModule into an order in which each is behind its arguments, with as few changes as may
    be. Errors: RuntimeError where nodes depend on each other in a circle. Returns: gm.
    """
    nodes = list(gm.graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    waits = {node: len(node.all_input_nodes) for node in nodes}
    ready = [i for i, node in enumerate(nodes) if not waits[node]]
    heapq.heapify(ready)
    order = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, place[user])
    if len(order) < len(nodes):
        stuck = [n.name for n in nodes if waits[n] > 0]
        raise RuntimeError(f"Input graph has cycles: {', '.join(stuck)} wait for each other")
    for before, node in zip(order, order[1:]):
        if before.next is not node:
            before.append(node)
    return gm


def legalize_graph(gm):
    """As stable_topological_sort."""
    return stable_topological_sort(gm)
