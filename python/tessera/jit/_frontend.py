"""What names in a program mean, and the declaration of its functions and classes. Everything is found when a program
first mentions it; the compiler (//jit) asks for it by name.
"""

import ast
import builtins
import enum
import functools
import inspect
import math
import re
import sys
import textwrap
import types
import typing
import warnings
import weakref

import tessera
from tessera._C import _jit

from ._errors import NotSupportedError
from ._marks import FunctionModifiers
from ._objects import ScriptClass
from ._types import UnknownType, is_named_tuple, simple, type_of, type_of_value

_jit.start()

_MATH = {
    "pow": "aten::pow",
    "remainder": "aten::mathremainder",
    "fmod": "aten::fmod",
    "fabs": "aten::fabs",
    "trunc": "aten::trunc",
}
_CMATH = {"phase": "aten::angle", "rect": "aten::polar"}


# --- sources ---


class Source:
    """The text of a function: its lines as they stand, the file, the number of the first line."""

    def __init__(self, text, file, line):
        self.text, self.file, self.line = text, file, line


def source_of(fn):
    """The Source of a function. Errors: OSError where Python has no text."""
    fn = inspect.unwrap(fn, stop=lambda f: hasattr(f, "__original_fn"))
    try:
        lines, line = inspect.getsourcelines(fn)
    except OSError as error:
        raise OSError(
            f"Can't get source for {fn}. TorchScript requires source access in order to carry out compilation, make "
            "sure original .py files are available."
        ) from error
    return Source("".join(lines), inspect.getsourcefile(fn) or "<unknown>", line)


def qualified_name(obj):
    """Where a function or class lives: __torch__.module.name."""
    module = getattr(obj, "__module__", None) or "__main__"
    name = getattr(obj, "__qualname__", None) or obj.__name__
    name = name.replace(".<locals>", "").replace("<lambda>", "lambda_").rpartition(".")[2]
    place = "" if module == "__main__" else f"{_public(module)}."
    return f"__torch__.{place}{name}"


def _public(module):
    """The package's modules have the name that other programs know them by."""
    head, dot, rest = module.partition(".")
    return f"torch{dot}{rest}" if head == "tessera" else module


# --- names ---


@functools.cache
def _specials():
    """Objects that mean something to the compiler itself, by identity."""
    import collections
    import warnings

    jit, auto = tessera.jit, tessera.autograd
    table = {
        jit.annotate: "annotate",
        jit.isinstance: "isinstance",
        jit.is_scripting: "is_scripting",
        jit.is_tracing: "is_tracing",
        jit.fork: "fork",
        jit.wait: "wait",
        jit._unwrap_optional: "_unwrap_optional",
        jit.Attribute: "Attribute",
        jit.strict_fusion: "strict_fusion",
        typing.cast: "cast",
        warnings.warn: "warn",
        collections.OrderedDict: "OrderedDict",
        tessera.no_grad: "no_grad",
        tessera.enable_grad: "enable_grad",
        tessera.set_grad_enabled: "set_grad_enabled",
        tessera.inference_mode: "inference_mode",
        tessera._assert: "_assert",
        tessera.compiler.is_compiling: "is_tracing",  # False in programs, as that one is
        tessera.compiler.is_dynamo_compiling: "is_tracing",
        tessera.compiler.is_exporting: "is_tracing",
        auto.profiler.record_function: "record_function",
        Ellipsis: "Ellipsis",
        **{getattr(typing, name): name for name in ("List", "Dict", "Tuple", "Optional", "Union")},
        tessera._jit_internal._copy_to_script_wrapper: "ignored",
    }
    for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
        table[getattr(tessera.overrides, name)] = "has_torch_function"
    return {id(k): (k, v) for k, v in table.items()}


_declared = weakref.WeakKeyDictionary()  # function -> _jit.Function
_classes = weakref.WeakKeyDictionary()  # class -> _jit.Type, or None


def lookup_in(fn):
    """A function from a name to classify() of what the name means inside of a function, or None."""
    code = getattr(fn, "__code__", None)
    cells = dict(zip(code.co_freevars, fn.__closure__ or ())) if code else {}
    globals_ = getattr(fn, "__globals__", {})
    owner = getattr(fn, "__qualname__", "").rpartition(".")[0]

    def find(name):
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:
                return _nothing
        if name in globals_:
            return globals_[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return _annotated(fn).get(name, _nothing)  # of a class or a default that is local to a function

    def resolve(name):
        if name.startswith("super()."):
            return _super_method(owner, name[8:], find)
        if name.startswith("$method."):  # of a tensor, which is no operator
            return _tensor_method(name[8:])
        head, *rest = name.split(".")
        value = find(head)
        if isinstance(value, tessera.Tensor) and not rest and head in _annotated(fn):  # a default value
            return ("constant", value, simple("Tensor"))
        for part in rest:
            value = getattr(value, part, _nothing)
        return None if value is _nothing else classify(value)

    return resolve


_nothing = object()
_annotated_names = weakref.WeakKeyDictionary()


def _annotated(fn):
    """What the names stand for that the text of a function's annotations and default values has: those objects know
    it, whatever the scope of the names was.
    """
    notes = getattr(fn, "__annotations__", None)
    defaults = getattr(fn, "__defaults__", None) or ()
    if not notes and not defaults:
        return {}
    if fn in _annotated_names:
        return _annotated_names[fn]
    found: dict = {}

    def pair(node, obj):
        if isinstance(node, ast.Name):
            found[node.id] = obj
        elif isinstance(node, ast.Subscript):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for part, given in zip(inner, typing.get_args(obj)):
                pair(part, given)

    try:
        given = ast.parse(textwrap.dedent(source_of(fn).text)).body[0]
        assert isinstance(given, (ast.FunctionDef, ast.AsyncFunctionDef))
        arguments = given.args
        for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if a.annotation is not None and a.arg in notes:
                pair(a.annotation, notes[a.arg])
        if given.returns is not None and "return" in notes:
            pair(given.returns, notes["return"])
        for node, value in zip(reversed(arguments.defaults), reversed(defaults)):
            if isinstance(node, ast.Name):
                found[node.id] = value
    except (OSError, SyntaxError, RuntimeError, TypeError, AssertionError):  # made of text that is nowhere
        for note in notes.values():
            if isinstance(note, (type, ScriptClass)):
                found.setdefault(getattr(note, "__name__", ""), note)
    return _annotated_names.setdefault(fn, found)


def _tensor_method(name):
    from ._definitions import METHODS

    return classify(getattr(tessera, name)) if name in METHODS else None


def _super_method(owner, name, find):
    cls = find("__class__")
    if cls is _nothing:
        cls = find(owner.rpartition(".")[2])
    if not inspect.isclass(cls):
        return None
    for base in cls.__mro__[1:]:
        if name in vars(base):
            return ("function", declare(inspect.unwrap(vars(base)[name])))
    return None


def classify(obj):
    """What an object is to a program: ("op" | "special" | "constant" | "function" | "type" | ..., details)."""
    special = _specials().get(id(obj))
    if special:
        return ("special", special[1])
    if isinstance(obj, ScriptClass):
        return ("type", obj._type())
    if obj is None or isinstance(obj, (bool, int, float, complex, str)) and not isinstance(obj, enum.Enum):
        return ("constant", obj, type_of_value(obj))
    if isinstance(obj, types.ModuleType):
        return ("host", obj)
    if obj is tessera.Size:
        return ("builtin", "list")
    if inspect.isclass(obj):
        return _classify_class(obj)
    if isinstance(obj, ScriptFunction):
        return ("function", obj._handle())
    if isinstance(obj, enum.Enum):
        kind = class_type(type(obj))
        return ("constant", obj, kind) if kind else ("host", obj)
    if isinstance(obj, _constant_kinds()):
        return ("constant", obj, type_of_value(obj))
    if isinstance(obj, tuple):
        kind = type_of_value(obj, class_type)
        return ("constant", obj, kind) if kind else ("host", obj)
    op = operator_of(obj)
    if op:
        return ("op", op)
    if isinstance(obj, types.BuiltinFunctionType) and getattr(builtins, obj.__name__, None) is obj:
        return ("builtin", obj.__name__)
    if callable(obj) and (inspect.isfunction(obj) or hasattr(obj, "__wrapped__") or inspect.ismethod(obj)):
        return _classify_function(obj)
    if not isinstance(obj, (list, dict, set, tessera.nn.Module)):
        try:
            return ("type", type_of(obj, None, class_type))
        except UnknownType:
            pass
    return ("host", obj)


@functools.cache
def _constant_kinds():
    return (tessera.device, tessera.dtype, tessera.layout, tessera.memory_format)


def operator_of(obj):
    """The operator ("aten::add") that a callable is, or None."""
    found = _jit.op_name(obj)
    if found:
        return found
    name, module = getattr(obj, "__name__", None), getattr(obj, "__module__", None)
    if module == "tessera.ops.quantized":
        tessera.ao.nn._quantized_scripts.start()
        return f"quantized::{name}" if _jit.has_op(f"quantized::{name}") else None
    if module == "tessera._root.quantized":
        tessera.ao.nn._quantized_scripts.start()
    if module in ("math", "cmath"):
        op = (_MATH if module == "math" else _CMATH).get(name, f"aten::{name}")
        return op if _jit.has_op(op) else None
    if isinstance(obj, types.BuiltinFunctionType) or (module or "").partition(".")[0] == "tessera":
        if name and (module or "").startswith("tessera.jit"):
            return None
        if obj is tessera.sparse.mm:
            return "aten::_sparse_mm"
        if obj is tessera.autograd.grad:
            return "aten::grad"
        if name == "get_cpu_capability" and module == "tessera.backends.cpu":
            return "aten::_get_cpu_capability"
        from ._definitions import VARIANTS

        if name and getattr(tessera, name, None) is obj and name not in VARIANTS and _jit.has_op(f"aten::{name}"):
            return f"aten::{name}"
    if type(obj).__name__ in ("OpOverloadPacket", "OpOverload"):
        return obj._qualified_op_name if hasattr(obj, "_qualified_op_name") else None
    return None


def _classify_class(cls):
    if issubclass(cls, BaseException):
        return ("exception", f"{cls.__module__}.{cls.__name__}")
    if getattr(builtins, cls.__name__, None) is cls:
        return ("builtin", cls.__name__)
    try:
        return ("type", type_of(cls, None, class_type))
    except UnknownType:
        return ("host", cls)


def _classify_function(fn):
    original = getattr(fn, "__original_fn", None)
    if original is not None:
        return classify(original)
    overloads = _overloads_of(fn)
    if overloads:
        return ("overloads", overloads)
    return ("function", declare(fn))


def _overloads_of(fn):
    from ._definitions import VARIANTS, definition_of
    from ._marks import _overloads

    variants = VARIANTS.get(fn.__name__) if definition_of(fn) else None
    if variants:
        functional = tessera.nn.functional
        others = (_helper(n)._handle() if n[0] == "_" else declare(getattr(functional, n)) for n in variants)
        return (declare(fn), *others)
    declared = _overloads.get(f"{fn.__module__}.{fn.__qualname__}")
    if not declared:
        return ()
    known = _declared.get(fn)
    if not isinstance(known, tuple):
        known = tuple(_with_signature(d, fn, qualified_name(fn)) for d in declared)
        _declared[fn] = known
    return known


def _with_signature(declaration, fn, name, owner=None, member=None):
    """A function with the signature of an @overload and the body of the implementation."""
    head, body = source_of(declaration).text, source_of(fn)
    text = _signature_text(head) + _type_comment(head) + _body_text(body.text)
    if owner is not None:  # archives know the methods by these names
        text = re.sub(r"\bdef\s+\w+", "def " + name.rpartition(".")[2], text, count=1)
    return _jit.define(text, body.file, body.line, name, lookup_in(fn), member or add_member, owner)


def _signature_text(text):
    start = text.index("def ")
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if text[i] == ":" and not depth:
            return text[start : i + 1]
    raise NotSupportedError("an overload without a signature")


_TYPES = re.compile(r"[^\S\n]*(?:#(?!\s*type:)[^\n]*)?\n?\s*(#\s*type:[^\n]*)")


def _type_comment(text):
    """The comment with types behind a signature, as the end of its line."""
    found = _TYPES.match(text, text.index("def ") + len(_signature_text(text)))
    return f"  {found[1]}\n   " if found else ""


def declaration_text(text):
    """A function's signature, with a body of nothing."""
    return _signature_text(text) + _type_comment(text) + " pass\n"


def _body_text(text):
    return text[text.index("def ") + len(_signature_text(text)) :]


def attribute(obj, name):
    """classify() of an attribute, or None."""
    value = getattr(obj, name, _nothing)
    return None if value is _nothing else classify(value)


# --- functions ---


def declare(fn):
    """The compiler's function for a Python function; it is compiled when it is needed."""
    fn = getattr(fn, "__original_fn", fn)
    if inspect.ismethod(fn):
        fn = fn.__func__
    known = _declared.get(fn)
    if known is not None and not isinstance(known, tuple):
        return known
    from ._definitions import STAYS_PYTHON, definition_of, left_to_python

    text = definition_of(fn)
    if text is not None:
        source, resolve = Source(text, "<torch.nn.functional>", 1), lookup_in(_definition_scope())
    else:
        source, resolve = source_of(fn), lookup_in(inspect.unwrap(fn))
    modifier = getattr(fn, "_torchscript_modifier", None)
    if modifier in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE):
        source.text = declaration_text(source.text)
    name = f"__torch__.torch.nn.functional.{fn.__name__}" if text is not None else qualified_name(fn)
    made = _jit.define(source.text, source.file, source.line, name, resolve, add_member, None)
    if text is not None and fn.__module__ in STAYS_PYTHON:
        made.leave(left_to_python(fn))
    mark(made, fn, modifier)
    _declared[fn] = made
    return made


def mark(made, fn, modifier):
    """What @unused and @ignore mean for a function of the compiler."""
    if modifier == FunctionModifiers.UNUSED:
        made.refuse(f"Non-scriptable function or method {fn.__name__} is marked as unused, it cannot be called")
    elif modifier == FunctionModifiers.IGNORE:
        made.leave(fn)


@functools.cache
def _definition_scope():
    import tessera.nn.functional as functional

    scope = {"torch": tessera, "nn": tessera._C._nn, "F": functional, "annotate": tessera.jit.annotate}
    scope.update({name: getattr(typing, name) for name in ("Optional", "List", "Tuple", "Dict", "Union")})
    scope["PackedSequence"] = tessera.nn.utils.rnn.PackedSequence
    scope.update(Tensor=tessera.Tensor, Device=tessera.device, Generator=tessera.Generator, math=math)
    return types.FunctionType((lambda: None).__code__, _Definitions(scope))


class _Definitions(dict):
    """Names for definitions, among them functions that only definitions have."""

    def __contains__(self, name):
        return super().__contains__(name) or _helper(name) is not None

    def __missing__(self, name):
        return _helper(name)


@functools.cache
def _helper(name):
    from ._definitions import helper

    text = helper(name) if name.startswith("_") else None
    if text is None:
        return None
    place = f"__torch__.torch.nn.functional.{name}"
    return ScriptFunction(
        None, _jit.define(text, "<torch.nn.functional>", 1, place, lookup_in(_definition_scope()), add_member, None)
    )


def add_member(host, name):
    """A member of a class that the compiler asks for: True where it was added, what it is to a program, or None."""
    return host.add_member(name)


class ScriptFunction:
    """A function that was given to script() or trace().

    Calling it runs the compiled program, or the Python function where that could not be compiled at the first call
    (with a ScriptWarning). `graph` is the program, `code` its text, `schema` its signature.
    """

    def __init__(self, function=None, handle=None):
        if function is not None:
            functools.update_wrapper(self, function)
        self._function, self._made = function, handle
        self._interpreted = False

    def _handle(self):
        """The compiler's function; compiled at the first use."""
        if self._made is None:
            made = declare(self._function)
            made.compile()
            self._made = made
        return self._made

    def __call__(self, *args, **kwargs):
        return (self._made or self._runnable())(*args, **kwargs)

    def _runnable(self):
        """The compiled function. A decorated function of a file that does not compile at its first call stays Python,
        with a warning.
        """
        if self._interpreted:
            return self._function
        try:
            return self._handle()
        except NotSupportedError:  # what the language is known not to have
            raise
        except (RuntimeError, OSError) as error:
            if self._function is None:
                raise
            name = getattr(self._function, "__qualname__", "a function")
            text = f"{name} runs as Python, since it cannot be compiled: {error}"
            warnings.warn(text, tessera.jit.ScriptWarning, stacklevel=3)
            self._interpreted = True
            return self._function

    def __get__(self, instance, owner):
        return self if instance is None else functools.partial(self, instance)

    name = property(lambda self: self._handle().name, doc="The function's name.")
    qualified_name = property(lambda self: self._handle().qualified_name, doc="Its place and name.")
    graph = property(lambda self: self._handle().graph, doc="What it does, as a graph.")
    inlined_graph = property(
        lambda self: self._handle().inlined_graph, doc="The same with all calls replaced by what they do."
    )
    code = property(lambda self: _jit.source(self._handle()), doc="The text of the compiled program.")
    code_with_constants = property(lambda self: (self.code, {}), doc="The text, and the constants that it mentions.")
    schema = property(lambda self: self._handle().schema, doc="The signature with its types.")

    def graph_for(self, *args, **kwargs):
        """The graph that runs for these arguments: the optimized one."""
        return self._handle().optimized_graph

    def save(self, f, _extra_files=None):
        """Writes an archive; see tessera.jit.save."""
        tessera.jit.save(self, f, _extra_files=_extra_files)

    def save_to_buffer(self, _extra_files=None):
        """The archive as bytes."""
        import io

        buffer = io.BytesIO()
        tessera.jit.save(self, buffer, _extra_files=_extra_files)
        return buffer.getvalue()

    def get_debug_state(self):
        """Errors: RuntimeError; there is no profiling executor."""
        raise RuntimeError("get_debug_state: compiled functions keep no state of an executor")


def definitions(text):
    """The texts of the functions in a text, each from its `def` on."""
    pieces = []
    for line in textwrap.dedent(text).split("\n"):
        if line.startswith("def "):
            pieces.append("")
        if pieces:
            pieces[-1] += line + "\n"
    return pieces


# --- classes ---


def class_type(cls):
    """The type of a class that programs can use: enums, named tuples, classes with methods. None for others."""
    if cls in _classes:
        return _classes[cls]
    if issubclass(cls, (tessera.nn.Module, BaseException, types.ModuleType, type)) or cls.__module__ == "builtins":
        if not getattr(cls, "__torch_script_interface__", False):
            return None
    if getattr(cls, "__torch_script_interface__", False):
        return _interface(cls)
    if is_named_tuple(cls):
        return _named_tuple(cls)
    if issubclass(cls, enum.Enum):
        return _enum(cls)
    if cls.__module__.partition(".")[0] in ("tessera", "typing", "collections", "abc", "types", "functools"):
        return None
    return compile_class(cls)


def _named_tuple(cls):
    notes = {}
    for base in reversed(cls.__mro__):
        notes.update(vars(base).get("__annotations__", {}))
    names = lookup_in_module(cls)
    plain = {f: getattr(note, "__forward_arg__", note) for f, note in notes.items()}
    kinds = tuple(type_of(plain[f], names, class_type) if f in plain else simple("Tensor") for f in cls._fields)
    made = _jit.named_tuple(qualified_name(cls), tuple(cls._fields), kinds, dict(cls._field_defaults))
    _classes[cls] = made
    PYTHON_CLASSES[made.label] = cls
    return made


PYTHON_CLASSES = {}  # qualified name of a named tuple or enum -> class


def lookup_in_module(cls):
    """Names as the module of a class sees them."""
    scope = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    return lookup_in(types.FunctionType((lambda: None).__code__, scope))


def _enum(cls):
    made = _jit.new_class("enum", qualified_name(cls))
    _classes[cls] = made.type
    kinds = {type(item.value) for item in cls}
    if len(kinds) != 1:
        raise RuntimeError(
            f"Could not unify type list for the values of the enum {cls.__name__}: Enum-based classes need "
            "values of one type"
        )
    for item in cls:
        made.add_constant(item.name, item.value, type_of_value(item.value))
    PYTHON_CLASSES[made.name] = cls
    return made.type


def _methods_of(cls):
    for name, value in vars(cls).items():
        if isinstance(value, (types.FunctionType, staticmethod, classmethod, property)):
            yield name, value


def _interface(cls):
    made = _jit.new_class("interface", qualified_name(cls))
    _classes[cls] = made.type
    for base in reversed(cls.__mro__):
        if base is object or base.__module__.startswith("tessera."):
            continue
        for name, value in _methods_of(base):
            if isinstance(value, types.FunctionType):
                source = source_of(value)
                fn = _jit.define(
                    source.text, source.file, source.line, f"{made.name}.{name}", lookup_in(value), add_member, made
                )
                fn.declare()
                made.add_method(fn, "method")
    return made.type


class _ClassHost:
    """What the compiler asks of a class that it does not know yet."""

    def __init__(self, cls, made):
        self.cls, self.made = cls, made

    def add_member(self, name):
        value = inspect.getattr_static(self.cls, name, _nothing)
        if isinstance(value, (bool, int, float, str)):
            return classify(value)
        return None


def compile_class(cls):
    """The type of a Python class; its methods are compiled when they are called, __init__ when it is first made.

    Errors: RuntimeError for a class with bases.
    """
    if cls.__bases__ != (object,):
        if any(b.__module__ not in ("typing", "builtins", "abc") for b in cls.__bases__):
            raise RuntimeError(
                f"TorchScript classes does not support inheritance yet. Please directly inherit from 'object': {cls}"
            )
    made = _jit.new_class("class", qualified_name(cls))
    _classes[cls] = made.type
    PYTHON_CLASSES[made.name] = cls
    made.set_host(_ClassHost(cls, made))
    try:
        if hasattr(cls, "__dataclass_fields__"):
            _dataclass(cls, made)
        for name, value in _methods_of(cls):
            _add_method(cls, made, name, value)
        for f in made.methods:
            if f.name == "__init__":
                f.compile()
        for f in made.methods:
            f.compile()
    except BaseException:
        del _classes[cls]
        raise
    return made.type


# What the decorator puts into a class; __replace__ since Python 3.13.
_OF_DATACLASSES = "__init__ __eq__ __repr__ __hash__ __replace__ __lt__ __le__ __gt__ __ge__".split()
# What a dataclass compares for each field.
_TEST = ("    if self.FIELD != other.FIELD:", "        return False")
_OPTIONAL_TEST = (
    "    FIELD, other_FIELD = self.FIELD, other.FIELD",
    "    if FIELD is None or other_FIELD is None:",
    "        if not (FIELD is None and other_FIELD is None):",
    "            return False",
    "    elif FIELD != other_FIELD:",
    "        return False",
)


def _dataclass(cls, made):
    """The __init__ and the comparisons that a dataclass has by its fields."""
    import dataclasses

    every = [f for f in cls.__dataclass_fields__.values() if f._field_type is not dataclasses._FIELD_CLASSVAR]
    fields = dataclasses.fields(cls)
    scope = lookup_in_module(cls)
    arguments, lines, given, kinds = [], [], [], {}
    for f in every:
        only_given = isinstance(f.type, dataclasses.InitVar)
        kind = kinds[f.name] = type_of(f.type.type if only_given else f.type, scope, class_type)
        if f.default_factory is not dataclasses.MISSING:
            raise NotImplementedError(
                f"scripts have no default factories: field {f.name} of {cls.__name__}; give it in each call"
            )
        default = "" if f.default is f.default_factory else f" = {f.default!r}"
        arguments.append(f"{f.name}: {kind.annotation_str}{default}")
        if only_given:
            given.append(f.name)
        else:
            lines.append(f"    self.{f.name} = {f.name}")
    if hasattr(cls, "__post_init__"):
        lines.append(f"    self.__post_init__({', '.join(given)})")
    text = f"def __init__(self, {', '.join(arguments)}):\n" + ("\n".join(lines) or "    pass") + "\n"
    made.add_method(
        _jit.define(text, "<dataclass>", 1, f"{made.name}.__init__", _with_types(scope, kinds), add_member, made),
        "method",
    )
    compared = [f.name for f in fields if f.compare]
    texts = {}
    if cls.__dataclass_params__.eq:
        tests = (_OPTIONAL_TEST if kinds[n].annotation_str.startswith("Optional[") else _TEST for n in compared)
        lines = [line.replace("FIELD", n) for n, test in zip(compared, tests) for line in test]
        texts["__eq__"] = [*lines, "    return True", ""]
    if cls.__dataclass_params__.order:  # as tuples are compared
        for name, how in (("__lt__", "<"), ("__le__", "<="), ("__gt__", ">"), ("__ge__", ">=")):
            lines = [f"    if self.{n} != other.{n}:\n        return self.{n} {how} other.{n}" for n in compared]
            texts[name] = [*lines, f"    return {how[1:] == '='}", ""]
    for name, lines in texts.items():
        if _generated(vars(cls).get(name)):
            text = f"def {name}(self, other: {made.name}) -> bool:\n" + "\n".join(lines)
            scope_of_class = _with_types(scope, {made.name: made.type})
            made.add_method(
                _jit.define(text, "<dataclass>", 1, f"{made.name}.{name}", scope_of_class, add_member, made), "method"
            )


def _with_types(scope, kinds):
    by_text = {k.annotation_str: k for k in kinds.values()}

    def resolve(name):
        kind = kinds.get(name) or by_text.get(name)
        return ("type", kind) if kind else scope(name)

    return resolve


def _generated(fn):
    """Whether a method of a dataclass is what the decorator made: it is in no file."""
    import dataclasses
    import reprlib

    code = getattr(inspect.unwrap(fn), "__code__", None) if fn is not None else None
    return code is not None and code.co_filename in ("<string>", dataclasses.__file__, reprlib.__file__)


def _add_method(cls, made, name, value):
    if hasattr(cls, "__dataclass_fields__") and name in _OF_DATACLASSES and _generated(value):
        return
    if isinstance(value, classmethod):
        return
    if isinstance(value, property):
        unused = getattr(cls, "__jit_unused_properties__", ())
        if name in unused or getattr(value.fget, "_torchscript_modifier", None) == FunctionModifiers.UNUSED:
            return
        for how, fn in (("getter", value.fget), ("setter", value.fset)):
            if fn is not None:
                made.add_method(define_method(cls, made, fn, f"{made.name}.{name}"), how)
        return
    static = isinstance(value, staticmethod)
    fn = inspect.unwrap(value.__func__ if static else value)
    made_fn = define_method(cls, made, fn, f"{made.name}.{name}")
    if static:
        made_fn.make_static()
    made.add_method(made_fn, "static" if static else "method")


def define_method(cls, made, fn, name, member=None):
    """The compiler's function for a method, with what its marks mean."""
    source = source_of(fn)
    modifier = getattr(fn, "_torchscript_modifier", None)
    if modifier in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE):
        source.text = declaration_text(source.text)
    resolve = lookup_in(fn)
    own = lambda wanted: ("type", made.type) if wanted == cls.__name__ else resolve(wanted)
    method = _jit.define(source.text, source.file, source.line, name, own, member or add_member, made)
    mark(method, fn, modifier)
    return method
