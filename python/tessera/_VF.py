"""The functions of the library as one namespace, where some programs look for those that nn's layers call
(`_VF.lstm(...)`).
"""

import tessera


def __getattr__(name):
    value = getattr(tessera, name, None)
    if name.startswith("__") or isinstance(value, type) or not callable(value):
        raise AttributeError(f"_VF has no function {name!r}")
    return value
