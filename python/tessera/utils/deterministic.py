"""What `use_deterministic_algorithms` does besides choosing operators.

`fill_uninitialized_memory` (True): while deterministic algorithms are on, tensors of `empty` and its like are filled,
with nan, or with the largest number of an integer dtype, so that no result depends on what memory held before. To be
assigned.
"""

import sys
import types

__all__ = ["fill_uninitialized_memory"]  # noqa: F822


class _Deterministic(types.ModuleType):
    _fill = True

    @property
    def fill_uninitialized_memory(self):
        return type(self)._fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value):
        if not isinstance(value, bool):
            raise RuntimeError(f"fill_uninitialized_memory: expected a bool, but got {type(value).__name__}")
        type(self)._fill = value
        _tell_core()


def _tell_core():
    import tessera
    from tessera import _C

    _C._set_fill_uninitialized_memory(_Deterministic._fill and tessera.are_deterministic_algorithms_enabled())


sys.modules[__name__].__class__ = _Deterministic
