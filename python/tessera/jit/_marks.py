"""What programs say about functions, methods and attributes to a compiler, and what they ask it."""

import builtins
import contextlib
import functools
import typing
from collections import namedtuple
from typing import Final  # noqa: F401

import tessera

from ._errors import Error  # noqa: F401

Attribute = namedtuple("Attribute", ["value", "type"])
Attribute.__doc__ = "The initial value of a module's attribute, and its type for the compiler."


class TracerWarning(Warning):
    """A traced program does what its trace may not repeat."""

    @staticmethod
    def ignore_lib_warnings():
        """Ignores those that the library itself causes."""
        import warnings

        warnings.filterwarnings("ignore", category=TracerWarning, module=r"(torch|tessera)\.(?!jit)")


class ScriptWarning(Warning):
    """A scripted program uses what is discouraged."""


class FunctionModifiers:
    """Values of the mark `_torchscript_modifier` on functions."""

    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (compile if called from a exported function / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method onto the scripted model"


def _marked(fn, modifier):
    target = fn.fget if builtins.isinstance(fn, property) else fn
    target._torchscript_modifier = modifier
    return fn


def export(fn):
    """Marks a method that is compiled with its module, though forward does not call it. Returns it."""
    return _marked(fn, FunctionModifiers.EXPORT)


def unused(fn):
    """Marks a method or property that compiled code replaces by an error. Returns it."""
    return _marked(fn, FunctionModifiers.UNUSED)


def ignore(drop=False, **kwargs):
    """Decorator, with or without arguments: compiled code calls the function as Python; with drop=True not at all.

    Errors: RuntimeError unless drop is a bool; TypeError for keywords that nobody knows.
    """
    if kwargs.keys() - {"drop_on_export"}:
        raise TypeError(f"ignore() got unexpected keyword arguments {sorted(kwargs)}")
    if callable(drop):
        return _marked(drop, FunctionModifiers.IGNORE)
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}")
    dropped = drop or kwargs.get("drop_on_export", False)
    return lambda fn: _marked(fn, FunctionModifiers.UNUSED if dropped else FunctionModifiers.IGNORE)


def script_method(fn):
    """Marks a method of a ScriptModule that is compiled when the module is made. Returns it."""
    return _marked(fn, FunctionModifiers.EXPORT)


def interface(obj):
    """Marks a class as an interface: modules that have its methods may stand where it is annotated. Returns it.

    Errors: RuntimeError unless it is a class.
    """
    if not builtins.isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    obj.__torch_script_interface__ = True
    return obj


_overloads = {}


def _overload(func):
    """Marks a declaration of a function's signature; the last definition is the one that runs. Returns it."""
    _overloads.setdefault(f"{func.__module__}.{func.__qualname__}", []).append(func)
    return func


_overload_method = _overload


def is_scripting():
    """Whether this code runs compiled: False in Python, True in a program."""
    return False


def is_tracing():
    """Whether a trace is under way on this thread."""
    return tessera._C._jit.is_tracing()


def script_if_tracing(fn):
    """A function that is compiled when it is first called during a trace, and runs as it is otherwise."""
    compiled = []

    @functools.wraps(fn)
    def call(*args, **kwargs):
        if not is_tracing():
            return fn(*args, **kwargs)
        if not compiled:
            compiled.append(tessera.jit.script(fn))
        return compiled[0](*args, **kwargs)

    call.__original_fn = fn
    call.__script_if_tracing_wrapper = True
    return call


_script_if_tracing = script_if_tracing


def _unwrap_optional(x):
    """x, which may be None by its type and is not. Errors: AssertionError where it is None."""
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


def annotate(the_type, the_value):
    """The value; the type is for the compiler."""
    return the_value


_BARE: dict = {
    **{kind: kind.__name__ for kind in (list, tuple, dict)},
    typing.List: "List",
    typing.Tuple: "Tuple",
    typing.Dict: "Dict",
    typing.Optional: "Optional",
}


def _is_a(obj, kind):
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return True
    if kind in _BARE:
        name = _BARE[kind]
        a, s, example = ("", "s", "int, int") if name.lower() == "dict" else ("a ", "", "int")
        raise RuntimeError(
            f"Attempted to use {name} without {a}contained type{s}. Please add {a}contained type, e.g. "
            f"{name}[{example}]"
        )
    if kind is None:
        return obj is None
    if origin is typing.Union or type(kind).__name__ == "UnionType":
        return any(_is_a(obj, k) for k in inner)
    if origin in (list, set):
        return builtins.isinstance(obj, origin) and all(_is_a(e, inner[0]) for e in obj)
    if origin is dict:
        return builtins.isinstance(obj, dict) and all(_is_a(k, inner[0]) and _is_a(v, inner[1]) for k, v in obj.items())
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return builtins.isinstance(obj, tuple) and all(_is_a(e, inner[0]) for e in obj)
        return builtins.isinstance(obj, tuple) and len(obj) == len(inner) and all(map(_is_a, obj, inner))
    return builtins.isinstance(obj, origin or kind)


def isinstance(obj, target_type):
    """isinstance() for types with parameters, too: `isinstance(x, List[int])` looks at the elements.

    Args:
        target_type: a type, one of typing, or a tuple of them.

    Errors: RuntimeError for a container without the type of its elements.
    """
    kinds = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return any(_is_a(obj, kind) for kind in kinds)


# --- settings of a compiler ---

_settings = {"fusion": [("STATIC", 2), ("DYNAMIC", 10)], "onednn": False, "optimized": True}


def set_fusion_strategy(strategy):
    """Which fusions compiled code tries, kept for a compiler.

    Args:
        strategy: list of ("STATIC" | "DYNAMIC", depth). Errors: ValueError for others.

    Returns: the strategy before.
    """
    for kind, depth in strategy:
        if kind not in ("STATIC", "DYNAMIC") or not builtins.isinstance(depth, int):
            raise ValueError(f"set_fusion_strategy: expected ('STATIC' or 'DYNAMIC', int), got {(kind, depth)!r}")
    before, _settings["fusion"] = _settings["fusion"], list(strategy)
    return before


def enable_onednn_fusion(enabled):
    """Whether compiled code uses oneDNN's fusions; kept for a compiler. Errors: TypeError unless it is a bool."""
    if not builtins.isinstance(enabled, bool):
        raise TypeError(f"enable_onednn_fusion: expected a bool, got {type(enabled).__name__}")
    _settings["onednn"] = enabled


def onednn_fusion_enabled():
    """What enable_onednn_fusion set; False at first."""
    return _settings["onednn"]


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """Context manager: whether compiled code is optimized; kept for a compiler."""
    before, _settings["optimized"] = _settings["optimized"], bool(should_optimize)
    try:
        yield
    finally:
        _settings["optimized"] = before


class strict_fusion:
    """Context manager of scripted code, in which everything must be fused. Elsewhere it warns, as documented."""

    def __enter__(self):
        import warnings

        if not tessera.jit.is_scripting():
            warnings.warn("Only works in script mode", stacklevel=2)

    def __exit__(self, *error):
        return None
