"""Choosing among implementations of matrix products by trying them. Products of devices have one implementation here,
cuBLAS, which chooses by itself: settings are kept and given back, nothing is tried, and there are no results.
"""

import os

__all__ = [
    "enable",
    "get_filename",
    "get_max_tuning_duration",
    "get_max_tuning_iterations",
    "get_results",
    "get_rotating_buffer_size",
    "get_validators",
    "is_enabled",
    "mgpu_tune_gemm_in_file",
    "read_file",
    "record_untuned_enable",
    "record_untuned_is_enabled",
    "set_filename",
    "set_max_tuning_duration",
    "set_max_tuning_iterations",
    "set_numerical_check_tolerances",
    "set_rotating_buffer_size",
    "tune_gemm_in_file",
    "tuning_enable",
    "tuning_is_enabled",
]


def _variable(name, default):
    value = os.environ.get("PYTORCH_TUNABLEOP_" + name, "")
    return type(default)(int(value)) if value.lstrip("-").isdigit() else default


class _State:
    enabled = _variable("ENABLED", False)
    tuning = _variable("TUNING", True)
    records = _variable("RECORD_UNTUNED", False)
    duration = _variable("MAX_TUNING_DURATION_MS", 30)
    iterations = _variable("MAX_TUNING_ITERATIONS", 100)
    buffer = _variable("ROTATING_BUFFER_SIZE", -1)
    filename = os.environ.get("PYTORCH_TUNABLEOP_FILENAME", "tunableop_results.csv")
    check = (False, 1e-5, 1e-5)


def enable(val=True):
    """Switches the choice on or off."""
    _State.enabled = bool(val)


def is_enabled():
    """Whether the choice is switched on."""
    return _State.enabled


def tuning_enable(val=True):
    """Whether shapes that were not met before are tried."""
    _State.tuning = bool(val)


def tuning_is_enabled():
    """Whether shapes that were not met before are tried."""
    return _State.tuning


def record_untuned_enable(val=True):
    """Whether shapes that were not tried are recorded."""
    _State.records = bool(val)


def record_untuned_is_enabled():
    """Whether shapes that were not tried are recorded."""
    return _State.records


def set_max_tuning_duration(duration):
    """The most milliseconds for one candidate."""
    _State.duration = int(duration)


def get_max_tuning_duration():
    """The most milliseconds for one candidate."""
    return _State.duration


def set_max_tuning_iterations(iterations):
    """The most calls of one candidate."""
    _State.iterations = int(iterations)


def get_max_tuning_iterations():
    """The most calls of one candidate."""
    return _State.iterations


def set_rotating_buffer_size(buffer_size):
    """MiB of memory that calls go through in turn, so that caches do not help; -1 for the size of the cache."""
    _State.buffer = int(buffer_size)


def get_rotating_buffer_size():
    """KiB of memory that calls go through in turn."""
    return _State.buffer * 1024 if _State.buffer > 0 else _State.buffer


def set_numerical_check_tolerances(enable, atol=1e-5, rtol=1e-5):
    """Whether candidates' results are compared, and how closely.

    Raises: ValueError for negative tolerances.
    """
    if atol < 0 or rtol < 0:
        raise ValueError(f"tolerances must not be negative, but are atol={atol}, rtol={rtol}")
    _State.check = (bool(enable), float(atol), float(rtol))


def set_filename(filename, insert_device_ordinal=False):
    """The file of results.

    Args:
        filename: its path.
        insert_device_ordinal: put the device's index before the suffix, so that each process has its own.
    """
    if insert_device_ordinal:
        import tessera

        index = tessera.cuda.current_device() if tessera.cuda.is_available() else 0
        stem, suffix = os.path.splitext(filename)
        filename = f"{stem}{index}{suffix}"
    _State.filename = filename


def get_filename():
    """The file of results."""
    return _State.filename


def get_results():
    """What was chosen: (operator, shape, implementation, milliseconds) of each. Nothing is."""
    return ()


def get_validators():
    """What has to be the same for results to be used again: (name, version) of each part."""
    import tessera

    return (("PT_VERSION", str(tessera.__version__)),)


def read_file(filename=None):
    """Reads results. Returns: whether they fit this build; none do.

    Raises: FileNotFoundError.
    """
    with open(_State.filename if filename is None else filename) as file:
        file.read(1)
    return False


def _read_untuned(filename):
    """The lines of a file of recorded shapes. Raises: FileNotFoundError, RuntimeError without a device."""
    import tessera

    with open(filename) as file:
        lines = [line for line in file.read().splitlines() if line.startswith(("Gemm", "ScaledGemm"))]
    tessera.cuda._lazy_init()
    return lines


def tune_gemm_in_file(filename):
    """Tries the shapes of a file; there is one implementation, so the file is read and nothing else is done.

    Raises: FileNotFoundError, RuntimeError without a device.
    """
    _read_untuned(filename)


def mgpu_tune_gemm_in_file(filename_pattern, num_gpus):
    """The same for files whose names fit a pattern, on several devices.

    Raises: RuntimeError without so many devices.
    """
    import glob

    import tessera

    if not 1 <= num_gpus <= tessera.cuda.device_count():
        raise RuntimeError(f"expected from 1 to {tessera.cuda.device_count()} devices, but got {num_gpus}")
    for filename in glob.glob(filename_pattern):
        _read_untuned(filename)
