"""Types of what pipes give: `class Numbers(IterDataPipe[int])`, checked where the decorators ask for it."""

import functools
import inspect
import types
import typing

_enabled = True


def alias(cls, item):
    """IterDataPipe[int], as a base class or an annotation."""
    return types.GenericAlias(cls, item)


def remember_type(cls):
    """Keeps the type in `IterDataPipe[...]` among the bases of a class as its attribute `type`."""
    for base in cls.__dict__.get("__orig_bases__", ()):
        if isinstance(base, types.GenericAlias) and hasattr(typing.get_origin(base), "functions"):
            cls.type = typing.get_args(base)[0]


def type_of(pipe):
    """The type that a pipe, or an annotation such as IterDataPipe[int], gives; Any if it does not say."""
    if isinstance(pipe, types.GenericAlias):
        return typing.get_args(pipe)[0]
    return getattr(pipe, "type", typing.Any)


def conforms(value, hint):
    """Whether a value is of a type: a class, Any, or lists, tuples, dicts, sets, unions and literals of them."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any or isinstance(hint, typing.TypeVar):
        return True
    if hint is None:
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, arg) for arg in args)
    if origin is typing.Literal:
        return value in args
    if origin is None:
        return not isinstance(hint, type) or isinstance(value, hint)
    if not isinstance(value, origin):
        return False
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return all(conforms(item, args[0]) for item in value)
        return len(value) == len(args) and all(map(conforms, value, args))
    if issubclass(origin, dict):
        return all(conforms(k, args[0]) and conforms(v, args[1]) for k, v in value.items())
    if issubclass(origin, (list, set, frozenset)):
        return all(conforms(item, args[0]) for item in value)
    return True


def fits(given, wanted):
    """Whether all values of the type `given` are of the type `wanted`."""
    if wanted is typing.Any or given == wanted:
        return True
    if given is typing.Any:
        return False
    union = (typing.Union, types.UnionType)
    if typing.get_origin(given) in union:
        return all(fits(arg, wanted) for arg in typing.get_args(given))
    if typing.get_origin(wanted) in union:
        return any(fits(given, arg) for arg in typing.get_args(wanted))
    origins = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if not all(isinstance(origin, type) for origin in origins) or not issubclass(*origins):
        return False
    args, wanted_args = typing.get_args(given), typing.get_args(wanted)
    return not wanted_args or (len(args) == len(wanted_args) and all(map(fits, args, wanted_args)))


def argument_validation(f):
    """Decorator: arguments annotated with IterDataPipe or MapDataPipe, or one of a type, have to be such pipes.

    Raises: TypeError at the call for those that are not.
    """
    signature, hints = inspect.signature(f), typing.get_type_hints(f)

    @functools.wraps(f)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            kind = typing.get_origin(hint) or hint
            if not (isinstance(kind, type) and hasattr(kind, "functions")):
                continue
            if not isinstance(value, kind):
                raise TypeError(f"Expected argument {name!r} as a {kind.__name__}, but found {type(value).__name__}")
            if not fits(type_of(value), type_of(hint)):
                raise TypeError(
                    f"Expected type of argument {name!r} as a subtype of {type_of(hint)}, but found {type_of(value)}"
                )
        return f(*args, **kwargs)

    return checked


class runtime_validation_disabled:
    """`with runtime_validation_disabled():` samples are not checked. Also a decorator."""

    def __init__(self):
        self._before = []

    def __enter__(self):
        global _enabled
        self._before.append(_enabled)
        _enabled = False

    def __exit__(self, exc_type, exc_value, traceback):
        global _enabled
        _enabled = self._before.pop()

    def __call__(self, function):
        @functools.wraps(function)
        def unchecked(*args, **kwargs):
            with runtime_validation_disabled():
                return function(*args, **kwargs)

        return unchecked


def runtime_validation(f):
    """Decorator of a pipe's `__iter__`: samples have to be of the type in the class's `IterDataPipe[type]`.

    Raises: TypeError for another method, RuntimeError during iteration for a sample of another type.
    """
    if f.__name__ != "__iter__":
        raise TypeError(f"runtime_validation is for the method __iter__ of pipes, but got {f.__name__}")

    @functools.wraps(f)
    def checked(self):
        wanted = type_of(self)
        for value in f(self):
            if _enabled and not conforms(value, wanted):
                raise RuntimeError(
                    f"Expected an instance as subtype of {wanted}, but found {value!r} ({type(value).__name__})"
                )
            yield value

    return checked
