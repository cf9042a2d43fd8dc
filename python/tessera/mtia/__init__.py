"""Meta's devices, which this build does not know: is_available() is False, and what needs one raises RuntimeError."""

from tessera import _absent
from tessera._lazy import attach as _attach

_names = {
    "memory": "max_memory_allocated memory_allocated memory_stats reset_peak_memory_stats",
    "mtia_graph": "MTIAGraph graph graph_pool_handle",
}
_table = {name: module for module, names in _names.items() for name in names.split()}
__getattr__, __dir__ = _attach(__name__, _table)

default_generators: tuple = ()
device, _, StreamContext = _absent.contexts(__name__, "mtia")
Stream = _absent.make_class(
    __name__,
    "mtia",
    "Stream(device, *, priority)",
    "A queue of work on a device.",
    """
    query()
    record_event(event=None)
    synchronize()
    wait_event(event)
    wait_stream(stream)
    """,
)
Event = _absent.make_class(
    __name__,
    "mtia",
    "Event(device=None, *, enable_timing=False, blocking=False, interprocess=False)",
    "A point in a stream.",
    """
    elapsed_time(end_event)
    query()
    record(stream=None)
    synchronize()
    wait(stream=None)
    """,
)


class DeferredMtiaCallError(Exception):
    """A call that waited for the first use of the devices failed then."""


_absent.install(
    __name__,
    "mtia",
    """
    attach_out_of_memory_observer(observer) | Calls a function when memory runs out.
    current_device() | The index of the selected device.
    current_stream(device=None) | The selected stream.
    default_stream(device=None) | The stream that is selected at first.
    device_count() -> 0 | The number of devices.
    empty_cache() | Gives cached memory back.
    get_device_capability(device=None) | The version of a device.
    get_device_properties(device=None) | The properties of a device.
    get_rng_state(device='mtia') | The state of a device's generator.
    get_rng_state_all() -> [] | The states of all devices' generators.
    init() | Initializes the devices.
    initial_seed() | The seed of the selected device's generator.
    is_available() -> False | Whether there is a device.
    is_bf16_supported(including_emulation=True) -> False | Whether bfloat16 is computed with.
    is_initialized() -> False | Whether the devices were initialized.
    manual_seed(seed) -> None | Seeds the generator of the selected device.
    manual_seed_all(seed) -> None | Seeds the generators of all devices.
    record_memory_history(enabled='all', stacks='python', max_entries=0) -> None | Records allocations from now on.
    seed() -> None | Seeds the generator of the selected device with a number that can't be foreseen.
    seed_all() -> None | Seeds all generators with a number that can't be foreseen.
    set_device(device) | Selects a device.
    set_rng_state(new_state, device='mtia') | Sets the state of a device's generator.
    set_stream(stream) | Selects a stream.
    snapshot() | What the memory holds.
    synchronize(device=None) | Waits for all work of a device.
    """,
)


def set_rng_state_all(new_states):
    """Sets the states of all devices' generators. There are no mtia devices: raises RuntimeError for any state."""
    if len(new_states) > 0:
        raise _absent.missing("mtia")


def stream(stream):
    """Context manager that selects a stream; None selects none. There are no mtia devices: others raise
    RuntimeError when the block is entered.
    """
    return StreamContext(stream)
