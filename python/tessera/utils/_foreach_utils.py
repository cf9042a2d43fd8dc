"""Lists of tensors, sorted for the foreach functions."""

import tessera

__all__ = [
    "_device_has_foreach_support",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype",
]


def _get_foreach_kernels_supported_devices():
    """Types of devices whose foreach functions are one kernel for many tensors."""
    return ["cuda", "xpu", "mtia"]


def _get_fused_kernels_supported_devices():
    """Types of devices with kernels for a whole step of an optimizer."""
    return ["cuda", "cpu"]


def _device_has_foreach_support(device):
    """True if foreach functions of the device are worth it."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """Sorts parallel lists by what stands in the first one.

    Args:
        tensorlistlist: lists of the same length; elements of all but the first may be None, and so may lists be empty.
        with_indices: also gives the places of the elements in the lists.

    Returns: {(device, dtype): (lists, indices)}, in the order of first occurrence; `indices` is empty unless
    `with_indices`. Raises: ValueError for lists of different lengths, RuntimeError for None in the first one.
    """
    if not tensorlistlist:
        return {}
    if len({len(tensors) for tensors in tensorlistlist if len(tensors)}) > 1:
        raise ValueError(f"the lists must have one length, got {[len(tensors) for tensors in tensorlistlist]}")
    places = {}
    for index, tensor in enumerate(tensorlistlist[0]):
        if not isinstance(tensor, tessera.Tensor):
            raise RuntimeError(f"the first list must hold tensors, got {type(tensor).__name__} at {index}")
        places.setdefault((tensor.device, tensor.dtype), []).append(index)
    return {
        key: (
            [[tensors[i] for i in indices] if tensors else [] for tensors in tensorlistlist],
            indices if with_indices else [],
        )
        for key, indices in places.items()
    }
