"""The mask as a parametrization, and names of modules and tensors."""

from tessera import nn
from tessera.nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity", "fqn_to_module", "get_arg_info_from_tensor_fqn", "module_contains_param", "module_to_fqn",
    "swap_module",
]  # fmt: skip


class FakeSparsity(nn.Module):
    """A parametrization: the tensor times `mask`, of the same shape, which no state dict holds."""

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args, **kwargs):
        """Always empty: the sparsifier saves masks."""
        return {}


def module_contains_param(module, parametrization):
    """Whether some tensor of the module itself has a parametrization of this class."""
    return is_parametrized(module) and any(
        isinstance(p, parametrization) for chain in module.parametrizations.values() for p in chain
    )


def swap_module(mod, mapping):
    """mapping[type of mod].from_dense(mod) with its hooks and on its device, or mod itself if the type is not there."""
    target = mapping.get(type_before_parametrizations(mod))
    if target is None:
        return mod
    made = target.from_dense(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        made.register_forward_hook(hook)
    devices = {t.device for t in (*mod.parameters(), *mod.buffers())}
    if len(devices) > 1:
        raise AssertionError(f"swap_module() needs a module on one device, but this one is on {devices}")
    return made.to(devices.pop()) if devices else made


def module_to_fqn(model, module, prefix=""):
    """The dotted name of `module` in `model` behind `prefix`, or None if it is not there."""
    return next((prefix + name for name, found in model.named_modules() if found is module), None)


def fqn_to_module(model, path):
    """What a dotted name stands for in the model (the model itself for ""), or None."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model, tensor_fqn):
    """{"module_fqn", "module", "tensor_name", "tensor_fqn"} of "layers.0.weight"; module is None if it is not there."""
    owner, _, tensor = tensor_fqn.rpartition(".")
    return {
        "module_fqn": owner,
        "module": fqn_to_module(model, owner),
        "tensor_name": tensor,
        "tensor_fqn": tensor_fqn,
    }
