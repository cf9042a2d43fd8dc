"""Settings of export. `patch(name=value)` changes some for a block."""

import contextlib
import sys

use_new_tracer_experimental = False
detect_non_strict_fake_tensor_leaks = False


@contextlib.contextmanager
def patch(changes=None, **more):
    """Context manager and decorator: settings have other values.

    Args:
        changes: dict, or a name with its value in more["value"]. more: settings by name. AttributeError for unknown
        ones.
    """
    module = sys.modules[__name__]
    changes = {**(changes or {}), **more}
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
