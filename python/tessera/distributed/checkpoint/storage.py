"""Where checkpoints lie: what a storage has to do."""

import abc
from dataclasses import dataclass
from typing import Any

from tessera.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """What was written for an item, of how many bytes, and what the storage keeps about it."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes a checkpoint. The methods are called in this order: `reset`, `set_up_storage_writer` and
    `prepare_local_plan` in every process, `prepare_global_plan` in the coordinator, `write_data` in every process,
    `finish` in the coordinator.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Another checkpoint begins. `checkpoint_id`: its name (of files a folder), None: that of before."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Gets ready. `is_coordinator`: whether this process finishes the checkpoint."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The SavePlan of this process, with what the storage adds to it."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The SavePlans of all processes, with what the storage adds to them."""

    @abc.abstractmethod
    def write_data(self, plan, planner):
        """Writes what a SavePlan says, with what `planner.resolve_data` gives for its items.

        Returns: a Future of a list of WriteResult.
        """

    @abc.abstractmethod
    def finish(self, metadata, results):
        """Writes the Metadata; `results`: those of all processes. The checkpoint is valid from now on."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True if a storage of this class can have a checkpoint of that name."""

    def storage_meta(self):
        """StorageMeta of this act of saving; None if there is nothing to say."""
        return None


class StorageReader(abc.ABC):
    """Reads a checkpoint. The methods are called in this order: `reset`, `read_metadata`, `set_up_storage_reader` and
    `prepare_local_plan` in every process, `prepare_global_plan` in the coordinator, `read_data` in every process.
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Another checkpoint begins. `checkpoint_id`: its name (of files a folder), None: that of before."""

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs):
        """The Metadata of the checkpoint."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Gets ready, with the checkpoint's Metadata."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """The LoadPlan of this process, with what the storage adds to it."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """The LoadPlans of all processes, with what the storage adds to them."""

    @abc.abstractmethod
    def read_data(self, plan, planner):
        """Reads what a LoadPlan says and gives it to the planner. Returns: a Future of None."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True if a storage of this class can have a checkpoint of that name."""
