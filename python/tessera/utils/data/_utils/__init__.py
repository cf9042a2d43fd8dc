"""The parts of the loader that also run in worker processes."""

MP_STATUS_CHECK_INTERVAL = 5.0
