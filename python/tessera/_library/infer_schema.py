"""Schemas from the annotations of Python functions."""

import collections.abc
import inspect
import types
import typing

import tessera

__all__ = ["infer_schema"]

_UNION = {typing.Union, getattr(types, "UnionType", typing.Union)}
_LISTS = {list, collections.abc.Sequence}


def _simple():
    import numbers

    return {
        tessera.Tensor: "Tensor",
        int: "SymInt",
        float: "float",
        bool: "bool",
        str: "str",
        numbers.Number: "Scalar",
        tessera.dtype: "ScalarType",
        tessera.device: "Device",
    }


def _type_text(annotation, simple):
    """The schema type of an annotation, or None."""
    try:
        if annotation in simple:
            return simple[annotation]
    except TypeError:
        return None
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _UNION:
        rest = [a for a in args if a is not type(None)]
        if len(rest) < len(args):
            inner = _type_text(rest[0] if len(rest) == 1 else typing.Union[tuple(rest)], simple)
            return None if inner is None or inner.endswith("?") else inner + "?"
        return "Scalar" if set(args) == {int, float, bool} else None
    if origin in _LISTS and len(args) == 1:
        inner = _type_text(args[0], simple)
        if inner is None or inner.endswith("]") or (inner.endswith("?") and inner != "Tensor?"):
            return None
        return inner + "[]"
    return None


def _return_text(annotation, simple):
    if annotation is None or annotation is type(None):
        return "()"
    allowed = ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar")
    if typing.get_origin(annotation) is tuple:
        parts = [_type_text(a, simple) for a in typing.get_args(annotation)]
        return None if any(p not in allowed for p in parts) else f"({', '.join(parts)})"
    text = _type_text(annotation, simple)
    return text if text in allowed else None


def _default_text(value):
    """The default as a schema writes it, or None."""
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tessera.dtype):
        return str(value).split(".")[-1]
    if isinstance(value, tessera.device):
        return f'"{value}"'
    return None


def _evaluated(annotation, function):
    """An annotation given as a string, looked up in the names of the function, of `typing` and of this package."""
    if not isinstance(annotation, str):
        return annotation
    names = {"Tensor": tessera.Tensor, "torch": tessera, "tessera": tessera, "typing": typing}
    names.update({n: getattr(typing, n) for n in ("Optional", "List", "Sequence", "Tuple", "Union")})
    names.update(getattr(function, "__globals__", {}))
    try:
        return eval(annotation, names)
    except Exception as error:
        raise ValueError(f"infer_schema(func): the annotation {annotation!r} can't be evaluated: {error}") from error


def _mark_mutated(text, position):
    """`Tensor[]` -> `Tensor(a1!)[]`."""
    return f"Tensor(a{position}!)" + text[len("Tensor") :]


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema of a function from its annotations.

    Args:
        mutates_args: names of the parameters that the function writes to; "unknown" means every tensor.
        op_name: put before the parenthesis.

    Raises: ValueError for missing or unsupported annotations and defaults, and for names in `mutates_args` that are no
        tensor parameters.
    """
    signature = inspect.signature(prototype_function)
    simple = _simple()
    unknown = mutates_args == "unknown"
    wanted = set() if unknown else {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)

    def fail(text):
        raise ValueError(f"infer_schema(func): {text} Got func with signature {signature}")

    missing = wanted - set(signature.parameters)
    if missing:
        fail(f"mutates_args names {sorted(missing)}, which func does not have.")
    parts, star = [], False
    for position, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        if parameter.annotation is parameter.empty:
            fail(f"Parameter {name} must have a type annotation.")
        text = _type_text(_evaluated(parameter.annotation, prototype_function), simple)
        if text is None:
            fail(f"Parameter {name} has unsupported type {parameter.annotation}.")
        tensor = text.startswith("Tensor")
        if name in wanted and not tensor:
            fail(f"Parameter {name} is in mutates_args but is no Tensor (nor a list of them).")
        if tensor and (unknown or name in wanted):
            text = _mark_mutated(text, position)
        if parameter.default is not parameter.empty:
            default = _default_text(parameter.default)
            if default is None:
                fail(f"Parameter {name} has an unsupported default value of type {type(parameter.default).__name__}.")
            parts.append(f"{text} {name}={default}")
        else:
            parts.append(f"{text} {name}")
    if signature.return_annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    returns = _return_text(_evaluated(signature.return_annotation, prototype_function), simple)
    if returns is None:
        fail(f"Return has unsupported type {signature.return_annotation}.")
    return f"{op_name or ''}({', '.join(parts)}) -> {returns}"
