"""Types by the names of the extension."""

import re
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
    types = _jit_types()

    def make(_cls, *elements):
        return types.make_type(name, tuple(elements[0]) if name in _OF_A_LIST else elements)

    def named(_cls, name):
        try:
            return types.make_type(name, ())
        except ValueError:
            raise TypeError(f"there is no {kind} of the name {name!r}") from None

    def enumerated(_cls, name, value_type, values):
        from tessera.jit._frontend import class_type

        known = {class_type(type(value)) for value in values}
        if len(known) != 1 or None in known or next(iter(known)).annotation_str != name:
            raise TypeError(f"EnumType: the values {values} are not those of the enum {name!r} of {value_type}")
        return known.pop()

    members = {
        "__module__": __name__,
        "__doc__": f"Types of programs: {name}.",
        "__new__": {"": named, "Enum": enumerated}.get(name, make),
    }
    if name not in _NESTED:
        members["get"] = staticmethod(lambda: types.make_type(name, ()))
    for asked in _ASKED.get(kind, "").split():
        members[asked] = getattr(types.Type, asked)
    for maker, element in _OF.get(kind, {}).items():
        members[maker] = staticmethod(lambda element=element: types.make_type(name, (types.make_type(element, ()),)))
    if kind == "TensorType":
        members["getInferred"] = staticmethod(lambda: types.make_type(name, ()))
        members["create_from_tensor"] = staticmethod(lambda tensor: types.type_of_tensor(tensor))
    return _OfKind(kind, (), members)


class InferredType:
    """What is known of the type of an object: the type, or why there is none.

    Args:
        found: a Type, or the reason as text.
    """

    def __init__(self, found):
        if not isinstance(found, (str, _jit_types().Type)):
            raise TypeError(f"InferredType: expected a Type or a text, but got {type(found).__name__}")
        self._found = found

    def success(self):
        """Whether there is a type."""
        return not isinstance(self._found, str)

    def type(self):
        """The type. RuntimeError where there is none."""
        if not self.success():
            raise RuntimeError(f"Tried to get the type from an InferredType that has none: {self._found}")
        return self._found

    def reason(self):
        """Why there is no type; empty where there is one."""
        return "" if self.success() else self._found


def parse_ir(input, parse_tensor_constants=False):
    """The graph that a text describes. RuntimeError where it describes none."""
    if parse_tensor_constants:
        raise RuntimeError("parse_ir: constants that are tensors have no text; expected parse_tensor_constants=False")
    return _jit_types().parse_ir(input)


def parse_schema(schema, allow_typevars=True):
    """The FunctionSchema that a text describes. RuntimeError where it describes none, and for types that stand for
    others (`t`, `t1`) unless allow_typevars.
    """
    if not allow_typevars and re.search(r"[(,>] ?t\d*\b", schema):
        raise RuntimeError(f"parse_schema: expected types that are known, because allow_typevars=False: {schema}")
    return tessera._ops.FunctionSchema(schema)


def unify_type_list(types):
    """One type for all of a list. RuntimeError where there is none, or for an empty list."""
    if not types:
        raise RuntimeError("unify_type_list: expected at least one type, but got an empty list")
    made = types[0]
    for n, other in enumerate(types[1:], 1):
        both = _jit_types().unify(made, other)
        if both is None:
            raise RuntimeError(
                f"unify_type_list: element {n}, {other}, and those before it, {made}, have no type in common"
            )
        made = both
    return made


def _extra_names(name):
    """Classes of tessera.jit by the names of the extension."""
    import tessera.jit as jit
    from tessera.jit import _aliases, _graphs, _modules

    return {
        "AliasDb": _aliases.AliasDb,
        "CompilationUnit": jit.CompilationUnit,
        "JITException": jit.Error,
        "ScriptMethod": getattr(_modules, "ScriptMethod", None),
        "Use": _graphs.Use,
        "fork": jit.fork,
        "wait": jit.wait,
    }.get(name)


_NESTED = ("", "Await", "Dict", "Enum", "Future", "List", "Optional", "RRef", "Tuple", "Union")
_OF_A_LIST = ("Tuple", "Union")
_KINDS = {
    "AnyType": "Any",
    "AwaitType": "Await",
    "BoolType": "bool",
    "ClassType": "",
    "ComplexType": "complex",
    "DeviceObjType": "Device",
    "DictType": "Dict",
    "EnumType": "Enum",
    "FloatType": "float",
    "FutureType": "Future",
    "IntType": "int",
    "InterfaceType": "",
    "ListType": "List",
    "NoneType": "None",
    "NumberType": "number",
    "OptionalType": "Optional",
    "PyObjectType": "PyObject",
    "RRefType": "RRef",
    "StreamObjType": "Stream",
    "StringType": "str",
    "SymBoolType": "bool",
    "SymIntType": "int",
    "TensorType": "Tensor",
    "TupleType": "Tuple",
    "UnionType": "Union",
}
# What the types of a kind can be asked.
_ASKED = {
    "AwaitType": "getElementType",
    "ClassType": "method_names name qualified_name",
    "DictType": "getKeyType getValueType",
    "FutureType": "getElementType",
    "InterfaceType": "getMethod getMethodNames",
    "ListType": "getElementType",
    "OptionalType": "getElementType",
    "RRefType": "getElementType",
    "TupleType": "elements",
}
_OF = {
    "ListType": {"ofBools": "bool", "ofComplexDoubles": "complex", "ofFloats": "float", "ofInts": "int",
                 "ofStrings": "str", "ofTensors": "Tensor"},
    "OptionalType": {"ofTensor": "Tensor"},
}  # fmt: skip


def __getattr__(name):
    if name in _KINDS:
        value = _kind(name, _KINDS[name])
    else:
        value = getattr(_jit_types(), name, None) or _extra_names(name)
    if value is None:
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
    setattr(sys.modules[__name__], name, value)
    return value
