"""Apple's Metal devices, which this build does not know."""

from tessera import _absent


def is_built():
    """True if this build can use them."""
    return False


def is_available():
    """True if there is one."""
    return False


def is_macos_or_newer(major, minor):
    """True on macOS of at least that version."""
    import platform

    version = platform.mac_ver()[0]
    return bool(version) and tuple(map(int, version.split(".")[:2])) >= (major, minor)


def is_macos13_or_newer(minor=0):
    """True on macOS of at least version 13.`minor`."""
    return is_macos_or_newer(13, minor)


def get_name():
    """The name of the device. Raises: RuntimeError without one."""
    raise _absent.missing("mps")


def get_core_count():
    """The number of the device's cores. Raises: RuntimeError without one."""
    raise _absent.missing("mps")
