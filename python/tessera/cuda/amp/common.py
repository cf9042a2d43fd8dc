"""Whether mixed precision is possible."""

import tessera

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available():
    """True without a CUDA device."""
    return not tessera.cuda.is_available()
