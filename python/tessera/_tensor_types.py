"""The legacy tensor classes FloatTensor, LongTensor ...: constructors of one dtype, and types that tensors of it are instances of."""

import tessera
from tessera import _C

_KINDS = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32", "Short": "int16",
          "Char": "int8", "Byte": "uint8", "Bool": "bool"}


class tensortype(type):
    """Class of the legacy classes."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, tessera.Tensor) and instance.dtype is cls.dtype and instance.device.type == cls._device_type

    def __subclasscheck__(cls, other):
        return other is cls

    def __call__(cls, *args, **kwargs):
        return _C._legacy_tensor(cls.dtype, args, kwargs)

    @property
    def layout(cls):
        return tessera.strided


def _make(name):
    dtype = getattr(tessera, _KINDS[name[:-len("Tensor")]])
    doc = f"{name}(sizes), {name}(sequence), {name}(storage): an uninitialized tensor, or one with these values, of dtype {_KINDS[name[:-6]]}."
    return tensortype(name, (), {"dtype": dtype, "is_cuda": False, "is_sparse": False, "_device_type": "cpu", "__module__": tessera._display_name,
                                 "__doc__": doc})


def __getattr__(name):
    if not name.endswith("Tensor") or name[:-len("Tensor")] not in _KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _make(name)
    return value
