"""Which parts of a module become units of their own: policies are functions of (module, recurse, nonwrapped_numel) that
say whether to go into a module, and whether to wrap it.
"""

import contextlib
import functools
import threading

from tessera.nn import Module, ModuleDict, ModuleList, MultiheadAttention

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
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


def _decision(policy, module, recurse, numel):
    """What a policy says of a module; of those of modules alone also the arguments that it wants for the wrapper."""
    if isinstance(policy, CustomPolicy):
        return True if recurse else policy._lambda_fn(module)
    return policy(module=module, recurse=recurse, nonwrapped_numel=numel)


def wrap_below(module, policy, make, ignored=(), is_wrapped=None):
    """Puts the modules below one that a policy wants into units, the inner ones first, in place.

    Args:
        module: Module, which is not wrapped itself.
        policy: as above.
        make: `make(module, **options)` gives the unit.
        ignored: set of modules and parameters that do not count.
        is_wrapped: whether a module is a unit already.

    Returns: how many numbers are in units now.
    """
    done = {}

    def numel_of(one):
        inside = {p for sub in one.modules() if sub not in ignored for p in sub._parameters.values() if p is not None}
        return sum(p.numel() for p in inside - set(ignored))

    def visit(one, outermost):
        numel = numel_of(one)
        if not _decision(policy, one, True, numel):
            return one, 0
        inside = 0
        for name, child in one.named_children():
            if child in ignored or (is_wrapped is not None and is_wrapped(child)):
                continue
            if child not in done:
                done[child] = visit(child, False)
            new, count = done[child]
            if new is not child:
                setattr(one, name, new)
            inside += count
        if outermost:
            return one, inside
        wanted = _decision(policy, one, False, numel - inside)
        if not wanted:
            return one, inside
        return make(one, **(wanted if isinstance(wanted, dict) else {})), numel

    return visit(module, True)[1]


class _Wrapping(threading.local):
    make, options = None, {}


_wrapping = _Wrapping()


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """Inside the block `wrap()` makes units.

    Args:
        wrapper_cls: the wrapper, such as FullyShardedDataParallel.
        wrapper_kwargs: its arguments.
    """
    before = _wrapping.make, _wrapping.options
    _wrapping.make, _wrapping.options = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _wrapping.make, _wrapping.options = before


def wrap(module, **wrap_overrides):
    """The module as a unit, inside of `enable_wrap`; elsewhere the module itself.

    Args:
        module: Module.
        wrap_overrides: arguments of the wrapper that count instead of those of `enable_wrap`.
    """
    if _wrapping.make is None:
        return module
    return _wrapping.make(module, **{**_wrapping.options, **wrap_overrides})
