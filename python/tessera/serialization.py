"""`save` and `load`: checkpoints in the zip format of PyTorch, both ways, and its older stream format.

A checkpoint is a zip archive of
    <name>/data.pkl                  a pickle (protocol 2); tensors name their storages by persistent ids
                                     ('storage', storage class, key, location, number of elements)
    <name>/data/<key>                the raw bytes of each storage, aligned to 64 bytes in the file
    <name>/byteorder, <name>/version, <name>/.format_version, <name>/.storage_alignment, <name>/.data/serialization_id
Global names in the pickle are PyTorch's: `torch._utils._rebuild_tensor_v2`, `torch.FloatStorage`. They are mapped to
and from the
names of this package while writing and reading.
"""

import copyreg
import io
import os
import pickle
import re
import struct
import sys
import warnings
import zlib
from pickle import UnpicklingError

import tessera
from tessera import _weights_only_unpickler as _restricted
from tessera._C import _FileSink, _ZipReader, _ZipWriter
from tessera._utils import sparse_checked_at_the_end
from tessera.storage import TypedStorage, UntypedStorage, _class_name_of_dtype, _typed, bytes_view, swap_bytes

__all__ = [
    "SourceChangeWarning",
    "LoadEndianness",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
]

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
MAP_SHARED, MAP_PRIVATE = 1, 2


class SourceChangeWarning(Warning):
    """The source of a pickled module class differs from the one at hand."""


class LoadEndianness:
    """Byte orders that a checkpoint without a byteorder record may have."""

    NATIVE, LITTLE, BIG = 1, 2, 3


class _Options:
    crc32 = True
    endianness = None
    mmap = MAP_PRIVATE
    maps = False
    skip_data = False


# ---- what the restricted unpickler allows
# -----------------------------------------------------------------------------------


def add_safe_globals(safe_globals):
    """Allows classes and functions for `load(weights_only=True)`.

    Args:
        safe_globals: list of objects, or of pairs (object, "qualified.name.in.the.file").
    """
    for entry in safe_globals:
        if entry not in _restricted._user_globals:
            _restricted._user_globals.append(entry)


def get_safe_globals():
    """The list of what `add_safe_globals` allowed."""
    return list(_restricted._user_globals)


def clear_safe_globals():
    """Forgets everything that `add_safe_globals` allowed."""
    _restricted._user_globals.clear()


class safe_globals:
    """Context manager: `add_safe_globals` for one block."""

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        self.saved = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, exc_type, exc_value, traceback):
        _restricted._user_globals[:] = self.saved


def get_unsafe_globals_in_checkpoint(f):
    """Names of the globals in checkpoint `f` that `load(weights_only=True)` would refuse now. Runs nothing from the
    file.
    """
    with _opened(f) as file:
        if not _is_zip(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        names = _restricted.globals_in_pickle(_reader(file).read("data.pkl"))
    user = _restricted._user_table()
    return sorted(name for name in names if name not in user and _restricted._allowed[name] is None)


class skip_data:
    """Context manager: `save` writes zeros for the data of storages, `load` reads none of it (the values are
    undefined).
    """

    def __init__(self, materialize_fake_tensors=False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self.saved, _Options.skip_data = _Options.skip_data, True
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _Options.skip_data = self.saved


# ---- options
# ----------------------------------------------------------------------------------------------------------------


def set_crc32_options(compute_crc32):
    """Whether `save` computes checksums of the records (the default). Without them `load` can't tell a damaged file
    from a sound one,
    and programs that unzip it may complain."""
    _Options.crc32 = bool(compute_crc32)


def get_crc32_options():
    return _Options.crc32


def set_default_load_endianness(endianness):
    """Byte order of checkpoints that have no byteorder record; None means the machine's."""
    if endianness not in (None, LoadEndianness.NATIVE, LoadEndianness.LITTLE, LoadEndianness.BIG):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _Options.endianness = endianness


def get_default_load_endianness():
    return _Options.endianness


class set_default_mmap_options:
    """Flags of `load(mmap=True)`: `mmap.MAP_PRIVATE` (default) or `mmap.MAP_SHARED`. A function and a context
    manager.
    """

    def __init__(self, flags):
        if flags not in (MAP_SHARED, MAP_PRIVATE):
            raise ValueError(
                f"Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.prev, _Options.mmap = _Options.mmap, flags

    def __enter__(self):
        pass

    def __exit__(self, exc_type, exc_value, traceback):
        _Options.mmap = self.prev


def get_default_mmap_options():
    return _Options.mmap


# ---- devices
# ----------------------------------------------------------------------------------------------------------------

_package_registry = []


def register_package(priority, tagger, deserializer):
    """Adds a kind of device: `tagger(storage)` gives its location string or None, `deserializer(storage, location)`
    brings a CPU
    storage there or gives None. Lower priorities are asked first."""
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda entry: entry[0])


def _tag_by_type(kind):
    def tagger(storage):
        device = storage.device
        if device.type == kind:
            return kind if device.index is None or kind in ("cpu", "meta") else f"{kind}:{device.index}"
        return None

    return tagger


def _restore_cpu(storage, location):
    return storage if location == "cpu" else None


def _restore_meta(storage, location):
    return UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


def __getattr__(name):
    from tessera import _serialization_tools as tools

    if name not in tools.__all__ and not name.isupper() and name != "FileLike":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(tools, name)


def validate_cuda_device(location):
    """The index in 'cuda:1'. Raises: RuntimeError if CUDA or that device is missing."""
    index = tessera.device(location).index or 0
    if not tessera.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
            "running "
            "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages "
            "to "
            "the CPU."
        )
    count = tessera.cuda.device_count()
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {count}. Please "
            f"use "
            "torch.load with map_location to map your storages to an existing device."
        )
    return index


def _restore_cuda(storage, location):
    if location.startswith("cuda"):
        return storage.cuda(validate_cuda_device(location))
    return None


register_package(10, _tag_by_type("cpu"), _restore_cpu)
register_package(20, _tag_by_type("cuda"), _restore_cuda)
register_package(22, _tag_by_type("meta"), _restore_meta)


def location_tag(storage):
    """The string that says on which device a storage lies. Raises: RuntimeError for an unknown device."""
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage, location):
    """Brings a CPU storage to the device that `location` names. Raises: RuntimeError for an unknown name."""
    for _, _, restore in _package_registry:
        result = restore(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
    )


def _restore_function(map_location):
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes)):
        name = map_location if isinstance(map_location, str) else map_location.decode()
        return lambda storage, location: default_restore_location(storage, name)
    if isinstance(map_location, tessera.device):
        return lambda storage, location: default_restore_location(storage, str(map_location))
    if not callable(map_location):
        raise TypeError(f"load(): map_location must be a device, a string, a dict or a function, got {map_location!r}")

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


# ---- names
# ------------------------------------------------------------------------------------------------------------------


def _get_layout(name):
    """The layout called 'torch.strided' etc."""
    layout = getattr(tessera, name.rpartition(".")[2], None)
    if not isinstance(layout, tessera.layout):
        raise RuntimeError(f"unknown layout {name!r}")
    return layout


def normalize_storage_type(storage_type):
    """The class of this package for a legacy storage class."""
    return getattr(tessera, storage_type.__name__)


def storage_to_tensor_type(storage):
    """The legacy tensor class that belongs to the class of `storage`."""
    return getattr(tessera, type(storage).__name__.replace("Storage", "Tensor"))


def _torch_size(sizes):
    """Stands for the class Size while pickling: written as `torch.Size`, whatever the class calls its module here."""
    return tessera.Size(sizes)


def _torch_device(*args):
    """Stands for the class device while pickling."""
    return tessera.device(*args)


_STAND_INS = {"_torch_size": ("torch", "Size"), "_torch_device": ("torch", "device")}


def _outside_name(module, name):
    """PyTorch's name of a global of this package."""
    if module == "tessera.serialization" and name in _STAND_INS:
        return _STAND_INS[name]
    if module in ("tessera", "tessera._C"):
        return ("torch.storage" if name == "UntypedStorage" else "torch"), name
    return "torch" + module[len("tessera") :], name


def _inside_module(module):
    if module == "torch" or module.startswith("torch."):
        return "tessera" + module[len("torch") :]
    return module


# Opcodes of protocol 2 and 3 with arguments of fixed length, to step over them quickly.
_FIXED = re.compile(rb"(?:[(.012N})\]tRQ\x81\x85-\x89aebdlopus]|[Kqh\x80].|M..|[Jrj]....|G.{8})*", re.DOTALL)


def _rename_globals(data):
    """A pickle of protocol 2 or 3 with the globals of this package renamed to PyTorch's."""
    if b"ctessera" not in data:
        return data
    out, start, position = [], 0, 0
    while True:
        position = _FIXED.match(data, position).end()
        if position >= len(data):
            break
        code = data[position]
        if code in b"XBT":  # BINUNICODE, BINBYTES, BINSTRING
            position += 5 + int.from_bytes(data[position + 1 : position + 5], "little")
        elif code == 0x63:  # GLOBAL
            middle = data.index(b"\n", position)
            end = data.index(b"\n", middle + 1) + 1
            module, name = data[position + 1 : middle].decode(), data[middle + 1 : end - 1].decode()
            if module == "tessera" or module.startswith("tessera."):
                out += [data[start:position], "c{}\n{}\n".format(*_outside_name(module, name)).encode()]
                start = end
            position = end
        elif code in b"\x8aCU":  # LONG1, SHORT_BINBYTES, SHORT_BINSTRING
            position += 2 + data[position + 1]
        elif code == 0x8B:  # LONG4
            position += 5 + int.from_bytes(data[position + 1 : position + 5], "little")
        else:
            raise pickle.PicklingError(f"can't translate the opcode {code:#x}")
    out.append(data[start:])
    return b"".join(out)


def _dispatch_table():
    table = copyreg.dispatch_table.copy()
    table[tessera.layout] = lambda layout: (_get_layout, ("torch." + str(layout).rpartition(".")[2],))
    table[tessera.Size] = lambda size: (_torch_size, (tuple(size),))
    table[tessera.device] = lambda device: (
        _torch_device,
        (device.type,) if device.index is None else (device.type, device.index),
    )
    return table


def _renaming_pickler(base):
    """A class derived from the pure Python pickler that writes PyTorch's names directly, for protocols 4 and 5."""

    class Pickler(base):
        def save_global(self, obj, name=None):
            name = name or getattr(obj, "__qualname__", None) or obj.__name__
            module = pickle.whichmodule(obj, name)
            if module != "tessera" and not module.startswith("tessera."):
                return super().save_global(obj, name)
            module, name = _outside_name(module, name)
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
            self.memoize(obj)

        dispatch = dict(base.dispatch)
        dispatch[type(len)] = dispatch[type(_get_layout)] = save_global

    return Pickler


def _pickle(obj, pickle_module, protocol, persistent_id):
    """The pickle of `obj` with PyTorch's names."""
    if pickle_module is pickle and protocol >= 4:
        base = _renaming_pickler(pickle._Pickler)
    else:
        base = pickle_module.Pickler

    class Pickler(base):
        pass

    Pickler.persistent_id = staticmethod(persistent_id)
    buffer = io.BytesIO()
    pickler = Pickler(buffer, protocol=protocol)
    pickler.dispatch_table = _dispatch_table()
    pickler.dump(obj)
    data = buffer.getvalue()
    return _rename_globals(data) if protocol in (2, 3) else data


# ---- files
# ------------------------------------------------------------------------------------------------------------------


class _opened:
    """Opens paths for reading; leaves file objects as they are, and open."""

    def __init__(self, f):
        self.own = isinstance(f, (str, os.PathLike))
        if self.own:
            self.file = open(f, "rb")
            return
        self.file = f
        _check_seekable(f)

    def __enter__(self):
        return self.file

    def __exit__(self, exc_type, exc_value, traceback):
        if self.own:
            self.file.close()


class _written:
    """The same for writing. What goes to a path appears there as a whole at the end, or not at all."""

    def __init__(self, f):
        self.own = isinstance(f, (str, os.PathLike))
        self.file = _FileSink(f) if self.own else f

    def __enter__(self):
        return self.file

    def __exit__(self, exc_type, exc_value, traceback):
        if self.own:
            self.file.__exit__(exc_type, exc_value, traceback)
        elif hasattr(self.file, "flush") and exc_type is None:
            self.file.flush()


def _reader(file):
    """The archive in a file object. Plain files are read through their descriptor, on all threads."""
    plain = type(file) is io.BufferedReader and type(file.raw) is io.FileIO
    return _ZipReader(file, file.fileno() if plain else -1)


def _check_seekable(f):
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        message = (
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer "
            f"like "
            "io.BytesIO and try to load from it instead."
        )
        raise type(error)(message) from None


def _is_zip(file):
    start = file.tell()
    magic = file.read(4)
    file.seek(start)
    return magic == b"PK\x03\x04"


# ---- save
# -------------------------------------------------------------------------------------------------------------------


def save(
    obj,
    f,
    pickle_module=pickle,
    pickle_protocol=DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
):
    """Writes `obj` to a file.

    Args:
        obj: anything that pickles; tensors and storages are written as raw bytes, each storage once.
        f: a path or a file object with `write`.
        pickle_module, pickle_protocol: how the structure around the tensors is pickled.

    A file at the path is replaced as a whole: until all is written, and after an error, a full disk or a kill, the path
        has what it
    had before. The new file gets the permissions that `open` would have given or left; a symbolic link stays, and what
    it names is
    replaced; pipes and devices are written directly. Nothing is synced to the disk: give a file object and call
    `os.fsync` where a
    checkpoint must survive a crash of the machine.

    Raises: RuntimeError if the folder of the path doesn't exist, the file can't be written, or two tensors view one
        storage with
        different dtypes; AttributeError for an `f` that is neither.

        >>> tessera.save({"w": tessera.ones(2)}, "weights.pt")
    """
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if isinstance(f, (str, os.PathLike)):
        parent = os.path.dirname(os.fspath(f))
        if parent and not os.path.isdir(parent):
            raise RuntimeError(f"Parent directory {os.fsdecode(parent)} does not exist.")
    if not _use_new_zipfile_serialization:
        with _written(f) as file:
            _legacy_save(obj, file, pickle_module, pickle_protocol)
        return
    # Pickle first: an object that can't be pickled leaves no half-written file.
    storages = _SavedStorages()
    data = _pickle(obj, pickle_module, pickle_protocol, storages.persistent_id)
    name = "archive"
    if isinstance(f, (str, os.PathLike)):
        name = os.path.splitext(os.path.basename(os.fsdecode(f)))[0] or "archive"
    with _written(f) as file:
        _write_archive(file, name, data, storages, not _disable_byteorder_record)


class _SavedStorages:
    """Numbers the storages in the order in which the pickler meets them."""

    def __init__(self):
        self.keys = {}
        self.storages = []
        self.dtypes = {}

    def key_of(self, storage, dtype):
        pointer = storage.data_ptr() if storage.device.type != "meta" else 0
        if pointer and self.dtypes.setdefault(pointer, dtype) is not dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key = self.keys.get(storage._cdata)
        if key is None:
            key = self.keys[storage._cdata] = str(len(self.storages))
            self.storages.append(storage)
        return key

    def persistent_id(self, obj):
        if isinstance(obj, UntypedStorage):
            return "storage", UntypedStorage, self.key_of(obj, tessera.uint8), location_tag(obj), obj.nbytes()
        if type(obj) is TypedStorage or isinstance(obj, TypedStorage):
            untyped = obj._untyped_storage
            kind = _class_name_of_dtype.get(obj.dtype)
            if kind is None:
                return (
                    "storage",
                    UntypedStorage,
                    self.key_of(untyped, tessera.uint8),
                    location_tag(untyped),
                    untyped.nbytes(),
                )
            return "storage", getattr(tessera, kind), self.key_of(untyped, obj.dtype), location_tag(untyped), len(obj)
        return None


def _storage_bytes(storage):
    if _Options.skip_data or storage.device.type == "meta":
        return bytes(storage.nbytes())
    return bytes_view(storage if storage.device.type == "cpu" else storage.cpu())


def _write_archive(file, name, data, storages, byteorder):
    writer = _ZipWriter(file, name, _Options.crc32)
    checksums = []

    def record(record_name, content):
        checksums.append((record_name, writer.write_record(record_name, content)))

    record("data.pkl", data)
    record(".format_version", b"1")
    record(".storage_alignment", b"64")
    if byteorder:
        record("byteorder", sys.byteorder.encode())
    for key, storage in enumerate(storages.storages):
        record(f"data/{key}", _storage_bytes(storage))
    record("version", b"3\n")
    names = zlib.crc32("".join(n for n, _ in checksums).encode())
    contents = zlib.crc32(struct.pack(f"<{len(checksums)}I", *(crc for _, crc in checksums)))
    record(".data/serialization_id", f"{names:020d}{contents:020d}".encode())
    writer.close()


# ---- load
# -------------------------------------------------------------------------------------------------------------------

_ADVICE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. Re-running "
    "`torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code "
    "execution. Do it "
    "only if you got the file from a trusted source."
)
_DOCS = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)


def _weights_only_error(error):
    text = str(error)
    if "Unsupported global" in text or "whose module" in text:
        message = (
            "Weights only load failed. This file can still be loaded, to do so you have two options, "
            "\033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
            f"\n\t(1) {_ADVICE}\n\t(2) Alternatively, to load with `weights_only=True` please check the recommended "
            f"steps in the "
            f"following error message.\n\tWeightsUnpickler error: {text}"
        )
    elif "must be imported" in text:
        message = f"Weights only load failed. {text}"
    else:
        message = (
            f"Weights only load failed. {_ADVICE}\nPlease file an issue with the following so that we can make "
            f"`weights_only=True` "
            f"compatible with your use case: WeightsUnpickler error: {text}"
        )
    return UnpicklingError(message + _DOCS)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Reads an object that `save`, or PyTorch, wrote.

    Args:
        f: a path, or a file object with `read`, `tell` and `seek`.
        map_location: where storages go: a device or its name, a dict from saved to wanted names, or a function
            (CPU storage, saved name) -> storage or None. None restores the saved devices.
        pickle_module: for `weights_only=False`.
        weights_only: True (the default) accepts tensors, containers, numbers and strings, and what `add_safe_globals`
            allowed.
            False runs whatever the file says.
        mmap: leave storages in the file and map it; needs a path. The file must not change while tensors live:
            replacing it, as `save`
            does, leaves them alone, writing into it does not.

    What is read is compared with the checksums in the archive. With `mmap` that is the structure, but not the data of
    the tensors:
    those are not read here. Nor is there anything to compare in the old stream format, and in files that were saved
    without checksums
    (`set_crc32_options`).

    With `weights_only`, memory is bounded by the length of the file (for compressed archives, what it unpacks to).

    Raises: pickle.UnpicklingError for a file that `weights_only` refuses or that is corrupted, RuntimeError for a
        broken archive,
        a wrong checksum or a missing device, FileNotFoundError, ValueError for mmap without a path.
    """
    if weights_only is None:
        weights_only = pickle_module is None and os.environ.get(
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0"
        ).lower() not in ("1", "y", "yes", "true")
    if os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true"):
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    is_path = isinstance(f, (str, os.PathLike))
    if mmap is None:
        mmap = _Options.maps
    if mmap and not is_path:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not is_path and not hasattr(f, "read"):
        _check_seekable(f)
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'read' attribute")
    pickle_load_args.setdefault("encoding", "utf-8")
    with _opened(f) as file:
        try:
            if _is_zip(file):
                start = file.tell()
                loader = _ZipLoader(file, map_location, f if mmap else None)
                if "constants.pkl" in loader.reader and not weights_only:
                    warnings.warn(
                        "'torch.load' received a zip file that looks like a TorchScript archive, which "
                        "'torch.jit.load' reads now; call that one directly to silence this warning",
                        UserWarning,
                        stacklevel=2,
                    )
                    file.seek(start)
                    return tessera.jit.load(file, map_location=map_location)
                return loader.load(pickle_module or pickle, weights_only, pickle_load_args)
            if mmap:
                raise RuntimeError(
                    "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), "
                    "please torch.save your checkpoint with this option in order to use mmap."
                )
            return _legacy_load(file, map_location, pickle_module or pickle, weights_only, pickle_load_args)
        except UnpicklingError as error:
            if weights_only and not str(error).startswith("Weights only load failed"):
                raise _weights_only_error(error) from None
            raise


def _make_unpickler(base, persistent_load):
    class Unpickler(base):
        def find_class(self, module, name):
            if type(module) is str and module.startswith("torch") and (module == "torch" or module[5] == "."):
                token = _restricted.storage_type(name) if module in ("torch", "torch.storage") else None
                if token is not None:
                    return token
                if type(name) is str and name.startswith("torch."):  # "torch.channels_last", in whatever module
                    module, name = "torch", name[len("torch.") :]
                return super().find_class(_inside_module(module), name)
            return super().find_class(module, name)

    Unpickler.persistent_load = staticmethod(persistent_load)
    return Unpickler


def _read_pickle(data, pickle_module, weights_only, persistent_load, pickle_load_args, nbytes):
    if weights_only:
        return _restricted.Unpickler(data, persistent_load, encoding=pickle_load_args["encoding"], nbytes=nbytes).load()
    return _make_unpickler(pickle_module.Unpickler, persistent_load)(io.BytesIO(data), **pickle_load_args).load()


def _check_pid(pid, fields):
    """Unpacks a persistent id. Raises: UnpicklingError if it is not what `save` writes."""
    if type(pid) is not tuple or len(pid) != fields or pid[0] not in ("storage", b"storage"):
        raise UnpicklingError(f"Unknown typename for persistent_load, expected 'storage' but got {pid!r:.200}")
    kind, key, location, numel = pid[1:5]
    key = key.decode() if isinstance(key, bytes) else key
    location = location.decode() if isinstance(location, bytes) else location
    if (
        not isinstance(kind, _restricted._StorageType)
        or type(key) is not str
        or type(location) is not str
        or type(numel) is not int
        or numel < 0
    ):
        raise UnpicklingError(f"malformed persistent id {pid!r:.200}")
    dtype = kind.dtype or tessera.uint8
    return dtype, key, location, numel * dtype.itemsize


class _ZipLoader:
    def __init__(self, file, map_location, mmap_path):
        self._begin(_reader(file), map_location, mmap_path)

    def _begin(self, reader, map_location, mmap_path):
        self.reader = reader
        self.map_location = map_location
        self.restore = _restore_function(map_location)
        self.mmap_path = mmap_path
        self.mapping = None
        self.storages = {}
        self.swap = self._other_byteorder()

    def record_of(self, key):
        """The name of the record with a storage's bytes."""
        return f"data/{key}"

    def _other_byteorder(self):
        if "byteorder" in self.reader:
            order = self.reader.read("byteorder")
            if order not in (b"little", b"big"):
                raise ValueError("Unknown endianness type: " + repr(order))
            return order.decode() != sys.byteorder
        wanted = {LoadEndianness.LITTLE: "little", LoadEndianness.BIG: "big"}.get(_Options.endianness, sys.byteorder)
        return wanted != sys.byteorder

    def load(self, pickle_module, weights_only, pickle_load_args):
        if "constants.pkl" in self.reader:
            raise RuntimeError(
                "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. " + _ADVICE
            )
        data = self.reader.read("data.pkl")
        return _read_pickle(data, pickle_module, weights_only, self.persistent_load, pickle_load_args, self.reader.size)

    def persistent_load(self, pid):
        dtype, key, location, nbytes = _check_pid(pid, 5)
        entry = self.storages.get(key)
        if entry is None:
            entry = self.storages[key] = (self._storage(key, nbytes, location, dtype), nbytes)
        elif entry[1] != nbytes:
            raise UnpicklingError(f"storage {key!r} is used with different sizes")
        return _typed(entry[0], dtype)

    def _storage(self, key, nbytes, location, dtype):
        name = self.record_of(key)
        size = self.reader.record_size(name)
        if size != nbytes:
            raise RuntimeError(f"storage {key!r} has {size} bytes in the file, but the checkpoint says {nbytes}")
        if location == "meta" or self._maps_to_meta():
            return UntypedStorage(nbytes, device="meta")
        if self.mmap_path is not None:
            storage = self._mapped(name, nbytes)
        else:
            storage = UntypedStorage(nbytes)
            if nbytes and not _Options.skip_data:
                self.reader.read_into(name, bytes_view(storage))
        if self.swap:
            swap_bytes(bytes_view(storage), dtype.itemsize // (2 if dtype.is_complex else 1))
        restored = self.restore(storage, location)
        return restored._untyped_storage if isinstance(restored, TypedStorage) else restored

    def _maps_to_meta(self):
        return isinstance(self.map_location, (str, tessera.device)) and str(self.map_location) == "meta"

    def _mapped(self, name, nbytes):
        """A storage over the mapped file; copy-on-write unless the options say MAP_SHARED."""
        if nbytes == 0:
            return UntypedStorage(0)
        offset = self.reader.record_offset(name)
        if self.mapping is None:
            import mmap

            shared = _Options.mmap == MAP_SHARED
            with open(self.mmap_path, "r+b" if shared else "rb") as file:
                self.mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        if offset + nbytes > len(self.mapping):
            raise RuntimeError(f"record {name} reaches beyond the end of the file")
        return tessera.frombuffer(self.mapping, dtype=tessera.uint8, count=nbytes, offset=offset).untyped_storage()


# ---- the stream format of PyTorch before 1.6
# ----------------------------------------------------------------------------------


def _legacy_save(obj, file, pickle_module, protocol):
    saved = {}
    dtypes = {}

    def persistent_id(thing):
        if isinstance(thing, TypedStorage):
            storage, dtype, kind = thing._untyped_storage, thing.dtype, _class_name_of_dtype.get(thing.dtype)
        elif isinstance(thing, UntypedStorage):
            storage, dtype, kind = thing, tessera.uint8, None
        else:
            return None
        pointer = storage.data_ptr()
        if pointer and dtypes.setdefault(pointer, dtype) is not dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key = str(storage._cdata)
        saved[key] = (storage, dtype)
        cls = getattr(tessera, kind) if kind else UntypedStorage
        return "storage", cls, key, location_tag(storage), storage.nbytes() // dtype.itemsize, None

    info = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    body = _pickle(obj, pickle_module, protocol, persistent_id)
    for head in (MAGIC_NUMBER, PROTOCOL_VERSION, info):
        file.write(pickle_module.dumps(head, protocol=protocol))
    file.write(body)
    keys = sorted(saved)
    file.write(pickle_module.dumps(keys, protocol=protocol))
    for key in keys:
        storage, dtype = saved[key]
        file.write(struct.pack("<q", storage.nbytes() // dtype.itemsize))
        file.write(_storage_bytes(storage))


def _legacy_load(file, map_location, pickle_module, weights_only, pickle_load_args):
    """Reads the stream format: five pickles in a row, then for each storage its length and bytes."""
    start = file.tell()
    data = file.read()
    if not data:
        raise EOFError("Ran out of input")
    if len(data) > 262 and data[257:262] == b"ustar":
        from tessera._checkpoints import tar

        if weights_only:
            raise RuntimeError(
                "Cannot use ``weights_only=True`` with files saved in the legacy .tar format. Load it with "
                "weights_only=False if you trust its source, and save it again."
            )

        def unpickle(stream, persistent_load):
            return _make_unpickler(pickle_module.Unpickler, persistent_load)(stream, **pickle_load_args).load()

        return tar.load(data, _restore_function(map_location), unpickle)
    position, room = 0, len(data)
    storages, roots = {}, {}
    restore = _restore_function(map_location)

    def persistent_load(pid):
        nonlocal room
        if type(pid) is tuple and pid and pid[0] in ("module", b"module") and not weights_only:
            return pid[1]
        dtype, key, location, nbytes = _check_pid(pid, 6)
        if key not in storages:
            room -= nbytes
            if room < 0:
                raise RuntimeError(
                    f"storage {key!r:.100} and those before need {len(data) - room} bytes, which the file does not have"
                )
            storage = restore(UntypedStorage(nbytes), location)
            storages[key] = (storage._untyped_storage if isinstance(storage, TypedStorage) else storage, dtype, nbytes)
        untyped = storages[key][0]
        if storages[key][2] != nbytes:
            raise UnpicklingError(f"storage {key!r} is used with different sizes")
        return _legacy_view(untyped, dtype, pid[5], roots)

    def next_pickle(load_persistent):
        nonlocal position
        if weights_only:
            unpickler = _restricted.Unpickler(data, load_persistent, position, pickle_load_args["encoding"])
            value = unpickler.load()
            position = unpickler.position
            return value
        stream = io.BytesIO(data)
        stream.seek(position)
        value = _make_unpickler(pickle_module.Unpickler, load_persistent)(stream, **pickle_load_args).load()
        position = stream.tell()
        return value

    if next_pickle(None) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    if next_pickle(None) != PROTOCOL_VERSION:
        raise RuntimeError("Invalid protocol version")
    info = next_pickle(None)
    little = info.get("little_endian", True) if isinstance(info, dict) else True
    with sparse_checked_at_the_end():
        result = next_pickle(persistent_load)
        keys = next_pickle(None)
        if not isinstance(keys, list):
            raise RuntimeError("Invalid list of storages; corrupt file?")
        for key in keys:
            position = _legacy_fill(data, position, storages, key, little)
    file.seek(start + position)
    return result


def _legacy_view(untyped, dtype, view, roots):
    """Old files may save a storage as a view (key, offset, size) of another."""
    if view is None:
        return _typed(untyped, dtype)
    if type(view) is not tuple or len(view) != 3 or not all(type(v) is int for v in view[1:]):
        raise UnpicklingError(f"malformed storage view {view!r:.200}")
    key, offset, size = view
    first, last = offset * dtype.itemsize, (offset + size) * dtype.itemsize
    if key not in roots:
        if not 0 <= first <= last <= untyped.nbytes():
            raise UnpicklingError(f"storage view {view!r} is out of bounds")
        roots[key] = _typed(untyped[first:last], dtype)
    return roots[key]


def _legacy_fill(data, position, storages, key, little):
    if key not in storages:
        raise RuntimeError(f"unknown storage {key!r:.100}; corrupt file?")
    storage, dtype, nbytes = storages[key]
    if position + 8 > len(data):
        raise RuntimeError("the file is truncated")
    (numel,) = struct.unpack_from("<q", data, position)
    position += 8
    if numel * dtype.itemsize != nbytes or position + nbytes > len(data):
        raise RuntimeError(f"storage {key!r} is truncated or has the wrong size: {numel} elements")
    if storage.device.type == "meta":
        return position + nbytes
    source = storage if storage.device.type == "cpu" else UntypedStorage(nbytes)
    view = bytes_view(source)
    view[:nbytes] = data[position : position + nbytes]
    if little != (sys.byteorder == "little"):
        swap_bytes(view, dtype.itemsize // (2 if dtype.is_complex else 1))
    if source is not storage:
        storage.copy_(source)
    return position + nbytes
