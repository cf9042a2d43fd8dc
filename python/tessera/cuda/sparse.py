"""The legacy classes of sparse tensors on devices: constructors of one dtype, and types that such tensors are of."""

_KINDS = "BFloat16 Byte Char Double Float Half Int Long Short"
__all__ = [f"{kind}Tensor" for kind in _KINDS.split()]  # noqa: PLE0604


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tessera._root import tensor_types

    return getattr(tensor_types, f"cuda_sparse_{name}")


def __dir__():
    return __all__
