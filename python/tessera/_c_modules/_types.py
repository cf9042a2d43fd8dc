"""Types by the names of the extension."""

import tessera


class _OfTensorTypes(type):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or (
            isinstance(instance, type) and issubclass(instance, tessera.Tensor)
        )


class _TensorMeta(type, metaclass=_OfTensorTypes):
    """What `type` is for classes: the classes of tensors are its instances."""


def __getattr__(name):
    import tessera.jit  # noqa: F401  (brings the compiler's types)
    from tessera._C import _jit

    return getattr(_jit, name)
