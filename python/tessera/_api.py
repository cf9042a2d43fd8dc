"""Small functions of the top-level namespace that need no kernel."""

import warnings

import tessera


def is_tensor(obj):
    """True if `obj` is a tensor (an instance of `Tensor` or of a subclass)."""
    return isinstance(obj, tessera.Tensor)


def get_device(input):
    """The number of the device that holds `input`; -1 for the CPU."""
    return input.get_device()


def is_storage(obj):
    """True if `obj` is a typed or untyped storage."""
    from tessera.storage import TypedStorage, UntypedStorage

    return isinstance(obj, (TypedStorage, UntypedStorage))


def typename(obj):
    """The type of `obj` as text: 'torch.FloatTensor' for a tensor, the qualified class name for anything else."""
    if isinstance(obj, tessera.Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", None)
    if name is None:
        cls = type(obj)
        module, name = cls.__module__ or "", cls.__qualname__
    if module in ("", "builtins"):
        return name
    return f"{module}.{name}"


def _assert(condition, message):
    """`assert` as a function; `condition` may be a tensor with one element.

    Raises: AssertionError with `message`.
    """
    if type(condition) is not bool and tessera.overrides.has_torch_function((condition,)):
        return tessera.overrides.handle_torch_function(_assert, (condition,), condition, message)
    if not condition:
        raise AssertionError(message)
    return None


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False):
    """A 1-D CPU tensor of `size` elements on a file mapped to memory.

    Args:
        filename: the file; with `shared` it is created or made longer if need be.
        shared: writes go to the file; otherwise they stay in this process and the file must be long enough.
        size: the number of elements.

    Raises: RuntimeError for a file that can't be mapped, a negative size or another device than the CPU,
        NotImplementedError for another layout than strided.
    """
    if size < 0:
        raise RuntimeError(f"from_file(): expected a size of at least 0, but got {size}")
    if device is not None and tessera.device(device).type != "cpu":
        raise RuntimeError(f"from_file(): files are mapped to CPU tensors, but got the device {device}")
    if layout is not None and layout != tessera.strided:
        raise NotImplementedError(
            f"from_file(): layout={layout} is not supported: there are no tensors of that layout. Use "
            f"layout=torch.strided."
        )
    if pin_memory:
        raise RuntimeError("from_file(): tensors on a file can't lie in pinned memory")
    dtype = tessera.get_default_dtype() if dtype is None else dtype
    storage = tessera.UntypedStorage.from_file(str(filename), bool(shared), size * dtype.itemsize)
    return tessera.empty(0, dtype=dtype).set_(storage, 0, (size,))


def set_default_tensor_type(t):
    """Deprecated: sets the default dtype through a tensor type such as 'torch.DoubleTensor' or its class.

    Raises: TypeError for types that are not floating point.
    """
    name = t if isinstance(t, str) else getattr(t, "__name__", repr(t))
    kind = name.rpartition(".")[2]
    dtypes = {
        "FloatTensor": "float32",
        "DoubleTensor": "float64",
        "HalfTensor": "float16",
        "BFloat16Tensor": "bfloat16",
    }
    if kind not in dtypes:
        raise TypeError(f"only floating-point types are supported as the default type, got {name}")
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    tessera.set_default_dtype(getattr(tessera, dtypes[kind]))


def _star_names():
    lazy = {n for n in tessera._lazy_names if not n.startswith("_") and n.removeprefix("has_") not in _OLDER}
    return sorted(set(tessera._core_names) | lazy | {"inf", "nan", "pi", "e"})


_OLDER = {"cuda": "is_built", "cudnn": "is_available", "mkldnn": "is_available", "mps": "is_built"}


_public_names = _star_names()


# What PyTorch is built with, as old programs ask for it; here factorisations and transforms are the library's own.
has_lapack = has_spectral = True
has_mkl = has_openmp = False


def __getattr__(name):
    question = _OLDER.get(name.removeprefix("has_")) if name.startswith("has_") else None
    if question is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    asked = f"backends.{name.removeprefix('has_')}.{question}"
    warnings.warn(f"'{name}' is deprecated, use '{tessera._display_name}.{asked}()'", UserWarning, stacklevel=3)
    return getattr(getattr(tessera.backends, name.removeprefix("has_")), question)()


def _shape_as_tensor(self):
    """The sizes of a tensor as a tensor of integers."""
    return tessera.tensor(self.shape, dtype=tessera.int64)


def _assert_async(input, assert_msg=None):
    """Raises RuntimeError (with `assert_msg`) if a tensor's only number is zero."""
    if tessera._C._fake_mode_of(input) is not None:
        from tessera.export import _symbols

        _symbols.assert_async(input, assert_msg)
    elif not input:
        message = "Expected Tensor with single nonzero value, but got zero"
        raise RuntimeError(message if assert_msg is None else assert_msg)
