"""Settings of the libraries under the operators, one module for each."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(
    __name__,
    {
        "__allow_nonbracketed_mutation": "_flags allowed",
        **dict.fromkeys(("disable_global_flags", "flags_frozen"), "_flags"),
    },
)
