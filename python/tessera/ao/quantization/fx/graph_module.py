"""The modules that prepare_fx() and convert_fx() give."""

from tessera.fx import GraphModule

__all__ = ["FusedGraphModule", "ObservedGraphModule", "ObservedStandaloneGraphModule", "QuantizedGraphModule"]


class FusedGraphModule(GraphModule):
    """A graph with attributes of the model besides: `preserved_attr_names`."""

    def __init__(self, root, graph, preserved_attr_names):
        kept = {name: getattr(root, name) for name in preserved_attr_names if hasattr(root, name)}
        super().__init__(root, graph)
        self.preserved_attr_names = set(preserved_attr_names)
        for name, value in kept.items():
            setattr(self, name, value)


class ObservedGraphModule(FusedGraphModule):
    """A graph with observers."""


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A graph with observers that is quantized as a whole of its own."""


class QuantizedGraphModule(FusedGraphModule):
    """A graph on integers."""


def _is_observed_module(module):
    """Whether prepare_fx() made it."""
    return isinstance(module, GraphModule) and "_observed_graph_module_attrs" in module.meta


def _is_observed_standalone_module(module):
    """Whether prepare_fx() made it as a whole of its own."""
    return _is_observed_module(module) and module.meta["_observed_graph_module_attrs"]["standalone"]


def _get_observed_graph_module_attr(model, name):
    """What prepare_fx() noted: qconfig_mapping, is_qat, backend_config, standalone ..."""
    return model.meta["_observed_graph_module_attrs"].get(name)
