"""Storages: untyped bytes (the extension's type) and the deprecated typed view of them."""

import sys
import warnings

import tessera
from tessera import _C

UntypedStorage = _C.UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

# Names of the legacy classes, which are also what checkpoints call the element types.
_KINDS = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexDouble": "complex128",
    "ComplexFloat": "complex64",
    "QUInt8": "quint8",
    "QInt8": "qint8",
    "QInt32": "qint32",
    "QUInt4x2": "quint4x2",
    "QUInt2x4": "quint2x4",
}


def _dtype_to_kind():
    table = {}
    for kind, name in _KINDS.items():
        dtype = getattr(tessera, name, None)
        if dtype is not None:
            table[dtype] = kind + "Storage"
    return table


_class_name_of_dtype = _dtype_to_kind()


def bytes_view(storage):
    """A writable memoryview of all bytes of a CPU storage, without a copy. The storage must outlive it."""
    try:
        return memoryview(storage).cast("B")
    except TypeError:
        pass
    import ctypes

    size = storage.nbytes()
    if size == 0:
        return memoryview(bytearray())
    return memoryview((ctypes.c_ubyte * size).from_address(storage.data_ptr())).cast("B")


def _warn_deprecated(level=2):
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
            "class. "
            "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, "
            "use "
            "tensor.untyped_storage() instead of tensor.storage()",
            UserWarning,
            stacklevel=level + 1,
        )


_warned = False


class _LegacyMeta(type):
    """A typed storage of the right dtype is an instance of the legacy class."""

    def __instancecheck__(cls, instance):
        if cls.__dict__.get("_legacy_dtype") is None:
            return type.__instancecheck__(cls, instance)
        return (
            type.__instancecheck__(TypedStorage, instance)
            and instance.dtype is cls._legacy_dtype
            and (instance.device.type == "cuda") == (cls._legacy_device == "cuda")
        )


class TypedStorage(metaclass=_LegacyMeta):
    """Deprecated: an untyped storage together with a dtype. Lengths and indices count elements.

    Args:
        *args: nothing, a number of elements, or a sequence of values.
        wrap_storage: an UntypedStorage to view instead.
        dtype: element type; required with `wrap_storage`.
        device: where to allocate.

    Raises: RuntimeError for an unusable combination of arguments, ValueError for a wrong dtype, TypeError for a wrong
        type.
    """

    _legacy_dtype = None
    _legacy_device = "cpu"
    is_sparse = False

    def __init__(self, *args, dtype=None, device=None, wrap_storage=None, _internal=False):
        if not _internal:
            _warn_deprecated()
        legacy = type(self)._legacy_dtype
        if legacy is not None:
            if dtype is not None:
                raise RuntimeError(f"{type(self).__name__} does not accept the argument dtype")
            dtype = legacy
        if type(self)._legacy_device != "cpu":
            device = type(self)._legacy_device if device is None and wrap_storage is None else device
        if wrap_storage is not None:
            if args:
                raise RuntimeError(
                    f"TypedStorage takes no positional arguments together with 'wrap_storage', got {len(args)}"
                )
            if dtype is None:
                raise RuntimeError("Argument 'dtype' must be specified when 'wrap_storage' is specified")
            if device is not None:
                raise RuntimeError("Argument 'device' should not be specified when 'wrap_storage' is given")
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            if not isinstance(dtype, tessera.dtype):
                raise TypeError(f"Argument 'dtype' must be a dtype, but got {type(dtype)}")
            self.dtype, self._untyped_storage = dtype, wrap_storage
            return
        if len(args) > 1:
            raise TypeError(f"TypedStorage takes at most one positional argument, got {len(args)}")
        self.dtype = dtype if dtype is not None else tessera.get_default_dtype()
        if not args:
            self._untyped_storage = UntypedStorage(0, device=device or "cpu")
        elif isinstance(args[0], UntypedStorage):
            self._untyped_storage = args[0]
        elif isinstance(args[0], int):
            self._untyped_storage = UntypedStorage(args[0] * self.dtype.itemsize, device=device or "cpu")
        else:
            values = tessera.tensor(list(args[0]), dtype=self.dtype, device=device)
            self._untyped_storage = values.untyped_storage()

    def _tensor(self):
        return tessera.empty(0, dtype=self.dtype, device=self.device).set_(self._untyped_storage, 0, (len(self),), (1,))

    def _wrap(self, untyped):
        return _typed(untyped, self.dtype)

    def __len__(self):
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for storage of size {len(self)}")
        return self._tensor()[index].item()

    def __setitem__(self, index, value):
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        self._tensor()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        return (
            isinstance(other, TypedStorage)
            and self._untyped_storage == other._untyped_storage
            and self.dtype is other.dtype
        )

    def __hash__(self):
        return hash(self._untyped_storage)

    def __repr__(self):
        lines = "\n ".join(str(v) for v in self.tolist()) if not self.device.type == "meta" else "..."
        shown = tessera._display_name
        return f" {lines}\n[{shown}.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"

    __str__ = __repr__

    def __copy__(self):
        return self._wrap(self._untyped_storage.clone())

    def __deepcopy__(self, memo):
        import copy

        return self._wrap(copy.deepcopy(self._untyped_storage, memo))

    def __sizeof__(self):
        return super().__sizeof__() + self.nbytes()

    def __reduce__(self):
        import io

        buffer = io.BytesIO()
        tessera.save(self, buffer, _use_new_zipfile_serialization=False)
        return _load_from_bytes, (buffer.getvalue(),)

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    @property
    def filename(self):
        return getattr(self._untyped_storage, "filename", None)

    def untyped(self):
        """The storage without its dtype."""
        return self._untyped_storage

    def size(self):
        return len(self)

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def element_size(self):
        return self.dtype.itemsize

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def get_device(self):
        return self.device.index if self.device.index is not None else -1

    def tolist(self):
        return self._tensor().tolist()

    def fill_(self, value):
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        if isinstance(source, TypedStorage):
            self._tensor().copy_(source._tensor(), non_blocking=bool(non_blocking))
        else:
            self._untyped_storage.copy_(source, non_blocking)
        return self

    def clone(self):
        return self._wrap(self._untyped_storage.clone())

    def cpu(self):
        return self._wrap(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False):
        return self._wrap(self._untyped_storage.cuda(device, non_blocking))

    def hpu(self, device=None, non_blocking=False):
        """The storage on an HPU device. Raises: RuntimeError where there is none."""
        return self._wrap(self._untyped_storage.hpu(device, non_blocking))

    @property
    def is_hpu(self):
        return self._untyped_storage.is_hpu

    def resizable(self):
        """Whether `resize_` can be called."""
        return self._untyped_storage.resizable()

    def to(self, *, device, non_blocking=False):
        return self._wrap(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    def resize_(self, size):
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def is_shared(self):
        return self._untyped_storage.is_shared()

    def share_memory_(self):
        self._untyped_storage.share_memory_()
        return self

    def is_pinned(self, device="cuda"):
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device="cuda"):
        return self._wrap(self._untyped_storage.pin_memory(device))

    def _cast(self, dtype, non_blocking=False):
        if dtype is self.dtype:
            return self
        return _typed(self._tensor().to(dtype, non_blocking=non_blocking).untyped_storage(), dtype)

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return f"{tessera._display_name}.{self._class_name()}"
        return self._cast(
            dtype if isinstance(dtype, tessera.dtype) else getattr(dtype, "_legacy_dtype", dtype), non_blocking
        )

    def _class_name(self):
        return _class_name_of_dtype.get(self.dtype, "UntypedStorage")

    def pickle_storage_type(self):
        return self._class_name()

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        """A storage over a memory-mapped file; `size` counts elements."""
        dtype = cls._legacy_dtype or tessera.get_default_dtype()
        return _typed(UntypedStorage.from_file(filename, shared, size * dtype.itemsize), dtype)

    @classmethod
    def _from_buffer(cls, *args, **kwargs):
        """As `from_buffer`, by its older name."""
        return cls.from_buffer(*args, **kwargs)

    @classmethod
    def from_buffer(cls, buffer, byte_order="native", count=-1, offset=0, dtype=None):
        """A storage with a copy of `buffer`. Raises: ValueError for an unknown byte order."""
        if byte_order not in ("native", "big", "little"):
            raise ValueError(f"invalid byte_order {byte_order!r} (expected 'big', 'little', or 'native')")
        dtype = cls._legacy_dtype or dtype or tessera.get_default_dtype()
        values = tessera.frombuffer(bytearray(buffer), dtype=tessera.uint8, offset=offset).clone()
        if byte_order not in ("native", sys.byteorder):
            swap_bytes(bytes_view(values.untyped_storage()), dtype.itemsize // (2 if dtype.is_complex else 1))
        storage = _typed(values.untyped_storage(), dtype)
        if count >= 0:
            storage.resize_(count)
        return storage


class _UntypedMethods:
    """Methods of UntypedStorage that the extension leaves to Python; `install` copies them to its type."""

    is_sparse = False
    is_sparse_csr = False

    def new(self):
        """An empty storage on the same device."""
        return UntypedStorage(0, device=self.device)

    def __repr__(self):
        shown = tessera._display_name
        body = "..." if self.device.type == "meta" else " " + "\n ".join(str(value) for value in self.tolist())
        return f"{body}\n[{shown}.storage.UntypedStorage(device={self.device}) of size {len(self)}]"

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        known = memo.setdefault("torch", {})
        if self._cdata not in known:
            known[self._cdata] = self.clone()
            keep_with_memo(memo, self)
        return known[self._cdata]

    def __reduce__(self):
        return _typed(self, tessera.uint8).__reduce__()

    def __sizeof__(self):
        return object.__sizeof__(self) + 16 + len(self)  # as much as PyTorch's, which summaries of memory print

    def __iter__(self):
        return iter(self.tolist())

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    def get_device(self):
        return self.device.index if self.device.index is not None else -1

    def _bytes_tensor(self):
        return tessera.empty(0, dtype=tessera.uint8, device=self.device).set_(self, 0, (self.nbytes(),), (1,))

    def tolist(self):
        """All bytes as a list of numbers."""
        return self._bytes_tensor().tolist()

    def clone(self):
        """A copy of the bytes."""
        return UntypedStorage(self.nbytes(), device=self.device).copy_(self)

    def to(self, *, device, non_blocking=False):
        """The storage on `device`: itself if it is there."""
        device = tessera.device(device)
        if device == self.device:
            return self
        return UntypedStorage(self.nbytes(), device=device).copy_(self, non_blocking)

    def cpu(self):
        return self if self.device.type == "cpu" else self.to(device="cpu")

    def cuda(self, device=None, non_blocking=False):
        index = device if device is not None else tessera.cuda.current_device()
        return self.to(
            device=tessera.device("cuda", index) if isinstance(index, int) else index, non_blocking=non_blocking
        )

    @property
    def is_hpu(self):
        return self.device.type == "hpu"

    def hpu(self, device=None, non_blocking=False):
        """The storage on an HPU device. Raises: RuntimeError where there is none."""
        return self.to(device="hpu" if device is None else device, non_blocking=non_blocking)

    def mps(self):
        """The storage on an MPS device. Raises: RuntimeError where there is none."""
        return self.to(device="mps")

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            return f"{tessera._display_name}.storage.UntypedStorage"
        return _typed(self, tessera.uint8)._cast(getattr(dtype, "_legacy_dtype", dtype), non_blocking)

    def untyped(self):
        return self

    def _cast(self, dtype):
        return _typed(self._bytes_tensor().to(dtype).untyped_storage(), dtype)

    def is_pinned(self, device="cuda"):
        """True in page-locked memory, which is for copies to cuda devices: False for another `device`."""
        return self._is_pinned() and (device is None or tessera.device(device).type == "cuda")

    def pin_memory(self, device="cuda"):
        """A copy in page-locked memory, or this storage if it is there. Raises: RuntimeError for another `device` than
        cuda, and without one.
        """
        if device is not None and tessera.device(device).type != "cuda":
            raise RuntimeError(f"memory is pinned for cuda devices only, but got device {device}")
        return self._bytes_tensor().pin_memory().untyped_storage()

    def byteswap(self, dtype):
        """Reverses the byte order of each element, in place."""
        swap_bytes(bytes_view(self), dtype.itemsize // (2 if dtype.is_complex else 1))


def _share_memory(self):
    """Moves the bytes to memory that other processes can share and that can be sent to them; returns the storage.

    Raises: RuntimeError for memory of somebody else, and where the system has none to give.
    """
    from tessera import _shared_memory

    _shared_memory.share(self, lambda: _C_share_memory(self))
    return self


_C_share_memory = UntypedStorage.share_memory_  # only for children that inherit it


def keep_with_memo(memo, original):
    """Keeps what a deepcopy has copied alive as long as its memo, which knows it by its identity."""
    memo.setdefault(id(memo), []).append(original)  # where the module copy keeps them


def install(cls):
    """Adds the methods above to `cls` where it has none of its own."""
    for name, value in _UntypedMethods.__dict__.items():
        if name not in ("__module__", "__dict__", "__weakref__", "__doc__") and name not in cls.__dict__:
            setattr(cls, name, value)
    _share_memory.__name__, _share_memory.__qualname__ = "share_memory_", "UntypedStorage.share_memory_"
    cls.share_memory_ = _share_memory
    cls.__module__ = "tessera.storage"


def _add_casts():
    casts = {
        "double": "float64",
        "float": "float32",
        "half": "float16",
        "long": "int64",
        "int": "int32",
        "short": "int16",
        "char": "int8",
        "byte": "uint8",
        "bool": "bool",
        "bfloat16": "bfloat16",
        "complex_double": "complex128",
        "complex_float": "complex64",
        "float8_e4m3fn": "float8_e4m3fn",
        "float8_e4m3fnuz": "float8_e4m3fnuz",
        "float8_e5m2": "float8_e5m2",
        "float8_e5m2fnuz": "float8_e5m2fnuz",
    }
    for name, dtype_name in casts.items():

        def cast(self, _name=dtype_name):
            return self._cast(getattr(tessera, _name))

        cast.__name__ = name
        cast.__doc__ = f"The elements as {dtype_name}, in a storage of their own if that is another dtype."
        setattr(TypedStorage, name, cast)
        setattr(_UntypedMethods, name, cast)


def swap_bytes(view, itemsize):
    """Reverses the byte order of each item of `itemsize` bytes in `view`, in place."""
    if itemsize > 1:
        old = bytes(view)
        new = bytearray(len(old))
        for i in range(itemsize):
            new[i::itemsize] = old[itemsize - 1 - i :: itemsize]
        view[:] = new


def _typed(untyped, dtype):
    """A TypedStorage over `untyped` without checks and without the deprecation warning."""
    storage = TypedStorage.__new__(TypedStorage)
    storage.dtype = dtype
    storage._untyped_storage = untyped
    return storage


def _load_from_bytes(data):
    import io

    return tessera.load(io.BytesIO(data), weights_only=False)


def __getattr__(name):
    """The legacy classes FloatStorage, LongStorage ... (those of devices: cuda_FloatStorage), made when they are asked
    for.
    """
    kind = name.removeprefix("cuda_")
    dtype = getattr(tessera, _KINDS.get(kind[:-7], ""), None) if name.endswith("Storage") else None
    if dtype is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = "tessera" if kind == name else "tessera.cuda"
    members = {"_legacy_dtype": dtype, "dtype": dtype, "__module__": where}
    cls = _LegacyMeta(kind, (TypedStorage,), members if kind == name else members | {"_legacy_device": "cuda"})
    globals()[name] = cls
    return cls


_add_casts()
