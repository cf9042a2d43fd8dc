"""Arguments of calls by the names of the called function's signature."""

import inspect
import typing
from collections import namedtuple

import tessera
from tessera.fx.node import map_aggregate

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op", "create_type_hint", "type_matches",
    "normalize_function", "normalize_module",
]  # fmt: skip

ArgsKwargsPair = namedtuple("ArgsKwargsPair", ["args", "kwargs"])
ArgsKwargsPair.__doc__ = "Positional and keyword arguments of a call."

_NUMBER = typing.Union[int, float, complex, bool]
_KINDS = {
    "Tensor": tessera.Tensor, "int": int, "SymInt": int, "float": float, "bool": bool, "str": str, "Scalar": _NUMBER,
    "ScalarType": tessera.dtype, "Layout": tessera.layout, "Device": tessera.device,
    "MemoryFormat": tessera.memory_format,
}  # fmt: skip


def _kind_of(text):
    text = text.partition("(")[0] if "(" in text else text
    if text.endswith("?"):
        return typing.Optional[_kind_of(text[:-1])]
    if text.endswith("]"):
        return typing.List[_kind_of(text.partition("[")[0])]
    return _KINDS.get(text, typing.Any)


def _signature(schema):
    kinds = inspect.Parameter
    parameters, seen_default = [], False
    for a in schema.arguments:
        kind = kinds.KEYWORD_ONLY if a.kwarg_only else kinds.POSITIONAL_OR_KEYWORD
        default = a.default_value if a.has_default_value() else kinds.empty
        seen_default |= default is not kinds.empty
        if kind is kinds.POSITIONAL_OR_KEYWORD and seen_default and default is kinds.empty:
            kind = kinds.KEYWORD_ONLY
        name = {"self": "input"}.get(a.name, a.name)
        parameters.append(kinds(name, kind, default=default, annotation=_kind_of(str(a.type))))
    parameters.sort(key=lambda p: p.kind)
    return inspect.Signature(parameters)


def _schemas_of(op):
    """The schemas of a function of the library, by its name among the operators."""
    from tessera._ops import OpOverload, OpOverloadPacket

    if isinstance(op, OpOverload):
        return [op._schema]
    if isinstance(op, OpOverloadPacket):
        packet = op
    else:
        name = getattr(op, "__name__", None)
        home = getattr(op, "__module__", None) or ""
        if not name or home.partition(".")[0] not in ("torch", "tessera", "_operator", "math"):
            return []
        try:
            packet = getattr(tessera.ops.aten, name)
        except AttributeError:
            return []
    if not hasattr(packet, "overloads"):  # a function that is called as a method of the namespace is
        return []
    return [getattr(packet, overload)._schema for overload in packet.overloads()]


def get_signature_for_torch_op(op, return_schemas=False):
    """The signatures of a function of the library, one for each overload.

    Args:
        op: function or operator.
        return_schemas: return (signatures, schemas).

    Returns: list of inspect.Signature, or None for other functions.
    """
    schemas = _schemas_of(op)
    if not schemas:
        return (None, None) if return_schemas else None
    signatures = [_signature(s) for s in schemas]
    return (signatures, schemas) if return_schemas else signatures


def check_for_mutable_operation(target, args, kwargs):
    """Errors: RuntimeError if every overload that takes these arguments writes to one of them."""
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures:
        return
    fitting = []
    for signature, schema in zip(signatures, schemas):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        fitting.append(schema)
    if fitting and all(s.is_mutable for s in fitting):
        raise RuntimeError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations that "
            "mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def create_type_hint(x):
    """The type of a nested list or tuple: List[T] or Tuple[T, ...] with the elements' common type; else x."""
    if not isinstance(x, (list, tuple)):
        return x
    inner = list(x)
    base = typing.List if isinstance(x, list) else typing.Tuple
    wrap = (lambda t: base[t]) if isinstance(x, list) else (lambda t: base[t, ...])
    if not inner:
        return wrap(typing.Any)
    first = inner[0]
    same = all(e == first or (isinstance(e, type) and isinstance(first, type) and issubclass(e, first)) for e in inner)
    return wrap(first if same else typing.Any)


def type_matches(signature_type, argument_type):
    """Whether an argument of one type may go where a signature has the other: unions, lists of T, int for float."""
    origin = typing.get_origin(signature_type)
    if signature_type is typing.Any or signature_type == argument_type:
        return True
    if origin is typing.Union:
        return any(type_matches(t, argument_type) for t in typing.get_args(signature_type))
    if origin is list:
        (inner,) = typing.get_args(signature_type)
        if typing.get_origin(argument_type) in (list, tuple):
            return all(t is Ellipsis or type_matches(inner, t) for t in typing.get_args(argument_type))
        return type_matches(inner, argument_type) if inner is int else False
    if signature_type is float and argument_type is int:
        return True
    if isinstance(signature_type, type) and isinstance(argument_type, type):
        return issubclass(argument_type, signature_type)
    return False


def _fits(signature, args, kwargs, arg_types, kwarg_types):
    """The bound arguments, if they fit by number, name and (where given) type."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    if arg_types is not None or kwarg_types is not None:
        kinds = signature.bind(*(arg_types or ()), **(kwarg_types or {}))
        for name, kind in kinds.arguments.items():
            if not type_matches(signature.parameters[name].annotation, kind):
                return None
    return bound


def _named(signature, bound, only_kwargs):
    bound.apply_defaults()
    args, kwargs = [], {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            args.extend(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            kwargs.update(value)
        elif kind is inspect.Parameter.POSITIONAL_ONLY or (
            not only_kwargs and kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ):
            args.append(value)
        else:
            kwargs[name] = value
    return ArgsKwargsPair(tuple(args), kwargs)


def _value_fits(annotation, value):
    """Whether a plain value (no node) may go where the annotation is."""
    from tessera.fx.node import Node

    plain = True

    def look(leaf):
        nonlocal plain
        plain &= not isinstance(leaf, Node)

    map_aggregate(value, look)
    if not plain or annotation in (typing.Any, inspect.Parameter.empty):
        return True
    kind = create_type_hint([type(e) for e in value]) if isinstance(value, (list, tuple)) else type(value)
    return type_matches(annotation, kind)


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
    """A call's arguments by the names of the function's signature, defaults filled in.

    Args:
        target: function.
        args, kwargs: the call's arguments.
        arg_types, kwarg_types: their types, where overloads must be told apart.
        normalize_to_only_use_kwargs: all by name, as far as the signature lets.

    Returns: ArgsKwargsPair, or None if no signature is known or fits. Errors: RuntimeError if several overloads fit.
    """
    kwargs = {} if kwargs is None else kwargs
    signatures = get_signature_for_torch_op(target)
    if inspect.isfunction(target) or not signatures:
        if not callable(target):
            return None
        try:
            signatures = [inspect.signature(inspect.unwrap(target))]
        except (TypeError, ValueError):
            return None
    fitting = []
    for signature in signatures:
        bound = _fits(signature, args, kwargs, arg_types, kwarg_types)
        if bound is None:
            continue
        kinds = signature.parameters
        if len(signatures) == 1 or all(_value_fits(kinds[n].annotation, v) for n, v in bound.arguments.items()):
            fitting.append(_named(signature, bound, normalize_to_only_use_kwargs))
    if not fitting:
        return None
    if len(fitting) > 1 and arg_types is None and kwarg_types is None and any(f != fitting[0] for f in fitting[1:]):
        raise RuntimeError(
            f"Tried to normalize arguments to {getattr(target, '__name__', target)} but the schema match was "
            "ambiguous! Please provide argument types to the normalize_arguments() call. Available schemas:\n"
            + "\n".join(map(str, signatures))
        )
    return fitting[0]


def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    """A submodule call's arguments by the names of its forward; as normalize_function.

    Args:
        root: Module. target: the submodule's path. Errors: RuntimeError if there is none.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(
            f"Tried to normalize arguments for module target {target} but root did not have submodule {target}!"
        ) from None
    signature = inspect.signature(type(module).forward)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    try:
        bound = signature.bind(*args, **({} if kwargs is None else kwargs))
    except TypeError:
        return None
    return _named(signature, bound, normalize_to_only_use_kwargs)
