"""Apple's Metal devices, which this build does not know."""


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
