"""Modules around modules: what the inner one saves for backward is computed again, or waits on the host.

State dicts have the names of the inner modules, so that models with and without such wrappers read each other's.

>>> import tessera
>>> from tessera.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
>>> layer = checkpoint_wrapper(tessera.nn.Linear(2, 1))
>>> list(layer.state_dict())
['weight', 'bias']
"""

import functools
from abc import ABC, abstractmethod
from enum import Enum, auto

from tessera.autograd.graph import save_on_cpu
from tessera.distributed.fsdp.wrap import lambda_auto_wrap_policy, wrap_below
from tessera.nn import Module
from tessera.utils.checkpoint import checkpoint

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which form of utils.checkpoint: `use_reentrant` True or False."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


def _moved_keys(state_dict, old, new):
    """Names that begin with `old` begin with `new`; the order stays."""
    items = list(state_dict.items())
    if any(name.startswith(old) for name, _ in items):
        state_dict.clear()
        state_dict.update((new + name[len(old) :] if name.startswith(old) else name, value) for name, value in items)


def _names_of_inner(_module, state_dict, prefix, _local_metadata):
    _moved_keys(state_dict, prefix + _CHECKPOINT_PREFIX, prefix)


def _names_of_wrapper(_module, state_dict, prefix, *_rest):
    _moved_keys(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


class ActivationWrapper(Module, ABC):
    """What wrappers have in common. Attributes and items that they do not have are those of the inner module.

    Args:
        mod: the inner module.
    """

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_state_dict_post_hook(_names_of_inner)
        self.register_load_state_dict_pre_hook(_names_of_wrapper)

    @abstractmethod
    def forward(self, *args, **kwargs):
        """Calls the inner module."""
        return self._checkpoint_wrapped_module(*args, **kwargs)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _CHECKPOINT_WRAPPED_MODULE:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        """Module.named_parameters, with the names that they have in the inner module."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """What the inner module saves for backward waits in the memory of the host: `offload_wrapper`."""

    def forward(self, *args, **kwargs):
        """The inner module's result."""
        with save_on_cpu(pin_memory=True):
            return super().forward(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """What the inner module saves for backward is computed again there: `checkpoint_wrapper`."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            if not isinstance(checkpoint_impl, CheckpointImpl):
                raise TypeError(f"checkpoint_impl has to be a CheckpointImpl, but got {checkpoint_impl!r}")
            checkpoint_fn_kwargs["use_reentrant"] = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn = checkpoint
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        """The inner module's result."""
        inner = self._checkpoint_wrapped_module
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(inner, *args, **kwargs)
        # The reentrant form passes on what is positional only.
        names, count = list(kwargs), len(args)
        call = lambda *values: inner(*values[:count], **dict(zip(names, values[count:])))
        return self.checkpoint_fn(call, *args, *kwargs.values())


def offload_wrapper(module):
    """A module that does what the given one does, and keeps on the host what it saves for backward.

    Args:
        module: Module; it becomes a child of the result, an OffloadWrapper.
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """A module that does what the given one does, and computes again in backward what that saves.

    Args:
        module: Module; it becomes a child of the result, a CheckpointWrapper.
        checkpoint_impl: CheckpointImpl: which form of utils.checkpoint.checkpoint.
        checkpoint_fn: called instead as `checkpoint_fn(module, *args, **kwargs)`.
        **checkpoint_fn_kwargs: further keywords for either.

    Raises: TypeError for another `checkpoint_impl`.
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True, auto_wrap_policy=None
):
    """Wraps modules below a model, in place, the inner ones first; the model itself is not wrapped.

    Args:
        model: Module.
        checkpoint_wrapper_fn: gives the wrapper of a module: `checkpoint_wrapper`, `offload_wrapper` ...
        check_fn: whether a module is to be wrapped.
        auto_wrap_policy: a policy of distributed.fsdp.wrap, asked instead of `check_fn`.
    """
    policy = auto_wrap_policy or functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    wrap_below(model, policy, checkpoint_wrapper_fn)
