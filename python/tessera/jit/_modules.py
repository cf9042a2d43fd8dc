"""Modules as programs: their classes for the compiler, and the modules that hold the compiled ones."""

import copy
import functools
import inspect
import re
import textwrap
import types

import tessera
from tessera._C import _jit
from tessera.nn import Module

from ._frontend import (
    PYTHON_CLASSES,
    ScriptFunction,
    Source,
    _definition_scope,
    _Definitions,
    _with_signature,
    add_member,
    class_type,
    classify,
    declaration_text,
    definitions,
    lookup_in,
    mark,
    operator_of,
    qualified_name,
    source_of,
)
from ._marks import Attribute, FunctionModifiers, _overloads
from ._objects import wrapped_object
from ._types import UnknownType, simple, type_of, type_of_value

_KINDS = {"ModuleList": 1, "Sequential": 2, "ModuleDict": 3, "ParameterList": 4, "ParameterDict": 5}
_PRIVATE = frozenset(
    "_parameters _buffers _modules _non_persistent_buffers_set _backward_hooks _backward_pre_hooks _forward_hooks "
    "_forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs "
    "_state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks "
    "_compiled_call_impl call_super_init dump_patches T_destination _version __constants__ "
    "__jit_unused_properties__ __jit_ignored_attributes__ _texts _jit_unshared".split()
)
_UNROLLED = [
    getattr(Module, how + name) for name in ("children", "modules", "parameters", "buffers") for how in ("", "named_")
]
_UNROLLED += [  # the compiler knows what these containers hold
    getattr(getattr(tessera.nn, cls), how)
    for cls in _KINDS
    for how in ("__len__", "__contains__", "__iter__", "__getitem__")
    if hasattr(getattr(tessera.nn, cls), how)
]
_nothing = object()


def _annotations(cls):
    notes = {}
    for base in reversed(cls.__mro__):
        if base not in (Module, object):
            notes.update(vars(base).get("__annotations__", {}))
    return notes


def _is_final(note):
    import typing

    text = note if isinstance(note, str) else ""
    return (
        note is typing.Final
        or typing.get_origin(note) is typing.Final
        or text.startswith(("Final", "torch.jit.Final", "typing.Final"))
    )


class ConcreteType:
    """What the compiler knows of modules of one class with attributes of the same types."""

    shared = {}  # class -> list of concrete types

    def __init__(self, module, traced=False):
        self.cls = type(module)
        self.annotated = not traced  # traces read no other attributes than tensors: these are what they are
        self.scope = (
            lookup_in(inspect.unwrap(self.cls.forward))
            if inspect.isfunction(inspect.unwrap(self.cls.forward))
            else None
        )
        self.names = self._names
        self.attributes, self.constants, self.functions, self.failed, self.children = {}, {}, {}, {}, {}
        self.replaced = {}  # a forward() that an instance has instead of its class's
        self.made = None
        self._read(module)

    def _names(self, name):
        cls = self.cls
        if name == cls.__name__:
            return None
        import sys

        resolve = self.scope or (lambda n: None)
        told = resolve(name)
        if told is None:
            scope = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
            head, *rest = name.split(".")
            value = scope.get(head, _nothing)
            for part in rest:
                value = getattr(value, part, _nothing)
            told = None if value is _nothing else classify(value)
        return told

    def _type(self, note):
        return type_of(note, self._names, class_type)

    def _read(self, module):
        notes = _annotations(self.cls)
        ignored = set(getattr(module, "__jit_ignored_attributes__", ())) | set(
            getattr(module, "__jit_unused_properties__", ())
        )
        constants = set(getattr(module, "__constants__", ())) | {n for n, note in notes.items() if _is_final(note)}
        for name, value in module._parameters.items():
            self._member(name, value, notes, True, False)
        for name, value in module._buffers.items():
            self._member(name, value, notes, False, True)
        for name, child in module._modules.items():
            note = notes.get(name)
            interface = self._interface_of(note)
            if child is None:
                self.attributes[name] = (simple("None"), False, False)
            elif interface is not None:
                if not isinstance(child, ScriptModule):
                    self.children[name] = concrete_type(child)
                self.attributes[name] = (interface, False, False)
            elif isinstance(child, ScriptModule):
                self.attributes[name] = (child._c.class_.type, False, False)
            else:
                self.children[name] = concrete_type(child)
                self.attributes[name] = (self.children[name], False, False)
        for name, value in vars(module).items():
            if name in _PRIVATE or name in ignored or name in self.attributes:
                continue
            self._attribute(name, value, notes, name in constants)
        for name in constants - set(self.attributes) - set(self.constants):
            value = getattr(module, name, _nothing)
            if value is not _nothing and name not in ignored and not isinstance(value, Module):
                self._attribute(name, value, notes, True)
        self.hooks = tuple(module._forward_hooks.values()) if not isinstance(module, ScriptModule) else ()
        self.pre_hooks = tuple(module._forward_pre_hooks.values()) if not isinstance(module, ScriptModule) else ()

    def _interface_of(self, note):
        if note is None:
            return None
        try:
            kind = self._type(note)
        except (UnknownType, RuntimeError):
            return None
        return kind if kind.kind() == "InterfaceType" else None

    def _member(self, name, value, notes, parameter, buffer):
        if name in notes and not _is_final(notes[name]):
            try:
                kind = self._type(notes[name])
            except (UnknownType, RuntimeError):
                kind = simple("Tensor") if value is not None else simple("None")
        else:
            kind = simple("Tensor") if value is not None else simple("None")
        self.attributes[name] = (kind, parameter and value is not None, buffer and value is not None)

    def _attribute(self, name, value, notes, constant):
        if isinstance(value, Attribute):
            self.attributes[name] = (self._type(value.type), False, False)
            return
        note = notes.get(name) if self.annotated else None
        if note is not None and not _is_final(note):
            try:
                self.attributes[name] = (self._type(note), False, False)
                return
            except (UnknownType, RuntimeError) as error:
                self.failed[name] = str(error)
                return
        if constant and not isinstance(value, (tessera.Tensor, Module)):
            if isinstance(value, (list, tuple)) and value and isinstance(value[0], Module):
                self.failed[name] = "lists of modules are no constants: use ModuleList"
                return
            kind = type_of_value(value, class_type)
            if kind is None:
                self.failed[name] = f"the constant is of type {type(value).__name__}, which programs cannot have"
            else:
                self.constants[name] = (value, kind)
            return
        if isinstance(value, types.MethodType) and isinstance(value.__self__, Module) and hasattr(self.cls, name):
            if name == "forward" and value.__func__ is not inspect.getattr_static(self.cls, name):
                self.replaced[name] = value.__func__
            return  # it is compiled as the class's own method
        routine = inspect.isroutine(value) or isinstance(value, ScriptFunction) or hasattr(value, "__wrapped__")
        if routine or operator_of(value):
            self.functions[name] = value
            return
        try:
            kind = type_of_value(value, class_type)
        except RuntimeError as error:
            self.failed[name] = str(error)
            return
        if kind is None:
            self.failed[name] = (
                f"(This attribute exists on the Python module, but we failed to convert Python type: "
                f"'{type(value).__name__}' to a TorchScript type.)"
            )
        else:
            self.attributes[name] = (kind, False, False)

    def same_as(self, other):
        """Whether modules of both can have one class."""
        if self.hooks or other.hooks or self.pre_hooks or other.pre_hooks:
            return False
        return (
            self.attributes == other.attributes
            and list(self.attributes) == list(other.attributes)
            and self.constants.keys() == other.constants.keys()
            and all(_equal(v, other.constants[n]) for n, v in self.constants.items())
            and self.functions == other.functions
            and self.replaced == other.replaced
            and self.children == other.children
        )

    @property
    def type(self):
        """The type for the compiler."""
        if self.made is None:
            self._make()
        return self.made.type

    def _make(self):
        cls = self.cls
        self.made = _jit.new_class("module", qualified_name(cls))
        for name, (kind, parameter, buffer) in self.attributes.items():
            kind = kind.type if isinstance(kind, ConcreteType) else kind
            self.made.add_attribute(name, kind, parameter, buffer)
        for name, (value, kind) in self.constants.items():
            self.made.add_constant(name, value, kind)
        for name, kind in _KINDS.items():
            base = getattr(tessera.nn, name)
            if issubclass(cls, base):
                self.made.set_kind(kind)
        self.made.set_host(self)
        for how, hooks in (("hook", self.hooks), ("pre_hook", self.pre_hooks)):
            for hook in hooks:
                made = self._define(hook, hook.__name__)
                self.made.add_method(made, how)
                self.made.add_method(made, "method")  # archives have it
                self._check_hook(made, how == "pre_hook", hook is hooks[0])

    def _check_hook(self, made, before, first):
        """RuntimeError for a hook whose signature is not that of hooks of this module's forward()."""
        from ._definitions import method_of

        text = method_of(self.cls, "forward", self.attributes, self.children)
        own = self.replaced.get("forward", inspect.getattr_static(self.cls, "forward", None))
        if not isinstance(own, types.FunctionType) or own is Module.forward or isinstance(text, tuple):
            return
        own_text = text is not None and "forward" not in self.replaced
        forward = self._define(own, "forward", text, lookup_in(_scope_of(self.cls))) if own_text else self._define(
            own, "forward")  # fmt: skip
        given = [kind for _, kind, _ in made.arguments[1:]]
        # what a hook gives is what the next one takes
        gives = None if before else forward.result if first or len(given) != 2 else given[1]
        wanted = [simple("Tuple", *(kind for _, kind, _ in forward.arguments[1:])), *([] if before else [gives])]
        if len(given) != len(wanted):
            wrong = f"was expected to only have exactly {len(wanted) + 1} inputs but it had {len(given) + 1} inputs"
        elif given[0].kind() != "TupleType":
            wrong = f"expected the input argument to be typed as a Tuple but found type: '{given[0]}' instead"
        elif given[0] != wanted[0]:
            wrong = f"has the wrong inner types for the input tuple argument. Received type: '{given[0]}'"
        elif given[1:] != wanted[1:]:
            wrong = f"has the wrong type for the output argument. Received type: '{given[1]}'. Expected type: '{gives}'"
        else:
            return
        kind, what = ("Pre-hook", "pre-hook") if before else ("Hook", "hook")
        more = "" if before else f", output: {gives}"
        raise RuntimeError(
            f"{kind} '{made.name}' on module '{self.cls.__name__}' {wrong}.\nThis error occurred while scripting the "
            f"forward {what} '{made.name}' on module '{self.cls.__name__}'. If you did not want to script this {what} "
            f"remove it from the original NN module before scripting. It is expected to have the signature: "
            f"{made.name}(self, input: {wanted[0]}{more})."
        )

    def _define(self, fn, name, text=None, scope=None):
        fn = inspect.unwrap(fn)
        source = Source(text, f"<{self.cls.__module__}>", 1) if text is not None else source_of(fn)
        resolve = scope or lookup_in(fn)
        modifier = getattr(fn, "_torchscript_modifier", None)
        if modifier in (FunctionModifiers.UNUSED, FunctionModifiers.IGNORE):
            source.text = declaration_text(source.text)
        if name in self.replaced:
            source.text = re.sub(r"\bdef\s+\w+", f"def {name}", source.text, count=1)
        made = _jit.define(
            source.text, source.file, source.line, f"{self.made.name}.{name}", resolve, add_member, self.made
        )
        if modifier == FunctionModifiers.IGNORE:
            made.leave(
                lambda module, *args: (
                    fn(module._python_self(), *args) if isinstance(module, ScriptModule) else fn(module, *args)
                )
            )
        else:
            mark(made, fn, modifier)
        return made

    def add_member(self, name):
        """Adds a method of the class, or tells what an attribute is. None: there is none."""
        if name in self.functions:
            return classify(self.functions[name])
        if name in self.failed:
            return ("error", f"Module '{self.cls.__name__}' has no attribute '{name}' {self.failed[name]}\n")
        return self._add(name)

    def _overloads(self, made):
        for method in made:
            self.made.add_method(method, "method")
        return ("overloads", made)

    def _add(self, name):
        from ._definitions import method_of

        if name in ("items", "keys", "values") and issubclass(
            self.cls, (tessera.nn.ModuleDict, tessera.nn.ParameterDict)
        ):
            return None  # the compiler unrolls them
        text = method_of(self.cls, name, self.attributes, self.children)
        if isinstance(text, tuple) and name not in self.replaced:
            scope = lookup_in(_scope_of(self.cls))
            return self._overloads(tuple(self._define(self.cls.forward, t[4 : t.index("(")], t, scope) for t in text))
        if text is not None and name not in self.replaced:
            self.made.add_method(self._define(self.cls.forward, name, text, lookup_in(_scope_of(self.cls))), "method")
            return True
        value = self.replaced.get(name, inspect.getattr_static(self.cls, name, _nothing))
        if value is _nothing or value in _UNROLLED:
            return None
        if isinstance(value, property):
            if vars(ScriptModule).get(name) is value:  # of a class derived from it
                return None
            if name in getattr(self.cls, "__jit_unused_properties__", ()):
                return None
            if getattr(value.fget, "_torchscript_modifier", None) == FunctionModifiers.UNUSED:
                return None
            for how, fn in (("getter", value.fget), ("setter", value.fset)):
                if fn is not None:
                    self.made.add_method(self._define(fn, name), how)
            return True
        if isinstance(value, staticmethod):
            return classify(value.__func__)
        if isinstance(value, classmethod):
            return None
        if isinstance(value, types.FunctionType) or hasattr(value, "__wrapped__"):
            declared = _overloads.get(f"{value.__module__}.{value.__qualname__}")
            if declared:
                made = tuple(
                    _with_signature(d, value, f"{self.made.name}.{name}__{i}", self.made)
                    for i, d in enumerate(declared)
                )
                return self._overloads(made)
            if self.cls.forward is Module.forward and name == "forward":
                return None
            self.made.add_method(self._define(value, name), "method")
            return True
        if isinstance(value, (bool, int, float, str)) or value is None:
            return classify(value)
        return None


def _scope_of(cls):
    """A function whose globals are those of the class's file, and the names of definitions."""
    import sys

    scope = _Definitions(_definition_scope().__globals__)
    scope.update(vars(sys.modules[cls.__module__]))
    return types.FunctionType((lambda: None).__code__, scope)


def _equal(a, b):
    try:
        return bool(a[0] == b[0]) and type(a[0]) is type(b[0]) and a[1] == b[1]
    except (RuntimeError, TypeError, ValueError):
        return False


def concrete_type(module):
    """The ConcreteType of a module, shared among those that can have one."""
    mine = ConcreteType(module)
    if getattr(module, "_jit_unshared", False):
        return mine
    for other in ConcreteType.shared.setdefault(type(module), []):
        if mine.same_as(other):
            return other
    ConcreteType.shared[type(module)].append(mine)
    return mine


# --- modules that hold compiled ones ---


class _Members(dict):
    """The parameters, buffers or children of a compiled module as they are now; what is set here is set there."""

    def __init__(self, items, write):
        super().__init__(items)
        self._write = write

    def __setitem__(self, name, value):
        self._write(name, value)
        super().__setitem__(name, value)

    def update(self, *args, **kwargs):
        for name, value in dict(*args, **kwargs).items():
            self[name] = value


class ScriptMethod:
    """A method of a compiled module."""

    def __init__(self, handle, module):
        self._made, self._owner = handle, module
        self.__name__ = handle.name

    def __call__(self, *args, **kwargs):
        return self._made(*args, **kwargs)

    name = ScriptFunction.name
    qualified_name = ScriptFunction.qualified_name
    graph = ScriptFunction.graph
    inlined_graph = ScriptFunction.inlined_graph
    code = ScriptFunction.code
    code_with_constants = ScriptFunction.code_with_constants
    schema = ScriptFunction.schema
    graph_for = ScriptFunction.graph_for

    def _handle(self):
        return self._made

    @property
    def owner(self):
        """The module that has the method."""
        return self._owner

    @property
    def raw_owner(self):
        """The compiled object of that module."""
        return self._owner._c


class _Maker(type(Module)):  # type: ignore[misc]
    """Of classes of ScriptModules: what a program's own class makes is compiled when it is made."""

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        return made if issubclass(cls, RecursiveScriptModule) else _own_class(made)


class ScriptModule(Module, metaclass=_Maker):
    """A module whose methods are compiled. Its state is shared with what programs see: attributes, parameters and
    buffers read and write the same values.

    script(), trace() and load() give such modules. A class of a program may be derived from it: then the methods marked
    by script_method are compiled, and those that define() adds.
    """

    @property
    def graph(self):
        """forward as a graph."""
        return self._method("forward").graph

    @property
    def inlined_graph(self):
        """forward as a graph in which all calls are replaced by what they do."""
        return self._method("forward").inlined_graph

    @property
    def code(self):
        """The text of the compiled forward."""
        return self._method("forward").code

    @property
    def code_with_constants(self):
        """The text, and the constants that it mentions."""
        return self.code, {}

    @property
    def original_name(self):
        """The name of the class that was compiled."""
        return self._c.class_.name.rpartition(".")[2]

    def forward_magic_method(self, method_name, *args, **kwargs):
        """Calls a compiled magic method. Errors: NotImplementedError where there is none."""
        if not any(m.name == method_name for m in self._c.class_.methods):
            raise NotImplementedError(f"'{self.original_name}' has no {method_name}")
        return self._method(method_name)(*args, **kwargs)

    def define(self, src):
        """Adds methods of a text to the module's class."""
        if "_c" not in self.__dict__:  # in a constructor
            self.__dict__.setdefault("_texts", []).append(textwrap.dedent(src))
            return
        resolve = lookup_in(_definition_scope())
        cls = self._c.class_
        made = []
        for text in definitions(src):
            name = text[4 : text.index("(")].strip()
            if any(m.name == name for m in cls.methods):
                raise RuntimeError(f"Can't redefine method: {name} on class: {cls.name}")
            made.append(_jit.define(text, "<string>", 1, f"{cls.name}.{name}", resolve, add_member, cls))
            cls.add_method(made[-1], "method")
        for method in made:
            method.compile()

    def get_debug_state(self, *args, **kwargs):
        """Errors: RuntimeError; there is no profiling executor."""
        raise RuntimeError("get_debug_state: compiled modules keep no state of an executor")

    def graph_for(self, *args, **kwargs):
        """The graph that runs for these arguments: the optimized one."""
        return self._method("forward").graph_for()

    def save(self, f, **kwargs):
        """Writes an archive; see tessera.jit.save."""
        return tessera.jit.save(self, f, **kwargs)

    def save_to_buffer(self, **kwargs):
        """The archive as bytes."""
        import io

        buffer = io.BytesIO()
        tessera.jit.save(self, buffer, **kwargs)
        return buffer.getvalue()


_OWN = frozenset("_parameters _buffers _modules".split())


class RecursiveScriptModule(ScriptModule):
    """What script(), trace() and load() give."""

    def __init__(self, c, original=None):
        Module.__init__(self)
        own = self.__dict__
        for name in _OWN:
            own.pop(name, None)
        own.pop("training", None)
        own.pop("_is_full_backward_hook", None)
        own["_c"], own["_children"], own["_methods"] = c, {}, {}
        own["_original"] = original
        attributes = c.class_.attributes
        own["_places"] = {name: (p, b, kind) for name, kind, p, b in attributes}

    # --- members ---

    @property
    def training(self):  # Module has a default in the class: what the compiled module has goes before it
        """Whether the module is in training mode."""
        return self._c.get("training") if "training" in self.__dict__.get("_places", {}) else True

    def _is_child(self, kind):
        inner = kind.class_
        return inner is not None and (inner.is_module or kind.kind() == "InterfaceType")

    def _values(self, wanted):
        return {n: self._c.get(n) for n, (p, b, kind) in self._places.items() if wanted(p, b, kind)}

    def _set(self, name, value):
        self._c.set(name, value)

    @property
    def _parameters(self):
        return _Members(self._values(lambda p, b, kind: p), self._set)

    @property
    def _buffers(self):
        return _Members(self._values(lambda p, b, kind: b), self._set)

    @property
    def _modules(self):
        names = [n for n, (p, b, kind) in self._places.items() if self._is_child(kind)]
        children = {n: self._child(n) for n in names}  # an interface may be that of an object
        return _Members({n: c for n, c in children.items() if isinstance(c, Module)}, self._set)

    def _child(self, name):
        found = self.__dict__["_children"].get(name)
        if found is None:
            found = self._c.get(name)
            if isinstance(found, Module):
                self.__dict__["_children"][name] = found
        return found

    def _method(self, name):
        known = self.__dict__["_methods"]
        if name not in known:
            handle = self._c.get(name)
            known[name] = ScriptMethod(handle, self)
        return known[name]

    def _python_self(self):
        original = self.__dict__["_original"]
        return self if original is None else _IgnoredSelf(self, original)

    def __getattr__(self, name):
        places = self.__dict__.get("_places")
        if places is None:
            raise AttributeError(name)
        place = places.get(name)
        if place is not None:
            return self._child(name) if self._is_child(place[2]) else self._c.get(name)
        if name in ("forward",) or not name.startswith("__"):
            try:
                value = self._c.get(name)
            except AttributeError:
                value = _nothing
            if value is not _nothing:
                return self._method(name) if isinstance(value, _jit.Function) else value
        original = self.__dict__["_original"]
        if original is not None and not name.startswith("__"):
            static = inspect.getattr_static(type(original), name, _nothing)
            modifier = getattr(static, "_torchscript_modifier", None)
            stays = (FunctionModifiers.IGNORE, FunctionModifiers.UNUSED, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)
            if modifier in stays or isinstance(static, (staticmethod, classmethod)):
                return (
                    types.MethodType(static, self)
                    if isinstance(static, types.FunctionType)
                    else getattr(original, name)
                )
            if static is not _nothing and isinstance(static, property):
                return getattr(original, name)
            if name in vars(original) and name not in _PRIVATE:
                return vars(original)[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        places = self.__dict__.get("_places", {})
        if name in places:
            if self._is_child(places[name][2]):
                self.__dict__["_children"].pop(name, None)
                self._c.set(name, value._c if isinstance(value, ScriptModule) else value)
            else:
                self._c.set(name, value)
        elif "_c" in self.__dict__ and name in self._c.class_.constants:
            raise RuntimeError(f"Can't set constant '{name}' which has value:{self._c.class_.constants[name]}")
        elif isinstance(value, (Module, tessera.nn.Parameter)) and "_c" in self.__dict__:
            raise RuntimeError(f"Can't add a new parameter or module '{name}' after ScriptModule construction")
        elif name in _OWN or name == "training":
            pass
        else:
            self.__dict__[name] = value

    def __delattr__(self, name):
        if name in self.__dict__:
            del self.__dict__[name]
            return
        raise AttributeError(f"attributes of a compiled module cannot be deleted: '{name}'")

    def __dir__(self):
        return sorted({*super().__dir__(), *self._places, *(m.name for m in self._c.class_.methods)})

    def __call__(self, *args, **kwargs):
        own = self.__dict__
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
            return Module.__call__(self, *args, **kwargs)
        method = own.get("_called")
        if method is None:
            name = self._c.class_.callee()
            method = own["_called"] = self._forward() if name == "forward" else self._method(name)
        return method._made(*args, **kwargs)

    def _forward(self):
        if not any(m.name == "forward" for m in self._c.class_.methods):
            raise NotImplementedError(f'Module [{self.original_name}] is missing the required "forward" function')
        return self._method("forward")

    @property
    def forward(self):
        """The compiled forward."""
        return self._forward()

    def __len__(self):
        if self._container():
            return len(self._modules)
        return self.forward_magic_method("__len__")

    def __iter__(self):
        if self._container():
            children = self._modules
            return iter(children if self._container() == "ModuleDict" else children.values())
        return self.forward_magic_method("__iter__")

    def __getitem__(self, index):
        if self._container():
            children = self._modules
            return children[index] if isinstance(index, str) else list(children.values())[index]
        return self.forward_magic_method("__getitem__", index)

    def __contains__(self, key):
        return key in self._modules if self._container() else self.forward_magic_method("__contains__", key)

    def __bool__(self):
        return True

    def keys(self):
        """Names of the children of a ModuleDict."""
        return self._modules.keys()

    def items(self):
        """Names and children of a ModuleDict."""
        return self._modules.items()

    def values(self):
        """The children of a ModuleDict."""
        return self._modules.values()

    def _container(self):
        host = self._c.class_.host
        cls = host.cls if isinstance(host, ConcreteType) else None
        if cls is not None:
            for name in _KINDS:
                if issubclass(cls, getattr(tessera.nn, name)):
                    return name
        name = self._c.class_.name.rpartition(".")[2]
        return name if name in _KINDS else None

    def extra_repr(self):
        return f"original_name={self.original_name}"

    def _get_name(self):
        return type(self).__name__

    def _save_for_lite_interpreter(self, f, **kwargs):
        """Writes an archive that the mobile loader reads."""
        return tessera.jit.save(self, f, **kwargs)

    _save_to_buffer_for_lite_interpreter = ScriptModule.save_to_buffer

    def __copy__(self):
        return RecursiveScriptModule(self._c, self.__dict__["_original"])

    def __deepcopy__(self, memo):
        made = RecursiveScriptModule(self._c.copy(), self.__dict__["_original"])
        memo[id(self)] = made
        for name, parameter in list(made.named_parameters()):
            source = self.get_parameter(name)
            fresh = tessera.nn.Parameter(source.detach().clone(), source.requires_grad)
            owner, _, last = name.rpartition(".")
            made.get_submodule(owner)._c.set(last, fresh)
        return made

    def copy(self):
        """A copy of the module and its tensors."""
        return copy.deepcopy(self)

    def __reduce__(self):
        return _from_bytes, (self.save_to_buffer(),)


def _from_bytes(data):
    import io

    return tessera.jit.load(io.BytesIO(data))


class _IgnoredSelf:
    """`self` for methods that stay Python: what the compiled module has, and what only the original has."""

    def __init__(self, scripted, original):
        self.__dict__.update(_scripted=scripted, _original_module=original)

    def __getattr__(self, name):
        scripted = self.__dict__["_scripted"]
        if name in scripted._places:
            return getattr(scripted, name)
        value = inspect.getattr_static(type(self.__dict__["_original_module"]), name, _nothing)
        if isinstance(value, types.FunctionType):
            return types.MethodType(value, self)
        return getattr(self.__dict__["_original_module"], name)

    def __setattr__(self, name, value):
        setattr(self.__dict__["_scripted"], name, value)


def wrapped(c):
    """The Python object of an instance: a module, a copy of the class that was compiled, or an object."""
    kind = c.class_
    if kind.is_module:
        return RecursiveScriptModule(c, None)
    cls = PYTHON_CLASSES.get(kind.name)
    if cls is None or class_type(cls) != kind.type:
        return wrapped_object(c)
    made = cls.__new__(cls)
    for name, *_ in kind.attributes:
        object.__setattr__(made, name, c.get(name))
    return made


def script_module(module):
    """Compiles a module and all its children."""
    concrete = concrete_type(module)
    made = _instance(module, concrete)
    _compile(module, concrete, set())
    made.__dict__["_places"] = {name: (p, b, kind) for name, kind, p, b in made._c.class_.attributes}
    return made


def _own_class(plain):
    """The compiled module for an instance of a class that is derived from ScriptModule."""
    cls, texts = type(plain), plain.__dict__.get("_texts", ())
    if texts or cls is ScriptModule:
        plain.__dict__["_jit_unshared"] = True
    made = script_module(plain)
    for text in texts:
        made.define(text)
    object.__setattr__(made, "__class__", _derived(cls))
    return made


@functools.cache
def _derived(cls):
    compiled = lambda name: property(lambda self: self._method(name))  # noqa: E731
    members = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if getattr(value, "_torchscript_modifier", None) == FunctionModifiers.EXPORT:
            members[name] = compiled(name)
    if "forward" not in members and cls.forward is not Module.forward:  # a forward that stays Python
        members.update(forward=cls.forward, __call__=Module.__call__)
    return type(cls)(cls.__name__, (RecursiveScriptModule, cls), members)


def _instance(module, concrete):
    concrete.type  # noqa: B018  made when it is first asked for
    c = concrete.made.new()
    made = RecursiveScriptModule(c, module)
    for name in concrete.attributes:
        value = getattr(module, name)
        if isinstance(value, Attribute):
            value = value.value
        if name in concrete.children:
            child = _instance(value, concrete.children[name])
            kind = concrete.attributes[name][0]
            if not isinstance(kind, ConcreteType):  # an interface: what it asks for has to be there
                known = {m.name for m in child._c.class_.methods}
                for method in kind.class_.methods:
                    if method.name not in known:
                        concrete.children[name].add_member(method.name)
            c.set(name, child._c)
            made.__dict__["_children"][name] = child
        elif isinstance(value, ScriptModule):
            c.set(name, value._c)
            made.__dict__["_children"][name] = value
        else:
            c.set(name, value)
    return made


def _compile(module, concrete, done):
    if concrete in done:
        return
    done.add(concrete)
    for name, child in concrete.children.items():
        _compile(getattr(module, name), child, done)
    cls = type(module)
    wanted = []
    forward = inspect.getattr_static(cls, "forward", None)
    unmarked = getattr(forward, "_torchscript_modifier", None) is None and not issubclass(cls, ScriptModule)
    if cls.forward is not Module.forward and unmarked:
        wanted.append("forward")
    for name in dir(cls):
        value = inspect.getattr_static(cls, name, None)
        if getattr(value, "_torchscript_modifier", None) == FunctionModifiers.EXPORT:
            wanted.append(name)
        elif isinstance(value, property) and cls.__module__.partition(".")[0] != "tessera":
            if name not in getattr(cls, "__jit_unused_properties__", ()) and not name.startswith("__"):
                concrete.add_member(name)
    have = {m.name: m for m in concrete.made.methods}
    for name in wanted:
        if name not in have:
            concrete.add_member(name)
    for m in concrete.made.methods:
        m.compile()
