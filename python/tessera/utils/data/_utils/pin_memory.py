"""Copies batches to page-locked memory, which makes copies to a GPU asynchronous."""

import collections.abc

import tessera
from tessera.utils.data._utils.collate import _is_namedtuple, _rebuild_mapping, _rebuild_sequence


def pin_memory(data, device=None):
    """`data` with every tensor pinned; objects with a `pin_memory` method use it."""
    if isinstance(data, tessera.Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, collections.abc.Mapping):
        return _rebuild_mapping(data, {key: pin_memory(value, device) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, tuple):
        return [pin_memory(value, device) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return _rebuild_sequence(data, [pin_memory(value, device) for value in data])
    return data
