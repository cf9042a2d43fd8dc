"""Archives as `save` writes them, record by record, for programs that read or write parts of them."""

import tessera
from tessera import _C
from tessera.storage import bytes_view

__all__ = ["PyTorchFileReader", "PyTorchFileWriter"]


class PyTorchFileReader:
    """The records of an archive.

    Args:
        name_or_buffer: path, or a file open for reading, which must stay open.

    Raises: RuntimeError for what is not an archive, and for the name of a record that is not in it.
    """

    def __init__(self, name_or_buffer):
        self._file = open(name_or_buffer, "rb") if isinstance(name_or_buffer, str) else name_or_buffer
        self._records = _C._ZipReader(self._file, -1)

    def get_all_records(self):
        """The names of all records, sorted."""
        return list(self._records.names())

    def has_record(self, name):
        """True if there is a record of that name."""
        return name in self._records

    def get_record(self, name):
        """The bytes of a record."""
        return self._records.read(name)

    def get_record_size(self, name):
        """How many bytes a record has."""
        return self._records.record_size(name)

    def get_record_offset(self, name):
        """Where in the file a record's bytes begin."""
        return self._records.record_offset(name)

    def get_storage_from_record(self, name, numel, dtype):
        """An empty tensor whose storage holds a record.

        Args:
            numel: number of elements; must fit the record's size.
            dtype: dtype, or a class of storages.
        """
        if not isinstance(dtype, tessera.dtype):
            dtype = getattr(dtype, "dtype", tessera.uint8)
        nbytes, found = numel * dtype.itemsize, self.get_record_size(name)
        if nbytes != found:
            raise RuntimeError(f"record {name} has {found} bytes, but {numel} elements of {dtype} have {nbytes}")
        storage = tessera.UntypedStorage(nbytes)
        if nbytes:
            self._records.read_into(name, bytes_view(storage))
        return tessera.empty(0, dtype=dtype).set_(storage, 0, (0,))

    def serialization_id(self):
        """A number made of names and contents of the records, as text; "" where the file has none."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""


class PyTorchFileWriter:
    """Writes an archive, record by record; `write_end_of_file` completes it.

    Args:
        file: path, or a file open for writing.
        compute_crc32: writes checksums of the records; without them other tools may refuse the file.
    """

    def __init__(self, file, compute_crc32=True):
        self._own = isinstance(file, str)
        self._file = open(file, "wb") if self._own else file
        name = file.replace("\\", "/").rpartition("/")[2].rpartition(".") if self._own else ("", "", "archive")
        self._name, self._names = name[0] or name[2], set()
        self._records = _C._ZipWriter(self._file, self._name, compute_crc32)

    def archive_name(self):
        """The folder of the records inside of the archive."""
        return self._name

    def get_all_written_records(self):
        """The set of names written so far."""
        return set(self._names)

    def write_record(self, name, data, size):
        """Writes the first `size` bytes of bytes, text, a buffer or a storage. Raises: RuntimeError for a name that was
        written already, ValueError if there are fewer bytes.
        """
        if name in self._names:
            raise RuntimeError(f"record {name} was written already")
        if isinstance(data, str):
            data = data.encode()
        elif isinstance(data, (tessera.UntypedStorage, tessera.TypedStorage)):
            data = bytes_view(data.untyped() if isinstance(data, tessera.TypedStorage) else data)
        view = memoryview(data).cast("B")
        if len(view) < size:
            raise ValueError(f"record {name}: {size} bytes are to be written, but there are {len(view)}")
        self._records.write_record(name, view[:size])
        self._names.add(name)

    def write_end_of_file(self):
        """Completes the archive, and closes the file if it was given by its path."""
        for name, data in (("byteorder", "little"), ("version", "3\n")):
            if name not in self._names:
                self.write_record(name, data, len(data))
        self._records.close()
        if self._own:
            self._file.close()
