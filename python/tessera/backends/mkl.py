"""Intel MKL, which this build does not use."""

from tessera.backends import _flags

VERBOSE_OFF = 0
VERBOSE_ON = 1


def is_available():
    """True if the library is part of this build."""
    return False


class verbose(_flags.Verbose):
    """Context manager in which the library would report its calls; it makes none in this build, so nothing is printed.

    Args:
        enable: VERBOSE_OFF or VERBOSE_ON.

    Raises: ValueError for another level.
    """

    levels = (VERBOSE_OFF, VERBOSE_ON)

    def __init__(self, enable):
        super().__init__(enable)
