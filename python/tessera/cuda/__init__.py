"""NVIDIA devices: which there are and which is selected, streams, memory, random numbers.

Nothing is loaded before a device is used; a program that asks `cuda.is_available()` first runs unchanged without one.
Seeds may be set in advance, caches emptied and contexts
entered without a device.
"""

import functools
import threading

import tessera
from tessera import _C
from tessera._lazy import attach as _attach
from tessera.cuda import _library

_MISSING = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
_FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
    "method"
)

_names = {
    "memory": "CUDAPluggableAllocator MemPool caching_allocator_alloc caching_allocator_delete "
    "caching_allocator_enable change_current_allocator empty_cache get_allocator_backend "
    "get_per_process_memory_fraction host_memory_stats host_memory_stats_as_nested_dict list_gpu_processes "
    "max_memory_allocated max_memory_cached max_memory_reserved "
    "mem_get_info memory_allocated memory_cached memory_reserved memory_snapshot memory_stats "
    "memory_stats_as_nested_dict memory_summary "
    "reset_accumulated_host_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated "
    "reset_max_memory_cached reset_peak_host_memory_stats "
    "reset_peak_memory_stats set_per_process_memory_fraction use_mem_pool",
    "streams": "Event ExternalStream Stream",
    "graphs": "CUDAGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
    "random": "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
    "set_rng_state_all",
    "_nvml": "clock_rate device_memory_used memory_usage power_draw temperature utilization",
    "_runtime": "CudaError check_error cudaStatus cudart",
    ":tessera._root.tensor_types": "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor "
    "HalfTensor IntTensor LongTensor ShortTensor",
    ":tessera.storage": "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage "
    "DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage",
}
_table = {
    name: module if module[0] != ":" else f"{module} cuda_{name}"
    for module, names in _names.items()
    for name in names.split()
}
_table["classproperty"] = ":tessera._root.operators"
_table["AcceleratorError"] = ":tessera._C"
_submodule_attribute, __dir__ = _attach(__name__, _table)

OutOfMemoryError = _C.OutOfMemoryError
has_half = True
has_magma = False


def __getattr__(name):
    if name == "default_generators":
        return tuple(_C._default_cuda_generator(i) for i in range(device_count()))
    return _submodule_attribute(name)


class DeferredCudaCallError(Exception):
    """Raised when a call that waited for the first use of CUDA fails then."""


def _no_device(*args, **kwargs):
    raise RuntimeError(_library.problem or _MISSING)


_initialized = False
_queued = []
_lock = threading.RLock()


def _lazy_init():
    """The library, with everything that waited for its first use done. Raises: RuntimeError without a device and in a
    fork of a process that used one.
    """
    global _initialized
    library = _library.load()
    if library is None:
        _no_device()
    if library.is_forked():
        raise RuntimeError(_FORKED)
    if not _initialized:
        with _lock:
            if not _initialized:
                _initialized = True
                for call in _queued:
                    try:
                        call()
                    except Exception as e:
                        raise DeferredCudaCallError(f"CUDA call failed lazily at initialization with error: {e}") from e
                _queued.clear()
    return library


def _lazy_call(call):
    """Calls `call` when CUDA is in use, maybe at once."""
    if is_initialized():
        call()
    else:
        _queued.append(call)


def _is_in_bad_fork():
    library = _library._module
    return library is not None and library.is_forked()


def init():
    """Initializes the CUDA state, which otherwise happens at the first use. Raises: RuntimeError without a device."""
    _lazy_init()


def is_available():
    """True if a device can be used."""
    return device_count() > 0


def is_initialized():
    """True once the CUDA state was initialized."""
    library = _library._module
    return library is not None and not library.is_forked() and (_initialized or library.has_been_used())


@functools.lru_cache(maxsize=1)
def device_count():
    """The number of devices that can be used."""
    library = _library.load()
    return 0 if library is None else library.device_count()


def is_bf16_supported(including_emulation=True):
    """True if the selected device computes with bfloat16; with `including_emulation`, in whatever way."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported():
    """True if the selected device computes with TF32."""
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list():
    """The architectures that the kernels were compiled for, such as 'sm_90'."""
    return _library.load().architectures().split() if is_available() else []


def get_gencode_flags():
    """The flags of nvcc that the kernels were compiled with."""
    return " ".join(
        f"-gencode compute=compute_{number},code={kind}_{number}"
        for kind, number in (arch.split("_") for arch in get_arch_list())
    )


def _index(device, optional=True):
    """The number of a device; -1 for None, the selected one for 'cuda'. Raises: ValueError for a device of another
    type.
    """
    if device is None:
        if not optional:
            raise ValueError("Expected a cuda device with a specified index, but got: None")
        return -1
    if isinstance(device, int):
        return device
    device = tessera.device(device)
    if device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    if device.index is not None:
        return device.index
    return _library._module.current_device() if _library._module is not None else 0


def _device_index(device):
    """The number of an existing device, by default of the selected one, with the library in use."""
    library = _lazy_init()
    index = _index(device)
    index = library.current_device() if index < 0 else index
    library.check_device(index)
    return index


def set_device(device):
    """Selects a device; negative numbers select none.

    Raises: RuntimeError without a device, ValueError for a device of another type.
    """
    index = _index(device, optional=False)
    if index >= 0:
        _lazy_init().select_device(index)


def current_device():
    """The index of the selected device. Raises: RuntimeError without a device."""
    return _lazy_init().current_device()


def synchronize(device=None):
    """Waits for all work of a device. Raises: RuntimeError without a device, and what the work failed with."""
    index = _device_index(device)
    _library._module.synchronize_device(index)


class device:
    """Context manager that selects a device for a block; None and negative numbers do nothing."""

    def __init__(self, device):
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            library = _lazy_init()
            self.prev_idx = library.current_device()
            if self.prev_idx != self.idx:
                library.select_device(self.idx)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if self.idx >= 0 and self.prev_idx != self.idx:
            _library._module.select_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager that selects the device of a tensor, if that is on one."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _CudaDeviceProperties:
    """What a device is: its attributes are read-only."""

    def __init__(self, name, uuid, values):
        self.__dict__.update(values, name=name, gcnArchName=name, uuid=uuid)

    def __setattr__(self, name, value):
        raise AttributeError(f"can't set attribute {name!r}")

    def __repr__(self):
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, "
            f"pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


@functools.cache
def _properties(index):
    import uuid

    library = _library._module
    return _CudaDeviceProperties(
        library.device_name(index), uuid.UUID(bytes=library.device_uuid(index)), library.properties(index)
    )


def get_device_properties(device=None):
    """The properties of a device: name, major, minor, total_memory, multi_processor_count and more.

    Raises: RuntimeError without a device, AssertionError for a number too large.
    """
    library = _lazy_init()
    index = _index(device)
    index = library.current_device() if device is None else index
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    return _properties(index)


def get_device_name(device=None):
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device=None):
    """The compute capability (major, minor) of a device."""
    found = get_device_properties(device)
    return found.major, found.minor


def can_device_access_peer(device, peer_device):
    """True if one device can read another one's memory. Raises: RuntimeError without a device, AssertionError for
    numbers of no device.
    """
    library = _lazy_init()
    first, second = _index(device), _index(peer_device)
    if not 0 <= first < device_count():
        raise AssertionError("Invalid device id")
    if not 0 <= second < device_count():
        raise AssertionError("Invalid peer device id")
    return library.can_access_peer(first, second)


def ipc_collect():
    """Frees memory that other processes no longer use. Raises: RuntimeError without a device."""
    _lazy_init()  # memory of other processes is closed with its last tensor, so there is nothing to collect


def current_blas_handle():
    """The address of the cuBLAS handle of the selected stream. Raises: RuntimeError without a device or the library."""
    return _lazy_init().blas_handle()


# ---- streams: the classes are in streams.py
# ---------------------------------------------------------------------------------


def _stream(index, handle):
    return tessera.cuda.Stream(device_index=index, stream_id=handle)


def current_stream(device=None):
    """The selected stream of a device. Raises: RuntimeError without a device."""
    index = _device_index(device)
    return _stream(index, _library._module.current_stream(index))


def default_stream(device=None):
    """The default stream of a device. Raises: RuntimeError without a device."""
    return _stream(_device_index(device), 0)


def get_stream_from_external(data_ptr, device=None):
    """A stream that another library made, by its address. Raises: RuntimeError without a device."""
    return _stream(_device_index(device), data_ptr)


def set_stream(stream):
    """Selects a stream, and its device; None does nothing."""
    if stream is None:
        return
    library = _lazy_init()
    library.set_current_stream(stream.device_index, stream.cuda_stream)
    library.select_device(stream.device_index)


class StreamContext:
    """Context manager that selects a stream, and its device; None does nothing."""

    cur_stream = None

    def __init__(self, stream):
        self.stream = stream
        self._before = None

    def __enter__(self):
        if self.stream is None:
            return
        device = self.stream.device
        self._before = current_stream(), current_stream(device)
        set_stream(self.stream)

    def __exit__(self, exc_type, exc_value, traceback):
        if self._before is not None:
            selected, of_device = self._before
            self._before = None
            _library._module.set_current_stream(of_device.device_index, of_device.cuda_stream)
            set_stream(selected)
        return False


def stream(stream):
    """Selects a stream for a block: see `StreamContext`."""
    return StreamContext(stream)


_SYNC_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode):
    """What happens when an operation waits for a device: 'default' (0) nothing, 'warn' (1) a warning, 'error' (2) a
    RuntimeError.

    Raises: RuntimeError for another mode or without a device.
    """
    library = _lazy_init()
    if isinstance(debug_mode, str):
        if debug_mode not in _SYNC_MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _SYNC_MODES[debug_mode]
    library.set_sync_debug_mode(debug_mode)


def get_sync_debug_mode():
    """0, 1 or 2: see `set_sync_debug_mode`. Raises: RuntimeError without a device."""
    return _lazy_init().sync_debug_mode()


# Names by which libraries ask the extension module.
_C._cuda_isInBadFork = _is_in_bad_fork
_C._cuda_getCurrentStream = lambda index: (current_stream(index).stream_id, index, 1)
_C._cuda_clearCublasWorkspaces = lambda: _library._module and _library._module.release_blas_workspaces()
