"""script: compiles functions, classes and modules."""

import builtins
import copy
import enum
import inspect
import sys
import warnings

import tessera
from tessera._C import _jit
from tessera.nn import Module

from ._frontend import ScriptFunction, add_member, class_type, compile_class, definitions, lookup_in
from ._marks import FunctionModifiers
from ._modules import RecursiveScriptModule, ScriptModule, script_module  # noqa: F401
from ._objects import ScriptObject, wrapped_object


def _decorates_a_module(fn, frames_up):
    """Whether script stands as a decorator of a function of a file: then it is compiled when it is first used."""
    frame = sys._getframe(2 + frames_up)
    first = fn.__code__.co_firstlineno
    # Python 3.10 is at the line of `def` when it calls a decorator, later ones are at the decorator's, the first.
    body = min((line for _, _, line in fn.__code__.co_lines() if line and line > first), default=first)
    return (
        frame.f_code.co_name == "<module>"
        and first <= frame.f_lineno <= body
        and frame.f_code.co_filename == fn.__code__.co_filename
    )


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Compiles a function, a class or a module, so that it runs without Python.

    A function that is decorated at the top of a file is compiled when it is first used, all else at once.

    Args:
        obj: function (also as a decorator), class, Module (its parameters are shared), an Enum or NamedTuple class, or
            a list or dict, whose elements are copied, or an object of a class that can be compiled.
        optimize: deprecated. example_inputs: calls that show the types of arguments without annotations: a list of
            tuples, or a dict from modules to such.

    Returns: ScriptFunction, the class itself, a ScriptModule, or a ScriptList or ScriptDict that programs share.
    Errors: RuntimeError, with the place in the source, for what the language does not have; TypeError for objects that
        are none of these.
    """
    if optimize is not None:
        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead",
            FutureWarning,
            stacklevel=2 + _frames_up,
        )
    if isinstance(obj, (ScriptFunction, ScriptModule, ScriptObject)):
        return obj
    obj = _prepared(obj)
    if isinstance(obj, Module):
        if example_inputs is not None:
            _observe(obj, example_inputs)
        return script_module(obj)
    if inspect.isclass(obj):
        return _class(obj)
    if inspect.isfunction(obj) or inspect.ismethod(obj):
        if getattr(obj, "__script_if_tracing_wrapper", False):
            obj = obj.__original_fn
        made = ScriptFunction(obj)
        if example_inputs is not None:
            _annotate(obj, example_inputs)
        if _frames_up or not hasattr(obj, "__code__") or not _decorates_a_module(obj, 0):
            made._handle()
        return made
    if isinstance(obj, (list, dict)):
        from ._data import shared

        return shared(obj)
    if type(obj).__module__ == "builtins":
        raise TypeError(f"script: expected a function, a class or a Module, got {type(obj).__name__}")
    kind = class_type(type(obj))
    if kind is None or kind.class_ is None:
        raise TypeError(f"script: expected a function, a class or a Module, got {type(obj).__name__}")
    made = kind.class_.new()
    for name, *_ in kind.class_.attributes:
        made.set(name, getattr(obj, name))
    return wrapped_object(made)


def _prepared(obj):
    """What stands for an object in scripts: the result of its __prepare_scriptable__ method, where it has one. Modules
    with such members, at any depth, are copies that hold what stands for these.
    """
    prepare = getattr(type(obj), "__prepare_scriptable__", None)
    if prepare is not None:
        obj = prepare(obj)
    if isinstance(obj, Module) and not isinstance(obj, ScriptModule):
        for place in (obj._modules, vars(obj)):
            own = [(n, v) for n, v in place.items() if place is obj._modules or not isinstance(v, Module)]
            changed = {n: p for n, v in own if (p := _prepared(v)) is not v}
            if changed and place is obj._modules:
                obj = copy.copy(obj)
                obj._modules = {**obj._modules, **changed}
            elif changed:
                obj = copy.copy(obj)
                vars(obj).update(changed)
    return obj


def _class(cls):
    if issubclass(cls, Module):
        raise RuntimeError(
            f"Type '{cls}' cannot be compiled since it inherits from nn.Module, consider passing an instance instead"
        )
    if issubclass(cls, (enum.Enum, tuple)):
        class_type(cls)
        return cls
    if not getattr(cls, "__torch_script_interface__", False):
        if cls.__bases__ != (object,):
            raise RuntimeError(
                "TorchScript classes does not support inheritance yet. Please directly inherit from 'object'."
            )
        if class_type(cls) is None:
            compile_class(cls)
    return cls


def _annotate(fn, calls):
    """Annotations for the arguments that have none, from what they are in some calls."""
    from ._types import type_of_value

    names = list(inspect.signature(fn).parameters)
    for call in calls:
        for name, value in zip(names, call):
            if name in fn.__annotations__:
                continue
            kind = type_of_value(value, class_type)
            if kind is not None:
                fn.__annotations__[name] = kind


def _observe(module, calls):
    pairs = calls.items() if isinstance(calls, dict) else [(module, calls)]
    for m, own in pairs:
        _annotate(type(m).forward, [(None, *c) for c in own])


class CompilationUnit:
    """A group of functions of a text, by their names.

    Args:
        lang: text of functions.
    """

    def __init__(self, lang=None, _frames_up=0):
        self._functions = {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, src, rcb=None, _frames_up=0):
        """Adds the functions of a text."""
        frame = sys._getframe(1 + _frames_up)
        scope = {**vars(builtins), "torch": tessera, **frame.f_globals, **frame.f_locals}
        import types

        resolve = lookup_in(types.FunctionType((lambda: None).__code__, scope))

        def find(name):
            own = self._functions.get(name)
            return ("function", own._handle()) if own else resolve(name)

        made = []
        for piece in definitions(src):
            handle = _jit.define(
                piece, "<string>", 1, f"__torch__.{piece[4 : piece.index('(')].strip()}", find, add_member, None
            )
            self._functions[handle.name] = ScriptFunction(None, handle)
            made.append(handle)
        for handle in made:
            handle.compile()

    def __getattr__(self, name):
        if name.startswith("__") or name not in self.__dict__.get("_functions", {}):
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return self._functions[name]

    def get_functions(self):
        """The functions, in the order of the text."""
        return list(self._functions.values())

    find_function = __getattr__
