"""script: functions, classes and modules that a compiler would take, run as the Python that they are."""

import copy
import functools
import inspect
import textwrap

import tessera
from tessera.nn import Module

_WHY = "there is no TorchScript compiler in this version: scripted code runs as Python"


def _missing(what):
    raise NotImplementedError(f"{what} is not there, because {_WHY}")


class _Source:
    """What functions and modules that were scripted have in common: their text, and what needs a compiler."""

    @property
    def code(self):
        """The Python text. Errors: RuntimeError where Python has none."""
        function = self._source_of()
        try:
            lines = inspect.getsource(function)
        except (OSError, TypeError):
            raise RuntimeError(f"the source of {function!r} is not available") from None
        text = textwrap.dedent(lines)
        return text[text.index("def ") :] if "def " in text else text

    @property
    def graph(self):
        """Errors: NotImplementedError."""
        _missing("the graph of scripted code")

    inlined_graph = graph

    def save(self, f, **kwargs):
        """Errors: NotImplementedError."""
        _missing(f"jit.save() to {f!r}" + (f" with {sorted(kwargs)}" if kwargs else ""))


class ScriptFunction(_Source):
    """A function that was given to script(). Calling it calls the function."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __get__(self, instance, owner):
        return self if instance is None else functools.partial(self, instance)

    def _source_of(self):
        return self._function

    @property
    def name(self):
        """The function's name."""
        return self._function.__name__

    @property
    def qualified_name(self):
        """The function's place and name."""
        return f"__torch__.{self._function.__module__}.{self._function.__qualname__}"


class ScriptModule(_Source, Module):
    """A module that was given to script(): it has the same parameters, children and methods."""

    def _source_of(self):
        return type(self).forward

    @property
    def original_name(self):
        """The name of the class that was scripted."""
        return type(self).__name__.removeprefix("Scripted")


RecursiveScriptModule = ScriptModule


class CompilationUnit:
    """A group of scripted functions, by their names.

    Args:
        lang: text of functions. Errors: NotImplementedError, as it would have to be compiled.
    """

    def __init__(self, lang="", _frames_up=0):
        if lang:
            _missing("a CompilationUnit of text")
        self._functions = {}

    def __getattr__(self, name):
        if name.startswith("__") or name not in self.__dict__.get("_functions", {}):
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return self._functions[name]


@functools.cache
def _class_of(kind):
    return type(
        f"Scripted{kind.__name__}", (ScriptModule, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__}
    )


def _scripted(module):
    if not isinstance(module, Module) or isinstance(module, ScriptModule):
        return module
    made = copy.copy(module)
    for name, value in vars(module).items():
        if type(value) is dict or name in ("_parameters", "_buffers", "_modules"):
            made.__dict__[name] = copy.copy(value)
    for name, value in list(vars(made).items()):
        if isinstance(value, tessera.jit.Attribute):
            made.__dict__[name] = value.value
    for name, child in made._modules.items():
        made._modules[name] = _scripted(child)
    made.__class__ = _class_of(type(module))
    return made


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Takes a function, class or module for compilation. In this version it runs as Python, with the same results; the
    text is `.code`, and graphs and archives raise NotImplementedError.

    Args:
        obj: function (also as a decorator), class, or Module. A Module's parameters are shared.
        optimize: deprecated. example_inputs, _frames_up, _rcb: for a compiler.

    Returns: ScriptFunction, the class itself, or a ScriptModule.
    Errors: TypeError for anything else.
    """
    if optimize is not None:
        import warnings

        warnings.warn(
            "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead",
            FutureWarning,
            stacklevel=2 + _frames_up,
        )
    if isinstance(obj, (ScriptFunction, ScriptModule, type)):
        return obj
    if isinstance(obj, Module):
        return _scripted(obj)
    if callable(obj) and hasattr(obj, "__code__"):
        return ScriptFunction(obj)
    raise TypeError(f"script: expected a function, a class or a Module, got {type(obj).__name__}")
