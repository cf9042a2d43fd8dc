"""What the capture knows of a program's values. Tensors are nodes of the graph; containers that the program makes are
containers of these; anything else is the real object and the place that it came from.
"""


class Var:
    """A value. `source`: where it can be read again, or None for what the program has made."""

    __slots__ = ("source",)

    def __init__(self, source=None):
        self.source = source


class Const(Var):
    """An immutable value that is known: a number, text, dtype ..."""

    __slots__ = ("value",)

    def __init__(self, value, source=None):
        self.value, self.source = value, source

    def __repr__(self):
        return f"Const({self.value!r})"


class Obj(Var):
    """An object that is known by its identity: a function, class, module, or an instance whose attributes are read."""

    __slots__ = ("value",)

    def __init__(self, value, source=None):
        self.value, self.source = value, source

    def __repr__(self):
        return f"Obj({type(self.value).__name__})"


class Loose(Obj):
    """A function that is made anew at each call: only its code, and what it refers to, are as they were."""

    __slots__ = ()


class Held(Obj):
    """An instance of a subclass of dict that comes in. `base`: a Map of what it holds, made when it is first used."""

    __slots__ = ("tracer", "_base")

    def __init__(self, tracer, value, source):
        self.tracer, self.value, self.source, self._base = tracer, value, source, None

    @property
    def base(self):
        """What its class inherits from dict works on this."""
        if self._base is None:
            self._base = self.tracer.held(self)
        return self._base


class New(Var):
    """An instance that the program has made. `base`: a Map, what a subclass of dict holds."""

    __slots__ = ("cls", "attributes", "base")

    def __init__(self, cls):
        self.cls, self.attributes, self.base, self.source = cls, {}, None, None


class TensorV(Var):
    """A tensor. `example` has its dtype, shape, strides and device, but no numbers. `real`: an input's tensor."""

    __slots__ = ("_node", "example", "cls", "tracer", "real")

    def __init__(self, tracer, example, node=None, source=None, cls=None):
        self.tracer, self.example, self._node, self.source = tracer, example, node, source
        self.cls, self.real = cls, None

    @property
    def node(self):
        """Its node; that of an input is made when it is first used."""
        if self._node is None:
            self._node = self.tracer.placeholder(self)
        return self._node


class NumberV(Var):
    """A number that the graph computes: a symbol for a size, or what is made of such. `example`: SymInt ..."""

    __slots__ = ("_node", "example", "tracer", "real")

    def __init__(self, tracer, example, node=None, source=None):
        self.tracer, self.example, self._node, self.source, self.real = tracer, example, node, source, None

    @property
    def node(self):
        """Its node; that of an input is made when it is first used."""
        if self._node is None:
            self._node = self.tracer.placeholder(self)
        return self._node


class Seq(Var):
    """A list, tuple, set or one of their kin. `changed`: the program has written to it since it came in."""

    __slots__ = ("items", "cls", "changed", "value")

    def __init__(self, items, cls, source=None, value=None):
        self.items, self.cls, self.source, self.changed, self.value = items, cls, source, False, value

    def __repr__(self):
        return f"Seq({self.cls.__name__}, {self.items!r})"


class Map(Var):
    """A dict. `items`: {key (a constant): Var}."""

    __slots__ = ("items", "cls", "changed", "value", "factory")

    def __init__(self, items, cls=dict, source=None, value=None):
        self.items, self.cls, self.source, self.changed, self.value = items, cls, source, False, value
        self.factory = None


class View(Var):
    """keys(), values() or items() of a dict."""

    __slots__ = ("of", "kind")

    def __init__(self, of, kind):
        self.of, self.kind, self.source = of, kind, None


class Cell(Var):
    """A variable that functions share. `contents` is None while it has no value."""

    __slots__ = ("contents", "changed", "value", "unread")

    def __init__(self, contents=None, source=None, value=None, unread=False):
        self.contents, self.source, self.value, self.unread = contents, source, value, unread
        self.changed = False


class Closure(Var):
    """A function that the program has made."""

    __slots__ = ("code", "space", "name", "defaults", "kwdefaults", "cells", "attributes")

    def __init__(self, code, space, name, defaults=(), kwdefaults=None, cells=()):
        self.code, self.space, self.name, self.cells = code, space, name, list(cells)
        self.defaults, self.kwdefaults, self.source = list(defaults), dict(kwdefaults or {}), None
        self.attributes = {}


class Bound(Var):
    """A method: a function and its first argument."""

    __slots__ = ("function", "owner")

    def __init__(self, function, owner, source=None):
        self.function, self.owner, self.source = function, owner, source


class Method(Var):
    """A method of a tensor, number or container, known by its name."""

    __slots__ = ("owner", "name")

    def __init__(self, owner, name):
        self.owner, self.name, self.source = owner, name, None


class Partial(Var):
    """functools.partial of something."""

    __slots__ = ("function", "args", "kwargs")

    def __init__(self, function, args, kwargs, source=None):
        self.function, self.args, self.kwargs, self.source = function, args, kwargs, source


class Super(Var):
    """super(): attributes of `owner` from the classes after `cls`."""

    __slots__ = ("cls", "owner")

    def __init__(self, cls, owner):
        self.cls, self.owner, self.source = cls, owner, None


class Slice(Var):
    """slice(start, stop, step) with parts that need not be constants."""

    __slots__ = ("parts",)

    def __init__(self, parts):
        self.parts, self.source = parts, None


class Iter(Var):
    """An iterator. `rest`: the values still to come, as a Python iterator of Vars."""

    __slots__ = ("rest",)

    def __init__(self, rest):
        self.rest, self.source = iter(rest), None

    def next(self):
        """The next value, or None at the end."""
        return next(self.rest, None)


class Endless(Iter):
    """An iterator without an end, which is used up while capturing."""

    __slots__ = ()


class Lazy(Iter):
    """What map or filter gives: `kind` of these, `parts`: Vars of the function and of iterators."""

    __slots__ = ("kind", "parts")

    def __init__(self, kind, parts, rest):
        super().__init__(rest)
        self.kind, self.parts = kind, parts


class ListIter(Iter):
    """An iterator over a list, which may grow meanwhile. `of`: Seq; `at`: the next index."""

    __slots__ = ("of", "at")

    def __init__(self, of):
        super().__init__(())
        self.of, self.at = of, 0

    def next(self):
        """The next value, or None at the end."""
        if self.at >= len(self.of.items):
            return None
        self.at += 1
        return self.of.items[self.at - 1]


class Context(Var):
    """A context manager of this library. `enter` and `leave` do it, in the graph too.

    Args:
        make: (callable, args): makes the real one. enter, leave: functions of the tracer.
    """

    __slots__ = ("make", "enter", "leave", "entered")

    def __init__(self, make, enter, leave):
        self.make, self.enter, self.leave, self.entered, self.source = make, enter, leave, False, None


class Exit(Var):
    """What a `with` statement calls at its end. `context`: Context, or a Var with a method __exit__."""

    __slots__ = ("context",)

    def __init__(self, context):
        self.context, self.source = context, None


class Null(Var):
    """Nothing: a place of the stack that holds no value, or a variable that has none."""

    __slots__ = ()


class Raised(Var):
    """An exception object that the program has made. `args`: Vars."""

    __slots__ = ("cls", "args")

    def __init__(self, cls, args):
        self.cls, self.args, self.source = cls, args, None


def contents(var):
    """The Map that an instance of a subclass of dict holds; None for others."""
    return var.base if isinstance(var, (New, Held)) else None


NULL = Null()
NONE = Const(None)
