"""Checkpoints in files of the safetensors format, as the Hugging Face libraries read and write them: tensors only."""

import dataclasses
import os

import tessera
from tessera.distributed.checkpoint import _hf_utils as hf
from tessera.distributed.checkpoint._hf_utils import _HFStorageInfo
from tessera.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
    SerializationFormat,
    _completed,
    _in_threads,
)
from tessera.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors into `model-00001-of-0000N.safetensors` and `model.safetensors.index.json`.

    Args:
        path: the folder.
        fqn_to_index_mapping: {name: number of the file, from 1 on}; None: one file.
        thread_count: threads that write.
        save_distributed: each process writes its pieces, into `shard-RANK-model-...` files; else the tensors have to be
            whole.
        enable_consolidation: with `save_distributed`: the pieces go to a folder "sharded", and files of whole tensors
            are made of them at the end.
        thread_count_consolidation: threads that make them.
    """

    def __init__(
        self,
        path,
        fqn_to_index_mapping=None,
        thread_count=1,
        save_distributed=False,
        enable_consolidation=False,
        thread_count_consolidation=1,
    ):
        safetensors = SerializationFormat.SAFETENSORS
        super().__init__(path=path, sync_files=False, thread_count=thread_count, serialization_format=safetensors)
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.thread_count_consolidation = thread_count_consolidation
        self.consolidated_output_path = None
        self._consolidate(enable_consolidation)

    def _consolidate(self, wanted):
        if wanted:
            self.consolidated_output_path = self.path
            self.path = self.fs.concat_path(self.path, hf.SHARDED_DIR_NAME)

    def reset(self, checkpoint_id=None):
        """Another checkpoint begins, in the folder `checkpoint_id`; None: that of before."""
        super().reset(checkpoint_id)
        if checkpoint_id:
            self._consolidate(self.consolidated_output_path is not None)

    def prepare_global_plan(self, plans):
        """Gives each process its number."""
        more = {"fqn_to_index_mapping": self.fqn_to_index_mapping}
        return [
            dataclasses.replace(plan, storage_data={**more, "shard_index": at + 1 if self.save_distributed else None})
            for at, plan in enumerate(plans)
        ]

    def write_data(self, plan, planner):
        """Writes the files of this process. Returns: a Future of a list of WriteResult. Raises: ValueError for values
        that are no tensors.
        """
        mapping, shard = plan.storage_data["fqn_to_index_mapping"], plan.storage_data["shard_index"]
        last = max(mapping.values()) if mapping else 1
        files = {}
        for item in plan.items:
            index = mapping[item.index.fqn] if mapping else 1
            files.setdefault(hf._gen_file_name(index, last, shard), []).append(item)
        parts = _in_threads(self.thread_count, lambda job: self._write_file(*job, planner), list(files.items()))
        return _completed([one for part in parts for one in part])

    def finish(self, metadata, results):
        """Writes the index file, or the files of whole tensors."""
        if self.save_distributed and self.consolidated_output_path is None:
            return
        if self.save_distributed:
            from tessera.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files

            consolidate_safetensors_files(
                str(self.path),
                str(self.consolidated_output_path),
                self.fqn_to_index_mapping,
                self.thread_count_consolidation,
            )
            return
        found = [one for part in results for one in part]
        files = {one.index.fqn: one.storage_data.relative_path for one in found}
        hf.write_index(str(self.path), files, sum(one.size_in_bytes for one in found))

    @property
    def metadata_path(self):
        """The name of the index file."""
        return hf._INDEX


class HuggingFaceStorageReader(FileSystemReader):
    """Reads tensors from the safetensors files of a folder, whole ones and pieces.

    Args:
        path: the folder.
        thread_count: threads that read, a file each.
    """

    def __init__(self, path, thread_count=1):
        super().__init__(path=path)
        self.thread_count = thread_count

    def read_metadata(self):
        """Metadata made of the files' headers."""
        described, places = {}, {}
        for name, pieces in hf.pieces_in(str(self.path)).items():
            dtype = hf.DTYPE_MAP[pieces[0][1]["dtype"]]
            chunks = []
            for offsets, entry, path, _ in pieces:
                shape = tessera.Size(entry["shape"])
                chunks.append(ChunkStorageMetadata(tessera.Size(offsets), shape))
                places[MetadataIndex(name, offsets)] = _HFStorageInfo(os.path.basename(path), shape, dtype)
            size = tessera.Size(hf.whole_shape(pieces))
            described[name] = TensorStorageMetadata(TensorProperties(dtype=dtype), size, chunks)
        meta = StorageMeta(checkpoint_id=self.checkpoint_id, load_id=self.load_id)
        return Metadata(described, storage_data=places, storage_meta=meta)

    def read_data(self, plan, planner):
        """Reads the items of a plan, file by file. Returns: a Future of None."""
        files = {}
        for item in plan.items:
            files.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        _in_threads(self.thread_count, lambda job: self._read_tensors(*job, planner), list(files.items()))
        return _completed(None)

    def _read_tensors(self, name, items, planner):
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as stream:
            self._read_safetensors(stream, items, planner)
