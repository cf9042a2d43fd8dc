"""Types by the names of the extension."""

import sys

import tessera


class _OfTensorTypes(type):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or (
            isinstance(instance, type) and issubclass(instance, tessera.Tensor)
        )


class _TensorMeta(type, metaclass=_OfTensorTypes):
    """What `type` is for classes: the classes of tensors are its instances."""


class _OfKind(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, _jit_types().Type) and instance.kind() == cls.__name__


def _jit_types():
    import tessera.jit  # noqa: F401  (brings them)
    from tessera._C import _jit

    return _jit


def _kind(kind, name):
    """The class of the types of one kind: calling it, or `get()`, gives one; the types are its instances."""

    def make(_cls, *elements):
        return _jit_types().make_type(name, tuple(elements[0]) if name == "Tuple" else elements)

    members = {"__module__": __name__, "__doc__": f"Types of programs: {name}.", "__new__": make}
    if name not in _NESTED:
        members["get"] = staticmethod(lambda: _jit_types().make_type(name, ()))
    return _OfKind(kind, (), members)


_NESTED = ("Await", "Dict", "Future", "List", "Optional", "RRef", "Tuple")
_KINDS = {
    "AnyType": "Any",
    "AwaitType": "Await",
    "BoolType": "bool",
    "ComplexType": "complex",
    "DeviceObjType": "Device",
    "DictType": "Dict",
    "FloatType": "float",
    "FutureType": "Future",
    "IntType": "int",
    "ListType": "List",
    "NoneType": "None",
    "NumberType": "number",
    "OptionalType": "Optional",
    "RRefType": "RRef",
    "StreamObjType": "Stream",
    "StringType": "str",
    "TensorType": "Tensor",
    "TupleType": "Tuple",
}


def __getattr__(name):
    value = _kind(name, _KINDS[name]) if name in _KINDS else getattr(_jit_types(), name, None)
    if value is None:
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
    setattr(sys.modules[__name__], name, value)
    return value
