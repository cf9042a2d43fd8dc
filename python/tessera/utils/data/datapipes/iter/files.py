"""Steps that find, open, read and decode files."""

import os

from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import IterDataPipe
from tessera.utils.data.datapipes.utils.common import StreamWrapper, file_paths
from tessera.utils.data.datapipes.utils.decoder import Decoder, extension_extract_fn

__all__ = [
    "FileListerIterDataPipe",
    "FileOpenerIterDataPipe",
    "RoutedDecoderIterDataPipe",
    "StreamReaderIterDataPipe",
]


class _OfLength(IterDataPipe):
    """A pipe that does not know its length unless it is told."""

    def __len__(self):
        if self.length < 0:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_OfLength):
    """Paths of the files in folders (functional: `list_files`).

    Args:
        root: a folder, a list of them, or a pipe of them.
        masks: patterns such as "*.png" that names have to match, one or a list; by default all do.
        recursive: go into folders of folders.
        abspath: give absolute paths.
        non_deterministic: as the system lists them, without sorting.
        length: what len() says; -1 for TypeError.
    """

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False, non_deterministic=False, length=-1):
        self.datapipe = (
            root if isinstance(root, IterDataPipe) else [root] if isinstance(root, (str, os.PathLike)) else root
        )
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self):
        for folder in self.datapipe:
            yield from file_paths(folder, self.masks, self.recursive, self.abspath, self.non_deterministic)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(_OfLength):
    """(path, open file) of each path (functional: `open_files`); files are closed with their last reference.

    Args:
        datapipe: of paths.
        mode: "r", "rb", "rt", "b" or "t": as of open(), for reading.
        encoding: of text.
        length: what len() says; -1 for TypeError.

    Raises: ValueError for another mode, and for an encoding of bytes.
    """

    def __init__(self, datapipe, mode="r", encoding=None, length=-1):
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}: expected one of b, t, rb, rt, r")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self):
        mode = self.mode if self.mode.startswith("r") else "r" + self.mode
        for path in self.datapipe:
            yield path, StreamWrapper(open(path, mode, encoding=self.encoding), name=path)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(name, bytes) of each (name, open file), in pieces of `chunk` bytes, by default whole."""

    def __init__(self, datapipe, chunk=None):
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self):
        for name, stream in self.datapipe:
            while data := stream.read(-1 if self.chunk is None else self.chunk):
                yield name, data
            stream.close()


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe):
    """(name, data) with the data decoded by the first handler that knows them (functional: `routed_decode`).

    Args:
        datapipe: of (name, open file or bytes).
        handlers: (key, data) -> object, or None if the data are not its.
        key_fn: name -> key; by default the extension.
    """

    def __init__(self, datapipe, *handlers, key_fn=extension_extract_fn):
        self.datapipe, self.decoder = datapipe, Decoder(*handlers, key_fn=key_fn)

    def add_handler(self, *handler):
        """Adds handlers, which are asked after those that are there."""
        self.decoder.add_handler(*handler)

    def __iter__(self):
        for sample in self.datapipe:
            yield self.decoder(sample)

    def __len__(self):
        return len(self.datapipe)
