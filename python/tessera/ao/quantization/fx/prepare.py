"""Observers in graphs."""

import copy

import tessera
from tessera import fx
from tessera.ao.quantization.observer import FixedQParamsObserver, _is_activation_post_process
from tessera.ao.quantization.qconfig import _is_reuse_input_qconfig
from tessera.ao.quantization.qconfig_mapping import QConfigMapping
from tessera.ao.quantization.quantization_mappings import get_default_qat_module_mappings
from tessera.ao.quantization.utils import _parent_name, activation_is_dynamically_quantized, getattr_from_fqn

from . import patterns
from .fuse import fuse
from .graph_module import ObservedGraphModule, ObservedStandaloneGraphModule
from .qconfig_mapping_utils import node_qconfigs

__all__ = ["prepare"]

_STATIC = (tessera.quint8, tessera.qint8, tessera.uint8, tessera.int8, tessera.qint32, tessera.int32, tessera.int16)


def _static(qconfig):
    """Whether a qconfig's activations become integers with scales that are known beforehand."""
    if qconfig is None or qconfig.activation is None:
        return False
    watch = qconfig.activation()
    return getattr(watch, "dtype", None) in _STATIC and not getattr(watch, "is_dynamic", False)


class _Placer:
    """Puts observers into a graph."""

    def __init__(self, module, qconfigs, custom):
        self.module, self.graph, self.qconfigs, self.custom = module, module.graph, qconfigs, custom
        self.modules = dict(module.named_modules())
        self.count, self.after = 0, {}  # after: node -> observer node behind it

    def observer_behind(self, node, factory=None, shared=None):
        """The observer's node behind `node`, a new one where there is none; `shared`: the name of one to use."""
        if node in self.after:
            return self.after[node]
        name = shared
        if name is None:
            name = f"activation_post_process_{self.count}"
            self.count += 1
            made = factory()
            devices = {p.device for p in self.module.parameters()}
            if len(devices) == 1:
                made.to(next(iter(devices)))
            self.module.add_module(name, made)
        users = list(node.users)
        with self.graph.inserting_after(node):
            new = self.graph.call_module(name, (node,))
        for user in users:
            user.replace_input_with(node, new)
        self.after[node] = new
        return new

    def feed(self, node, wanted):
        """Observers behind the inputs of a quantized node."""
        for source in wanted:
            behind = source
            if _is_observer_node(source, self.modules, self.module):
                continue
            if behind in self.after or source.op == "get_attr" and not self.is_tensor(source):
                continue
            if source.op == "placeholder" and self.placeholders.index(source) in self.custom.input_quantized_indexes:
                continue
            self.observer_behind(source, self.qconfigs[node].activation)

    def is_tensor(self, node):
        return isinstance(getattr_from_fqn(self.module, node.target), tessera.Tensor)

    def numbers(self):
        """Nodes that give no tensors: sizes, and what is computed from them."""
        plain = set()
        for node in self.graph.nodes:
            inputs = node.all_input_nodes
            asked = (
                node.op == "call_method"
                and node.target in ("size", "dim", "numel")
                or (
                    node.op == "call_function" and node.target is getattr and node.args[1] in ("shape", "ndim", "dtype")
                )
            )
            if asked or node.op == "call_function" and inputs and all(n in plain for n in inputs):
                plain.add(node)
        return plain

    def run(self):
        plain = self.numbers()
        self.placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node in list(self.graph.nodes):
            if node in plain:
                continue
            qconfig = self.qconfigs.get(node)
            shares = patterns.shares_observer(node, self.modules)
            if shares or _is_reuse_input_qconfig(qconfig):
                if qconfig is not None:
                    self.share(node)
                continue
            if patterns.is_cat(node):
                if _static(qconfig):
                    self.join(node)
                continue
            if not patterns.is_observed(node, self.modules) or not _static(qconfig):
                continue
            module = self.modules.get(node.target) if node.op == "call_module" else None
            if isinstance(module, patterns.FLOAT_ONLY):
                continue
            fixed = (
                isinstance(qconfig.activation(), FixedQParamsObserver)
                or hasattr(qconfig.activation(), "activation_post_process")
                and isinstance(qconfig.activation().activation_post_process, FixedQParamsObserver)
            )
            inputs = list(self.tensors_of(node))
            if not inputs:
                continue
            self.feed_or_skip(node, inputs, fixed)
            self.observer_behind(node, qconfig.activation)

    def feed_or_skip(self, node, inputs, fixed):
        if fixed:  # the range of the input is not that of the result
            outer = self.qconfigs.get("")
            for source in inputs:
                if not _is_observer_node(source, self.modules, self.module) and source not in self.after and outer:
                    self.observer_behind(source, outer.activation)
            return
        self.feed(node, inputs)

    def tensors_of(self, node):
        """The inputs of a node that are activations, and weights of functions."""
        if node.op == "call_function" and node.target in patterns.FUNCTIONS_WITH_WEIGHTS:
            args = node.args[:2]
            weight = args[1] if len(args) > 1 else node.kwargs.get("weight")
            if isinstance(weight, fx.Node) and not _is_observer_node(weight, self.modules, self.module):
                self.observer_behind(weight, self.qconfigs[node].weight)
            return args[:1]
        if node.op in ("call_module",):
            return [a for a in node.args[:1] if isinstance(a, fx.Node)] if not hasattr(
                self.modules[node.target], "add") else [a for a in node.args if isinstance(a, fx.Node)]  # fmt: skip
        if node.op == "call_function" and node.target not in patterns.TURNED:
            return [a for a in node.args[:1] if isinstance(a, fx.Node)]
        return [a for a in node.args if isinstance(a, fx.Node)]

    def share(self, node):
        """A node whose result has its input's observer."""
        source = node.args[0] if node.args else None
        if isinstance(source, (list, tuple)):
            source = source[0] if source else None
        if isinstance(source, fx.Node) and _is_observer_node(source, self.modules, self.module):
            self.observer_behind(node, shared=source.target)

    def join(self, node):
        """A node that joins tensors: one observer for all of them."""
        sources = [s for s in node.args[0] if isinstance(s, fx.Node)]
        self.feed(node, sources)
        name = node.args[0][0].target
        for source in node.args[0][1:]:
            if _is_observer_node(source, self.modules, self.module):
                source.target = name
        self.observer_behind(node, shared=name)


def _is_observer_node(node, modules, root):
    if node.op != "call_module":
        return False
    found = modules.get(node.target)
    return _is_activation_post_process(getattr_from_fqn(root, node.target) if found is None else found)


def _swap(module, name, new):
    parent, short = _parent_name(name)
    setattr(getattr_from_fqn(module, parent), short, new)


def _scopes(graph_module):
    """{node: name of the module whose forward made it}."""
    found = {}
    for node in graph_module.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        names = list(stack.values())
        last = names[-1] if names else ""
        found[node] = last[0] if isinstance(last, tuple) else (last if isinstance(last, str) else "")
    return found


def _alone(custom, node, module, qconfig, prepared):
    """The module prepared as a whole of its own, if it is to be so; else None."""
    entry = custom.standalone_module_names.get(node.target) or custom.standalone_module_classes.get(type(module))
    if entry is None or (entry.qconfig_mapping is None and qconfig is None):
        return None
    inner = entry.prepare_custom_config
    if inner is not None and (inner.input_quantized_indexes or inner.output_quantized_indexes):
        raise NotImplementedError(f"the standalone module {node.target}: it takes and gives floats, expected no "
                                  "input_quantized_indexes and output_quantized_indexes")  # fmt: skip
    mapping = entry.qconfig_mapping or QConfigMapping().set_global(qconfig)
    return prepared(module, mapping, entry.example_inputs, inner, entry.backend_config)


def prepare(
    model, qconfig_mapping, is_qat, example_inputs=(), prepare_custom_config=None, is_standalone_module=False,
    prepared=None
):  # fmt: skip
    """A traced model (a GraphModule, changed in place) with fused layers and observers. `prepared(module,
    qconfig_mapping, example_inputs, prepare_custom_config, backend_config)` prepares one that is a whole of its own.
    """
    custom, given = prepare_custom_config, qconfig_mapping
    before = node_qconfigs(model.graph.nodes, dict(model.named_modules()), given, _scopes(model))
    fuse(model, is_qat, wanted=lambda node: before.get(node) is not None)
    modules = dict(model.named_modules())
    # A fused layer has the qconfig that its first layer had.
    qconfigs = {n: q for n, q in before.items()}
    for node in model.graph.nodes:
        if node.op == "call_module" and type(modules[node.target]) in given.object_type_qconfigs:
            qconfigs[node] = given.object_type_qconfigs[type(modules[node.target])]
    observed = custom.float_to_observed_mapping
    for node in model.graph.nodes:
        if node.op != "call_module":
            continue
        module, qconfig = modules[node.target], qconfigs.get(node)
        whole = _alone(custom, node, module, qconfig, prepared)
        if whole is not None:
            _swap(model, node.target, whole)
        if whole is not None or qconfig is None:
            continue
        for table in observed.values():
            if type(module) in table:
                module.qconfig = qconfig
                _swap(model, node.target, table[type(module)].from_float(module))
        if patterns.weighted(module) or isinstance(module, patterns.OBSERVED):
            module.qconfig = qconfig
        if is_qat:
            kind = get_default_qat_module_mappings().get(type(module))
            if activation_is_dynamically_quantized(qconfig) and type(module) is tessera.nn.Linear:
                kind = tessera.ao.nn.qat.dynamic.Linear
            if kind is not None:
                _swap(model, node.target, kind.from_float(module))
    placed = _Placer(model, {**qconfigs, "": given.global_qconfig}, custom)
    placed.run()
    model.graph.lint()
    model.recompile()
    kind = ObservedStandaloneGraphModule if is_standalone_module else ObservedGraphModule
    made = kind(model, model.graph, set(custom.preserved_attributes))
    made.train(model.training)
    made.meta["_observed_graph_module_attrs"] = {
        "is_qat": is_qat, "qconfig_mapping": copy.copy(given), "backend_config": None, "standalone":
        is_standalone_module, "prepare_custom_config": custom, "example_inputs": example_inputs,
        "node_name_to_qconfig": {n.name: q for n, q in qconfigs.items() if not isinstance(n, str)},
    }  # fmt: skip
    return made


def _insert_obs_or_fq(node, obs_or_fq, model, named_modules, graph):
    """A node behind `node` that calls the observer; the model gets it under a new name."""
    index = 0
    while hasattr(model, f"activation_post_process_{index}"):
        index += 1
    name = f"activation_post_process_{index}"
    model.add_module(name, obs_or_fq)
    named_modules[name] = obs_or_fq
    with graph.inserting_after(node):
        return graph.call_module(name, (node,))


def _save_state(observed, node_name_to_qconfig, node_name_to_scope, prepare_custom_config, equalization_qconfigs,
                qconfig_mapping, is_qat, observed_node_names):  # fmt: skip
    """Notes on a GraphModule what convert needs to know."""
    observed.meta["_observed_graph_module_attrs"] = {
        "node_name_to_qconfig": node_name_to_qconfig, "node_name_to_scope": node_name_to_scope, "is_qat": is_qat,
        "prepare_custom_config": prepare_custom_config, "qconfig_mapping": qconfig_mapping, "standalone": False,
        "equalization_node_name_to_qconfig": equalization_qconfigs, "observed_node_names": observed_node_names,
        "backend_config": None,
    }  # fmt: skip
