"""The subset of the zip format that checkpoints use, and nothing that trusts its input.

Writing: stored (not compressed) records whose data begins at a multiple of 64 bytes, padded with an extra field 'FB', sizes in a data
descriptor behind the data, zip64 where needed. Reading: any archive with stored or deflated records. See APPNOTE.TXT of PKWARE,
sections 4.3 and 4.5.3.
"""

import struct
import zlib

from tessera._C import _crc32

ALIGNMENT = 64
_LOCAL = struct.Struct("<IHHHHHIIIHH")
_CENTRAL = struct.Struct("<IHHHHHHIIIHHHHHII")
_END = struct.Struct("<IHHHHIIH")
_END64 = struct.Struct("<IQHHIIQQQQ")
_LOCATOR64 = struct.Struct("<IIQI")
_FLAGS = 0x0808  # names are UTF-8; sizes stand in the data descriptor
_LIMIT32 = 0xFFFFFFFF
_MAX_DEFLATE_RATIO = 1040  # deflate can't do better than 1032 : 1

_ERROR = ("PytorchStreamReader failed reading zip archive: {}. This is an internal miniz error. If you are seeing this error, there is a "
          "high likelihood that your checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, was "
          "transferred incorrectly, or the file was modified after saving.")


class ZipWriter:
    """Writes records one after the other into a file object that need not be seekable."""

    def __init__(self, file):
        self._file = file
        self._position = 0
        self._directory = []

    def _write(self, data):
        self._file.write(data)
        self._position += len(data)

    def write_record(self, name, data):
        """Appends the record `name` with the bytes of `data` (anything with the buffer protocol)."""
        data = memoryview(data).cast("B") if not isinstance(data, bytes) else data
        raw_name = name.encode()
        size, offset = len(data), self._position
        crc = _crc32(data)
        wide = size >= _LIMIT32
        extra = struct.pack("<HHQQ", 1, 16, size, size) if wide else b""
        start = offset + _LOCAL.size + len(raw_name) + len(extra) + 4
        padding = -start % ALIGNMENT
        extra += b"FB" + struct.pack("<H", padding) + b"Z" * padding
        shown = _LIMIT32 if wide else 0
        self._write(_LOCAL.pack(0x04034B50, 45 if wide else 0, _FLAGS, 0, 0, 0, 0, shown, shown, len(raw_name), len(extra)) + raw_name + extra)
        self._write(data)
        self._write(struct.pack("<IIQQ" if wide else "<IIII", 0x08074B50, crc, size, size))
        self._directory.append((raw_name, crc, size, offset))

    def close(self):
        """Writes the central directory. The file stays open."""
        start = self._position
        for raw_name, crc, size, offset in self._directory:
            wide = [value for value in (size, size, offset) if value >= _LIMIT32]
            extra = struct.pack(f"<HH{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
            self._write(_CENTRAL.pack(0x02014B50, 45 if wide else 0, 45 if wide else 0, _FLAGS, 0, 0, 0, crc, min(size, _LIMIT32),
                                      min(size, _LIMIT32), len(raw_name), len(extra), 0, 0, 0, 0, min(offset, _LIMIT32)) + raw_name + extra)
        length, count = self._position - start, len(self._directory)
        end64 = self._position
        self._write(_END64.pack(0x06064B50, 44, 0x031E, 45, 0, 0, count, count, length, start))
        self._write(_LOCATOR64.pack(0x07064B50, 0, end64, 1))
        count16 = min(count, 0xFFFF)
        self._write(_END.pack(0x06054B50, 0, 0, count16, count16, min(length, _LIMIT32), min(start, _LIMIT32), 0))


def _error(reason):
    return RuntimeError(_ERROR.format(reason))


def _wide_fields(extra, values):
    """Replaces fields that are all ones by those of the zip64 extra field."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        if kind == 1:
            field = extra[position + 4:position + 4 + length]
            for i, value in enumerate(values):
                if value == _LIMIT32:
                    if len(field) < 8:
                        raise _error("invalid header or archive is corrupted")
                    values[i] = int.from_bytes(field[:8], "little")
                    field = field[8:]
            return values
        position += 4 + length
    return values


class ZipReader:
    """Random access to the records of an archive in a seekable file object.

    Every offset and size is checked against the file; records may not overlap, so the archive can't ask for more memory than
    its own length (times the ratio of deflate).

    Raises: RuntimeError for anything that is not a sound archive.
    """

    def __init__(self, file):
        self._file = file
        self._base = file.tell()
        self._size = file.seek(0, 2) - self._base
        self._records = {}
        self.archive_name = None
        try:
            self._read_directory()
        except (struct.error, UnicodeDecodeError):
            raise _error("invalid header or archive is corrupted") from None

    def _read_at(self, position, length):
        if position < 0 or length < 0 or position + length > self._size:
            raise _error("file read failed")
        self._file.seek(self._base + position)
        data = self._file.read(length)
        if len(data) != length:
            raise _error("file read failed")
        return data

    def _find_end(self):
        tail_size = min(self._size, _END.size + 0xFFFF)
        tail = self._read_at(self._size - tail_size, tail_size)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + _END.size > len(tail):
            raise _error("failed finding central directory")
        _, _, _, _, count, length, start, _ = _END.unpack_from(tail, at)
        position = self._size - tail_size + at
        if position >= _LOCATOR64.size:
            locator = _LOCATOR64.unpack(self._read_at(position - _LOCATOR64.size, _LOCATOR64.size))
            if locator[0] == 0x07064B50:
                fields = _END64.unpack(self._read_at(locator[2], _END64.size))
                if fields[0] != 0x06064B50:
                    raise _error("failed finding central directory")
                count, length, start = fields[7], fields[8], fields[9]
        return count, length, start

    def _read_directory(self):
        count, length, start = self._find_end()
        directory = self._read_at(start, length)
        if count * _CENTRAL.size > length:
            raise _error("invalid header or archive is corrupted")
        position, total = 0, 0
        for _ in range(count):
            entry = _CENTRAL.unpack_from(directory, position)
            if entry[0] != 0x02014B50:
                raise _error("invalid header or archive is corrupted")
            method, packed, size, name_size, extra_size, comment_size, offset = entry[4], entry[8], entry[9], entry[10], entry[11], entry[12], entry[16]
            begin = position + _CENTRAL.size
            name = directory[begin:begin + name_size].decode()
            size, packed, offset = _wide_fields(directory[begin + name_size:begin + name_size + extra_size], [size, packed, offset])
            position = begin + name_size + extra_size + comment_size
            total += packed
            if name.endswith("/"):
                continue
            self._add_record(name, method, packed, size, offset)
        if total > self._size:
            raise _error("invalid header or archive is corrupted")
        if not self._records:
            raise _error("the archive is empty")

    def _add_record(self, name, method, packed, size, offset):
        if method not in (0, 8) or (method == 0 and packed != size) or size > max(packed, 1) * _MAX_DEFLATE_RATIO:
            raise _error("unsupported method or invalid size")
        if self.archive_name is None:
            self.archive_name = name.partition("/")[0]
        self._records[name] = (method, packed, size, offset)

    def _locate(self, name):
        try:
            method, packed, size, offset = self._records[f"{self.archive_name}/{name}"]
        except KeyError:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found") from None
        header = _LOCAL.unpack(self._read_at(offset, _LOCAL.size))
        if header[0] != 0x04034B50:
            raise _error("invalid header or archive is corrupted")
        return method, packed, size, offset + _LOCAL.size + header[9] + header[10]

    def __contains__(self, name):
        return f"{self.archive_name}/{name}" in self._records

    def names(self):
        """Record names without the archive's own."""
        prefix = len(self.archive_name) + 1
        return [name[prefix:] for name in self._records]

    def record_size(self, name):
        """Length in bytes of a record."""
        return self._records[f"{self.archive_name}/{name}"][2] if name in self else self._locate(name)[2]

    def record_offset(self, name):
        """Where the data of a stored record begins in the file. Raises: RuntimeError if it is compressed."""
        method, _, size, start = self._locate(name)
        if method != 0:
            raise RuntimeError(f"record {name} is compressed and can't be memory-mapped")
        if start + size > self._size:
            raise _error("file read failed")
        return self._base + start

    def read(self, name):
        """The bytes of a record."""
        method, packed, size, start = self._locate(name)
        data = self._read_at(start, packed)
        return data if method == 0 else self._inflate(data, size)

    def read_into(self, name, view):
        """Reads a record into `view`, a writable memoryview of the record's size."""
        method, packed, size, start = self._locate(name)
        if len(view) != size or start + packed > self._size:
            raise _error("file read failed")
        if method == 8:
            view[:] = self._inflate(self._read_at(start, packed), size)
            return
        self._file.seek(self._base + start)
        readinto = getattr(self._file, "readinto", None)
        done = 0
        while done < size:
            if readinto is not None:
                step = readinto(view[done:])
            else:
                chunk = self._file.read(size - done)
                step = len(chunk)
                view[done:done + step] = chunk
            if not step:
                raise _error("file read failed")
            done += step

    @staticmethod
    def _inflate(data, size):
        try:
            plain = zlib.decompressobj(-15).decompress(data, size + 1)
        except zlib.error as error:
            raise _error(str(error)) from None
        if len(plain) != size:
            raise _error("file read failed")
        return plain
