"""The nodes that came of one call of a function or module, by what tracing noted of it."""

import dataclasses

from tessera.fx.node import Node

__all__ = ["get_source_partitions", "check_subgraphs_connected", "SourcePartition"]


@dataclasses.dataclass
class SourcePartition:
    """Nodes of one source: `source` is the function or module type; `input_nodes` feed them, `output_nodes` are used
    outside, `params` are the parameters among them."""

    nodes: list
    source: object
    input_nodes: list = dataclasses.field(default_factory=list)
    output_nodes: list = dataclasses.field(default_factory=list)
    params: list = dataclasses.field(default_factory=list)


def get_source_partitions(graph, wanted_sources, filter_fn=None):
    """The nodes of a graph by their source.

    Args:
        graph: Graph, whose nodes have meta["source_fn_stack"] ([(name, source), ...]) or "nn_module_stack".
        wanted_sources: list of functions and module types.
        filter_fn: only partitions all of whose nodes it wants.

    Returns: {source: [SourcePartition]}.
    """
    groups = {}
    for n in graph.nodes:
        key = _source_of(n)
        if key is not None and key[1] in wanted_sources:
            groups.setdefault(key[1], {}).setdefault(key[0], []).append(n)
    found = {}
    for source, by_name in groups.items():
        partitions = [_partition(source, nodes) for nodes in by_name.values()]
        if filter_fn is not None:
            partitions = [p for p in partitions if all(map(filter_fn, p.nodes))]
        if partitions:
            found[source] = partitions
    return found


def _source_of(n):
    stack = n.meta.get("source_fn_stack")
    if stack:
        return stack[-1]
    modules = n.meta.get("nn_module_stack")
    return list(modules.values())[-1] if modules else None


def _partition(source, nodes):
    inside = set(nodes)
    inputs, outputs, params = {}, {}, {}
    for n in nodes:
        inputs.update(dict.fromkeys(a for a in n.all_input_nodes if a not in inside))
        if n.op == "get_attr":
            params[n] = None
        if any(user not in inside for user in n.users):
            outputs[n] = None
    return SourcePartition(nodes, source, list(inputs), list(outputs), list(params))


def check_subgraphs_connected(subgraph1, subgraph2):
    """Whether a node of the second SourcePartition uses a value of the first."""
    first = set(subgraph1.nodes)
    return any(isinstance(a, Node) and a in first for n in subgraph2.nodes for a in n.all_input_nodes)
