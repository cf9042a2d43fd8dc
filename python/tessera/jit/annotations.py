"""Names of types for annotations of scripted code."""

from typing import Any, Dict, List, Tuple  # noqa: F401

__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Tuple"]


class _BroadcastingList:
    """`BroadcastingList2[int]`: a list of two ints, or one int that stands for both."""

    def __class_getitem__(cls, types):
        return None


BroadcastingList1 = _BroadcastingList
BroadcastingList2 = _BroadcastingList
BroadcastingList3 = _BroadcastingList


class Module:
    """A module of Python as annotations see it: its members are attributes.

    Args:
        name: for messages.
        members: {name: value}. RuntimeError for other names.
    """

    def __init__(self, name, members):
        self.name = name
        self.members = members

    def __getattr__(self, name):
        members = self.__dict__.get("members", {})
        if name not in members:
            raise RuntimeError(f"Module {self.__dict__.get('name')} has no member called {name}")
        return members[name]


def is_list(ann):
    """Whether an annotation is List[T] or list[T]."""
    return getattr(ann, "__origin__", None) is list


def is_dict(ann):
    """Whether an annotation is Dict[K, V] or dict[K, V]."""
    return getattr(ann, "__origin__", None) is dict


def is_tuple(ann):
    """Whether an annotation is Tuple[...] or tuple[...]."""
    return getattr(ann, "__origin__", None) is tuple


def is_union(ann):
    """Whether an annotation is Union[...] or A | B."""
    from typing import Union, get_origin

    return get_origin(ann) is Union or type(ann).__name__ == "UnionType"


def is_optional(ann):
    """Whether an annotation is Optional[T]."""
    return is_union(ann) and type(None) in ann.__args__


# --- signatures as types ---


def try_ann_to_type(ann, loc, rcb=None):
    """The type of a program that an annotation says, or None.

    Args:
        loc: where it stands, for messages. rcb: function from a name to its value, for annotations that are texts.
    """
    from ._frontend import class_type, classify
    from ._types import UnknownType, type_of

    names = None if rcb is None else lambda name: classify(rcb(name))
    try:
        return type_of(ann, names, class_type)
    except UnknownType:
        return None
    except RuntimeError as error:
        if loc is None:
            raise
        raise RuntimeError(f"{error} (at {loc})") from error


def ann_to_type(ann, loc, rcb=None):
    """The type of a program that an annotation says. Errors: ValueError where there is none."""
    made = try_ann_to_type(ann, loc, rcb)
    if made is None:
        where = "" if loc is None else f" at {loc}"
        raise ValueError(f"Unknown type annotation: '{ann}'{where}")
    return made


def get_param_names(fn, n_args):
    """The names of a function's parameters; numbers in their place where it has no signature."""
    import inspect

    try:
        return list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return [str(i) for i in range(n_args)]


def check_fn(fn, loc):
    """Errors: FrontendError for a function that has no definition of its own, such as a lambda of several lines."""
    from ._errors import FrontendError
    from ._frontend import source_of

    lines = [line for line in source_of(fn).text.split("\n") if line and not line[0].isspace()]
    if not any(line.startswith(("def ", "class ", "@", "async def ")) for line in lines):
        raise FrontendError(loc, f"expected a single top-level function, got {lines[:1]}")


def try_real_annotations(fn, loc):
    """([types of the parameters], type of the result) of a function with annotations, or None if it has none at all."""
    import inspect

    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return None
    notes = [p.annotation for p in signature.parameters.values()] + [signature.return_annotation]
    if all(n is inspect.Signature.empty for n in notes):
        return None
    *given, result = [_annotated(n, loc, getattr(fn, "__globals__", {})) for n in notes]
    return given, result


def _annotated(note, loc, scope):
    import inspect

    import tessera

    return ann_to_type(tessera.Tensor if note is inspect.Signature.empty else note, loc, scope.get)


def get_type_line(source):
    """The comment of a source that says its types ("# type: (int) -> Tensor"), or None. One comment for each parameter
    and one for the result are joined.

    Errors: RuntimeError for comments of parameters without one of the result.
    """
    marks = [line[line.index("# type:") :].strip() for line in source.split("\n") if "# type:" in line]
    marks = [m for m in marks if "# type: ignore" not in m]
    if not marks:
        return None
    whole = [m for m in marks if "->" in m]
    if not whole:
        raise RuntimeError(f"Return type line '# type: (...) -> ...' not found on multiline type annotation: {marks}")
    return whole[0].replace("...", ", ".join(m.removeprefix("# type:").strip() for m in marks if "->" not in m))


def split_type_line(type_line):
    """The two sides of a comment "# type: (int, str) -> Tensor": ("(int, str)", "Tensor")."""
    given, arrow, result = type_line.partition("# type:")[2].partition("->")
    if not arrow:
        raise RuntimeError(f"Syntax error in type annotation (couldn't find `->`): {type_line!r}")
    return given.strip(), result.strip()


def parse_type_line(type_line, rcb, loc):
    """([types of the parameters], type of the result) of a comment. Errors: RuntimeError for a type that is none."""
    given, result = split_type_line(type_line)
    inside = given.strip()[1:-1].strip()
    made = [ann_to_type(f"Tuple[{inside}]", loc, rcb).elements() if inside else [], ann_to_type(result, loc, rcb)]
    return list(made[0]), made[1]


def get_signature(fn, rcb, loc, is_method):
    """([types of the parameters], type of the result) of a function, by its annotations or its comment; None if it has
    neither.

    Args:
        rcb: function from a name to its value. is_method: the first parameter has no type.
    """
    found = try_real_annotations(fn, loc)
    if found is None:
        from ._frontend import source_of

        line = get_type_line(source_of(fn).text)
        found = None if line is None else parse_type_line(line, rcb, loc)
    elif is_method:
        found = found[0][1:], found[1]
    return found


_TYPES = frozenset("AnyType ComplexType DictType FloatType IntType ListType StringType TensorType TupleType".split())


def __getattr__(name):
    if name in _TYPES:
        import tessera

        return getattr(tessera._C, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
