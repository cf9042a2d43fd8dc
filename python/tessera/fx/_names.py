"""How functions are called in text: in a node's name, in generated code and in a graph's printed form."""

import builtins
import functools
import keyword
import operator
import re
import types

import tessera

_TAKEN = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"self"}
# What generated code calls by these names.
_GLOBALS = frozenset({"inf", "nan", "NoneType", "torch", "device"})
_NUMBERED = re.compile(r"(.*?)_(\d+)$")
_ILLEGAL = re.compile(r"\W")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Namespace:
    """Names in use: gives out `base`, `base_1`, `base_2` ..."""

    def __init__(self):
        self._last = {}
        self._used = {}  # name -> what it is for, None where that does not matter

    def create(self, wanted, obj=None):
        """A name like `wanted` that is an identifier, no builtin and not in use. An object keeps its first name."""
        name = wanted
        if not name.isidentifier():
            name = _ILLEGAL.sub("_", wanted) or "_unnamed"
            if name[0].isdigit():
                name = "_" + name
        if name not in self._used and name not in _TAKEN and name not in _GLOBALS:
            self._used[name] = obj
            return name
        numbered = _NUMBERED.match(name)
        base, count = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        count = max(count, self._last.get(base, 0)) + 1
        while f"{base}_{count}" in self._used:
            count += 1
        self._last[base] = count
        name = f"{base}_{count}"
        self._used[name] = obj
        return name

    def reserve(self, name):
        self._used.setdefault(name, None)

    def claim(self, name):
        """Takes a name that nothing has, even that of a builtin function. False if it is in use."""
        free = name not in self._used and name not in _GLOBALS
        return free and self._used.setdefault(name, None) is None

    def give_back(self, name):
        self._used.pop(name, None)

    def is_free(self, name):
        return name not in self._used and name not in _TAKEN


@functools.lru_cache(maxsize=4096)
def snake_case(name):
    return _CAMEL.sub("_", name).lower()


def shown_module(name):
    """A module's name as the program knows the library (`torch` under the launcher and its aliases)."""
    head, dot, rest = name.partition(".")
    return tessera._display_name + dot + rest if head == "tessera" else name


@functools.cache
def _home_of_builtin(func):
    """For functions of the extension: the public module that offers the very object under its own name."""
    name = func.__name__
    for place in ("", "nn.functional", "special", "linalg", "fft", "_C._nn"):
        module = tessera
        for part in filter(None, place.split(".")):
            module = getattr(module, part, None)
        for candidate in (name, name.partition("_")[2]):
            if candidate and getattr(module, candidate, None) is func:
                return ".".join(filter(None, ("tessera", place))), candidate
    return getattr(func, "__module__", None) or "tessera", name


def qualified_name(func):
    """The dotted path by which a program reaches a function or type, such as `torch.nn.functional.relu`."""
    from tessera._ops import OpOverload, OpOverloadPacket

    if isinstance(func, (OpOverload, OpOverloadPacket)):
        return f"{tessera._display_name}.ops.{str(func)}"
    if getattr(builtins, getattr(func, "__name__", ""), None) is func:
        return func.__name__
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"{shown_module('tessera')}.Tensor.{func.__name__}"
    name = getattr(func, "__name__", None) or type(func).__name__
    module = getattr(func, "__module__", None) or ""
    if isinstance(func, types.BuiltinFunctionType) and module.partition(".")[0] in ("torch", "tessera"):
        module, name = _home_of_builtin(func)
    elif name != "<lambda>" and "<locals>" not in getattr(func, "__qualname__", name):
        name = getattr(func, "__qualname__", name)
        if module.partition(".")[0] == "tessera" and getattr(tessera, name, None) is func:
            module = "tessera"
    module = {"_operator": "operator", "torch": "tessera"}.get(module, module)
    return f"{shown_module(module)}.{name}" if module else name


def shown_target(func):
    """As a printed graph names a call's target."""
    if isinstance(func, str):
        return func
    name = qualified_name(func)
    return f"builtins.{name}" if "." not in name and hasattr(builtins, name) else name


# Calls that code writes as statements, after which the result is what the name was.
IN_PLACE = {
    getattr(operator, name): sign
    for name, sign in {
        "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "imod": "%=", "ipow": "**=",
        "imatmul": "@=", "ilshift": "<<=", "irshift": ">>=", "iand": "&=", "ior": "|=", "ixor": "^=",
    }.items()
}  # fmt: skip

# Calls that code writes as Python's operators.
INFIX = {
    getattr(operator, name): f"{{}} {sign} {{}}"
    for name, sign in {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
        "matmul": "@", "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
        "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    }.items()
} | {operator.neg: "-{}", operator.pos: "+{}", operator.invert: "~{}", operator.getitem: "{}[{}]"}  # fmt: skip
