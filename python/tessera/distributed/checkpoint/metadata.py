"""What a checkpoint says about itself: which tensors, in which pieces, where."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional, Union

import tessera
from tessera.distributed.checkpoint.stateful import StatefulT

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]

STATE_DICT_TYPE = dict[str, Union[StatefulT, Any]]


@dataclass
class ChunkStorageMetadata:
    """A piece of a tensor: where it begins and how long it is in each dimension."""

    offsets: tessera.Size
    sizes: tessera.Size


class _MEM_FORMAT_ENCODING(Enum):
    """Memory formats in files."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = (tessera.contiguous_format, tessera.channels_last, tessera.preserve_format)


@dataclass
class TensorProperties:
    """What a tensor is made with."""

    dtype: tessera.dtype = field(default_factory=tessera.get_default_dtype)
    layout: tessera.layout = field(default=tessera.strided)
    requires_grad: bool = False
    memory_format: tessera.memory_format = field(default=tessera.contiguous_format)
    pin_memory: bool = False

    def __getstate__(self):
        if self.memory_format not in _FORMATS:
            raise RuntimeError(f"a checkpoint cannot hold the memory format {self.memory_format}")
        code = _MEM_FORMAT_ENCODING(_FORMATS.index(self.memory_format))
        return (self.dtype, self.layout, self.requires_grad, code, self.pin_memory)

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state[:5]
        self.memory_format = _FORMATS[code.value]

    @staticmethod
    def create_from_tensor(tensor):
        """Those of a tensor."""
        pinned = tessera.cuda.is_available() and tensor.device.type == "cpu" and tensor.is_pinned()
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, tessera.contiguous_format, pinned)


@dataclass
class TensorStorageMetadata:
    """A tensor: what it is made with, its whole size, and its pieces."""

    properties: TensorProperties
    size: tessera.Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value that is no tensor, and is pickled."""


STORAGE_TYPES = Union[TensorStorageMetadata, BytesStorageMetadata]


@dataclass
class StorageMeta:
    """Of one act of saving or loading: names of the checkpoint and of the act."""

    checkpoint_id: Optional[Union[str, os.PathLike]] = None
    save_id: Optional[str] = None
    load_id: Optional[str] = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """A checkpoint.

    Args:
        state_dict_metadata: {name: TensorStorageMetadata or BytesStorageMetadata}; names of nested values are joined
            by dots.
        planner_data: what the save planner keeps: the default one {name: path in the nested state dict}.
        storage_data: what the storage keeps: of files {MetadataIndex: place}.
        storage_meta: StorageMeta.
        version: of the format.
    """

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: Optional[StorageMeta] = None
    version: Optional[str] = None


@dataclass(frozen=True, init=False)
class MetadataIndex:
    """The name of a value, or of one piece of a tensor.

    Args:
        fqn: name in the flat state dict.
        offset: where the piece begins.
        index: a hint: its place in the list of pieces. Not compared.
    """

    fqn: str
    offset: Optional[tessera.Size] = None
    index: Optional[int] = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Optional[Sequence[int]] = None, index: Optional[int] = None):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else tessera.Size(offset))
        object.__setattr__(self, "index", index)
