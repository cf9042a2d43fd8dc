"""Questions about the process and about tensors, by the names of the extension."""

import os
import sys

import tessera
from tessera import _C

_told = set()


def _log_api_usage_once(event):
    """Writes an event to stderr when it first happens, if PYTORCH_API_USAGE_STDERR says so."""
    if event not in _told and os.environ.get("PYTORCH_API_USAGE_STDERR", "") not in ("", "0"):
        sys.stderr.write(f"PYTORCH_API_USAGE {event}\n")
    _told.add(event)


def _are_functorch_transforms_active():
    """True inside of a transform of a function (vmap, grad ...)."""
    return bool(_C._func._levels())


def _is_torch_function_mode_enabled():
    """True inside of a TorchFunctionMode."""
    return _C._len_torch_function_stack() > 0


def _get_accelerator():
    """The kind of accelerator as a device without index, that of the CPU if there is none."""
    return tessera.accelerator.current_accelerator(check_available=True) or tessera.device("cpu")


def _get_default_device():
    """The kind of device of the default tensor type, which a device chosen by `set_default_device` does not change."""
    return "cpu"


def _is_alias_of(a, b):
    """True if two tensors have one storage."""
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def is_legacy_batchedtensor(tensor):
    """False: a vmap before that of functorch, whose tensors these were, is not part of this library."""
    if not isinstance(tensor, tessera.Tensor):
        raise TypeError(f"is_legacy_batchedtensor(): expected a Tensor, but got {type(tensor).__name__}")
    return False
