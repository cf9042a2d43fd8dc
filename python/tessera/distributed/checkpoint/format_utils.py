"""Checkpoints of folders from files of `tessera.save`, and the other way round.

As a program: `python -m tessera.distributed.checkpoint.format_utils MODE FROM TO`, where MODE is torch_to_dcp or
dcp_to_torch.
"""

import argparse
import os
from enum import Enum

import tessera
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.checkpoint._nested_dict import flatten_state_dict
from tessera.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from tessera.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, _completed, _deliver
from tessera.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from tessera.distributed.checkpoint.planner import LoadItemType, _bytes_of
from tessera.distributed.checkpoint.state_dict_loader import _load_state_dict
from tessera.distributed.checkpoint.state_dict_saver import _save_state_dict
from tessera.distributed.checkpoint.storage import StorageReader

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp", "BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner"]


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `tessera.save`: one process reads, and sends the others what they need. To be used with
    DynamicMetaLoadPlanner. The file is unpickled: it has to come from someone whom you trust.

    Args:
        checkpoint_id: the file.
        coordinator_rank: the process that reads.
    """

    def __init__(self, checkpoint_id=None, coordinator_rank=0):
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def read_metadata(self):
        """Empty Metadata: the planner makes its own from the state dict."""
        return Metadata(state_dict_metadata={})

    def set_up_storage_reader(self, metadata, is_coordinator):
        """Raises: AssertionError without a file."""
        self.is_coordinator = is_coordinator
        assert self.checkpoint_id is not None, "BroadcastingTorchSaveReader needs the path of a file"

    def prepare_local_plan(self, plan):
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, global_plan):
        """The plans as they are."""
        return global_plan

    def read_data(self, plan, planner):
        """Reads the items of a plan; all processes have the same names in theirs. Returns: a Future of None."""
        flat = {}
        alone = not c10d.is_initialized()
        if self.is_coordinator:
            flat, _ = flatten_state_dict(tessera.load(self.checkpoint_id, map_location="cpu", weights_only=False))
        names = list(dict.fromkeys(item.storage_index.fqn for item in plan.items))
        for name in names if alone else self._all(names):
            box = [flat.get(name)]
            if not alone:
                c10d.broadcast_object_list(box, src=self.coordinator_rank)
            for item in (item for item in plan.items if item.storage_index.fqn == name):
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, _bytes_of(box[0]))
                else:
                    _deliver(item, box[0], planner)
        return _completed(None)

    def _all(self, names):
        found = [None] * c10d.get_world_size()
        c10d.all_gather_object(found, names)
        return list(dict.fromkeys(name for part in found for name in part))

    def reset(self, checkpoint_id=None):
        """Another file."""
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True for a file that is there."""
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """A DefaultLoadPlanner for checkpoints without Metadata, which it makes from the state dict."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Takes the state dict, and the sizes of its tensors for those of the checkpoint."""
        super().set_up_planner(state_dict, metadata, is_coordinator)
        found = {}
        for name, value in self.state_dict.items():
            if isinstance(value, tessera.Tensor):
                size = tessera.Size(value.shape)
                chunk = ChunkStorageMetadata(tessera.Size([0] * len(size)), size)
                found[name] = TensorStorageMetadata(TensorProperties(dtype=value.dtype), size, [chunk])
            else:
                found[name] = BytesStorageMetadata()
        self.metadata = Metadata(state_dict_metadata=found)


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Makes one file of `tessera.save` of a checkpoint. To be called in one process.

    Args:
        dcp_checkpoint_dir: the checkpoint's folder.
        torch_save_path: the file.
    """
    state = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load_state_dict(state, reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    tessera.save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Makes a checkpoint of a file of `tessera.save`, which is unpickled. To be called in one process.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the checkpoint's folder.
    """
    state = tessera.load(torch_save_path, map_location="cpu", weights_only=False)
    _save_state_dict(state, FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


class FormatMode(Enum):
    """Ways of `main`."""

    TORCH_TO_DCP = "torch_to_dcp"
    DCP_TO_TORCH = "dcp_to_torch"


def main(args=None):
    """The program. Returns: None. Raises: SystemExit for what is not there."""
    parser = argparse.ArgumentParser(description="Turns checkpoint folders into files, and files into folders.")
    parser.add_argument("mode", choices=[mode.value for mode in FormatMode])
    parser.add_argument("src", help="the file or folder that is there")
    parser.add_argument("dst", help="the folder or file to be made")
    given = parser.parse_args(args)
    to_folder = given.mode == FormatMode.TORCH_TO_DCP.value
    if not (os.path.isfile if to_folder else os.path.isdir)(given.src):
        parser.error(f"there is no {'file' if to_folder else 'folder'} {given.src}")
    (torch_save_to_dcp if to_folder else dcp_to_torch_save)(given.src, given.dst)


if __name__ == "__main__":
    main()
