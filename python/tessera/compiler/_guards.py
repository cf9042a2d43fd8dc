"""Filters of guards: functions that take the guards of a compiled function (objects with name, value, has_value,
guard_type and is_global) and give a list of bools, whether each is kept. What they leave out has to stay as it is.
"""

import tessera

# Guards by the identity of an object of this process.
_BY_IDENTITY = ("CLASS_MATCH", "CLOSURE_MATCH", "DICT_VERSION", "FUNCTION_MATCH", "ID_MATCH", "WEAKREF_ALIVE")


def _is_module(entry):
    return entry.has_value and isinstance(entry.value, tessera.nn.Module)


def _is_inbuilt(entry):
    return _is_module(entry) and type(entry.value).__module__.split(".")[0] in ("tessera", "torch")


def skip_all_guards_unsafe(guard_entries):
    """Keeps none."""
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries):
    """Keeps those that are not on global variables."""
    return [not entry.is_global for entry in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    """Keeps those that are not on modules."""
    return [not _is_module(entry) for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """Keeps those that are not on modules of this library."""
    return [not _is_inbuilt(entry) for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """Keeps those on tensors; those on parameters only with `keep_parameters`."""
    return [
        entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, tessera.nn.Parameter))
        for entry in guard_entries
    ]


def keep_portable_guards_unsafe(guard_entries):
    """Keeps those that another process can check: none by the identity of an object."""
    return [entry.guard_type not in _BY_IDENTITY for entry in guard_entries]
