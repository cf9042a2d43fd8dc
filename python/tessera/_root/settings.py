"""Process-wide switches of the top-level namespace: determinism, precision of matrix products, warnings."""

import warnings

import tessera

__all__ = [
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_warn_always",
    "use_deterministic_algorithms",
]

_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}
_PRECISIONS = ("highest", "high", "medium")

_deterministic = False
_warn_only = False
_warn_always = False


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Says whether operators must give the same bits in every run.

    The CPU kernels of this library always do; the setting is kept for those of other devices and for programs that ask
    for it.

    Args:
        mode: on or off.
        warn_only: operators without a deterministic form warn instead of raising RuntimeError.

    Raises: TypeError for what is no bool.
    """
    global _deterministic, _warn_only
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms(): {name} must be bool, not {type(value).__name__}")
    _deterministic, _warn_only = mode, warn_only
    from tessera.utils import deterministic

    deterministic._tell_core()


def are_deterministic_algorithms_enabled():
    """True after `use_deterministic_algorithms(True)`."""
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled():
    """The `warn_only` of the last `use_deterministic_algorithms`, whichever way it set the mode."""
    return _warn_only


def set_deterministic_debug_mode(debug_mode):
    """The same setting as one value: 0 or 'default' (off), 1 or 'warn', 2 or 'error'.

    Raises: TypeError if it is neither a string nor an int, RuntimeError for another value.
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    level = _DEBUG_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if level not in (0, 1, 2):
        kind = "str" if isinstance(debug_mode, str) else "int"
        choices = "`default`, `warn`, `error`" if kind == "str" else "0, 1, or 2"
        raise RuntimeError(f"invalid value of debug_mode, expected one of {choices}, but got {debug_mode}")
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode():
    """0, 1 or 2: see `set_deterministic_debug_mode`."""
    return (1 if _warn_only else 2) if _deterministic else 0


def set_float32_matmul_precision(precision):
    """How exact float32 matrix products must be: 'highest', 'high' or 'medium'.

    The CPU kernels always use all of float32's bits, those of CUDA devices take TF32 unless it is 'highest'.
    """
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has "
            f"no effect.",
            stacklevel=2,
        )
        return
    from tessera.backends import _precision

    _precision.set_matmul(precision)


def get_float32_matmul_precision():
    """'highest', 'high' or 'medium'.

    Raises: RuntimeError where `torch.backends.fp32_precision` and those under it say otherwise.
    """
    from tessera.backends import _precision

    return _precision.get_matmul()


def set_warn_always(b, /):
    """If true, warnings that come once per process come every time.

    Raises: TypeError if `b` is no bool.
    """
    global _warn_always
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _warn_always = b
    tessera._C._set_warn_always(b)


def is_warn_always_enabled():
    """True after `set_warn_always(True)`."""
    return _warn_always


def compiled_with_cxx11_abi():
    """True: the extension uses the C++11 forms of std::string and std::list."""
    return True


def get_device_module(device=None):
    """The module of functions for a device, such as `cuda` or `cpu`; by default that of the accelerator, or `cpu`
    without one.

    Raises: RuntimeError for a device without a module.
    """
    if isinstance(device, tessera.device):
        name = device.type
    elif isinstance(device, str):
        name = tessera.device(device).type
    elif device is None:
        accelerator = tessera.accelerator.current_accelerator(check_available=True)
        name = accelerator.type if accelerator is not None else "cpu"
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    module = getattr(tessera, name, None)
    if module is None:
        raise RuntimeError(f"Device '{name}' does not have a corresponding module registered as 'torch.{name}'.")
    return module
