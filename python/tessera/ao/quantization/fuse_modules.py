"""Fusing layers that follow each other, by their names."""

import copy

from tessera import nn
from tessera.nn.utils.parametrize import type_before_parametrizations

from .fuser_method_mappings import get_fuser_method
from .utils import _parent_name, getattr_from_fqn

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def _fused(mod_list, is_qat, additional_fuser_method_mapping=None):
    types = tuple(type_before_parametrizations(m) for m in mod_list)
    fuser = get_fuser_method(types, additional_fuser_method_mapping)
    first, last = mod_list[0], mod_list[-1]
    made = fuser(is_qat, *mod_list)
    # What was to happen before the first layer and after the last happens around the whole.
    for hook in first._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    first._forward_pre_hooks.clear()
    for hook in last._forward_hooks.values():
        made.register_forward_hook(hook)
    last._forward_hooks.clear()
    rest = [nn.Identity() for _ in mod_list[1:]]
    for one in rest:
        one.training = first.training
    return [made, *rest]


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """[the layers as one, an Identity for each further layer]."""
    return _fused(mod_list, is_qat, additional_fuser_method_mapping)


fuse_known_ = fuse_known_modules


def _fuse(model, modules_to_fuse, is_qat, inplace, fuser_func, custom):
    if not inplace:
        model = copy.deepcopy(model)
    if modules_to_fuse and all(isinstance(name, str) for name in modules_to_fuse):
        modules_to_fuse = [modules_to_fuse]
    more = (custom or {}).get("additional_fuser_method_mapping", {})
    for names in modules_to_fuse:
        made = fuser_func([getattr_from_fqn(model, name) for name in names], is_qat, more)
        for name, module in zip(names, made):
            parent, short = _parent_name(name)
            setattr(getattr_from_fqn(model, parent), short, module)
    return model


def fuse_modules(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """The model with lists of layers, given by name, each made one; the others of a list become Identity.

    Known: conv-bn, conv-bn-relu, conv-relu, linear-bn, linear-relu, bn-relu. fuse_custom_config_dict:
    {"additional_fuser_method_mapping": {(kinds ...): fuser}}. AssertionError for other lists.
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None
):
    """fuse_modules() of a model that goes on training."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
