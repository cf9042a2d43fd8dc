"""Parts of a graph that depend on no input, computed once."""

import operator

import tessera
from tessera.fx._symbolic_trace import symbolic_trace
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.fx.node import map_arg

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A GraphModule with an attribute that a graph of constants computes, at the first call or by run_folding().

    Args:
        root, graph: as of GraphModule.
        const_subgraph: Graph without inputs, or None where nothing is constant.
        fx_const_folded_attrs_name: of the attribute: a Parameter, or a ParameterList of several.
        device_for_folded_attrs: where numbers go, which become tensors.

    Attributes: const_subgraph_module: GraphModule of the constants, or None; has_folding_been_run.
    """

    def __init__(self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None,
                 device_for_folded_attrs="cuda"):  # fmt: skip
        super().__init__(root, graph)
        inner = GraphModule(root, const_subgraph) if const_subgraph is not None else None
        self.const_subgraph_module, self.has_folding_been_run = inner, False
        self.fx_const_folded_attrs_name, self.device_for_folded_attrs = (
            fx_const_folded_attrs_name, device_for_folded_attrs,
        )  # fmt: skip

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run and self.const_subgraph_module is not None:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self):
        """Computes the constants. AssertionError the second time, and without any."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            raise AssertionError("run_folding: the graph has no constants to compute")
        if self.has_folding_been_run:
            raise AssertionError("run_folding: the constants are computed already")
        self.has_folding_been_run = True
        found = self.const_subgraph_module()
        several = isinstance(found, (tuple, list))
        made = tessera.nn.ParameterList(map(self._kept, found)) if several else self._kept(found)
        setattr(self, self.fx_const_folded_attrs_name, made)

    def _kept(self, value):
        if not isinstance(value, tessera.Tensor):
            value = tessera.tensor([value], device=self.device_for_folded_attrs)
        return tessera.nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)


def get_unique_attr_name_in_module(mod_traced, name):
    """A name that no attribute of a module has: `name`, or with a number behind it."""
    base, count, found = name, 0, name
    while hasattr(mod_traced, found):
        count += 1
        found = f"{base}_{count}"
    return found


def _constants(module, skip):
    """The nodes that depend on no input."""
    found = set()
    for node in module.graph.nodes:
        if node.op == "get_attr":
            found.add(node)
        elif node.op.startswith("call_") and found.issuperset(node.all_input_nodes):
            if not (skip is not None and skip(node)) and not node.is_impure() and not _differs(module, node):
                found.add(node)
    return found


def _differs(module, node):
    """Whether a module that is called gives something else each time, or counts."""
    kinds = (tessera.nn.modules.dropout._DropoutNd, tessera.nn.modules.batchnorm._NormBase)
    return node.op == "call_module" and any(
        m.training and isinstance(m, kinds) for m in module.get_submodule(node.target).modules()
    )


def split_const_subgraphs(module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"):
    """A FoldedGraphModule of a module: what is made of its parameters, buffers and constants alone is computed once.

    Args:
        module: Module, which is traced, or GraphModule.
        skip_folding_node_fn: function of a node; where it is true the node stays in the graph, with what depends on it.
        device_for_folded_attrs: where constants that are numbers go.

    Random operators, and modules that are random or count while they are trained, stay. Nodes keep their meta.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constants(traced, skip_folding_node_fn)
    used = [n for n in traced.graph.nodes if n in constant and not constant.issuperset(n.users)]
    wanted = [n for n in used if n.op != "get_attr"]
    graph, made = Graph(), {}
    if not wanted:
        graph.output(graph.graph_copy(traced.graph, made), None)
        return FoldedGraphModule(traced, graph, device_for_folded_attrs=device_for_folded_attrs)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    inner = _inner(traced.graph, constant, wanted)
    setattr(traced, name, tessera.nn.ParameterList() if len(wanted) > 1 else tessera.nn.Parameter(tessera.empty(0)))
    try:
        for node in traced.graph.nodes:
            if node.op == "placeholder":
                made[node] = graph.node_copy(node)
        folded = graph.get_attr(name)
        for i, node in enumerate(wanted):
            made[node] = folded if len(wanted) == 1 else graph.call_function(operator.getitem, (folded, i))
            made[node].meta = dict(node.meta)
        for node in traced.graph.nodes:
            if node.op != "placeholder" and node not in made and (node not in constant or node in used):
                made[node] = graph.node_copy(node, made.__getitem__)
        return FoldedGraphModule(traced, graph, inner, name, device_for_folded_attrs)
    finally:
        delattr(traced, name)


def _inner(graph, constant, wanted):
    """The graph of the constants."""
    inner, made = Graph(), {}
    for node in graph.nodes:
        if node in constant:
            made[node] = inner.node_copy(node, made.__getitem__)
    inner.output(map_arg(tuple(wanted) if len(wanted) > 1 else wanted[0], made.__getitem__))
    inner.eliminate_dead_code()
    return inner
