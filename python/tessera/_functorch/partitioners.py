"""Cuts a graph of forward and backward into two."""

import operator

import tessera
from tessera.fx import Graph, GraphModule

__all__ = ["default_partition", "draw_graph", "min_cut_rematerialization_partition"]


def _is_tangent(node):
    return node.op == "placeholder" and "tangents" in str(node.target)


def default_partition(joint_module, _joint_inputs=None, *, num_fwd_outputs, static_lifetime_input_indices=None,
                      static_lifetime_input_nodes=None):  # fmt: skip
    """The two halves of a joint graph: all that needs no tangents is the forward, and what the backward reads of it is
    saved.

    Args:
        joint_module: GraphModule of (primals, tangents) whose output is a flat sequence: results, then gradients.
            Placeholders of tangents have "tangents" in their names.
        num_fwd_outputs: how many of the outputs are results.
        _joint_inputs, static_lifetime_input_indices, static_lifetime_input_nodes: not looked at.

    Returns: (forward, backward) GraphModules. The forward gives the results, then what is saved; the backward takes
        the saved values, then the tangents, and gives the gradients.
    """
    del _joint_inputs, static_lifetime_input_indices, static_lifetime_input_nodes
    graph = joint_module.graph
    late = set()
    for node in graph.nodes:
        if _is_tangent(node) or any(n in late for n in node.all_input_nodes):
            late.add(node)
    outputs = list(graph.output_node().args[0])
    results, gradients = outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]
    needed = _needed(gradients)
    saved = []
    for node in graph.nodes:
        if node.op == "output" or node in late or node.op == "get_attr" or node not in needed:
            continue
        if any(u in late and u in needed for u in node.users) or node in gradients:
            saved.append(node)
    saved = _single(saved)
    tangents = [n for n in graph.nodes if _is_tangent(n)]
    primals = [n for n in graph.nodes if n.op == "placeholder" and not _is_tangent(n)]
    forward = _extract(joint_module, primals, [*results, *saved])
    backward = _extract(joint_module, [*saved, *tangents], gradients)
    return forward, backward


def _needed(roots):
    seen, todo = set(), [n for n in roots if n is not None]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += node.all_input_nodes
    return seen


def _single(nodes):
    """Operators with several results are not saved; their results are."""
    found = []
    for node in nodes:
        parts = [u for u in node.users if u.target is operator.getitem]
        if isinstance(node.meta.get("val"), (tuple, list)):
            found += [p for p in parts if p not in nodes]
        elif node not in found:
            found.append(node)
    return found


def _extract(module, inputs, outputs):
    graph, made = Graph(), {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)
        made[node].meta = dict(node.meta)
    wanted = _upto(inputs, outputs)
    for node in module.graph.nodes:
        if node in wanted and node not in made:
            if node.op == "placeholder":
                raise AssertionError(f"{node} is needed on this side of the cut, where it is no input")
            made[node] = graph.node_copy(node, lambda n: made[n])
    graph.output(tuple(None if n is None else made[n] for n in outputs))
    return GraphModule(module, graph)


def _upto(inputs, outputs):
    stop, seen, todo = set(inputs), set(), [n for n in outputs if n is not None]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [] if node in stop else node.all_input_nodes
    return seen


# Operators that are cheap to run again instead of keeping their results.
_CHEAP = frozenset(
    "add sub mul div neg abs sin cos exp log sqrt rsqrt tanh sigmoid relu gelu silu where eq ne lt le gt ge clamp pow "
    "reciprocal threshold_backward view reshape permute transpose t expand unsqueeze squeeze slice select detach alias "
    "_to_copy clone cat ones_like zeros_like full_like scalar_tensor _unsafe_view unbind split".split()
)


def min_cut_rematerialization_partition(joint_module, _joint_inputs=None, compiler="inductor", *, num_fwd_outputs,
                                        static_lifetime_input_indices=None):  # fmt: skip
    """As default_partition; what is cheap to compute is computed again in the backward where that keeps fewer bytes.

    Args:
        compiler: not looked at. The others: as of default_partition.
    """
    del _joint_inputs, compiler, static_lifetime_input_indices
    forward, backward = default_partition(joint_module, num_fwd_outputs=num_fwd_outputs)
    saved = [n for n in forward.graph.output_node().args[0][num_fwd_outputs:]]
    names = {n.name: n for n in joint_module.graph.nodes}
    kept = {names[n.name] for n in saved}
    for node in reversed(list(joint_module.graph.nodes)):
        if node in kept and _cheap(node):
            sources = [n for n in node.all_input_nodes if n.op != "get_attr"]
            more = [n for n in sources if n not in kept]
            if sum(map(_bytes, more)) <= _bytes(node):
                kept.discard(node)
                kept.update(sources)
    order = [n for n in joint_module.graph.nodes if n in kept]
    outputs = list(joint_module.graph.output_node().args[0])
    tangents = [n for n in joint_module.graph.nodes if _is_tangent(n)]
    primals = [n for n in joint_module.graph.nodes if n.op == "placeholder" and not _is_tangent(n)]
    used = _upto([*order, *tangents], outputs[num_fwd_outputs:])
    order = [n for n in order if n in used]
    forward = _extract(joint_module, primals, [*outputs[:num_fwd_outputs], *order])
    return forward, _extract(joint_module, [*order, *tangents], outputs[num_fwd_outputs:])


def _cheap(node):
    name = getattr(node.target, "_schema", None)
    return node.op == "call_function" and name is not None and name.name.rpartition("::")[2] in _CHEAP


def _bytes(node):
    value = node.meta.get("val")
    return value.numel() * value.element_size() if isinstance(value, tessera.Tensor) else 8


def draw_graph(traced, fname, figname="fx_graph", clear_meta=True, prog=None, parse_stack_trace=False,
               dot_graph_shape=None):  # fmt: skip
    """Writes a drawing of a GraphModule: an .svg file, or what `fname` ends in. Needs pydot.

    Args: as of fx.passes.graph_drawer.FxGraphDrawer; prog: program of Graphviz.
    """
    import copy
    import os

    from tessera.fx.passes.graph_drawer import FxGraphDrawer

    if clear_meta:
        graph = copy.deepcopy(traced.graph)
        traced = GraphModule(traced, graph)
        for node in graph.nodes:
            node.meta = {}
    base, ending = os.path.splitext(fname)
    drawer = FxGraphDrawer(traced, figname, parse_stack_trace=parse_stack_trace, dot_graph_shape=dot_graph_shape)
    drawn = drawer.get_main_dot_graph()
    name = f"{base}{ending or '.svg'}"
    method = getattr(drawn, "write_" + (ending or ".svg").lstrip("."))
    method(name) if prog is None else method(name, prog=prog)
