"""The accelerator of this machine, whichever kind it is. This build knows none: the questions are answered, what needs one raises RuntimeError."""

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index", "is_available", "set_device_idx",
           "set_device_index", "set_stream", "synchronize"]

_MISSING = "Cannot access accelerator device when none is available."


def is_available():
    """True if there is an accelerator."""
    return False


def device_count():
    """The number of devices."""
    return 0


def current_accelerator(check_available=False):
    """The kind of accelerator as a device without index; None if there is none."""
    return None


def current_device_index():
    """The index of the selected device. Raises: RuntimeError without one."""
    raise RuntimeError(_MISSING)


def set_device_index(device, /):
    """Selects a device. Raises: RuntimeError without one."""
    raise RuntimeError(_MISSING)


def current_stream(device=None, /):
    """The selected stream. Raises: RuntimeError without a device."""
    raise RuntimeError(_MISSING)


def set_stream(stream):
    """Selects a stream. Raises: RuntimeError without a device."""
    raise RuntimeError(_MISSING)


def synchronize(device=None, /):
    """Waits for all work of a device. Raises: RuntimeError without one."""
    raise RuntimeError(_MISSING)


current_device_idx = current_device_index
set_device_idx = set_device_index


class device_index:
    """Context manager that selects a device by index; None does nothing."""

    def __init__(self, device, /):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            raise RuntimeError(_MISSING)

    def __exit__(self, exc_type, exc_value, traceback):
        return False
