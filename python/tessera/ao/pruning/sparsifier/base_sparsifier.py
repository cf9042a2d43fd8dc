"""BaseSparsifier: tensors of a model behind masks."""

import abc
import copy
from collections import defaultdict

import tessera
from tessera import nn
from tessera.nn.utils import parametrize

from .utils import (
    FakeSparsity,
    get_arg_info_from_tensor_fqn,
    module_contains_param,
    module_to_fqn,
    swap_module,
)

__all__ = ["BaseSparsifier"]

KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]
SUPPORTED_MODULES = {nn.Linear}


def _lines(group):
    return "".join(f"\t    {key}: {group[key]}\n" for key in sorted(group, key=lambda key: (key != "module", key)))


def text_of(sparsifier, groups):
    """The text of a sparsifier whose groups, {name: dict}, have names."""
    inside = "".join(f"\n\tData Group\n\t    name: {name}\n{_lines(group)}" for name, group in groups.items())
    return f"{type(sparsifier).__name__} ({inside})"


class BaseSparsifier(abc.ABC):
    """What computes masks of a model's tensors. Subclasses say how in `update_mask(module, tensor_name, **config)`.

    `prepare` puts the masks in, `step` renews them, `squash_mask` multiplies them in and takes them away. `groups` is a
    list with a dict for each tensor: the defaults, what its config says, and "module", "module_fqn", "tensor_name",
    "tensor_fqn". `state[tensor_fqn]["mask"]` is its mask. Nothing is renewed while `enable_mask_update` is False.

    Args:
        defaults: dict with what every config starts from.
    """

    def __init__(self, defaults=None):
        self.defaults = dict(defaults or {})
        self.state = defaultdict(dict)
        self.groups = []
        self.enable_mask_update = True

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k not in ("model", "config", "enable_mask_update")}

    def __setstate__(self, state):
        vars(self).update(state, enable_mask_update=True)

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.groups):
            text += f"\n\tGroup {i}\n{_lines(group)}"
        return text + ")"

    def state_dict(self):
        """{"state": {tensor_fqn: {"mask": tensor}}, "groups": list of configs without modules}."""
        keep = [{k: v for k, v in g.items() if k not in KEYS_NOT_IN_STATE_DICT} for g in self.groups]
        return {"state": self.state, "groups": keep}

    def load_state_dict(self, state_dict, strict=True):
        """Takes masks and configs of another sparsifier over; tensors that have no mask yet get one.

        Raises: RuntimeError before `prepare`, and where the model lacks a module of the state, if `strict`.
        """
        if not hasattr(self, "model"):
            raise RuntimeError("load_state_dict() needs the model: call prepare(model, config) first")
        state, groups = state_dict["state"], copy.deepcopy(state_dict["groups"])
        for fqn, values in state.items():
            info = get_arg_info_from_tensor_fqn(self.model, fqn)
            if info["module"] is None:
                if strict:
                    raise RuntimeError(f"Error loading {fqn} into the model: there is no module {info['module_fqn']!r}")
                continue
            self._load_mask(info, values)
        self.groups = [{**group, **get_arg_info_from_tensor_fqn(self.model, group["tensor_fqn"])} for group in groups]

    def _load_mask(self, info, values):
        layer, name = info["module"], info["tensor_name"]
        values = {k: v.clone() if isinstance(v, tessera.Tensor) else v for k, v in values.items()}
        mask = values.get("mask")
        chain = layer.parametrizations[name] if parametrize.is_parametrized(layer, name) else ()
        ours = next((p for p in chain if isinstance(getattr(p, "mask", None), tessera.Tensor)), None)
        if mask is not None:
            if ours is None:
                parametrize.register_parametrization(layer, name, FakeSparsity(mask))
            else:
                ours.mask = mask
        self.state[info["tensor_fqn"]] = values

    def make_config_from_model(self, model, SUPPORTED_MODULES=SUPPORTED_MODULES):
        """Sets `config` to the weights of all modules of these classes."""
        self.config = []
        waiting = [model]
        while waiting:
            for child in waiting.pop().children():
                if type(child) in SUPPORTED_MODULES:
                    self.config.append({"tensor_fqn": f"{module_to_fqn(model, child)}.weight"})
                else:
                    waiting.append(child)

    def prepare(self, model, config):
        """Puts a mask of ones before each tensor that the config names.

        Args:
            model: a Module, changed in place.
            config: list of dicts with "tensor_fqn" ("layers.0.weight") and what differs from the defaults; a "mask" to
                start from and a class "parametrization" are taken from there, too. None: `make_config_from_model`.

        Raises: AssertionError if an entry is no dict, lacks "tensor_fqn" or contradicts it; AttributeError if the model
            has no such tensor.
        """
        self.model = model
        first = len(self.groups)
        if config is None:
            self.make_config_from_model(model)
        else:
            self.config = config
        for entry in self.config:
            if not isinstance(entry, dict):
                raise AssertionError(
                    f"each element of config should be a dict like {{'tensor_fqn': 'layers.0.weight'}}, not "
                    f"{type(entry).__name__}"
                )
            if not isinstance(entry.get("tensor_fqn"), str):
                raise AssertionError(f"'tensor_fqn' is required in each dict of config, which has {sorted(entry)}")
            info = get_arg_info_from_tensor_fqn(model, entry["tensor_fqn"])
            for key, value in info.items():
                if key in entry and entry[key] is not value and entry[key] != value:
                    raise AssertionError(f"the config's {key!r} and its 'tensor_fqn' are expected to agree")
            self.groups.append({**self.defaults, **entry, **info})
        self._prepare(first)

    def _prepare(self, first=0):
        for group in self.groups[first:]:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask")
            if mask is None:
                mask = tessera.ones_like(getattr(module, name))
            self.state[group["tensor_fqn"]]["mask"] = mask
            kind = group.get("parametrization", FakeSparsity)
            parametrize.register_parametrization(module, name, kind(mask))

    def squash_mask(self, params_to_keep=None, params_to_keep_per_layer=None, *args, **kwargs):
        """Multiplies the masks into the tensors and takes them away.

        Args:
            params_to_keep: keys of the configs that every module keeps as its dict `sparse_params`.
            params_to_keep_per_layer: {name of a module: keys that it keeps besides}.
        """
        for group in self.groups:
            module = group["module"]
            parametrize.remove_parametrizations(module, group["tensor_name"], leave_parametrized=True)
            keys = (*(params_to_keep or ()), *(params_to_keep_per_layer or {}).get(group["module_fqn"], ()))
            if keys:
                module.sparse_params = {key: group[key] for key in keys}

    def convert(self, module, mapping=None, inplace=False, parameterization=FakeSparsity):
        """Turns modules below that have masks into what `mapping` has for their class, by its `from_dense`.

        Args:
            mapping: {class: class}, as `get_static_sparse_quantized_mapping` gives.
            inplace: changes the module and not a copy.
            parameterization: the class that marks those with masks.
        """
        if mapping is None:
            raise NotImplementedError(
                "convert() needs a mapping {class: class}, such as get_static_sparse_quantized_mapping()"
            )
        if not inplace:
            module = copy.deepcopy(module)
        for name, child in list(module.named_children()):
            masked = module_contains_param(child, parameterization)
            if masked and parametrize.type_before_parametrizations(child) in mapping:
                setattr(module, name, swap_module(child, mapping))
            else:
                self.convert(child, mapping, True, parameterization)
        return module

    def step(self, use_path=True):
        """Renews all masks, without gradients. With `use_path` modules are looked up by their names."""
        if not self.enable_mask_update:
            return
        with tessera.no_grad():
            for group in self.groups:
                module = group["module"]
                if use_path and hasattr(self, "model"):
                    module = get_arg_info_from_tensor_fqn(self.model, group["tensor_fqn"])["module"]
                self.update_mask(**{**group, "module": module})

    @abc.abstractmethod
    def update_mask(self, module, tensor_name, **kwargs):
        """Changes `module.parametrizations[tensor_name][0].mask` according to the tensor's config, given by keyword."""
