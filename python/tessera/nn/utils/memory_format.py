"""Memory formats of convolution weights."""

import tessera

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, memory_format, classes):
    if isinstance(module, classes):
        module.weight.data = module.weight.detach().clone(memory_format=memory_format)
    for child in module.children():
        _convert(child, memory_format, classes)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Gives the weights of all Conv2d and ConvTranspose2d the memory format. Returns the module."""
    return _convert(module, memory_format, (tessera.nn.Conv2d, tessera.nn.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    """Gives the weights of all Conv3d and ConvTranspose3d the memory format. Returns the module."""
    return _convert(module, memory_format, (tessera.nn.Conv3d, tessera.nn.ConvTranspose3d))
