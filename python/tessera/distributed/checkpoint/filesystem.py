"""Checkpoints in a folder: a file or more for each process, and `.metadata`, which is written last."""

import dataclasses
import io
import os
import pickle
import queue
import threading
import uuid
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Optional

import tessera
from tessera import serialization
from tessera.distributed.checkpoint import _hf_utils as hf
from tessera.distributed.checkpoint.metadata import StorageMeta
from tessera.distributed.checkpoint.planner import LoadItemType, WriteItemType
from tessera.distributed.checkpoint.staging import BlockingAsyncStager
from tessera.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from tessera.futures import Future

__all__ = [
    "FileSystem",
    "FileSystemBase",
    "FileSystemReader",
    "FileSystemWriter",
    "SerializationFormat",
]

_METADATA = ".metadata"
CURRENT_DCP_VERSION = "1.0.0"
DEFAULT_SUFFIX = ".distcp"


class SerializationFormat(Enum):
    """How tensors are written: as `tessera.save` does, or as safetensors."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclasses.dataclass
class _StorageInfo:
    """Where an item lies: in which file, from which byte on, how many."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Optional[list] = None

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if value is not None}


@dataclasses.dataclass
class _StoragePrefix:
    prefix: str


class FileSystemBase(ABC):
    """What readers and writers ask of a file system. Paths are strings or os.PathLike."""

    @contextmanager
    @abstractmethod
    def create_stream(self, path, mode):
        """Context manager: a binary stream of a file, opened as `open(path, mode)` does."""

    @abstractmethod
    def concat_path(self, path, suffix):
        """The path of `suffix` in a folder."""

    @abstractmethod
    def rename(self, path, new_path):
        """Gives a file another name, at once."""

    @abstractmethod
    def init_path(self, path):
        """A path as the file system wants it."""

    @abstractmethod
    def mkdir(self, path):
        """Makes a folder, with those that it is in."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True for a name that can be a path here."""

    @abstractmethod
    def exists(self, path):
        """True for what is there."""

    @abstractmethod
    def rm_file(self, path):
        """Removes a file."""


class FileSystem(FileSystemBase):
    """The file system of the machine."""

    @contextmanager
    def create_stream(self, path, mode):
        """Context manager: a binary stream of a file."""
        with open(path, mode) as stream:
            yield stream

    def concat_path(self, path, suffix):
        """The path of `suffix` in a folder."""
        return Path(path) / suffix

    def init_path(self, path):
        """A Path."""
        return Path(path)

    def rename(self, path, new_path):
        """Gives a file another name, at once; replaces what has it."""
        os.replace(path, new_path)

    def mkdir(self, path):
        """Makes a folder, with those that it is in; it may be there."""
        Path(path).mkdir(parents=True, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True for a path: os.PathLike, or a string that is no URL and whose folder, or the one above, can be made."""
        if isinstance(checkpoint_id, Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        path = Path(checkpoint_id)
        return any(parent.exists() and os.access(str(parent), os.W_OK) for parent in (path, *path.parents))

    def exists(self, path):
        """True for what is there."""
        return Path(path).exists()

    def rm_file(self, path):
        """Removes a file."""
        Path(path).unlink()

    def ls(self, path):
        """The paths of what is in a folder."""
        return sorted(str(entry) for entry in Path(path).iterdir())


def _nbytes(item):
    return item.tensor_storage_size() or 0


def _in_buckets(count, items):
    """The items in `count` lists of about the same number of bytes; what is no tensor comes first."""
    if count == 1:
        small = [i for i in items if i.type == WriteItemType.BYTE_IO]
        return [small + [i for i in items if i.type != WriteItemType.BYTE_IO]]
    buckets, sizes = [[] for _ in range(count)], [0] * count
    for at, item in enumerate(i for i in items if i.type == WriteItemType.BYTE_IO):
        buckets[at % count].append(item)
    for item in sorted((i for i in items if i.type != WriteItemType.BYTE_IO), key=_nbytes, reverse=True):
        least = sizes.index(min(sizes))
        buckets[least].append(item)
        sizes[least] += _nbytes(item)
    return buckets


def _on_host(tensor):
    """A tensor of its own memory on the host, without unused numbers around it."""
    tensor = tensor.detach().cpu()
    if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.itemsize or not tensor.is_contiguous():
        tensor = tensor.clone(memory_format=tessera.contiguous_format)
    return tensor


def _completed(value):
    future = Future()
    future.set_result(value)
    return future


def _in_threads(count, work, jobs):
    """`work(job)` for each job, in `count` threads. Raises: the first error of them."""
    if count <= 1 or len(jobs) <= 1:
        return [work(job) for job in jobs]
    waiting, done = queue.SimpleQueue(), [None] * len(jobs)
    errors = []
    for pair in enumerate(jobs):
        waiting.put(pair)

    def run():
        while not errors:
            try:
                at, job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done[at] = work(job)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(min(count, len(jobs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return done


def _to_disk(stream):
    """Brings what was written to a stream to the disk; all that is written, where the stream is of no file."""
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        os.sync()


class _InFolder:
    """What readers and writers of folders have in common: `path`, in any file system (`fs`, a FileSystemBase)."""

    _file_system: type[FileSystemBase] = FileSystem
    _options: dict = {}  # of the file system

    def __init__(self, path):
        super().__init__()
        self.fs = self._file_system()
        self.path = self.fs.init_path(path, **self._options)

    def reset(self, checkpoint_id=None):
        """Another checkpoint begins, in the folder `checkpoint_id`; None: that of before."""
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id, **self._options)

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True for a path of this machine."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class _FileSystemWriter(_InFolder, StorageWriter):
    """Writes to any file system."""

    save_distributed = True  # files of safetensors say of what their tensors are pieces

    def __init__(
        self,
        path,
        single_file_per_rank=True,
        sync_files=True,
        thread_count=1,
        per_thread_copy_ahead=10_000_000,
        overwrite=True,
        _extensions=None,
        serialization_format=SerializationFormat.TORCH_SAVE,
    ):
        if _extensions:
            raise NotImplementedError("stream extensions are not supported: _extensions has to be None")
        super().__init__(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count = thread_count
        self.overwrite, self.serialization_format = overwrite, serialization_format
        self.save_id = str(uuid.uuid4())
        self.rank, self.use_collectives = None, True

    def reset(self, checkpoint_id=None):
        """Another checkpoint begins, in the folder `checkpoint_id`; None: that of before."""
        super().reset(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Takes the rank (`rank`), and whether processes work together (`use_collectives`)."""
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)

    def _metadata_path(self):
        name = _METADATA if self.use_collectives else f"__{self.rank}{_METADATA}"
        return self.fs.concat_path(self.path, name)

    def prepare_local_plan(self, plan):
        """Makes the folder. Raises: RuntimeError for a checkpoint that is there, with `overwrite=False`."""
        self.fs.mkdir(self.path)
        if self.fs.exists(self._metadata_path()):
            if not self.overwrite:
                raise RuntimeError(f"there is a checkpoint in {self.path} already, and overwrite=False")
            warnings.warn(f"Detected an existing checkpoint in {self.path}, overwriting it", stacklevel=2)
        if not self.use_collectives:
            return dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{self.rank}_"))
        return plan

    def prepare_global_plan(self, plans):
        """Gives each process the beginning of its files' names."""
        return [
            dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{at}_")) if plan.storage_data is None else plan
            for at, plan in enumerate(plans)
        ]

    def write_data(self, plan, planner):
        """Writes the files of this process. Returns: a Future of a list of WriteResult."""
        prefix = plan.storage_data.prefix
        if self.single_file_per_rank:
            buckets = _in_buckets(self.thread_count, plan.items)
        else:
            buckets = [[item] for item in plan.items]
        jobs = [(f"{prefix}{at}{DEFAULT_SUFFIX}", items) for at, items in enumerate(b for b in buckets if b)]
        write = lambda job: self._write_file(*job, planner)
        return _completed([one for part in _in_threads(self.thread_count, write, jobs) for one in part])

    def _write_file(self, name, items, planner):
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as stream:
            if self.serialization_format == SerializationFormat.SAFETENSORS:
                results = self._write_safetensors(name, items, planner, stream)
            else:
                results = [self._write_item(name, item, planner.resolve_data(item), stream) for item in items]
            if self.sync_files:
                _to_disk(stream)
        return results

    def _write_item(self, name, item, data, stream):
        start = stream.tell()
        if item.type == WriteItemType.BYTE_IO:
            stream.write(data.getbuffer())
        else:
            buffer = io.BytesIO()
            tessera.save(_on_host(data), buffer)
            stream.write(buffer.getbuffer())
        length = stream.tell() - start
        return WriteResult(item.index, length, _StorageInfo(name, start, length))

    def _write_safetensors(self, name, items, planner, stream):
        for item in items:
            if item.type == WriteItemType.BYTE_IO:
                raise ValueError(f"'{item.index.fqn}' is no tensor: safetensors can hold nothing else")
        tensors = {item.index.fqn: _on_host(planner.resolve_data(item)) for item in items}
        if len(tensors) < len(items):
            raise ValueError(f"{name} is to hold several pieces of one tensor, which safetensors cannot")
        offsets = {item.index.fqn: list(item.index.offset or ()) for item in items} if self.save_distributed else None
        hf.write_safetensors(stream, tensors, offsets)
        return [WriteResult(i.index, _nbytes(i), _StorageInfo(name, 0, _nbytes(i))) for i in items]

    def finish(self, metadata, results):
        """Writes `.metadata`, under another name first, so that it is there as a whole or not at all."""
        metadata = dataclasses.replace(metadata, version=CURRENT_DCP_VERSION)
        metadata.storage_data = {one.index: one.storage_data for part in results for one in part}
        metadata.storage_meta = self.storage_meta()
        target = self._metadata_path()
        temporary = self.fs.concat_path(self.path, f"{os.path.basename(str(target))}.tmp")
        with self.fs.create_stream(temporary, "wb") as stream:
            stream.write(serialization._pickle(metadata, pickle, 4, lambda value: None))
            if self.sync_files:
                _to_disk(stream)
        self.fs.rename(temporary, target)
        self.metadata = metadata

    def storage_meta(self):
        """StorageMeta with the folder and a number of this act of saving."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)


class FileSystemWriter(_FileSystemWriter, BlockingAsyncStager):
    """Writes a checkpoint into a folder: `__RANK_N.distcp` of each process, then `.metadata`.

    Args:
        path: the folder; it is made if need be.
        single_file_per_rank: False: a file for each tensor and each value.
        sync_files: files are on the disk when saving has ended.
        thread_count: threads that write, and with `single_file_per_rank` as many files.
        per_thread_copy_ahead: accepted for programs that tune copies from devices: a tensor is copied when its turn
            comes.
        cache_staged_state_dict: `async_save` keeps its copy of the state dict, and writes into it the next time.
        overwrite: False: RuntimeError if there is a checkpoint.
        _extensions: None.
        serialization_format: SerializationFormat.
    """

    def __init__(
        self,
        path,
        single_file_per_rank=True,
        sync_files=True,
        thread_count=1,
        per_thread_copy_ahead=10_000_000,
        cache_staged_state_dict=False,
        overwrite=True,
        _extensions=None,
        serialization_format=SerializationFormat.TORCH_SAVE,
    ):
        options = dict(locals())
        for name in ("self", "__class__", "cache_staged_state_dict"):
            options.pop(name, None)
        _FileSystemWriter.__init__(self, **options)
        BlockingAsyncStager.__init__(self, cache_staged_state_dict=cache_staged_state_dict)

    def stage(self, state_dict):
        """A copy of a state dict in host memory."""
        return super().stage(state_dict)


class FileSystemReader(_InFolder, StorageReader):
    """Reads a checkpoint from a folder. `.metadata` and values that are no tensors are unpickled: they have to come
    from someone whom you trust.

    Args:
        path: the folder.
        _extension_registry: None.
    """

    def __init__(self, path, _extension_registry=None):
        if _extension_registry is not None:
            raise NotImplementedError("stream extensions are not supported: _extension_registry has to be None")
        super().__init__(path)
        self.storage_data, self.load_id = {}, str(uuid.uuid4())

    def reset(self, checkpoint_id=None):
        """Another checkpoint begins, in the folder `checkpoint_id`; None: that of before."""
        super().reset(checkpoint_id)
        self.storage_data = {}
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args, **kwargs):
        """The Metadata of the checkpoint; with `rank`, of a checkpoint that was saved without collectives, that of this
        rank. Raises: FileNotFoundError if there is none.
        """
        path = self.fs.concat_path(self.path, _METADATA)
        own = self.fs.concat_path(self.path, f"__{kwargs.get('rank')}{_METADATA}")
        path = own if self.fs.exists(own) and not self.fs.exists(path) else path
        with self.fs.create_stream(path, "rb") as stream:
            data = stream.read()
        metadata = serialization._make_unpickler(pickle.Unpickler, None)(io.BytesIO(data)).load()
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Takes the places of items."""
        self.storage_data = metadata.storage_data
        assert self.storage_data is not None, "the checkpoint's metadata do not say where its items lie"

    def prepare_local_plan(self, plan):
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans):
        """The plans as they are."""
        return plans

    def _read_tensor(self, data):
        return tessera.load(io.BytesIO(data), map_location="cpu", weights_only=True)

    def read_data(self, plan, planner):
        """Reads the items of a plan, file by file. Returns: a Future of None."""
        files = {}
        for item in plan.items:
            files.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        for name, items in files.items():
            self._read_file(name, items, planner)
        return _completed(None)

    def _read_safetensors(self, stream, items, planner):
        header, _, start = hf.read_header(stream)
        for item in items:
            name = item.storage_index.fqn
            _deliver(item, self._numbers(name, stream, header[name], start), planner)

    def _numbers(self, name, stream, entry, start):
        return hf.read_tensor(stream, entry, start)

    def _read_file(self, name, items, planner):
        last = None
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as stream:
            if stream.read(9)[8:] == b"{":  # safetensors: a length, and JSON
                stream.seek(0)
                self._read_safetensors(stream, items, planner)
                return
            for item in sorted(items, key=lambda item: self.storage_data[item.storage_index].offset):
                place = self.storage_data[item.storage_index]
                if last is None or last[0] != item.storage_index:
                    stream.seek(place.offset)
                    data = stream.read(place.length)
                    loaded = self._read_tensor(data) if item.type == LoadItemType.TENSOR else data
                    last = (item.storage_index, loaded)
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(last[1]))
                else:
                    _deliver(item, last[1], planner)


def _deliver(item, tensor, planner):
    """Copies what an item wants of a saved piece to where it belongs."""
    for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths)):
        tensor = tensor.narrow(dim, start, length)
    target = planner.resolve_tensor(item).detach()
    if target.size() != tensor.size():
        raise AssertionError(f"{item.storage_index}: {tensor.size()} was read for a place of {target.size()}")
    target.copy_(tensor)
    planner.commit_tensor(item, target)
