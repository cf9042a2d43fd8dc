"""Which parts of a module become units of their own: policies are functions of (module, recurse, nonwrapped_numel) that
say whether to go into a module, and whether to wrap it.
"""

import functools

from tessera.nn import Module, ModuleDict, ModuleList, MultiheadAttention

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]


def always_wrap_policy(*args, **kwargs):
    """Wraps everything."""
    return True


def _module_wrap_policy(module, recurse, nonwrapped_numel, module_classes):
    return True if recurse else isinstance(module, tuple(module_classes))


class ModuleWrapPolicy:
    """Wraps modules of the given classes."""

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)

    def __call__(self, module, recurse, *args, **kwargs):
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self):
        return f"{type(self).__name__}({self._module_classes})"


class CustomPolicy:
    """Wraps where `lambda_fn(module)` is true; a dict of arguments of the wrapper counts as true."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def __call__(self, module, recurse, *args, **kwargs):
        return True if recurse else bool(self._lambda_fn(module))


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """Wraps where `lambda_fn(module)` is true."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """Wraps modules of the classes of a transformer's layers."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def size_based_auto_wrap_policy(
    module,
    recurse,
    nonwrapped_numel,
    min_num_params=int(1e8),
    force_leaf_modules=None,
    exclude_wrap_modules=None,
):
    """Wraps what has at least `min_num_params` numbers that are not in units yet, without going into
    `force_leaf_modules` (MultiheadAttention) and without wrapping `exclude_wrap_modules` (containers).
    """
    leaves = (
        vars(size_based_auto_wrap_policy)["FORCE_LEAF_MODULES"] if force_leaf_modules is None else force_leaf_modules
    )
    excluded = (
        vars(size_based_auto_wrap_policy)["EXCLUDE_WRAP_MODULES"]
        if exclude_wrap_modules is None
        else exclude_wrap_modules
    )
    refused = leaves if recurse else excluded
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(refused))


vars(size_based_auto_wrap_policy).update(
    EXCLUDE_WRAP_MODULES={ModuleList, ModuleDict}, FORCE_LEAF_MODULES={MultiheadAttention}
)


def _or_policy(module, recurse, nonwrapped_numel, policies):
    """True if one of the policies is."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)
