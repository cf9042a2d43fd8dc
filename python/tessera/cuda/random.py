"""The generators of the devices: seeds and states."""

import tessera
from tessera import _C
from tessera.cuda import _index, _library, _lazy_init, device_count

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

_MOST_DEVICES = 64  # for which the extension has generators, even before the library is loaded


def _generator(device=None):
    index = _index(device)
    if index < 0:
        index = _library._module.current_device() if _library._module is not None else 0
    return _C._default_cuda_generator(index)


def get_rng_state(device="cuda"):
    """The state of a device's generator as a uint8 tensor. Raises: RuntimeError without a device."""
    _lazy_init()
    return _generator(device).get_state()


def get_rng_state_all():
    """The states of all devices' generators: a list."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state, device="cuda"):
    """Sets the state of a device's generator. Raises: RuntimeError without a device or for a tensor that is no
    state.
    """
    _lazy_init()
    _generator(device).set_state(new_state.cpu() if isinstance(new_state, tessera.Tensor) else new_state)


def set_rng_state_all(new_states):
    """Sets the states of all devices' generators.

    Raises: RuntimeError for states of devices that are not there.
    """
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed):
    """Seeds the generator of the selected device. Works before there is one."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed):
    """Seeds the generators of all devices."""
    seed = int(seed)
    for i in range(device_count() if _library._tried else _MOST_DEVICES):
        _C._default_cuda_generator(i).manual_seed(seed)


def seed():
    """Seeds the generator of the selected device with a number that can't be foreseen."""
    _generator().seed()


def seed_all():
    """Seeds the generators of all devices with a number that can't be foreseen."""
    manual_seed_all(_generator().seed())


def initial_seed():
    """The seed of the selected device's generator. Raises: RuntimeError without a device."""
    _lazy_init()
    return _generator().initial_seed()
