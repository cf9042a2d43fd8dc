"""The legacy tensor classes FloatTensor, LongTensor ...: constructors of one dtype, and types that tensors of it are
instances of.
"""

import warnings

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
            and instance.layout is cls.layout
            and instance.device.type == cls._device_type
        )

    def __subclasscheck__(cls, other):
        return other is cls

    def __call__(cls, *args, **kwargs):
        if cls.is_sparse:
            _warn_of_sparse(args)
            return sparse_tensor(cls.dtype, cls._device_type, *args, **kwargs)
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
        return tessera.sparse_coo if cls.is_sparse else tessera.strided


_warned = False


def _warn_of_sparse(args):
    """Once in a process, what to call in place of a legacy class."""
    global _warned
    if not _warned:
        _warned = True
        given = "indices, values, shape" if args and isinstance(args[0], tessera.Tensor) else "shape"
        warnings.warn(
            f"torch.sparse.SparseTensor({given}, *, device=) is deprecated.  Please use "
            f"torch.sparse_coo_tensor({given}, dtype=, device=)",
            UserWarning,
            stacklevel=3,
        )


def sparse_tensor(dtype, device_type, *args, device=None):
    """(), (sizes), (indices, values), (indices, values, size): a COO tensor; of `dtype` where no values are given."""
    device = tessera.device(device_type if device is None else device)
    if device.type != device_type:
        raise RuntimeError(
            f"legacy constructor expects device type: {device_type} but device type: {device.type} was passed"
        )
    if len(args) in (2, 3) and all(isinstance(a, tessera.Tensor) for a in args[:2]):
        return tessera.sparse_coo_tensor(*args[:2], *map(tuple, args[2:]), device=device)
    size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args or (0,)
    if not all(isinstance(n, int) for n in size):
        given = ", ".join(type(a).__name__ for a in args)
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({given}), but expected one of:\n"
            f" * (*, torch.device device = None)\n"
            f" * (Tensor indices, Tensor values, *, torch.device device = None)\n"
            f" * (Tensor indices, Tensor values, tuple of ints size, *, torch.device device = None)\n"
            f" * (tuple of ints size, *, torch.device device = None)"
        )
    return tessera.zeros(tuple(size), dtype=dtype, device=device, layout=tessera.sparse_coo)


def _make(name, device_type="cpu", sparse=False):
    dtype = getattr(tessera, _KINDS[name[: -len("Tensor")]])
    doc = (
        f"{name}(indices, values, size): a COO tensor, as sparse_coo_tensor makes them."
        if sparse
        else f"{name}(sizes), {name}(sequence), {name}(storage): an uninitialized tensor, or one with these values, of "
        f"dtype {_KINDS[name[:-6]]}."
    )
    module = ("" if device_type == "cpu" else ".cuda") + (".sparse" if sparse else "")
    return tensortype(
        name,
        (),
        {
            "dtype": dtype,
            "is_cuda": device_type == "cuda",
            "is_sparse": sparse,
            "_device_type": device_type,
            "__module__": tessera._display_name + module,
            "__doc__": doc,
        },
    )


def __getattr__(name):
    device, plain = ("cuda" if name.startswith("cuda_") else "cpu"), name.removeprefix("cuda_")
    sparse, plain = plain.startswith("sparse_"), plain.removeprefix("sparse_")
    if not plain.endswith("Tensor") or plain[: -len("Tensor")] not in _KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _make(plain, device, sparse)
    return value
