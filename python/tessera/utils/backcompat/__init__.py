"""Warnings about what means something else than it did in old versions: broadcasting of tensors that have equally many
elements, and dimensions that reductions keep. There are no such old versions here, so nothing is found to warn of; the
switches are kept.
"""

__all__ = ["Warning", "broadcast_warning", "keepdim_warning"]

_switches = {"broadcast": False, "keepdim": False}


class Warning:
    """A switch over two functions: `enabled` calls getter() or setter(bool)."""

    def __init__(self, setter, getter):
        self.setter = setter
        self.getter = getter

    def set_enabled(self, value):
        """Switches the warning on or off."""
        self.setter(value)

    def get_enabled(self):
        """Whether the warning is on."""
        return self.getter()

    enabled = property(get_enabled, set_enabled)


def _switch(name):
    return Warning(lambda value: _switches.__setitem__(name, bool(value)), lambda: _switches[name])


broadcast_warning = _switch("broadcast")
keepdim_warning = _switch("keepdim")
