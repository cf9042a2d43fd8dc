"""The safetensors format: eight bytes with the length of a JSON header, the header, the numbers."""

import json
import os
import re
import struct
from dataclasses import dataclass

import tessera

__all__ = ["read_header", "read_tensor", "write_safetensors"]

SUFFIX = ".safetensors"
CUSTOM_METADATA_KEY = "DCP_SHARDING_INFO"
SAVED_OFFSETS_KEY = "saved_offsets"
SHARDED_DIR_NAME = "sharded"
HF_DCP_VERSION = 1.0
_INDEX = "model.safetensors.index.json"
DTYPE_MAP = {
    "F16": tessera.float16,
    "F32": tessera.float32,
    "F64": tessera.float64,
    "BF16": tessera.bfloat16,
    "I8": tessera.int8,
    "U8": tessera.uint8,
    "I16": tessera.int16,
    "U16": tessera.uint16,
    "I32": tessera.int32,
    "U32": tessera.uint32,
    "I64": tessera.int64,
    "U64": tessera.uint64,
    "BOOL": tessera.bool,
    "C64": tessera.complex64,
    "F8_E4M3": tessera.float8_e4m3fn,
    "F8_E5M2": tessera.float8_e5m2,
}
_NAMES = {dtype: name for name, dtype in DTYPE_MAP.items()}


@dataclass
class _HFStorageInfo:
    """Where a tensor lies: file, size, dtype."""

    relative_path: str
    shape: tessera.Size
    dtype: tessera.dtype


def _gen_file_name(index, largest_index, shard_index=None):
    """The name of a file of a model, and of a process's part of one."""
    name = f"model-{index:05d}-of-{largest_index:05d}{SUFFIX}"
    return name if shard_index is None else f"shard-{shard_index:05d}-{name}"


def write_safetensors(stream, tensors, offsets=None):
    """Writes tensors of the host, one after the other.

    Args:
        stream: binary.
        tensors: {name: tensor}.
        offsets: {name: where the piece begins in a whole}; None: these are wholes.

    Returns: the number of bytes. Raises: ValueError for a dtype that the format does not have.
    """
    header, at = {}, 0
    more = {"format": "pt"}
    if offsets is not None:
        more["DCP_VERSION"] = str(HF_DCP_VERSION)
        more[CUSTOM_METADATA_KEY] = json.dumps({name: {SAVED_OFFSETS_KEY: list(o)} for name, o in offsets.items()})
    header["__metadata__"] = more
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise ValueError(f"'{name}': safetensors cannot hold the dtype {tensor.dtype}")
        end = at + tensor.numel() * tensor.itemsize
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    stream.write(struct.pack("<Q", len(text)) + text)
    for tensor in tensors.values():
        if tensor.numel():
            stream.write(tensor.contiguous().reshape(-1).view(tessera.uint8).numpy().data)
    return 8 + len(text) + at


def read_header(stream):
    """({name: its entry}, the file's own words, where the numbers begin). Raises: ValueError for other files."""
    start = stream.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
    text = stream.read(length) if 0 < length < 1 << 30 else b""
    if length < 0 or len(text) != length:
        raise ValueError("this is no file of the safetensors format: its header is cut")
    header = json.loads(text)
    return header, header.pop("__metadata__", {}), 8 + length


def read_tensor(stream, entry, start):
    """The tensor of an entry of the header."""
    begin, end = entry["data_offsets"]
    stream.seek(start + begin)
    data = bytearray(stream.read(end - begin))
    dtype = DTYPE_MAP[entry["dtype"]]
    if len(data) != end - begin:
        raise ValueError(f"a file of the safetensors format ends before its numbers do: {end - begin} bytes at {begin}")
    if not data:
        return tessera.empty(entry["shape"], dtype=dtype)
    return tessera.frombuffer(data, dtype=tessera.uint8).view(dtype).reshape(entry["shape"])


def pieces_in(folder):
    """{name: [(offsets, entry, path of the file, where its numbers begin)]} of the files in a folder."""
    found = {}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(SUFFIX):
            continue
        path = os.path.join(folder, file)
        with open(path, "rb") as stream:
            header, words, start = read_header(stream)
        offsets = json.loads(words.get(CUSTOM_METADATA_KEY, "{}"))
        for name, entry in header.items():
            place = offsets.get(name, {}).get(SAVED_OFFSETS_KEY) or [0] * len(entry["shape"])
            found.setdefault(name, []).append((place, entry, path, start))
    return found


def whole_shape(pieces):
    """The shape of the tensor that pieces make."""
    ends = [[o + n for o, n in zip(place, entry["shape"])] for place, entry, *_ in pieces]
    return [max(column) for column in zip(*ends)]


def write_index(folder, files, total):
    """Writes which file has which tensor, as other libraries expect it."""
    with open(os.path.join(folder, _INDEX), "w") as stream:
        json.dump({"metadata": {"total_size": total}, "weight_map": files}, stream, indent=2)


def _get_safetensors_file_metadata(file_bytes):
    """(header, where the numbers begin) of a stream."""
    header, words, start = read_header(file_bytes)
    return {**header, "__metadata__": words}, start


def file_number(name):
    """The number of a file of a model, from its name."""
    found = re.search(r"model-(\d+)-of-", name)
    return int(found.group(1)) if found else 1
