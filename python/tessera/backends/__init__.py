"""Settings of the libraries under the operators, one module for each, and how exact float32 is in all of them."""

import sys
import types

from tessera._lazy import attach as _attach


class _Backends(types.ModuleType):
    """The module's class: `fp32_precision` ("none", "ieee", "tf32" or "bf16") is what backends take that have no
    setting of their own.
    """

    @property
    def fp32_precision(self):
        from tessera.backends import _precision

        return _precision.get("generic")

    @fp32_precision.setter
    def fp32_precision(self, value):
        from tessera.backends import _precision

        _precision.set_("generic", "all", value)


sys.modules[__name__].__class__ = _Backends

__getattr__, __dir__ = _attach(
    __name__,
    {
        "__allow_nonbracketed_mutation": "_flags allowed",
        **dict.fromkeys(("disable_global_flags", "flags_frozen"), "_flags"),
        **dict.fromkeys(("flags", "set_flags"), "_precision"),
    },
)
