"""Modules of DTensors under DistributedDataParallel, which reduces plain parameters."""

from tessera.distributed.tensor import DTensor
from tessera.nn import Parameter

__all__ = []


def _swap(module, change):
    for name, part in module.named_modules():
        for key, parameter in list(part._parameters.items()):
            changed = None if parameter is None else change(f"{name}.{key}", parameter)
            if changed is not None:
                part._parameters[key] = changed


def _pre_dp_module_transform(module):
    """Makes plain parameters of a module's DTensors, in place, as DistributedDataParallel wants them; during `forward`
    they are DTensors again.
    """
    specs, locals_ = {}, {}

    def localize(name, parameter):
        if isinstance(parameter, DTensor):
            specs[name] = parameter._spec
            locals_[name] = Parameter(parameter.detach().to_local(), parameter.requires_grad)
            return locals_[name]

    def before(module, _inputs):
        def spread(name, parameter):
            if name in specs:
                spec = specs[name]
                return DTensor.from_local(
                    parameter, spec.mesh, spec.placements, shape=tuple(spec.shape), stride=tuple(spec.strides)
                )

        _swap(module, spread)

    def after(module, _inputs, _outputs):
        _swap(module, lambda name, parameter: locals_.get(name))

    _swap(module, localize)
    if specs:
        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
