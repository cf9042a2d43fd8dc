"""Marks of how stable a name is, for readers and for tools that list the documented surface."""

_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible):
    """Decorator that notes whether later versions keep a function or class as it is. It changes nothing else.

    Args:
        is_backward_compatible: bool.
    """

    def mark(obj):
        _MARKED_WITH_COMPATIBILITY[obj] = None
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS[obj] = None
        return obj

    return mark
