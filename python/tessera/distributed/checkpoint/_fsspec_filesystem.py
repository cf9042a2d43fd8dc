"""Checkpoints where the package fsspec reaches: object stores, other machines, archives, memory."""

from contextlib import contextmanager
from pathlib import PurePath

from tessera.distributed.checkpoint import filesystem as plain

__all__ = ["FsspecReader", "FsspecWriter"]


def _fsspec():
    try:
        from fsspec import core
    except ImportError:
        raise ImportError("checkpoints at URLs are read and written by fsspec: pip install fsspec") from None
    return core


class FileSystem(plain.FileSystemBase):
    """A file system of fsspec, `fs` once `init_path` has said which. Paths are URLs, or what follows their protocol."""

    def __init__(self):
        self.fs = self._url = self._place = None

    def init_path(self, path, **kwargs):
        """Takes the file system that a URL names, with options of it; the URL. Raises: ValueError for a protocol that
        fsspec does not know, ImportError for one whose package is missing.
        """
        self._url = str(path)
        self.fs, self._place = _fsspec().url_to_fs(self._url, **kwargs)
        return path

    def _inside(self, path):
        # Of chains ("simplecache::s3://..."), only fsspec.core knows which part is the place.
        path = str(path)
        if path.startswith(self._url):
            return self._place + path[len(self._url) :]
        return self.fs._strip_protocol(path)

    @contextmanager
    def create_stream(self, path, mode):
        """Context manager: a binary stream of a file."""
        with self.fs.open(self._inside(path), mode) as stream:
            yield stream

    def concat_path(self, path, suffix):
        """The path of `suffix` in a folder."""
        return f"{str(path).rstrip('/')}/{suffix}"

    def rename(self, path, new_path):
        """Gives a file another name: where the storage knows no names, by a copy."""
        self.fs.mv(self._inside(path), self._inside(new_path))

    def mkdir(self, path):
        """Makes a folder, with those that it is in, where the storage has folders."""
        self.fs.makedirs(self._inside(path), exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True for a string with a protocol that fsspec knows, or with none. Raises: ImportError if that protocol's
        package is missing.
        """
        if isinstance(checkpoint_id, PurePath):
            return False
        try:
            _fsspec().url_to_fs(str(checkpoint_id))
        except ValueError:
            return False
        return True

    def _fresh(self):
        self.fs.invalidate_cache()  # other processes write, too
        return self.fs

    def exists(self, path):
        """True for what is there."""
        return self._fresh().exists(self._inside(path))

    def rm_file(self, path):
        """Removes a file."""
        self.fs.rm(self._inside(path))

    def ls(self, path):
        """The paths of what is in a folder."""
        return self._fresh().ls(self._inside(path), detail=False)


class _AtUrl:
    _file_system: type[plain.FileSystemBase] = FileSystem

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """True for what fsspec can open: FileSystem.validate_checkpoint_id."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FsspecWriter(_AtUrl, plain.FileSystemWriter):
    """Writes a checkpoint to a folder of any file system of the package fsspec.

    Args:
        path: a URL, "s3://bucket/run/7"; or a path of this machine.
        single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead, overwrite, _extensions,
            serialization_format: as FileSystemWriter.
        **kwargs: options of the file system (`key=...`, `anon=True`).

    Raises: ImportError without fsspec, or without what it needs for the protocol; ValueError for an unknown protocol.
    """

    def __init__(
        self,
        path,
        single_file_per_rank=True,
        sync_files=True,
        thread_count=1,
        per_thread_copy_ahead=10_000_000,
        overwrite=True,
        _extensions=None,
        serialization_format=plain.SerializationFormat.TORCH_SAVE,
        **kwargs,
    ):
        self._options = kwargs
        super().__init__(
            path,
            single_file_per_rank,
            sync_files,
            thread_count,
            per_thread_copy_ahead,
            overwrite=overwrite,
            _extensions=_extensions,
            serialization_format=serialization_format,
        )


class FsspecReader(_AtUrl, plain.FileSystemReader):
    """Reads a checkpoint from a folder of any file system of the package fsspec; see FileSystemReader.

    Args:
        path: a URL, "s3://bucket/run/7"; or a path of this machine.
        **kwargs: options of the file system (`key=...`, `anon=True`).

    Raises: as FsspecWriter.
    """

    def __init__(self, path, **kwargs):
        self._options = kwargs
        super().__init__(path)
