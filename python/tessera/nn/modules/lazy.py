"""Modules that learn the shapes of their parameters from the first input."""

import tessera
from tessera.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Base of lazy modules. The first call infers the shapes (`initialize_parameters`), after which the object becomes
    `cls_to_become`.

    A subclass registers UninitializedParameter or UninitializedBuffer objects in __init__ and materializes them in
    initialize_parameters(*args, **kwargs).
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # both go away when the shapes are known
        hooks = {
            "_load_hook": self._register_load_state_dict_pre_hook(self._lazy_load_hook),
            "_initialize_hook": self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True),
        }
        vars(self).update(hooks)

    def _tensors(self):
        return {
            name: tensor for name, tensor in [*self._parameters.items(), *self._buffers.items()] if tensor is not None
        }

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._tensors().items():
            if name not in self._non_persistent_buffers_set:
                # uninitialized ones have no detach()
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Gives uninitialized entries the shape of those in the state dict, so that the usual loading works."""
        for name, tensor in self._tensors().items():
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(tensor) and not is_lazy(given):
                with tessera.no_grad():
                    tensor.materialize(given.shape)

    def initialize_parameters(self, *args, **kwargs):
        """Materializes the parameters for the arguments of the first forward; a subclass defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {self.__class__.__name__}")

    def has_uninitialized_params(self):
        """Whether a parameter or buffer has no shape yet."""
        return any(map(is_lazy, self._tensors().values()))

    def _infer_parameters(self, module, args, kwargs=None):
        """The forward pre-hook of the first call."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )


class InferredMixin(LazyModuleMixin):
    """Lazy layers for one number, the attribute `_unknown`, which is 0 until the first input tells it."""

    _unknown = None

    def _materialize(self):
        """Gives uninitialized tensors their declared shapes, then all parameters their first values."""
        shapes = self._shapes()
        with tessera.no_grad():
            for name, tensor in self._tensors().items():
                if is_lazy(tensor):
                    tensor.materialize(shapes[name])
            self.reset_parameters()

    def reset_parameters(self):
        """Sets the first values, if the shapes are known."""
        if getattr(self, self._unknown) != 0 and not self.has_uninitialized_params():
            super().reset_parameters()
