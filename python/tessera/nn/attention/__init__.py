"""Choice of the implementation behind scaled_dot_product_attention, and attention biases."""

import contextlib
import enum
import threading

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Implementations of scaled_dot_product_attention. The CPU has one, which answers to MATH and FLASH_ATTENTION."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __repr__(self):
        return f"<SDPBackend.{self.name}: {int(self)}>"


_state = threading.local()
_ALL = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION)


def _cur_sdpa_kernel_backends(with_priority=False):
    """The implementations allowed in this thread."""
    return list(getattr(_state, "backends", _ALL))


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """`with sdpa_kernel(SDPBackend.MATH):` (or a list) restricts the implementations that may be chosen. AssertionError for other arguments."""
    if isinstance(backends, SDPBackend):
        backends = [backends]
    if not isinstance(backends, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in backends):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    before = getattr(_state, "backends", _ALL)
    _state.backends = tuple(dict.fromkeys(backends))
    try:
        yield {}
    finally:
        _state.backends = before
