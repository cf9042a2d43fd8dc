"""Who writes and reads what: plans, and what makes them."""

import abc
import io
import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Optional

import tessera
from tessera.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """What is written: a whole tensor, a piece of one, or bytes."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read: numbers of a tensor, or bytes."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """Bytes to be written; their number is a guess."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A piece of a tensor of `size` to be written."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: tessera.Size


@dataclass(frozen=True)
class WriteItem:
    """One thing to be written."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: Optional[BytesIOWriteData] = None
    tensor_data: Optional[TensorWriteData] = None

    def tensor_storage_size(self):
        """Bytes of the tensor's piece; None for what is no tensor."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.chunk.sizes) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """One thing to be read: `lengths` numbers from `storage_offsets` of a piece in the checkpoint to `dest_offsets` of
    a piece of the state dict.
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: tessera.Size
    storage_index: MetadataIndex
    storage_offsets: tessera.Size
    lengths: tessera.Size


@dataclass(frozen=True)
class SavePlan:
    """What a process writes. `storage_data` and `planner_data` belong to the storage and to the planner; `usable` is
    False for a plan that stands for an earlier, equal one.
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What a process reads. `storage_data` and `planner_data` belong to the storage and to the planner."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what is written. The methods are called in this order: `set_up_planner` and `create_local_plan` in every
    process, `create_global_plan` in the coordinator, `finish_plan` and `resolve_data` in every process.
    """

    _cached_save_plan: dict[str, SavePlan] = {}

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Takes the state dict. `storage_meta`: StorageMeta; `is_coordinator`: whether this process makes the global
        plan.
        """

    @abc.abstractmethod
    def create_local_plan(self):
        """The SavePlan of this process."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans):
        """(final plans, Metadata) from those of all processes."""

    @abc.abstractmethod
    def finish_plan(self, new_plan):
        """The plan that this process follows, from the one that the coordinator has sent."""

    @abc.abstractmethod
    def resolve_data(self, write_item):
        """What is written for an item: a tensor or a BytesIO. May be called from several threads."""


class LoadPlanner(abc.ABC):
    """Decides what is read, and where it goes. The methods are called in this order: `set_up_planner` and
    `create_local_plan` in every process, `create_global_plan` in the coordinator, `finish_plan`, then `load_bytes`, or
    `resolve_tensor` and `commit_tensor`, for each item in every process.
    """

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Takes the state dict that is filled, and the checkpoint's Metadata."""

    @abc.abstractmethod
    def create_local_plan(self):
        """The LoadPlan of this process."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan):
        """Final plans from those of all processes."""

    @abc.abstractmethod
    def finish_plan(self, central_plan):
        """The plan that this process follows, from the one that the coordinator has sent."""

    @abc.abstractmethod
    def load_bytes(self, read_item, value):
        """Takes the bytes (BytesIO) of an item."""

    def resolve_bytes(self, read_item):
        """The BytesIO into which the bytes of an item are to be read."""
        raise NotImplementedError(f"{type(self).__name__} has no place for bytes: LoadPlanner.resolve_bytes")

    @abc.abstractmethod
    def resolve_tensor(self, read_item):
        """The tensor into which the numbers of an item are copied."""

    @abc.abstractmethod
    def commit_tensor(self, read_item, tensor):
        """Called when the numbers of an item are in that tensor."""


def _bytes_of(value):
    stream = io.BytesIO()
    tessera.save(value, stream)
    stream.seek(0)
    return stream
