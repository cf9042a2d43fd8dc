"""Which qconfig a node has."""

import re

from ..qconfig import qconfig_equals
from .patterns import kind_of_node

__all__ = ["node_qconfigs"]


def _of_name(mapping, name):
    """(found, qconfig) for the name of a module: of itself, or of the nearest around it."""
    path = name
    while True:
        if path in mapping.module_name_qconfigs:
            return True, mapping.module_name_qconfigs[path]
        if not path:
            return False, None
        path = path.rpartition(".")[0]


def node_qconfigs(nodes, modules, mapping, scopes):
    """{node: qconfig or None}. `scopes`: {node: name of the module whose forward made it}."""
    found, counts = {}, {}
    for node in nodes:
        kind = kind_of_node(node, modules)
        if kind is None:
            continue
        name = node.target if node.op == "call_module" else scopes.get(node, "")
        around = name.rpartition(".")[0] if node.op == "call_module" else name
        index = counts.get((around, kind), 0)
        counts[around, kind] = index + 1
        order = mapping.module_name_object_type_order_qconfigs
        if (around, kind, index) in order:
            found[node] = order[around, kind, index]
            continue
        named, value = _of_name(mapping, name)
        if named:
            found[node] = value
            continue
        matched = [q for pattern, q in mapping.module_name_regex_qconfigs.items() if re.fullmatch(pattern, name)]
        if matched:
            found[node] = matched[0]
        else:
            found[node] = mapping.object_type_qconfigs.get(kind, mapping.global_qconfig)
    return found


def _generate_node_name_to_qconfig(root, modules, input_graph, qconfig_mapping, node_name_to_scope):
    """{name of a node of `root`: qconfig}; node_name_to_scope: {name: (path of the module, its class)}."""
    scopes = {n: (node_name_to_scope.get(n.name) or ("", None))[0] for n in input_graph.nodes}
    table = node_qconfigs(input_graph.nodes, modules, qconfig_mapping, scopes)
    return {node.name: qconfig for node, qconfig in table.items()}


def _compare_prepare_convert_qconfig_mappings(prepare_qconfig_mapping, convert_qconfig_mapping):
    """AssertionError unless each qconfig of the second is None or that of the first."""
    if not qconfig_equals(prepare_qconfig_mapping.global_qconfig, convert_qconfig_mapping.global_qconfig):
        raise AssertionError("Expected global qconfigs to be the same in the prepare and convert quantization configs")
    for part in ("object_type", "module_name", "module_name_regex"):
        first, second = (getattr(m, f"{part}_qconfigs") for m in (prepare_qconfig_mapping, convert_qconfig_mapping))
        for key, value in first.items():
            if key not in second:
                raise AssertionError(f"Missing key {key} in convert QConfigMapping when it was present in prepare")
            if second[key] is not None and not qconfig_equals(value, second[key]):
                raise AssertionError(f"Expected convert QConfigMapping to have the same qconfig as prepare for key "
                                     f"{key}; {second[key]} versus {value}")  # fmt: skip
