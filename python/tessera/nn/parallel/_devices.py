"""Devices as these functions are given them."""

import tessera


def as_device(device):
    """A number is a CUDA device's, -1 the CPU's."""
    if isinstance(device, int):
        return tessera.device("cpu") if device < 0 else tessera.device("cuda", device)
    return tessera.device(device)
