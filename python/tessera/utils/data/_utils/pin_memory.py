"""Copies batches to page-locked memory, which makes copies to a GPU asynchronous."""

import collections.abc

import tessera
from tessera.utils.data._utils.collate import _is_namedtuple, _rebuild_mapping, _rebuild_sequence


def check_pinning_device(device):
    """The name of a device that pinned memory is for; "" and None: the accelerator. Raises: ValueError for another kind
    than cuda.
    """
    if device and tessera.device(device).type != "cuda":
        raise ValueError(f"memory is pinned for cuda devices only, but got {device!r}")
    return device


def pin_memory(data, device=None):
    """`data` with every tensor pinned; objects with a `pin_memory` method use it. Raises: ValueError for another
    `device` than one of cuda.
    """
    check_pinning_device(device)
    return _pinned(data)


def _pinned(data):
    if isinstance(data, tessera.Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _rebuild_mapping(data, {key: _pinned(value) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*(_pinned(value) for value in data))
    if isinstance(data, tuple):
        return [_pinned(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return _rebuild_sequence(data, [_pinned(value) for value in data])
    return data
