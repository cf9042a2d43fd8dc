"""ActivationSparsifier: masks of what goes into layers."""

import warnings
from collections import defaultdict

import tessera

from ...sparsifier.base_sparsifier import text_of
from ...sparsifier.utils import fqn_to_module, module_to_fqn

__all__ = ["ActivationSparsifier"]

_FUNCTIONS = ("aggregate_fn", "reduce_fn", "mask_fn")


def _each(function, x):
    """function(x), or of each in a list."""
    return [function(piece) for piece in x] if isinstance(x, list) else function(x)


class ActivationSparsifier:
    """Gathers the inputs of registered layers while the model runs, computes masks of them, multiplies those in.

    `register_layer`, runs of the model, `step` (masks), `squash_mask` (from now on inputs are multiplied).

    Args:
        model: the Module that has the layers. The others are for layers that do not say it themselves:
        aggregate_fn: function of what was gathered before and the next input.
        reduce_fn: function of what was gathered, at `step`.
        mask_fn: function of what reduce_fn gives and, by keyword, the sparse_config; gives the mask.
        features: list of indices; each has data and a mask of its own. None: the input as a whole.
        feature_dim: the dimension of these indices.
        sparse_config: anything that mask_fn takes.
    """

    def __init__(self, model, aggregate_fn=None, reduce_fn=None, mask_fn=None, features=None, feature_dim=None,
                 **sparse_config):  # fmt: skip
        self.model = model
        self.defaults = dict(
            sparse_config=sparse_config, aggregate_fn=aggregate_fn, reduce_fn=reduce_fn, mask_fn=mask_fn,
            features=features, feature_dim=feature_dim,
        )  # fmt: skip
        self.data_groups = defaultdict(dict)
        self.state = defaultdict(dict)

    def _aggregate_hook(self, name):
        group = self.data_groups[name]
        features, dim, merge = group["features"], group["feature_dim"], group["aggregate_fn"]

        def gather(module, inputs):
            new = inputs[0]
            if features is not None:
                new = [new.index_select(dim, tessera.tensor([i], device=new.device)) for i in features]
            old = group.get("data")
            if old is None:
                group["data"] = new
            elif features is None:
                group["data"] = merge(old, new)
            else:
                group["data"] = [merge(a, b) for a, b in zip(old, new)]
            if self.state[name].get("mask") is None:
                self.state[name]["mask"] = _each(tessera.ones_like, new)

        return gather

    def _sparsify_hook(self, name):
        group = self.data_groups[name]
        features, dim = group["features"], group["feature_dim"]

        def multiply(module, inputs):
            x, mask = inputs[0], self.get_mask(name)
            if features is None:
                x = x * mask
            else:
                x = x.clone()
                for i, piece in zip(features, mask):
                    x.narrow(dim, i, 1).mul_(piece)
            return (x, *inputs[1:])

        return multiply

    def register_layer(self, layer, aggregate_fn=None, reduce_fn=None, mask_fn=None, features=None, feature_dim=None,
                       **sparse_config):  # fmt: skip
        """Gathers what goes into `layer` from now on; a layer that is registered already begins anew.

        Raises: AssertionError if the model has no such layer, a function is missing, or features have no feature_dim.
        """
        own = dict(
            aggregate_fn=aggregate_fn, reduce_fn=reduce_fn, mask_fn=mask_fn, features=features, feature_dim=feature_dim,
        )  # fmt: skip
        group = {**self.defaults, **{key: value for key, value in own.items() if value is not None}}
        group["sparse_config"] = {**self.defaults["sparse_config"], **sparse_config}
        for key in _FUNCTIONS:
            if not callable(group[key]):
                raise AssertionError(f"{key} must be callable, not {group[key]!r}")
        if group["features"] is not None and group["feature_dim"] is None:
            raise AssertionError("features need feature_dim, the dimension that they are taken of")
        name = module_to_fqn(self.model, layer)
        if name is None:
            raise AssertionError("layer not found in the model")
        if name in self.data_groups:
            warnings.warn("this layer is registered already: its data and config are replaced", stacklevel=2)
            self.unregister_layer(name)
        self.state[name]["mask"] = None
        self.data_groups[name] = {**group, "layer": layer}
        self._attach(name, "aggregate")

    def _attach(self, name, state):
        group = self.data_groups[name]
        if "hook" in group:
            group.pop("hook").remove()
        make = {"aggregate": self._aggregate_hook, "sparsify": self._sparsify_hook}.get(state)
        if make is not None:
            group["hook"] = group["layer"].register_forward_pre_hook(make(name))
        group["hook_state"] = state

    def get_mask(self, name=None, layer=None):
        """The mask (a list of them where there are features) of a layer, given by its name or itself; None at first."""
        if name is None:
            if layer is None:
                raise AssertionError("get_mask() needs a name or a layer")
            name = module_to_fqn(self.model, layer)
        if name not in self.state:
            raise ValueError(f"Error: layer with the given name not found: {name!r}")
        return self.state[name].get("mask")

    def unregister_layer(self, name):
        """Forgets a layer and its mask."""
        if name not in self.data_groups:
            raise KeyError(f"{name!r} is no registered layer: {sorted(self.data_groups)}")
        self._attach(name, "None")
        del self.data_groups[name], self.state[name]

    @tessera.no_grad()
    def step(self):
        """Computes the masks of what was gathered, which is let go."""
        for name, group in self.data_groups.items():
            if group["hook_state"] == "aggregate":
                if "data" not in group:
                    raise RuntimeError(f"step() before the model has run: layer {name!r} has seen no input")
                self.update_mask(name, group.pop("data"), group)

    def update_mask(self, name, data, configs):
        """Computes the mask of one layer."""
        reduce, make, options = configs["reduce_fn"], configs["mask_fn"], configs["sparse_config"]
        self.state[name]["mask"] = _each(lambda x: make(reduce(x), **options), data)

    def squash_mask(self, attach_sparsify_hook=True, **kwargs):
        """Ends the gathering; with `attach_sparsify_hook` inputs are multiplied with their masks from now on."""
        for name, group in self.data_groups.items():
            group.pop("data", None)
            self._attach(name, "sparsify" if attach_sparsify_hook else "None")

    def _masks(self, states, change):
        done = {n: {"mask": None if s.get("mask") is None else _each(change, s["mask"])} for n, s in states.items()}
        return defaultdict(dict, done)

    def state_dict(self):
        """{"state": masks as sparse tensors, "data_groups": configs without layers, data and hooks, "defaults"}."""
        hidden = ("hook", "layer", "data")
        groups = {n: {k: v for k, v in g.items() if k not in hidden} for n, g in self.data_groups.items()}
        masks = self._masks(self.state, tessera.Tensor.to_sparse)
        return {"state": masks, "data_groups": groups, "defaults": self.defaults}

    def load_state_dict(self, state_dict):
        """Takes layers, masks and configs over; the model has to have layers of these names."""
        for name in self.data_groups:
            self._attach(name, "None")
        self.state = self._masks(state_dict["state"], tessera.Tensor.to_dense)
        self.defaults = state_dict["defaults"]
        self.data_groups = defaultdict(dict)
        for name, saved in state_dict["data_groups"].items():
            layer = fqn_to_module(self.model, name)
            if layer is None:
                raise RuntimeError(f"Error loading {name} into the model: there is no such layer")
            self.data_groups[name] = {**saved, "layer": layer}
            self._attach(name, saved["hook_state"])

    def __repr__(self):
        return text_of(self, {n: {k: v for k, v in g.items() if k not in ("data", "hook", *_FUNCTIONS)}
                              for n, g in self.data_groups.items()})  # fmt: skip
