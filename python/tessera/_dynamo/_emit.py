"""The function that runs a captured piece: calls the compiled graph, does what the program does besides, and gives the
result, or the state with which another piece goes on.
"""

import functools
import types

import tessera

from ._sources import Writer, plain_mapping, refill
from ._tracer import is_named_tuple, kind_of
from ._values import (
    Bound, Cell, Closure, Const, Context, Exit, Iter, Lazy, ListIter, Map, Method, New, NumberV, Obj, Partial, Raised,
    Seq, Slice, Super, TensorV, Var, View,
)  # fmt: skip
from .exc import Unsupported


class Text(Var):
    """What a line of the function has computed, by its name."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text, self.source = text, None


class Next:
    """A piece ends here; `point` goes on with `args`. native: Python does, to the end."""

    __slots__ = ("point", "args", "native")

    def __init__(self, point, args, native=False):
        self.point, self.args, self.native = point, args, native


def list_iterator(items, at):
    """An iterator over a list that stands before an index."""
    made = iter(items)
    made.__setstate__(at)
    return made


class Emitter:
    """Writes the function of one piece.

    Args:
        tracer: Tracer, at the end of the piece. parameters: names of the piece's arguments.
    """

    def __init__(self, tracer, parameters):
        self.tracer, self.writer = tracer, Writer(parameters)
        self.after = []  # lines that follow the graph's call
        self.outputs = []  # Vars that the graph gives
        self._names = {}  # id of a Var -> (the Var, its text)
        self._busy = set()

    def line(self, text):
        """Adds a line after the graph's call."""
        self.after.append(text)

    def name(self, text, prefix="__n"):
        """Adds a line that gives a value a name."""
        name = self.writer.fresh(prefix)
        self.after.append(f"{name} = {text}")
        return name

    def expression(self, var):
        """The text of a Var's value."""
        if isinstance(var, tuple):
            return self.writer.read(var[1])
        if isinstance(var, Text):
            return var.text
        if isinstance(var, Const):
            return self.writer.constant(var.value)
        found = self._names.get(id(var))
        if found is not None:
            return found[1]
        if id(var) in self._busy:
            raise Unsupported("a container that holds itself")
        if var.source is not None and not isinstance(var, (Exit, Context)):
            text = self.writer.bind(var.source.key) if var.source.kind == "object" else self.writer.read(var.source)
        else:
            self._busy.add(id(var))
            text = self._made(var)
            self._busy.discard(id(var))
        self._names[id(var)] = (var, text)
        return text

    def _made(self, var):
        if isinstance(var, (TensorV, NumberV)):
            return self.given(var)
        builder = _BUILDERS.get(type(var))
        if builder is None:
            raise Unsupported(f"a {kind_of(var)} that outlives a piece of the graph")
        return builder(self, var)

    def given(self, var):
        """The text of what a node of the graph gives, which is one of the graph's results from now on."""
        if var.node.graph is not self.tracer.graph:
            raise Unsupported("a tensor of a function that is an argument of an operator, which outlives it")
        self.outputs.append(var)
        return f"__out{len(self.outputs) - 1}"

    def all(self, items):
        """Texts of several, separated by commas."""
        return ", ".join(self.expression(v) for v in items)

    def remember(self, var, text):
        """Notes the text of a Var before its parts are written, which may refer to it."""
        self._names[id(var)] = (var, text)

    def effects(self):
        """Lines that write what the program has written to objects of others."""
        bind, lines = self.writer.bind, []
        for container in self.tracer.calls:
            source = container.source
            whole = source.base if source.kind == "held" else source
            place, value = self.writer.read(whole), self._contents(container)
            if source.kind == "held":
                lines.append(f"{bind(refill)}({place}, {self.name(value)})")
            elif container.cls is list:
                lines.append(f"{place}[:] = {value}")
            else:
                value = self.name(value)
                grow = "extend" if container.cls.__name__ == "deque" else "update"
                lines += [f"{place}.clear()", f"{place}.{grow}({value})"]
        for owner, name, var in self.tracer.effects.values():
            value = self.expression(var)
            if isinstance(owner, dict):
                lines.append(f"{bind(owner)}[{name!r}] = {value}")
            elif isinstance(owner, Cell):
                lines.append(f"{self.expression(owner)}.cell_contents = {value}")
            else:
                base = tessera.nn.Module if isinstance(owner.value, tessera.nn.Module) else object
                lines.append(f"{bind(base.__setattr__)}({self.expression(owner)}, {name!r}, {value})")
        self.after += lines

    def _contents(self, var):
        if isinstance(var, Map):
            return _map_text(self, var)
        return f"[{self.all(var.items)}]"

    def function(self, compiled, name):
        """The function, once all is written.

        Args:
            compiled: callable of the graph's inputs that gives a tuple of the outputs, or None without a graph.
        """
        w = self.writer
        inputs = [w.read(v.source) for v in self.tracer.inputs]
        lines = w.lines
        if compiled is not None:
            call = f"{w.bind(compiled, '__graph')}({', '.join(inputs)})"
            outs = "".join(f"__out{i}, " for i in range(len(self.outputs)))
            lines.append(f"{outs[:-1]} = {call}" if outs else call)
        w.lines = lines + self.after
        return w.function("piece", f"<piece of {name}>")


def _seq(e, var):
    cls = var.cls
    if cls is list:
        return e.name(f"[{e.all(var.items)}]")
    items = "(" + "".join(e.expression(v) + ", " for v in var.items) + ")"
    if cls is tuple:
        return e.name(items) if var.items else "()"
    if is_named_tuple(cls) and hasattr(cls, "_fields"):
        return e.name(f"{e.writer.bind(cls)}{items}")
    return e.name(f"{e.writer.bind(cls)}({items})")


def _key(e, key):
    if isinstance(key, Var):
        return e.expression(key)
    return f"({''.join(_key(e, k) + ', ' for k in key)})" if type(key) is tuple else e.writer.constant(key)


def _map_text(e, var):
    return "{" + ", ".join(f"{_key(e, k)}: {e.expression(v)}" for k, v in var.items.items()) + "}"


def _map(e, var):
    text = _map_text(e, var)
    if var.factory is not None:
        return e.name(f"{e.writer.bind(var.cls)}({e.expression(var.factory)}, {text})")
    return e.name(text if var.cls is dict else f"{e.writer.bind(var.cls)}({text})")


def _cell(e, var):
    name = e.name(f"{e.writer.bind(types.CellType)}()")
    e.remember(var, name)
    if var.contents is not None:
        e.line(f"{name}.cell_contents = {e.expression(var.contents)}")
    return name


def _closure(e, var):
    w = e.writer
    if len(var.cells) != len(var.code.co_freevars):
        raise Unsupported("a function that is not complete")
    cells = f"({''.join(e.expression(c) + ', ' for c in var.cells)})" if var.cells else "None"
    defaults = f"({''.join(e.expression(d) + ', ' for d in var.defaults)})" if var.defaults else "None"
    name = e.name(
        f"{w.bind(types.FunctionType)}({w.bind(var.code)}, {w.bind(var.space)}, "
        f"{var.code.co_name!r}, {defaults}, {cells})"
    )
    e.remember(var, name)
    if var.name != var.code.co_name:
        e.line(f"{name}.__qualname__ = {var.name!r}")
    if var.kwdefaults:
        e.line(
            f"{name}.__kwdefaults__ = {{{', '.join(f'{k!r}: {e.expression(v)}' for k, v in var.kwdefaults.items())}}}"
        )
    for key, value in var.attributes.items():
        e.line(f"{name}.{key} = {e.expression(value)}")
    return name


def _new(e, var):
    name = e.name(f"{e.writer.bind(var.cls.__new__)}({e.writer.bind(var.cls)})")
    e.remember(var, name)
    if var.base is not None:
        store = e.writer.bind(plain_mapping(var.cls).__setitem__)
        for key, value in var.base.items.items():
            e.line(f"{store}({name}, {_key(e, key)}, {e.expression(value)})")
    for key, value in var.attributes.items():
        e.line(f"{e.writer.bind(object.__setattr__)}({name}, {key!r}, {e.expression(value)})")
    return name


def _iter(e, var):
    return e.name(f"iter(({''.join(e.expression(v) + ', ' for v in var.rest)}))")


def _lazy(e, var):
    return e.name(f"{e.writer.bind(var.kind)}({e.all(var.parts)})")


def _list_iter(e, var):
    return e.name(f"{e.writer.bind(list_iterator)}({e.expression(var.of)}, {var.at})")


def _partial(e, var):
    words = "".join(f", {k}={e.expression(v)}" for k, v in var.kwargs.items())
    args = "".join(", " + e.expression(v) for v in var.args)
    return e.name(f"{e.writer.bind(functools.partial)}({e.expression(var.function)}{args}{words})")


def _context(e, var):
    make, args = var.make
    return e.name(f"{e.writer.bind(make)}(*{e.writer.bind(args)})")


def _exit(e, var):
    if isinstance(var.context, Context):
        name = e.expression(var.context)
        e.line(f"{name}.__enter__()")
        return e.name(f"{name}.__exit__")
    return e.expression(var.context)


def _bound(e, var):
    if isinstance(var.function, Obj) and not isinstance(var.function.value, types.FunctionType):
        return e.name(f"{e.expression(var.function)}.__get__({e.expression(var.owner)})")
    return e.name(f"{e.writer.bind(types.MethodType)}({e.expression(var.function)}, {e.expression(var.owner)})")


_BUILDERS = {
    Seq: _seq, Map: _map, Cell: _cell, Closure: _closure, New: _new, Iter: _iter, Lazy: _lazy, ListIter: _list_iter,
    Partial: _partial, Context: _context, Exit: _exit, Bound: _bound,
    Obj: lambda e, v: e.writer.bind(v.value),
    View: lambda e, v: e.name(f"{e.expression(v.of)}.{v.kind}()"),
    Method: lambda e, v: e.name(f"{e.expression(v.owner)}.{v.name}"),
    Super: lambda e, v: e.name(f"super({e.writer.bind(v.cls)}, {e.expression(v.owner)})"),
    Slice: lambda e, v: e.name(f"slice({e.all(v.parts)})"),
    Raised: lambda e, v: e.name(f"{e.writer.bind(v.cls)}({e.all(v.args)})"),
}  # fmt: skip
