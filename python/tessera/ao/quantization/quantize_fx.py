"""Quantization of models as graphs: prepare_fx() puts observers in, convert_fx() integers."""

import warnings

from tessera.ao.quantization.qconfig_mapping import QConfigMapping
from tessera.fx import GraphModule

from .fx.convert import convert
from .fx.custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .fx.fuse import fuse
from .fx.graph_module import FusedGraphModule, ObservedGraphModule
from .fx.prepare import prepare
from .fx.tracer import QuantizationTracer

__all__ = [
    "attach_preserved_attrs_to_model", "convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx",
    "prepare_qat_fx",
]  # fmt: skip

DEPRECATION_WARNING = "torch.ao.quantization's graph mode: see the documents of torchao for its successor"


def attach_preserved_attrs_to_model(model, preserved_attrs):
    """Sets attributes, {name: value}, on a model and notes their names."""
    model.meta["preserved_attrs"] = dict(preserved_attrs)
    for name, value in preserved_attrs.items():
        setattr(model, name, value)


def _config(given, kind, name):
    if given is None:
        return kind()
    if isinstance(given, dict):
        warnings.warn(f"Passing a {name} as a dict is deprecated; pass a {kind.__name__}", FutureWarning, stacklevel=3)
        return kind.from_dict(given)
    return given


def _traced(model, custom):
    if isinstance(model, GraphModule):
        return GraphModule(model, model.graph)
    classes = [*getattr(custom, "non_traceable_module_classes", ()), *getattr(custom, "standalone_module_classes", ())]
    names = [*getattr(custom, "non_traceable_module_names", ()), *getattr(custom, "standalone_module_names", ())]
    for table in getattr(custom, "float_to_observed_mapping", {}).values():
        classes += list(table)
    tracer = QuantizationTracer(names, classes)
    made = GraphModule(model, tracer.trace(model))
    for node, path in tracer.node_to_originating_module.items() if hasattr(
            tracer, "node_to_originating_module") else ():  # fmt: skip
        node.meta.setdefault("nn_module_stack", {path: (path, None)})
    made.train(model.training)
    return made


def _kept(model, names):
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _no_backend(backend_config):
    if backend_config is not None:
        raise NotImplementedError("there is one backend, which takes what its kernels can do: expected "
                                  f"backend_config=None, but got {type(backend_config).__name__}")  # fmt: skip


def _prepare(model, qconfig_mapping, is_qat, example_inputs, custom, equalization, backend_config, standalone=False):
    if qconfig_mapping is None:
        raise AssertionError("expected a QConfigMapping")
    if equalization is not None:
        raise NotImplementedError("prepare_fx: there is no equalization of input and weight; pass no "
                                  "_equalization_config")  # fmt: skip
    _no_backend(backend_config)
    mapping = _config(qconfig_mapping, QConfigMapping, "qconfig_mapping")
    custom = _config(custom, PrepareCustomConfig, "prepare_custom_config")
    kept = _kept(model, custom.preserved_attributes)

    def inner(module, mapping, inputs, custom, backend):
        return _prepare_standalone_module_fx(module, mapping, is_qat, inputs, custom, backend)

    made = prepare(_traced(model, custom), mapping, is_qat, example_inputs, custom, standalone, inner)
    attach_preserved_attrs_to_model(made, kept)
    return made


def prepare_fx(
    model, qconfig_mapping, example_inputs, prepare_custom_config=None, _equalization_config=None, backend_config=None
):
    """The model as a graph with fused layers and observers, for quantization after training.

    Args:
        model: in evaluation mode, traceable by torch.fx.
        qconfig_mapping: a QConfigMapping (or its dict).
        example_inputs: a tuple of inputs.
        prepare_custom_config: a PrepareCustomConfig (or its dict). backend_config: None.

    Run the result on typical inputs, then call convert_fx(). NotImplementedError for a backend_config and for
    _equalization_config.
    """
    return _prepare(model, qconfig_mapping, False, example_inputs, prepare_custom_config, _equalization_config,
                    backend_config)  # fmt: skip


def prepare_qat_fx(model, qconfig_mapping, example_inputs, prepare_custom_config=None, backend_config=None):
    """The model as a graph with fused layers of rounded weights and watched results, to train on. Arguments: as
    prepare_fx(), but the model is in training mode.
    """
    return _prepare(model, qconfig_mapping, True, example_inputs, prepare_custom_config, None, backend_config)


def _prepare_standalone_module_fx(
    model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config=None, backend_config=None
):
    """prepare_fx() of a module that is quantized as a whole of its own."""
    return _prepare(model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config, None, backend_config, True)


def fuse_fx(model, fuse_custom_config=None, backend_config=None):
    """The model as a graph with layers that follow each other made one (conv-bn-relu ...), in evaluation mode folded.

    NotImplementedError for a backend_config.
    """
    _no_backend(backend_config)
    custom = _config(fuse_custom_config, FuseCustomConfig, "fuse_custom_config")
    kept = _kept(model, custom.preserved_attributes)
    graph = _traced(model, custom)
    made = fuse(graph, graph.training)
    made = FusedGraphModule(made, made.graph, set(custom.preserved_attributes))
    made.train(model.training)
    attach_preserved_attrs_to_model(made, kept)
    return made


def _convert(graph_module, is_reference, custom, remove_qconfig, mapping, backend_config, keep=False):
    if not isinstance(graph_module, ObservedGraphModule):
        raise AssertionError(f"expected a model that prepare_fx() made, but got {type(graph_module).__name__}")
    _no_backend(backend_config)
    custom = _config(custom, ConvertCustomConfig, "convert_custom_config")
    mapping = QConfigMapping.from_dict(mapping) if isinstance(mapping, dict) else mapping
    kept = _kept(graph_module, custom.preserved_attributes)
    made = convert(graph_module, is_reference, custom, remove_qconfig, mapping, keep)
    attach_preserved_attrs_to_model(made, kept)
    return made


def convert_fx(
    graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None, backend_config=None,
    keep_original_weights=False
):  # fmt: skip
    """The graph on integers of what prepare_fx() or prepare_qat_fx() made.

    Args:
        convert_custom_config: a ConvertCustomConfig (or its dict).
        qconfig_mapping: as for prepare; what is None there stays in floats.
        backend_config: None; NotImplementedError for others. keep_original_weights: the float layers, too.
    """
    return _convert(graph_module, False, convert_custom_config, _remove_qconfig, qconfig_mapping, backend_config,
                    keep_original_weights)  # fmt: skip


def convert_to_reference_fx(
    graph_module, convert_custom_config=None, _remove_qconfig=True, qconfig_mapping=None, backend_config=None
):
    """The graph whose operators stand between dequantize and quantize, on floats. Arguments: as convert_fx()."""
    return _convert(graph_module, True, convert_custom_config, _remove_qconfig, qconfig_mapping, backend_config)
