"""Generators of Intel's devices. Seeds are for all devices that there are: none."""

from tessera import _absent

_absent.install(
    __name__,
    "xpu",
    """
    get_rng_state(device='xpu') | The state of a device's generator.
    get_rng_state_all() -> [] | The states of all devices' generators.
    initial_seed() | The seed of the selected device's generator.
    manual_seed(seed) -> None | Seeds the generator of the selected device.
    manual_seed_all(seed) -> None | Seeds the generators of all devices.
    seed() -> None | Seeds the generator of the selected device with a number that can't be foreseen.
    seed_all() -> None | Seeds all generators with a number that can't be foreseen.
    set_rng_state(new_state, device='xpu') | Sets the state of a device's generator.
    """,
)


def set_rng_state_all(new_states):
    """Sets the states of all devices' generators. There are no xpu devices: raises RuntimeError for any state."""
    if len(new_states) > 0:
        raise _absent.missing("xpu")
