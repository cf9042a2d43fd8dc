"""Layers of a graph that become one."""

from typing import Any

import tessera
from tessera import nn
from tessera.ao.quantization.fuser_method_mappings import _DEFAULT_OP_LIST_TO_FUSER_METHOD
from tessera.ao.quantization.utils import _parent_name, getattr_from_fqn

__all__ = ["fuse"]

F: Any = nn.functional  # its names are made when it is loaded
_RELU = (F.relu, tessera.relu)


def _part(node, modules):
    """(class of the layer, the layer) of a node; functional ReLUs count as layers."""
    if node.op == "call_module":
        return type(modules[node.target]), modules[node.target]
    if (
        node.op == "call_function"
        and node.target in _RELU
        or node.op == "call_method"
        and node.target in ("relu", "relu_")
    ):
        return nn.ReLU, None
    return None, None


def _longest(node, modules, table):
    """The longest chain of nodes from `node` on that the table knows."""
    chain, kinds, best = [node], [_part(node, modules)[0]], None
    while True:
        if tuple(kinds) in table:
            best = list(chain)
        users = list(chain[-1].users)
        if len(users) != 1 or kinds[-1] is None or len(chain) == 4:
            return best
        if users[0].args[:1] != (chain[-1],):
            return best
        chain.append(users[0])
        kinds.append(_part(users[0], modules)[0])


def _set(root, name, module):
    parent, short = _parent_name(name)
    setattr(getattr_from_fqn(root, parent), short, module)


def fuse(graph_module, is_qat, wanted=None):
    """Makes chains of layers in a graph (conv-bn-relu ...) one layer each, in place. `wanted(node)`: whether a chain
    that begins there is fused at all.
    """
    table, modules = _DEFAULT_OP_LIST_TO_FUSER_METHOD, dict(graph_module.named_modules())
    graph, done = graph_module.graph, set()
    for node in list(graph.nodes):
        if node in done or node.op != "call_module":
            continue
        chain = _longest(node, modules, table)
        if chain is None or (wanted is not None and not wanted(node)):
            continue
        parts = [_part(n, modules) for n in chain]
        layers = []
        for kind, layer in parts:
            if layer is None:
                layer = kind()
                layer.train(parts[0][1].training)
            layers.append(layer)
        fused = table[tuple(kind for kind, _ in parts)](is_qat, *layers)
        if hasattr(layers[0], "qconfig"):
            fused.qconfig = layers[0].qconfig
        _set(graph_module, node.target, fused)
        modules[node.target] = fused
        chain[-1].replace_all_uses_with(node)
        for later in reversed(chain[1:]):
            graph.erase_node(later)
            done.add(later)
    graph_module.recompile()
    return graph_module
