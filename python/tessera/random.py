"""The default random number generator and its state."""

import contextlib
import warnings

import tessera
from tessera import _C

default_generator = _C.default_generator

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def set_rng_state(new_state):
    """Sets the state of the default generator (a uint8 tensor from `get_rng_state`).

    Raises: TypeError for another type, RuntimeError for another size.
    """
    default_generator.set_state(new_state)


def get_rng_state():
    """The state of the default generator as a uint8 tensor."""
    return default_generator.get_state()


def manual_seed(seed):
    """Seeds the generators of all devices; returns the default one.

    Args:
        seed: integer in [-2^63, 2^64 - 1]; negative numbers count from 2^64.

    Raises: ValueError outside that range.
    """
    seed = int(seed)
    default_generator.manual_seed(seed)
    tessera.cuda.manual_seed_all(seed)
    return default_generator


def seed():
    """Seeds the generators with a number that can't be foreseen, and returns it."""
    value = default_generator.seed()
    tessera.cuda.manual_seed_all(value)
    return value


def initial_seed():
    """The seed that the default generator was given last."""
    return default_generator.initial_seed()


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Context manager: the generators have their old state again at the end.

    Args:
        devices: indices of accelerator devices whose generators are kept as well; all of them by default.
        enabled: False makes it do nothing.
    """
    if device_type == "meta" or not enabled:
        yield
        return
    module = getattr(tessera, tessera.device(device_type).type, None)
    if module is None:
        raise RuntimeError(
            f"torch has no module of `{device_type}`, you should register a module by `torch._register_device_module`."
        )
    if devices is None:
        count = module.device_count() if device_type != "cpu" and module.is_available() else 0
        if count > 1:
            warnings.warn(
                f"{device_type.upper()} reports that you have {count} available devices, and you have used {_caller} "
                f"without "
                "explicitly specifying which devices are being used.",
                stacklevel=3,
            )
        devices = list(range(count))
    devices = list(devices)
    cpu_state = get_rng_state()
    states = [module.get_rng_state(device) for device in devices]
    try:
        yield
    finally:
        set_rng_state(cpu_state)
        for device, state in zip(devices, states):
            module.set_rng_state(state, device)
