"""Intel's devices, which this build does not know: is_available() is False, and what needs one raises RuntimeError."""

from tessera import _absent
from tessera._lazy import attach as _attach

_names = {
    "memory": "MemPool XPUPluggableAllocator change_current_allocator empty_cache get_per_process_memory_fraction "
    "max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved memory_snapshot "
    "memory_stats memory_stats_as_nested_dict reset_accumulated_memory_stats reset_peak_memory_stats "
    "set_per_process_memory_fraction use_mem_pool",
    "random": "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
    "set_rng_state_all",
    "streams": "Event Stream",
    "graphs": "XPUGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables",
}
_table = {name: module for module, names in _names.items() for name in names.split()}
__getattr__, __dir__ = _attach(__name__, _table)

default_generators: tuple = ()
device, device_of, StreamContext = _absent.contexts(__name__, "xpu")

_absent.install(
    __name__,
    "xpu",
    """
    can_device_access_peer(device, peer) | Whether a device can read the memory of another.
    current_device() | The index of the selected device.
    current_stream(device=None) | The selected stream.
    device_count() -> 0 | The number of devices.
    get_arch_list() -> [] | The architectures that kernels were compiled for.
    get_device_capability(device=None) | What a device can do: a dict.
    get_device_name(device=None) | The name of a device.
    get_device_properties(device=None) | The properties of a device.
    get_gencode_flags() -> '' | The flags that kernels were compiled with.
    get_stream_from_external(data_ptr, device=None) | A stream that other code made.
    init() | Initializes the devices.
    is_available() -> False | Whether there is a device.
    is_bf16_supported(including_emulation=True) -> False | Whether bfloat16 is computed with.
    is_initialized() -> False | Whether the devices were initialized.
    is_tf32_supported() -> False | Whether TF32 is computed with.
    set_device(device) | Selects a device.
    set_stream(stream) | Selects a stream.
    synchronize(device=None) | Waits for all work of a device.
    """,
)


def stream(stream):
    """Context manager that selects a stream; None selects none. There are no xpu devices: others raise
    RuntimeError when the block is entered.
    """
    return StreamContext(stream)
