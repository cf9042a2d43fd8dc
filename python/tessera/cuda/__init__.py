"""NVIDIA devices. This build has no CUDA library: the questions are answered, what needs a device raises RuntimeError.

A program that asks `cuda.is_available()` first runs unchanged. Seeds may be set in advance, caches emptied and contexts entered without a device.
"""

import tessera
from tessera._lazy import attach as _attach

_MISSING = ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
            "http://www.nvidia.com/Download/index.aspx")

_memory_names = ("caching_allocator_alloc caching_allocator_delete empty_cache get_allocator_backend get_per_process_memory_fraction host_memory_stats "
                 "host_memory_stats_as_nested_dict list_gpu_processes max_memory_allocated max_memory_cached max_memory_reserved mem_get_info memory_allocated memory_cached "
                 "memory_reserved memory_snapshot memory_stats memory_stats_as_nested_dict memory_summary reset_accumulated_host_memory_stats reset_accumulated_memory_stats "
                 "reset_max_memory_allocated reset_max_memory_cached reset_peak_host_memory_stats reset_peak_memory_stats set_per_process_memory_fraction").split()
__getattr__, __dir__ = _attach(__name__, {**{name: "memory" for name in _memory_names}, "AcceleratorError": ":tessera._api"})

OutOfMemoryError = tessera._C.OutOfMemoryError


def _no_device(*args, **kwargs):
    raise RuntimeError(_MISSING)


def _needs_device(name, doc):
    def function(*args, **kwargs):
        _no_device()

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = doc + " Raises: RuntimeError without a device."
    return function


init = _needs_device("init", "Initializes the CUDA state, which otherwise happens at the first use.")
current_device = _needs_device("current_device", "The index of the selected device.")
synchronize = _needs_device("synchronize", "Waits for all work of a device.")
get_device_name = _needs_device("get_device_name", "The name of a device.")
get_device_properties = _needs_device("get_device_properties", "The properties of a device.")
get_device_capability = _needs_device("get_device_capability", "The compute capability (major, minor) of a device.")
current_stream = _needs_device("current_stream", "The selected stream of a device.")
default_stream = _needs_device("default_stream", "The default stream of a device.")
current_blas_handle = _needs_device("current_blas_handle", "The cuBLAS handle of the selected stream.")
cudart = _needs_device("cudart", "The module of the CUDA runtime's functions.")
can_device_access_peer = _needs_device("can_device_access_peer", "True if one device can read another one's memory.")
ipc_collect = _needs_device("ipc_collect", "Frees memory that other processes no longer use.")
get_rng_state = _needs_device("get_rng_state", "The state of a device's generator.")
set_rng_state = _needs_device("set_rng_state", "Sets the state of a device's generator.")
initial_seed = _needs_device("initial_seed", "The seed of the selected device's generator.")


def is_available():
    """True if a device can be used."""
    return False


def is_initialized():
    """True once the CUDA state was initialized."""
    return False


def is_bf16_supported(including_emulation=True):
    """True if the selected device computes with bfloat16."""
    return False


def is_tf32_supported():
    """True if the selected device computes with TF32."""
    return False


def device_count():
    """The number of devices that can be used."""
    return 0


def get_arch_list():
    """The architectures that the kernels were compiled for, such as 'sm_90'."""
    return []


def get_gencode_flags():
    """The flags of nvcc that the kernels were compiled with."""
    return ""


def _index(device):
    if device is None:
        return -1
    if isinstance(device, int):
        return device
    device = tessera.device(device)
    if device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return 0 if device.index is None else device.index


def set_device(device):
    """Selects a device; negative numbers select none.

    Raises: RuntimeError without a device, ValueError for a device of another type.
    """
    if _index(device) >= 0:
        _no_device()


class device:
    """Context manager that selects a device for a block; None and negative numbers do nothing."""

    def __init__(self, device):
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            _no_device()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        return False


class device_of(device):
    """Context manager that selects the device of a tensor, if that is on one."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _DeviceObject:
    def __new__(cls, *args, **kwargs):
        _no_device()


class Stream(_DeviceObject):
    """A queue of work on a device. Raises: RuntimeError without a device."""


class ExternalStream(Stream):
    """A stream that another library made. Raises: RuntimeError without a device."""


class Event(_DeviceObject):
    """A point in a stream to wait for. Raises: RuntimeError without a device."""


class StreamContext:
    """Context manager that selects a stream; None does nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            _no_device()

    def __exit__(self, exc_type, exc_value, traceback):
        return False


def stream(stream):
    """Selects a stream for a block: see `StreamContext`."""
    return StreamContext(stream)


def set_stream(stream):
    """Selects a stream; None does nothing."""
    if stream is not None:
        _no_device()


def manual_seed(seed):
    """Seeds the generator of the selected device, once there is one."""
    int(seed)


def manual_seed_all(seed):
    """Seeds the generators of all devices."""
    int(seed)


def seed():
    """Seeds the generator of the selected device with a number that can't be foreseen."""


def seed_all():
    """Seeds the generators of all devices with a number that can't be foreseen."""


def get_rng_state_all():
    """The states of all devices' generators: a list."""
    return []


def set_rng_state_all(new_states):
    """Sets the states of all devices' generators.

    Raises: RuntimeError for states of devices that are not there.
    """
    if len(list(new_states)):
        _no_device()


def is_current_stream_capturing():
    """True while the selected stream records a graph."""
    return False
