"""Graphs that compute the same with less: for models that are not trained any more."""

import copy

import tessera
from tessera import nn
from tessera.fx._symbolic_trace import symbolic_trace
from tessera.fx.graph_module import GraphModule

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]

_PAIRS = [(nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)]


def matches_module_pattern(pattern, node, modules):
    """Whether a node calls a module of the last class of a pair on the result of one of the first.

    Args:
        pattern: pair of classes. node: Node. modules: {path: Module}.
    """
    before = node.args[0] if node.args else None
    if not isinstance(before, tessera.fx.Node):
        return False
    calls = all(n.op == "call_module" and n.target in modules for n in (before, node))
    return calls and all(type(modules[n.target]) is cls for n, cls in zip((before, node), pattern))


def replace_node_module(node, modules, new_module):
    """Puts another module where a node's is. modules: {path: Module}, which has the module's owner, too."""
    path, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[path], name, new_module)


def fuse(model, inplace=False, no_trace=False):
    """A GraphModule in which batch norms behind convolutions are part of their weights.

    Args:
        model: Module in evaluation mode (RuntimeError of a batch norm that trains).
        inplace: the model's own modules may change. no_trace: the model is a GraphModule, which is not traced again.
    """
    model = model if inplace else copy.deepcopy(model)
    made = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(made.named_modules())
    for pattern in _PAIRS:
        for node in list(made.graph.nodes):
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue  # the convolution's result is used without the norm, too
            conv, norm = (modules[n.target] for n in (node.args[0], node))
            if norm.running_mean is None:
                continue
            if conv.training or norm.training:
                raise RuntimeError(f"fuse: {node.target} is being trained; call model.eval() first")
            replace_node_module(node.args[0], modules, nn.utils.fusion.fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(node.args[0])
            made.graph.erase_node(node)
    made.recompile()
    made.delete_all_unused_submodules()
    return made


def remove_dropout(model):
    """A GraphModule without the model's dropout layers."""
    made = symbolic_trace(model)
    modules = dict(made.named_modules())
    for node in list(made.graph.nodes):
        if node.op == "call_module" and isinstance(modules[node.target], nn.modules.dropout._DropoutNd):
            node.replace_all_uses_with(node.args[0])
            made.graph.erase_node(node)
    made.recompile()
    made.delete_all_unused_submodules()
    return made
