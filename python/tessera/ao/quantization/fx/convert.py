"""Observed graphs to graphs on integers.

First each observer becomes quantize_per_tensor and dequantize, so that all operators stand between dequantize and
quantize, on floats (the reference form). Then those that have a form on integers take the integers.
"""

import copy

import tessera
from tessera import fx, nn
from tessera.ao.nn import intrinsic
from tessera.ao.nn._quantized_ops import operators
from tessera.ao.quantization.observer import _is_activation_post_process
from tessera.ao.quantization.quantization_mappings import (
    get_default_dynamic_quant_module_mappings,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
)
from tessera.ao.quantization.utils import (
    _parent_name,
    activation_is_dynamically_quantized,
    get_qparam_dict,
    getattr_from_fqn,
    weight_is_quantized,
)

from . import patterns
from .graph_module import ObservedStandaloneGraphModule, QuantizedGraphModule
from .qconfig_mapping_utils import node_qconfigs

__all__ = ["convert"]

_QUANTIZE = tessera.quantize_per_tensor


def _swap(module, name, new):
    parent, short = _parent_name(name)
    setattr(getattr_from_fqn(module, parent), short, new)


class _Converter:
    """Turns the graph of an observed module, in place."""

    def __init__(self, module, reference, custom, remove):
        self.module, self.graph, self.reference, self.custom = module, module.graph, reference, custom
        self.remove, self.counts = remove, {}
        self.modules = dict(module.named_modules())

    def named(self, stem, value):
        """A new buffer, and its node (at the insertion point)."""
        index = self.counts.get(stem, 0)
        self.counts[stem] = index + 1
        name = f"{stem}_{index}"
        self.module.register_buffer(name, value)
        return self.graph.get_attr(name)

    def observers(self):
        """Each observer: quantize and dequantize."""
        for node in list(self.graph.nodes):
            if node.op != "call_module" or not _is_activation_post_process(self.modules.get(node.target)):
                continue
            observer, source = self.modules[node.target], node.args[0]
            dtype = getattr(observer, "dtype", tessera.float32)
            if dtype not in (tessera.quint8, tessera.qint8, tessera.qint32) or getattr(observer, "is_dynamic", False):
                node.replace_all_uses_with(source)
                self.graph.erase_node(node)
                continue
            scale, zero_point = observer.calculate_qparams()
            stem = source.name
            with self.graph.inserting_before(node):
                if scale.numel() > 1 or getattr(observer, "ch_axis", -1) not in (-1, None):
                    made = self.graph.call_function(tessera.quantize_per_channel, (
                        source, self.named(f"{stem}_scale", scale.double()),
                        self.named(f"{stem}_zero_point", zero_point.long()), observer.ch_axis, dtype))  # fmt: skip
                else:
                    made = self.graph.call_function(_QUANTIZE, (
                        source, self.named(f"{stem}_scale", scale.float()),
                        self.named(f"{stem}_zero_point", zero_point.int()), dtype))  # fmt: skip
                back = self.graph.call_method("dequantize", (made,))
            node.replace_all_uses_with(back)
            self.graph.erase_node(node)

    def weights(self):
        """Layers whose weights are quantized: the dynamic form, the reference form, or (later) that on integers."""
        dynamic = get_default_dynamic_quant_module_mappings()
        references = get_default_static_quant_reference_module_mappings()
        for node in list(self.graph.nodes):
            if node.op != "call_module":
                continue
            module = self.modules.get(node.target)
            for kind, table in self.custom.observed_to_quantized_mapping.items():
                if type(module) in table and kind is not None:
                    _swap(self.module, node.target, table[type(module)].from_observed(module))
            qconfig = getattr(module, "qconfig", None)
            if qconfig is None or qconfig.weight is None or not patterns.weighted(module):
                continue
            trained = hasattr(module, "weight_fake_quant")
            if not trained and not weight_is_quantized(qconfig) and qconfig.weight().dtype != tessera.float16:
                continue
            moving = activation_is_dynamically_quantized(qconfig) or isinstance(module, patterns.FLOAT_ONLY)
            if moving and type(module) in dynamic and not self.reference:
                self.put(node, dynamic[type(module)].from_float(module))
            elif self.reference:
                inner = module[0] if isinstance(module, nn.Sequential) else module
                observer = module.weight_fake_quant if trained else qconfig.weight()
                if trained:
                    whole = module.to_float()
                    inner = whole[0] if isinstance(whole, nn.Sequential) else whole
                if type(inner) not in references:
                    continue
                observer(inner.weight.detach())
                made = references[type(inner)].from_float(inner, get_qparam_dict(observer))
                if isinstance(module, intrinsic._FusedModule) or trained and isinstance(whole, nn.Sequential):
                    made = nn.Sequential(made, nn.ReLU())
                self.put(node, made)

    def put(self, node, module):
        _swap(self.module, node.target, module)
        self.modules[node.target] = module

    def quantized_input(self, node):
        """The integers behind a dequantize node, or None."""
        if isinstance(node, fx.Node) and node.op == "call_method" and node.target == "dequantize":
            return node.args[0]
        return None

    def quantize_behind(self, node):
        """The one quantize_per_tensor that reads a node, or None."""
        users = list(node.users)
        if len(users) == 1 and users[0].op == "call_function" and users[0].target is _QUANTIZE:
            return users[0]
        return None

    def parameters_of(self, quantize):
        return getattr(self.module, quantize.args[1].target), getattr(self.module, quantize.args[2].target)

    def lower(self):
        """Operators between dequantize and quantize take the integers themselves."""
        static = get_default_static_quant_module_mappings()
        for node in list(self.graph.nodes):
            if node.op not in ("call_module", "call_function", "call_method"):
                continue
            if patterns.shares_observer(node, self.modules) or patterns.is_cat(node):
                self.pass_through(node)
            elif node.op == "call_module" and type(self.modules.get(node.target)) in static:
                self.layer(node, static[type(self.modules[node.target])])
            elif node.op == "call_function" and node.target in patterns.FUNCTIONS_WITH_WEIGHTS:
                self.function_with_weight(node)
            elif node.op == "call_function" and node.target in patterns.TURNED:
                self.element(node)
            elif node.op == "call_function" and patterns.OBSERVED_FUNCTIONS.get(node.target):
                self.function(node)
        self.tidy()

    def replace(self, node, quantize, new):
        quantize.replace_all_uses_with(new)
        self.graph.erase_node(quantize)
        self.graph.erase_node(node)

    def pass_through(self, node):
        """An operator that moves or chooses numbers works on the integers; its result is not quantized anew."""
        quantize, many = self.quantize_behind(node), patterns.is_cat(node)
        first = node.args[0] if node.args else None
        sources = [self.quantized_input(a) for a in first] if many else [self.quantized_input(first)]
        if quantize is None or any(s is None for s in sources):
            return
        if many:
            node.update_arg(0, sources)
        else:
            node.update_arg(0, sources[0])
        quantize.replace_all_uses_with(node)
        self.graph.erase_node(quantize)

    def layer(self, node, kind):
        module, quantize = self.modules[node.target], self.quantize_behind(node)
        sources = [self.quantized_input(a) for a in node.args if isinstance(a, fx.Node)]
        if (
            quantize is None
            or not sources
            or any(s is None for s in sources)
            or isinstance(module, patterns.FLOAT_ONLY)
        ):
            return
        qconfig = getattr(module, "qconfig", None)
        if patterns.weighted(module) and not hasattr(module, "weight_fake_quant"):
            if qconfig is None or qconfig.weight().dtype != tessera.qint8:
                return
        module.activation_post_process = _Known(*self.parameters_of(quantize), quantize.args[3])
        self.put(node, kind.from_float(module))
        node.args = (*sources, *node.args[len(sources) :])
        quantize.replace_all_uses_with(node)
        self.graph.erase_node(quantize)

    def function_with_weight(self, node):
        """F.linear or F.conv with a quantized weight."""
        source, quantize = self.quantized_input(node.args[0]), self.quantize_behind(node)
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = {**dict(zip(names, node.args)), **node.kwargs}
        weight = self.quantized_input(given["weight"])
        relu = None
        if quantize is None:
            users = list(node.users)
            if len(users) == 1 and users[0].target in (tessera.relu, nn.functional.relu):
                relu, quantize = users[0], self.quantize_behind(users[0])
        if source is None or weight is None or quantize is None:
            return
        stem = patterns.FUNCTIONS_WITH_WEIGHTS[node.target]
        with self.graph.inserting_before(quantize):
            args = (weight, given.get("bias"))
            if stem != "linear":
                n = int(stem[4])
                spread = lambda v: [v] * n if isinstance(v, int) else list(v)  # noqa: E731
                args += (spread(given.get("stride", 1)), spread(given.get("padding", 0)),
                         spread(given.get("dilation", 1)), given.get("groups", 1))  # fmt: skip
            packed = self.graph.call_function(getattr(operators, f"{stem}_prepack"), args)
            new = self.graph.call_function(
                getattr(operators, stem + ("_relu" if relu is not None else "")),
                (source, packed, quantize.args[1], quantize.args[2]),
            )  # fmt: skip
        quantize.replace_all_uses_with(new)
        for old in (quantize, relu, node):
            if old is not None:
                self.graph.erase_node(old)

    def element(self, node):
        """add, mul, matmul, with a ReLU behind where there is one."""
        stem, quantize, relu = patterns.TURNED[node.target], self.quantize_behind(node), None
        if quantize is None:
            users = list(node.users)
            if len(users) == 1 and (users[0].target in (tessera.relu, nn.functional.relu)
                                    or users[0].op == "call_module"
                                    and type(self.modules.get(users[0].target)) is nn.ReLU):  # fmt: skip
                relu, quantize = users[0], self.quantize_behind(users[0])
        sources = [self.quantized_input(a) for a in node.args]
        numbers = [a for a in node.args if not isinstance(a, fx.Node)]
        if quantize is None or sources[0] is None or (not numbers and any(s is None for s in sources)):
            return
        name = getattr(operators, stem + ("_relu" if relu is not None and stem != "matmul" else ""))
        if relu is not None and stem == "matmul":
            return
        with self.graph.inserting_before(quantize):
            if numbers:
                new = self.graph.call_function(name, (sources[0], numbers[0]))
            else:
                new = self.graph.call_function(name, (*sources, quantize.args[1], quantize.args[2]))
        quantize.replace_all_uses_with(new)
        for old in (quantize, relu, node):
            if old is not None:
                self.graph.erase_node(old)

    def function(self, node):
        """Functions with a form on integers."""
        source, quantize = self.quantized_input(node.args[0] if node.args else None), self.quantize_behind(node)
        stem = patterns.OBSERVED_FUNCTIONS[node.target]
        if source is None or quantize is None or stem not in ("hardswish",) or len(node.args) > 1:
            return
        with self.graph.inserting_before(quantize):
            new = self.graph.call_function(getattr(operators, stem), (source, quantize.args[1], quantize.args[2]))
        self.replace(node, quantize, new)

    def tidy(self):
        """dequantize followed by the same quantize; nodes that nobody reads."""
        for node in list(self.graph.nodes):
            if node.op == "call_function" and node.target is _QUANTIZE:
                source = self.quantized_input(node.args[0])
                if source is not None and source.op == "call_function" and source.target is _QUANTIZE and (
                        source.args[1:] == node.args[1:]):  # fmt: skip
                    node.replace_all_uses_with(source)
        self.graph.eliminate_dead_code()

    def edges(self, prepare_custom):
        """Inputs that come as quantized tensors."""
        places = [n for n in self.graph.nodes if n.op == "placeholder"]
        for index in prepare_custom.input_quantized_indexes:
            with self.graph.inserting_after(places[index]):
                back = self.graph.call_method("dequantize", (places[index],))
            places[index].replace_all_uses_with(back, delete_user_cb=lambda n, back=back: n is not back)

    def results(self, prepare_custom):
        """Outputs that are to be quantized tensors."""
        last = next(n for n in self.graph.nodes if n.op == "output")
        value = last.args[0]
        many = isinstance(value, (tuple, list))
        outs = list(value) if many else [value]
        for index in prepare_custom.output_quantized_indexes:
            outs[index] = self.quantized_input(outs[index]) or outs[index]
        last.args = (type(value)(outs) if many else outs[0],)


class _Known:
    """Stands for an observer whose scale is known."""

    def __init__(self, scale, zero_point, dtype):
        self.scale, self.zero_point, self.dtype = scale, zero_point, dtype

    def calculate_qparams(self):
        return self.scale, self.zero_point


def _disable(model, mapping):
    """Takes observers from what a second mapping says is not quantized."""
    from_prepare = model.meta["_observed_graph_module_attrs"]["node_name_to_qconfig"]
    modules = dict(model.named_modules())
    found = node_qconfigs(model.graph.nodes, modules, mapping, {})
    for node, qconfig in found.items():
        if qconfig is None and from_prepare.get(node.name) is not None:
            module = modules.get(node.target) if node.op == "call_module" else None
            if module is not None and hasattr(module, "qconfig"):
                module.qconfig = None
            for user in list(node.users):
                if user.op == "call_module" and _is_activation_post_process(modules.get(user.target)):
                    user.replace_all_uses_with(node)
                    model.graph.erase_node(user)


def convert(graph_module, is_reference, custom, remove_qconfig=True, qconfig_mapping=None, keep_original_weights=False):
    """The quantized module of an observed one (a copy)."""
    noted = graph_module.meta["_observed_graph_module_attrs"]
    model = copy.deepcopy(graph_module)
    model.meta["_observed_graph_module_attrs"] = noted
    if qconfig_mapping is not None:
        _disable(model, qconfig_mapping)
    for node in model.graph.nodes:
        module = graph_module.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(module, ObservedStandaloneGraphModule):
            _swap(model, node.target, convert(module, is_reference, custom, remove_qconfig))
    originals = {}
    if keep_original_weights:
        originals = {n: copy.deepcopy(m) for n, m in model.named_modules() if hasattr(m, "qconfig")}
    work = _Converter(model, is_reference, custom, remove_qconfig)
    if noted["prepare_custom_config"] is not None:
        work.edges(noted["prepare_custom_config"])
    work.observers()
    work.weights()
    if not is_reference:
        work.lower()
    if noted["prepare_custom_config"] is not None:
        work.results(noted["prepare_custom_config"])
    model.graph.eliminate_dead_code()
    model.delete_all_unused_submodules()
    for module in model.modules():
        if remove_qconfig and hasattr(module, "qconfig"):
            del module.qconfig
        if isinstance(getattr(module, "activation_post_process", None), _Known):
            del module.activation_post_process
    model.graph.lint()
    made = QuantizedGraphModule(model, model.graph, set(custom.preserved_attributes))
    made.train(graph_module.training)
    if originals:
        made.meta["original_weights"] = originals
    return made
