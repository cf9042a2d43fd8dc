"""The legacy tensor classes FloatTensor, LongTensor ...: constructors of one dtype, and types that tensors of it are
instances of.
"""

import tessera
from tessera import _C

_KINDS = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}


class tensortype(type):
    """Class of the legacy classes."""

    def __instancecheck__(cls, instance):
        return (
            isinstance(instance, tessera.Tensor)
            and instance.dtype is cls.dtype
            and instance.device.type == cls._device_type
        )

    def __subclasscheck__(cls, other):
        return other is cls

    def __call__(cls, *args, **kwargs):
        if cls._device_type == "cpu":
            return _C._legacy_tensor(cls.dtype, args, kwargs)
        device = kwargs.pop("device", cls._device_type)
        if tessera.device(device).type != "cuda":
            raise RuntimeError(
                f"legacy constructor expects device type: cuda but device type: {tessera.device(device).type} was "
                f"passed"
            )
        if len(args) == 1 and isinstance(args[0], tessera.Tensor):
            if args[0].dtype is not cls.dtype or not args[0].is_cuda:
                raise TypeError(
                    f"expected a CUDA tensor of {cls.dtype}, got one of {args[0].dtype} on {args[0].device}"
                )
            return args[0].view_as(args[0])
        return _C._legacy_tensor(cls.dtype, args, kwargs).to(device)

    def __getattr__(cls, name):
        if name.startswith("__") or not hasattr(tessera.Tensor, name):
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return getattr(tessera.Tensor, name)  # the methods of its instances

    @property
    def layout(cls):
        return tessera.strided


def _make(name, device_type="cpu"):
    dtype = getattr(tessera, _KINDS[name[: -len("Tensor")]])
    doc = (
        f"{name}(sizes), {name}(sequence), {name}(storage): an uninitialized tensor, or one with these values, of "
        f"dtype {_KINDS[name[:-6]]}."
    )
    return tensortype(
        name,
        (),
        {
            "dtype": dtype,
            "is_cuda": device_type == "cuda",
            "is_sparse": False,
            "_device_type": device_type,
            "__module__": tessera._display_name + ("" if device_type == "cpu" else ".cuda"),
            "__doc__": doc,
        },
    )


def __getattr__(name):
    plain = name.removeprefix("cuda_")
    if not plain.endswith("Tensor") or plain[: -len("Tensor")] not in _KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _make(plain, "cpu" if plain == name else "cuda")
    return value
