"""The fast path of multi-head attention in inference."""

_enabled = True


def get_fastpath_enabled():
    """True if the fast path may be taken."""
    return _enabled


def set_fastpath_enabled(value):
    """Allows or forbids the fast path."""
    global _enabled
    _enabled = bool(value)
