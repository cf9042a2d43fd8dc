"""Names of types for annotations."""

import builtins
import os
import typing

import tessera
from tessera import Size as _size
from tessera import device as _device
from tessera import dtype as _dtype
from tessera import layout as _layout

__all__ = ["Number", "Device", "FileLike", "Storage"]  # noqa: F822 (Storage: see __getattr__)

_TensorOrTensors = typing.Union[tessera.Tensor, typing.Sequence[tessera.Tensor]]
_TensorOrTensorsOrGradEdge = typing.Union[_TensorOrTensors, typing.Any]
_bool = builtins.bool
_complex = builtins.complex
_float = builtins.float
_int = builtins.int
_Number = (_int, _float, _bool)
Number = typing.Union[_int, _float, _bool]
Device = typing.Optional[typing.Union[_device, str, _int]]
FileLike = typing.Union[str, os.PathLike, typing.IO[bytes]]
Tensor = tessera.Tensor
_dispatchkey = str
_qscheme = getattr(tessera, "qscheme", object)
_symint = getattr(tessera, "SymInt", _int)


def __getattr__(name):
    if name == "Storage":
        from tessera.storage import UntypedStorage

        return UntypedStorage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
