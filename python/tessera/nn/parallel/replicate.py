"""Copies of a module on several devices, whose gradients come to the one original."""

from tessera.nn.parallel._devices import as_device

__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """A list of copies of a module, one for each device, for one forward call.

    Their parameters are copies of the module's, which are no parameters themselves: gradients flow to the module's. On
    a device where the module is already, the copy uses its tensors, so that what forward does to buffers there stays.

    Args:
        network: the module.
        devices: devices, or numbers of CUDA devices.
        detach: copies without a way back for gradients.
    """
    return [_replica(network, as_device(device), detach) for device in devices]


def _replica(network, device, detach):
    tensors, modules = {}, {}

    def moved(tensor):
        if tensor is None:
            return None
        if id(tensor) not in tensors:  # which the network keeps alive meanwhile
            source = tensor.detach() if detach else tensor
            tensors[id(tensor)] = source.to(device, non_blocking=True)
        return tensors[id(tensor)]

    for module in network.modules():
        modules[module] = module._replicate_for_data_parallel()
    for module, copy in modules.items():
        copy._modules = {name: None if child is None else modules[child] for name, child in module._modules.items()}
        copy._buffers = {name: moved(buffer) for name, buffer in module._buffers.items()}
        copy._former_parameters = {name: moved(parameter) for name, parameter in module._parameters.items()}
        vars(copy).update(copy._former_parameters)  # plain attributes: a tensor with a history is no parameter
    return modules[network]
