"""Apple's devices, which this build does not know: is_available() is False, and what needs one raises RuntimeError."""

from tessera import _absent
from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__, {"Event": "event"})

_absent.install(
    __name__,
    "mps",
    """
    compile_shader(source) | Compiles a kernel of Metal's language.
    current_allocated_memory() | Bytes that tensors take up.
    device_count() -> 0 | The number of devices.
    driver_allocated_memory() | Bytes that the driver gave this process.
    empty_cache() | Gives cached memory back.
    get_rng_state(device='mps') | The state of the device's generator.
    is_available() -> False | Whether there is a device.
    manual_seed(seed) -> None | Seeds the device's generator.
    recommended_max_memory() | How many bytes the device should hold at most.
    seed() | Seeds the device's generator with a number that can't be foreseen.
    set_rng_state(new_state, device='mps') | Sets the state of the device's generator.
    synchronize() | Waits for all work of the device.
    """,
)


def set_per_process_memory_fraction(fraction):
    """Limits the memory of this process.

    Args:
        fraction: of the recommended memory: a float from 0 (no limit) to 2.

    Raises: TypeError for what is no float, ValueError outside of [0, 2], RuntimeError otherwise: there are no mps
        devices.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"fraction must be a float, but got {type(fraction).__name__}")
    if not 0 <= fraction <= 2:
        raise ValueError(f"fraction must be from 0 to 2, but got {fraction}")
    raise _absent.missing("mps")
