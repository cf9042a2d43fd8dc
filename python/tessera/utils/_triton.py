"""Whether kernels in the language Triton can be compiled. Its compiler launches them through another system's runtime,
so none can here, whether the package is installed or not.
"""

import functools
import importlib.util

__all__ = ["has_triton", "has_triton_package"]


@functools.lru_cache(None)
def has_triton_package():
    """True if the package `triton` is installed."""
    return importlib.util.find_spec("triton") is not None


def has_triton():
    """True if its kernels run here."""
    return False


def has_triton_experimental_host_tma():
    """True if kernels may get descriptors of tensors from the host by the experimental functions."""
    return has_triton()


def has_triton_tensor_descriptor_host_tma():
    """True if kernels may get descriptors of tensors from the host."""
    return has_triton()


def has_triton_tma():
    """True if kernels may get descriptors of tensors from the host by any functions."""
    return has_triton()


def has_triton_tma_device():
    """True if kernels may make descriptors of tensors."""
    return has_triton()


def has_triton_stable_tma_api():
    """True if the functions for descriptors are the stable ones."""
    return has_triton()
