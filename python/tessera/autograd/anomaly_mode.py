"""Anomaly detection: finds the operation whose backward failed or gave NaN."""

import warnings

from tessera import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class detect_anomaly:
    """Inside the block, an error in backward also shows where the forward operation was called, and NaN gradients raise
    RuntimeError.

    For debugging: it slows programs down.
    """

    def __init__(self, check_nan=True):
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, exc_type, exc_value, traceback):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)


class set_detect_anomaly:
    """Switches anomaly detection; a function and a context manager."""

    def __init__(self, mode, check_nan=True):
        self.prev = _C.is_anomaly_enabled()
        self.prev_check_nan = _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, exc_type, exc_value, traceback):
        _C.set_anomaly_enabled(self.prev, self.prev_check_nan)
