"""BaseDataSparsifier: masks of tensors that no model needs to have."""

import warnings
from collections import defaultdict

import tessera
from tessera import nn
from tessera.nn.utils import parametrize

from ...sparsifier.base_sparsifier import BaseSparsifier, text_of
from ...sparsifier.utils import FakeSparsity

__all__ = ["BaseDataSparsifier"]

EMBEDDING_TYPES = {nn.Embedding, nn.EmbeddingBag}
SUPPORTED_TYPES = {tessera.Tensor, nn.Parameter, *EMBEDDING_TYPES}


class _Container(nn.Module):
    """Holds the data, each behind its mask."""


class BaseDataSparsifier(BaseSparsifier):
    """What computes masks of tensors, parameters and embeddings. Subclasses define `update_mask(name, data, **config)`.

    Args:
        data_list: list of (name, data) to begin with.
        defaults: what every config starts from.
    """

    def __init__(self, data_list=None, **defaults):
        super().__init__(defaults)
        self._container = _Container()
        self.data_groups = defaultdict(dict)
        for name, data in data_list or ():
            self.add_data(name, data)

    def prepare(self, model, config):
        """Raises NotImplementedError: data is added one by one."""
        raise NotImplementedError("data sparsifiers have no model to prepare: use add_data(name, data)")

    @staticmethod
    def _extract_weight(data):
        if type(data) in EMBEDDING_TYPES:
            return data.weight
        if type(data) not in (tessera.Tensor, nn.Parameter):
            raise AssertionError(
                f"specified data type:{type(data)} not  supported at the moment; give a Tensor, a Parameter, an "
                f"Embedding or an EmbeddingBag"
            )
        return data

    def add_data(self, name, data, reuse_mask=True, **config):
        """Puts a mask before the data, of ones at first.

        Args:
            name: without dots; what has that name already is replaced.
            data: Tensor, Parameter, Embedding or EmbeddingBag (its weight).
            reuse_mask: the mask of what is replaced stays.
            config: what differs from the defaults, and maybe a "mask".

        Raises: AssertionError for other types, and if the shape differs from that of the mask that stays.
        """
        weight = self._extract_weight(data)
        mask = config.pop("mask", None)
        if name in self.state:
            warnings.warn("Replacing existing data of the same name. - Did you mean a different name?", stacklevel=2)
            old = self.get_mask(name)
            if reuse_mask and mask is None:
                if old.shape != weight.shape:
                    raise AssertionError(
                        f"the mask of {name!r} has the shape {tuple(old.shape)} and the new data "
                        f"{tuple(weight.shape)}: give reuse_mask=False"
                    )
                mask = old
            self._delete_data(name)
        mask = tessera.ones_like(weight).detach() if mask is None else mask
        if isinstance(weight, nn.Parameter):
            self._container.register_parameter(name, weight)
        else:
            self._container.register_buffer(name, weight)
        parametrize.register_parametrization(self._container, name, FakeSparsity(mask))
        self.data_groups[name] = {**self.defaults, **config}
        self.state[name]["mask"] = mask

    def _check(self, name):
        if name not in self.data_groups:
            raise ValueError(f"data with specified name does not exist: {name!r} is not in {sorted(self.data_groups)}")
        return parametrize.is_parametrized(self._container, name)

    def get_data(self, name, return_original=True):
        """The data of a name as it was given, or times its mask. ValueError if there is none."""
        if not self._check(name):
            if return_original:
                raise ValueError(f"the mask of {name!r} is squashed - original mask value does not exist")
            return getattr(self._container, name)
        return self._container.parametrizations[name].original if return_original else getattr(self._container, name)

    def get_mask(self, name):
        """The mask of a name. ValueError if there is none."""
        return self._container.parametrizations[name][0].mask if self._check(name) else self.state[name]["mask"]

    @staticmethod
    def _convert_mask(states, sparse_coo=True):
        change = tessera.Tensor.to_sparse if sparse_coo else tessera.Tensor.to_dense
        return defaultdict(dict, {name: {**state, "mask": change(state["mask"])} for name, state in states.items()})

    def state_dict(self):
        """{"state": masks as sparse tensors, "data_groups": configs, "_container": the data}."""
        return {
            "state": self._convert_mask(self.state),
            "data_groups": self.data_groups,
            "_container": self._container.state_dict(),
        }

    def load_state_dict(self, state_dict, strict=True):
        """Takes data, masks and configs over. What there was is dropped, or with strict=False only the same names."""
        if strict:
            self._container, self.data_groups, self.state = _Container(), defaultdict(dict), defaultdict(dict)
        masks, saved = self._convert_mask(state_dict["state"], sparse_coo=False), state_dict["_container"]
        for name, config in state_dict["data_groups"].items():
            if name in self.data_groups:
                self._delete_data(name)
            masked = f"parametrizations.{name}.original" in saved
            data = saved[f"parametrizations.{name}.original" if masked else name]
            self.add_data(name, data.detach().clone(), mask=masks[name]["mask"], **config)
            self.data_groups[name] = dict(config)
            if not masked:
                self.squash_mask(names=[name])

    def __getstate__(self):
        return {**super().__getstate__(), **self.state_dict()}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.load_state_dict(state)

    def __repr__(self):
        return text_of(self, self.data_groups)

    def squash_mask(self, *args, leave_parametrized=True, names=None, **kwargs):
        """Takes masks away, of all data or of some names; with `leave_parametrized` they are multiplied in."""
        if names is None:
            names = [name for name in self.data_groups if parametrize.is_parametrized(self._container, name)]
        for name in [names] if isinstance(names, str) else names:
            parametrize.remove_parametrizations(self._container, name, leave_parametrized=leave_parametrized)

    def step(self):
        """Renews all masks, without gradients."""
        if self.enable_mask_update:
            with tessera.no_grad():
                for name, config in self.data_groups.items():
                    self.update_mask(name, self.get_data(name), **config)

    def _delete_data(self, name):
        if parametrize.is_parametrized(self._container, name):
            self.squash_mask(leave_parametrized=False, names=[name])
        delattr(self._container, name)
        self.state.pop(name)
        self.data_groups.pop(name)
