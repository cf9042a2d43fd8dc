"""Signal processing: `signal.windows`."""

from tessera.signal import windows

__all__ = ["windows"]
