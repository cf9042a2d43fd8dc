"""Where captured values come from, the text that reads them again, and the checks that they are as they were."""

import collections
import keyword
import math
import types
import weakref

import tessera

_LITERALS = (int, str, bytes, bool, type(None), type(Ellipsis))


class Source:
    """A place that can be read again at each call: a local variable, or an attribute or item of another place.

    Args:
        kind: "local", "object" (the value itself), "attr", "item", "type", "tensor" (of a float), "held" (what an
            instance of a subclass of dict holds).
        base: Source that it is a part of, or None.
        key: name, index, or for "object" what it is.
    """

    __slots__ = ("kind", "base", "key", "of_module", "_parts")

    def __init__(self, kind, base, key):
        self.kind, self.base, self.key, self._parts = kind, base, key, {}
        self.of_module = False  # a module, or a table of one, is there

    def _part(self, kind, key):
        slot = (kind, type(key), key)
        if slot not in self._parts:
            self._parts[slot] = Source(kind, self, key)
        return self._parts[slot]

    def attr(self, name):
        """The place of an attribute."""
        return self._part("attr", name)

    def item(self, key):
        """The place of an item; the key is a constant."""
        return self._part("item", key)

    def type(self):
        """The place of the value's class."""
        return self._part("type", None)

    def tensor(self):
        """The float at the place as a tensor, which graphs have as input."""
        return self._part("tensor", None)

    def held(self):
        """What the instance of a subclass of dict at the place holds, as a dict."""
        return self._part("held", None)

    def name(self):
        """The place as people write it: L['x'].weight."""
        if self.kind == "local":
            return f"L[{self.key!r}]"
        if self.kind == "object":
            owner = self.key.get("__name__") if isinstance(self.key, dict) else None
            return f"G<{owner}>" if owner else getattr(self.key, "__qualname__", type(self.key).__name__)
        if self.kind == "type":
            return f"type({self.base.name()})"
        if self.kind in ("tensor", "held"):
            return self.base.name()
        return f"{self.base.name()}.{self.key}" if self.kind == "attr" else f"{self.base.name()}[{self.key!r}]"

    def is_local(self):
        """Whether it starts at an argument or variable of the function."""
        return self.base.is_local() if self.base is not None else self.kind == "local"

    def is_global(self):
        """Whether it starts at a module's variables."""
        return self.base.is_global() if self.base is not None else self.kind == "object"


def tensor_of(number):
    """A float as the tensor that graphs have as input."""
    return tessera.tensor(number, dtype=tessera.float64)


def plain_mapping(cls):
    """dict, or OrderedDict: the class whose methods reach what an instance of a subclass holds."""
    return collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict


def held(value):
    """What an instance of a subclass of dict holds, as a dict, whatever methods its class has."""
    return {key: dict.__getitem__(value, key) for key in plain_mapping(type(value)).__iter__(value)}


def refill(owner, items):
    """Puts other items into an instance of a subclass of dict, past the methods of its class."""
    cls = plain_mapping(type(owner))
    cls.clear(owner)
    for key, value in items.items():
        cls.__setitem__(owner, key, value)


class Writer:
    """Makes the text of a function, and the objects that the text names."""

    def __init__(self, parameters):
        self.lines = []
        self.space = {}
        self.parameters = list(parameters)
        self._names = {}
        self._constants = {}
        self._count = 0

    def fresh(self, prefix="__v"):
        """A name that is not in use."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, value, prefix="__c"):
        """The name by which the text finds an object."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = self.fresh(prefix)
            self.space[name] = value
        return name

    def constant(self, value):
        """Text of a constant."""
        if type(value) in _LITERALS:
            return repr(value)
        if type(value) is float and math.isfinite(value):
            return repr(value)
        return self.bind(value)

    def read(self, source):
        """The name of a variable that holds what is at the source; a line that reads it is added the first time."""
        found = self._names.get(source)
        if found is not None:
            return found
        text = self._text(source)
        if not text.isidentifier():
            name = self.fresh()
            self.lines.append(f"{name} = {text}")
            text = name
        self._names[source] = text
        return text

    def _text(self, source):
        if source.kind == "local":
            return source.key
        if source.kind == "object":
            return self.bind(source.key)
        base = self.read(source.base)
        if source.kind == "type":
            return f"type({base})"
        if source.kind == "tensor":
            return f"{self.bind(tensor_of)}({base})"
        if source.kind == "held":
            return f"{self.bind(held)}({base})"
        if source.kind == "item":
            return f"{base}[{self.constant(source.key)}]"
        if source.key.isidentifier() and not keyword.iskeyword(source.key):
            return f"{base}.{source.key}"
        return f"getattr({base}, {source.key!r})"

    def function(self, name, filename):
        """The function of the lines so far."""
        body = "".join(f"    {line}\n" for line in self.lines) or "    pass\n"
        text = f"def {name}({', '.join(self.parameters)}):\n{body}"
        space = dict(self.space)
        exec(compile(text, filename, "exec"), space)
        made = space[name]
        made.__source_text__ = text
        return made


_WEAK = (types.FunctionType, types.MethodType, types.GeneratorType, tessera.nn.Module)


def _is(writer, name, value):
    """Text that asks for an object by identity. What may die is not kept alive for that."""
    if value is None or value is True or value is False or value is Ellipsis:
        return f"{name} is {value!r}" if value is not Ellipsis else f"{name} is ..."
    if not isinstance(value, type) and not isinstance(value, types.ModuleType):
        try:
            return f"{name} is {writer.bind(weakref.ref(value), '__r')}()"
        except TypeError:
            pass
    return f"{name} is {writer.bind(value)}"


def _is_constant(writer, name, value):
    kind = type(value)
    if value is None or kind is bool or kind is type(Ellipsis) or isinstance(value, type):
        return _is(writer, name, value)
    test = f"type({name}) is {writer.bind(kind)}"
    if kind is float and (value != value or value == 0.0):
        return f"{test} and repr({name}) == {repr(value)!r}"
    if kind is complex or kind is tuple or kind is frozenset:
        return f"{test} and {name} == {writer.constant(value)} and repr({name}) == {repr(value)!r}"
    return f"{test} and {name} == {writer.constant(value)}"


def _is_tensor(writer, name, about):
    """`about`: what `tensor_facts` gave; sizes and strides may hold None for what is not checked."""
    cls, dtype, device, grad, layout, shape, stride, conj, neg = about
    bound = writer.bind
    tests = [
        f"type({name}) is {bound(cls)}",
        f"{name}.dtype is {bound(dtype)}",
        f"{name}.requires_grad is {grad}",
        f"{name}.device == {bound(device)}",
    ]
    if layout is not tessera.strided:
        tests.append(f"{name}.layout is {bound(layout)}")
    if None in shape:
        tests.append(f"{name}.dim() == {len(shape)}")
        tests += [f"{name}.size({d}) == {n}" for d, n in enumerate(shape) if n is not None]
    else:
        tests.append(f"{name}.shape == {bound(tuple(shape))}")
    if stride is not None:
        tests.append(f"{name}.stride() == {bound(stride)}")
    if dtype.is_complex:
        tests.append(f"{name}.is_conj() is {conj}")
    tests.append(f"{name}.is_neg() is {neg}") if neg else None
    return " and ".join(tests)


def tensor_facts(tensor, dynamic=()):
    """What guards compare of a tensor; sizes of dimensions in `dynamic` are left open, and strides with them."""
    strided = tensor.layout is tessera.strided
    return (
        type(tensor), tensor.dtype, tensor.device, tensor.requires_grad, tensor.layout,
        tuple(None if d in dynamic else n for d, n in enumerate(tensor.shape)),
        tuple(tensor.stride()) if strided and not dynamic else None, tensor.is_conj(), tensor.is_neg(),
    )  # fmt: skip


# kind of guard -> text that asks for it, of the writer, the name of a variable that holds the value, and the argument
_TESTS = {
    "TYPE_MATCH": lambda w, n, a: f"type({n}) is {w.bind(a)}",
    "ID_MATCH": _is,
    "FUNCTION_MATCH": _is,
    "CONSTANT_MATCH": _is_constant,
    "TENSOR_MATCH": _is_tensor,
    "FINITE": lambda w, n, a: f"type({n}) is float and {w.bind(math.isfinite)}({n})",
    "LENGTH": lambda w, n, a: f"len({n}) == {a}",
    "DICT_KEYS": lambda w, n, a: f"list({n}) == {w.bind(a)}",
    "NOT_IN": lambda w, n, a: f"{a!r} not in {n}",
    "HASATTR": lambda w, n, a: f"hasattr({n}, {a[0]!r}) is {a[1]}",
    "CALL": lambda w, n, a: f"{w.bind(a[0])}({n}) == {w.constant(a[1])}",
    "SAME": lambda w, n, a: f"({n} is {w.read(a[0])}) is {a[1]}",
    "SHAPE_ENV": lambda w, n, a: f"{w.bind(a[0])}({', '.join([n, *map(w.read, a[1])])})",
}


class Guard:
    """One check of a compiled piece. Attributes: source, guard_type, argument, value (of the place, when captured)."""

    __slots__ = ("source", "guard_type", "argument", "_value", "why")

    def __init__(self, source, guard_type, argument, value, why):
        self.source, self.guard_type, self.argument, self.why = source, guard_type, argument, why
        try:
            self._value = weakref.ref(value)
        except TypeError:
            self._value = lambda: value

    value = property(lambda self: self._value())
    has_value = property(lambda self: self._value() is not None)
    name = property(lambda self: self.source.name())
    is_global = property(lambda self: self.source.is_global())

    def __repr__(self):
        return f"{self.guard_type}({self.name}, {self.argument!r})"


class Guards:
    """What has to hold for a compiled piece."""

    def __init__(self):
        self._all = {}
        self._held = []  # arguments whose ids are keys

    def add(self, source, kind, argument=None, value=None, why=""):
        """Adds a check, once."""
        key = (source, kind, argument if type(argument) in (str, int, bool) else id(argument))
        if source is not None and key not in self._all:
            self._held.append(argument)
            self._all[key] = Guard(source, kind, argument, value, why)

    def __iter__(self):
        return iter(self._all.values())

    def __len__(self):
        return len(self._all)

    def function(self, parameters, state, kept=None):
        """The check as a function of a piece's arguments: -1 if all holds, else which one failed.

        Args:
            parameters: names. state: (function, what it must give): the modes of the process and thread.
            kept: the guards that count; default all.
        """
        w = Writer(parameters)
        w.lines.append("try:")
        outer, texts = w.lines, []
        w.lines = []
        w.lines.append(f"if {w.bind(state[0])}() != {w.bind(state[1])}: return 0")
        texts.append("the modes of this thread (gradients, autocast, default dtype ...) are as they were")
        for guard in self if kept is None else kept:
            name = w.read(guard.source)
            test = _TESTS[guard.guard_type](w, name, guard.argument)
            w.lines.append(f"if not ({test}): return {len(texts)}")
            texts.append(f"{guard.guard_type}: {readable(guard)}")
        w.lines = outer + ["    " + line for line in w.lines]
        w.lines += ["except (AttributeError, KeyError, IndexError, TypeError, ValueError): return -2", "return -1"]
        return w.function("check", "<guards>"), texts


def failed_text(guard, values):
    """What differs of an argument, of which a guard does not hold: a text, or None. values: {name: value}."""
    source = guard.source
    if guard.guard_type != "TENSOR_MATCH" or source.kind != "local" or source.key not in values:
        return None
    now, name = values[source.key], source.key
    cls, dtype, device, grad, _, shape, stride, *_ = guard.argument
    if not isinstance(now, tessera.Tensor) or type(now) is not cls:
        return f"expected type of '{name}' to be a tensor type, ' but found {type(now)}"
    for what, known, found in (
        ("dtype", dtype, now.dtype), ("device", device, now.device), ("requires_grad", grad, now.requires_grad),
        ("rank", len(shape), now.dim()),
    ):  # fmt: skip
        if known != found:
            return f"tensor '{name}' {what} mismatch. expected {known}, actual {found}".replace("tessera.", "torch.")
    for what, known, found in (("size", shape, now.shape), ("stride", stride, now.stride())):
        for i, (a, b) in enumerate(zip(known or (), found)):
            if a is not None and a != b:
                return f"tensor '{name}' {what} mismatch at index {i}. expected {a}, actual {b}"
    return None


def readable(guard):
    """A guard as people read it."""
    if guard.guard_type == "TENSOR_MATCH":
        cls, dtype, device, grad, _, shape, stride, *_ = guard.argument
        return f"{guard.name}: {dtype}, {device}, size={list(shape)}, stride={stride}, requires_grad={grad}"
    if guard.guard_type == "SAME":
        return f"({guard.name} is {guard.argument[0].name()}) is {guard.argument[1]}"
    return f"{guard.name}, {guard.argument!r:.120}"
