"""A frame of the program: runs instructions on Vars."""

import linecache
import traceback

from . import _builtins, _calls, _code, _objects
from ._resume import apply
from ._tracer import BY_IDENTITY, CONSTANTS, Tracer
from ._raising import Observed
from ._values import (
    NONE, NULL, Cell, Closure, Const, Exit, Iter, Map, New, Null, NumberV, Obj, Raised, Seq, Slice, TensorV,
)  # fmt: skip
from .exc import Unsupported

_LIMIT = 2_000_000  # instructions of one capture

_BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "@": "matmul", "**": "pow",
    "<<": "lshift", ">>": "rshift", "&": "and_", "|": "or_", "^": "xor",
}  # fmt: skip
_WORDS = {
    "ADD": "+", "SUBTRACT": "-", "MULTIPLY": "*", "TRUE_DIVIDE": "/", "FLOOR_DIVIDE": "//", "MODULO": "%",
    "MATRIX_MULTIPLY": "@", "POWER": "**", "LSHIFT": "<<", "RSHIFT": ">>", "AND": "&", "OR": "|", "XOR": "^",
}  # fmt: skip
_COMPARE = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}


class Returned(Exception):
    """A frame has returned."""


class Frame:
    """Runs a function's instructions.

    Args:
        tracer: Tracer. code: code object. space: its globals. locals_: {name: Var}. cells: {name: Cell}, of variables
            that functions share; closure: Vars of the free variables' cells.
    """

    def __init__(self, tracer, code, space, locals_, closure=()):
        self.tracer, self.space = tracer, space
        self.code = _code.of(code)
        self.locals, self.stack, self.blocks = locals_, [], []
        self.cells = dict(zip(code.co_freevars, closure))
        self.index = self.now = 0
        self.contexts = 0  # of `with` statements that are open
        self.names = None  # of keyword arguments, from KW_NAMES
        self.result = None
        self.yielded = None
        self.returned = False
        self.stop = ()  # indexes before which the frame stops: ends of the graph
        if _code.VERSION < (3, 11):
            for name in code.co_cellvars:
                self.cells[name] = Cell(self.locals.pop(name, None))

    def summary(self):
        """The line of the program where the frame is."""
        code = self.code.code
        line = self.code.instructions[self.now].line
        return traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False, line=_line(code, line))

    def step(self):
        """Runs one instruction."""
        self.now = self.index
        ins = self.code.instructions[self.index]
        self.index += 1
        self.tracer.steps += 1
        if self.tracer.steps > _LIMIT:
            raise Unsupported("a function that takes too many steps, such as a very long loop")
        method = _TABLE.get(ins.name)
        if method is None:
            raise Unsupported(f"the instruction {ins.name}")
        method(self, ins)

    def run(self):
        """Runs to the end; returns the Var of the result. Generators: to the next yield, see `yielded`."""
        tracer = self.tracer
        if len(tracer.stack) > 200:
            raise Unsupported("calls that are nested too deeply")
        tracer.stack.append(self)
        self.yielded = None
        try:
            while not self.returned and self.yielded is None:
                if self.index in self.stop:
                    self.now = self.index
                    return None
                try:
                    self.step()
                except Observed as error:
                    self.catch(error)
        except Unsupported as error:
            if not error.real_stack:
                error.real_stack = [frame.summary() for frame in tracer.stack]
            raise
        finally:
            tracer.stack.pop()
        return self.result

    def catch(self, error):
        """Goes on at the handler of an exception. Raises: Observed if there is none."""
        self.names = None
        if _code.VERSION >= (3, 11):
            found = self.code.handler(self.now)
            if found is None:
                raise error
            self.index, depth, lasti = found
            del self.stack[depth:]
            if lasti:
                self.push(NONE)
            self.push(error.raised)
            return
        while self.blocks:
            target, depth = self.blocks.pop()
            del self.stack[depth:]
            if target is not None:
                self.blocks.append((None, len(self.stack)))
                cls = self.tracer.trusted(error.raised.cls)
                self.stack += [NONE, NONE, NONE, NONE, error.raised, cls]
                self.index = target
                return
        raise error

    # --- the stack ---

    def push(self, var):
        self.stack.append(var)

    def pop(self):
        return self.stack.pop()

    def pop_many(self, count):
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def load_local(self, name):
        if name in self.cells:  # 3.11 and later: LOAD_FAST never means a cell; LOAD_CLOSURE does
            return self.cells[name]
        var = self.locals.get(name)
        if var is None:
            raise Unsupported(f"the local variable {name!r} has no value")
        if isinstance(var, tuple):  # an argument that nobody has looked at: (value, source)
            var = self.locals[name] = self.tracer.wrap(*var)
        return var

    def truth(self, var):
        """Whether a Var is true, if that is known. What an assert statement asks is checked where the graph runs."""
        if isinstance(var, (TensorV, NumberV)):
            asserted = self._assertion()
            if asserted is not None and _objects.is_open(var):
                return _calls.check_later(self.tracer, var, *asserted)
        return _objects.truth(self.tracer, var)

    def _assertion(self):
        """(what an assert statement wants, its message) if the frame stands at one, else None."""
        rest = self.code.instructions[self.now : self.now + 6]
        jump = next((i for i, ins in enumerate(rest) if ins.name.startswith("POP_JUMP")), None)
        if jump is None or jump > 2 or jump + 1 >= len(rest) or "NONE" in rest[jump].name:
            return None
        raises = rest[jump + 1]
        if raises.name != "LOAD_ASSERTION_ERROR" and raises.value is not AssertionError:
            return None
        after = rest[jump + 2] if jump + 2 < len(rest) else None
        told = after is not None and after.name == "LOAD_CONST" and isinstance(after.value, str)
        return "TRUE" in rest[jump].name, after.value if told else "assertion error"


def _line(code, line):
    return (linecache.getline(code.co_filename, line) or "").strip()


# --- instructions -----------------------------------------------------------------------------------------------------

_TABLE = {}


def _op(*names):
    def note(function):
        for name in names:
            _TABLE[name] = function
        return function

    return note


@_op("NOP", "RESUME", "PRECALL", "CACHE", "EXTENDED_ARG", "GEN_START", "COPY_FREE_VARS", "SETUP_ANNOTATIONS",
     "NOT_TAKEN")  # fmt: skip
def _nothing(f, ins):
    pass


@_op("TO_BOOL")
def _to_bool(f, ins):
    f.push(Const(f.truth(f.pop())))


@_op("MAKE_CELL")
def _make_cell(f, ins):
    var = f.locals.pop(ins.value, None)
    if isinstance(var, tuple):
        var = f.tracer.wrap(*var)
    f.cells[ins.value] = Cell(var)


@_op("POP_TOP", "POP_ITER")
def _pop_top(f, ins):
    f.pop()


@_op("PUSH_NULL")
def _push_null(f, ins):
    f.push(NULL)


@_op("COPY")
def _copy(f, ins):
    f.push(f.stack[-ins.arg])


@_op("SWAP")
def _swap(f, ins):
    f.stack[-ins.arg], f.stack[-1] = f.stack[-1], f.stack[-ins.arg]


@_op("ROT_TWO", "ROT_THREE", "ROT_FOUR", "ROT_N")
def _rotate(f, ins):
    count = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}.get(ins.name) or ins.arg
    f.stack.insert(len(f.stack) - count, f.stack.pop())


@_op("DUP_TOP")
def _duplicate(f, ins):
    f.push(f.stack[-1])


@_op("DUP_TOP_TWO")
def _duplicate_two(f, ins):
    f.stack += f.stack[-2:]


@_op("LOAD_CONST", "LOAD_SMALL_INT")
def _load_const(f, ins):
    f.push(constant(ins.value))


def constant(value):
    """The Var of a constant in code."""
    if type(value) is tuple:
        return Seq([constant(v) for v in value], tuple)
    if type(value) is frozenset:
        return Seq([constant(v) for v in value], frozenset)
    return Const(value) if isinstance(value, CONSTANTS) else Obj(value)


@_op("RETURN_CONST")
def _return_const(f, ins):
    f.result, f.returned = constant(ins.value), True


@_op("RETURN_VALUE")
def _return_value(f, ins):
    f.result, f.returned = f.pop(), True


@_op("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE", "LOAD_FAST_BORROW")
def _load_fast(f, ins):
    f.push(f.load_local(ins.value))


@_op("LOAD_FAST_AND_CLEAR")
def _load_and_clear(f, ins):
    var = f.cells.pop(ins.value, None) or f.locals.pop(ins.value, None)
    f.push(NULL if var is None else f.tracer.wrap(*var) if isinstance(var, tuple) else var)


@_op("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_two(f, ins):
    for name in ins.value:
        f.push(f.load_local(name))


@_op("STORE_FAST", "STORE_FAST_MAYBE_NULL")
def _store_fast(f, ins):
    _store(f, ins.value, f.pop())


def _store(f, name, var):
    f.cells.pop(name, None)  # a cell was in the same place, if there was one
    if isinstance(var, Null):
        f.locals.pop(name, None)
    elif isinstance(var, Cell):
        f.cells[name] = var
    else:
        f.locals[name] = var


@_op("STORE_FAST_LOAD_FAST")
def _store_load(f, ins):
    _store(f, ins.value[0], f.pop())
    f.push(f.load_local(ins.value[1]))


@_op("STORE_FAST_STORE_FAST")
def _store_two(f, ins):
    _store(f, ins.value[0], f.pop())
    _store(f, ins.value[1], f.pop())


@_op("DELETE_FAST")
def _delete_fast(f, ins):
    if f.locals.pop(ins.value, None) is None:
        raise Unsupported(f"del of the variable {ins.value!r}, which has no value")


@_op("LOAD_DEREF", "LOAD_CLASSDEREF")
def _load_deref(f, ins):
    f.push(_objects.read_cell(f.tracer, f.cells[ins.value], ins.value))


@_op("STORE_DEREF")
def _store_deref(f, ins):
    cell = f.cells[ins.value]
    cell.contents, cell.changed, cell.unread = f.pop(), True, False
    if cell.source is not None:
        f.tracer.effect(cell, "cell_contents", cell.contents)


@_op("LOAD_GLOBAL", "LOAD_NAME")
def _load_global(f, ins):
    if _code.VERSION >= (3, 11) and _code.VERSION < (3, 13) and ins.name == "LOAD_GLOBAL" and ins.arg & 1:
        f.push(NULL)
    f.push(load_global(f.tracer, f.space, ins.value))
    if _code.VERSION >= (3, 13) and ins.name == "LOAD_GLOBAL" and ins.arg & 1:
        f.push(NULL)


def load_global(tracer, space, name):
    """The Var of a global variable or builtin."""
    written = tracer.effects.get((id(space), name))
    if written is not None:
        return written[2]
    found = tracer.global_source(space, name)
    if found is None:
        raise Unsupported(f"the name {name!r} is not defined")
    value, source = found
    ours = _objects.is_ours(space)
    if source is None:
        if not ours:
            tracer.guard(tracer.space_source(space), "NOT_IN", name)
        return tracer.trusted(value) if isinstance(value, BY_IDENTITY) else constant(value)
    if ours and isinstance(value, BY_IDENTITY):
        return tracer.trusted(value)
    return tracer.wrap(value, source)


@_op("STORE_GLOBAL")
def _store_global(f, ins):
    f.tracer.effects[(id(f.space), ins.value)] = (f.space, ins.value, f.pop())


@_op("LOAD_ATTR")
def _load_attr(f, ins):
    owner = f.pop()
    found = _objects.attribute(f.tracer, owner, ins.value)
    method = _code.VERSION >= (3, 12) and ins.arg & 1
    if method and _code.VERSION < (3, 13):
        f.push(NULL)
    f.push(found)
    if method and _code.VERSION >= (3, 13):
        f.push(NULL)


@_op("LOAD_METHOD")
def _load_method(f, ins):
    owner = f.pop()
    f.push(below_method(f))
    f.push(_objects.attribute(f.tracer, owner, ins.value))


def below_method(f):
    """What LOAD_METHOD leaves under a method. Python 3.10 can't push nothing by itself, so it gets a function that
    calls the method.
    """
    return NULL if _code.VERSION >= (3, 11) else f.tracer.trusted(apply)


@_op("LOAD_SUPER_ATTR")
def _load_super_attr(f, ins):
    _, cls, owner = f.pop_many(3)
    found = _objects.super_attribute(f.tracer, cls, owner, ins.value)
    if ins.arg & 1 and _code.VERSION < (3, 13):
        f.push(NULL)
    f.push(found)
    if ins.arg & 1 and _code.VERSION >= (3, 13):
        f.push(NULL)


@_op("STORE_ATTR")
def _store_attr(f, ins):
    owner = f.pop()
    _objects.set_attribute(f.tracer, owner, ins.value, f.pop())


@_op("BINARY_OP")
def _binary_op(f, ins):
    right = f.pop()
    symbol = _symbol(ins)
    left = f.pop()
    if symbol == "[]":
        return f.push(_objects.item(f.tracer, left, right))
    inplace = symbol.endswith("=")
    f.push(_calls.binary(f.tracer, _BINARY[symbol.removesuffix("=") if inplace else symbol], inplace, left, right))


def _symbol(ins):
    import dis

    return dis._nb_ops[ins.arg][1]


def _old_binary(word, inplace):
    def run(f, ins):
        right = f.pop()
        f.push(_calls.binary(f.tracer, _BINARY[_WORDS[word]], inplace, f.pop(), right))

    return run


for _word in _WORDS:
    _TABLE["BINARY_" + _word] = _old_binary(_word, False)
    _TABLE["INPLACE_" + _word] = _old_binary(_word, True)


@_op("BINARY_SUBSCR")
def _subscript(f, ins):
    key = f.pop()
    f.push(_objects.item(f.tracer, f.pop(), key))


@_op("BINARY_SLICE")
def _binary_slice(f, ins):
    owner, start, stop = f.pop_many(3)
    f.push(_objects.item(f.tracer, owner, Slice([start, stop, NONE])))


@_op("STORE_SLICE")
def _store_slice(f, ins):
    value, owner, start, stop = f.pop_many(4)
    _objects.set_item(f.tracer, owner, Slice([start, stop, NONE]), value)


@_op("STORE_SUBSCR")
def _store_subscript(f, ins):
    value, owner, key = f.pop_many(3)
    _objects.set_item(f.tracer, owner, key, value)


@_op("DELETE_SUBSCR")
def _delete_subscript(f, ins):
    owner, key = f.pop_many(2)
    _objects.delete_item(f.tracer, owner, key)


@_op("COMPARE_OP")
def _compare(f, ins):
    right = f.pop()
    symbol = ins.value.removeprefix("bool(").removesuffix(")")
    found = _calls.compare(f.tracer, _COMPARE[symbol], f.pop(), right)
    if _code.VERSION >= (3, 13) and ins.arg & 16:
        found = Const(f.truth(found))
    f.push(found)


@_op("IS_OP")
def _is(f, ins):
    right = f.pop()
    f.push(Const(_objects.same(f.tracer, f.pop(), right) != bool(ins.arg)))


@_op("CONTAINS_OP")
def _contains(f, ins):
    owner = f.pop()
    found = _objects.contains(f.tracer, owner, f.pop())
    f.push(Const(found != bool(ins.arg)))


@_op("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def _unary(f, ins):
    name = {"UNARY_NEGATIVE": "neg", "UNARY_POSITIVE": "pos", "UNARY_INVERT": "invert"}[ins.name]
    f.push(_calls.unary(f.tracer, name, f.pop()))


@_op("UNARY_NOT")
def _not(f, ins):
    f.push(Const(not f.truth(f.pop())))


# --- jumps ---


@_op("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(f, ins):
    f.index = ins.target


def _branch(test):
    def run(f, ins):
        var = f.pop()
        if test(f, var):
            f.index = ins.target

    return run


def _none(f, var):
    return _objects.same(f.tracer, var, NONE)


for _way in ("", "FORWARD_", "BACKWARD_"):
    _TABLE[f"POP_JUMP_{_way}IF_TRUE"] = _branch(lambda f, var: f.truth(var))
    _TABLE[f"POP_JUMP_{_way}IF_FALSE"] = _branch(lambda f, var: not f.truth(var))
    _TABLE[f"POP_JUMP_{_way}IF_NONE"] = _branch(_none)
    _TABLE[f"POP_JUMP_{_way}IF_NOT_NONE"] = _branch(lambda f, var: not _none(f, var))


@_op("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _jump_or_pop(f, ins):
    if f.truth(f.stack[-1]) == ("TRUE" in ins.name):
        f.index = ins.target
    else:
        f.pop()


@_op("GET_ITER")
def _get_iter(f, ins):
    f.push(_objects.iterate(f.tracer, f.pop()))


@_op("FOR_ITER")
def _for_iter(f, ins):
    at = f.stack[-1]
    if not isinstance(at, Iter):
        raise Unsupported("a loop over an iterator that came into the function")
    var = at.next()
    if var is None:
        f.pop()
        f.index = after_loop(f.code, ins)
    else:
        f.push(var)


def after_loop(code, ins):
    """Where a loop goes on when its iterator is exhausted and off the stack."""
    index = ins.target
    if code.instructions[index].name == "END_FOR":
        index += 1 if _code.VERSION < (3, 13) else 2
    return index


@_op("END_FOR")
def _end_for(f, ins):
    f.pop()
    if _code.VERSION < (3, 13):
        f.pop()


# --- containers ---


@_op("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET")
def _build(f, ins):
    cls = {"BUILD_TUPLE": tuple, "BUILD_LIST": list, "BUILD_SET": set}[ins.name]
    items = f.pop_many(ins.arg)
    f.push(Seq(items if cls is not set else _objects.unique(items), cls))


@_op("BUILD_MAP")
def _build_map(f, ins):
    parts = f.pop_many(2 * ins.arg)
    f.push(Map({_objects.key(k): v for k, v in zip(parts[::2], parts[1::2])}))


@_op("BUILD_CONST_KEY_MAP")
def _build_const_map(f, ins):
    keys = f.pop().items
    f.push(Map({_objects.key(k): v for k, v in zip(keys, f.pop_many(ins.arg))}))


@_op("BUILD_SLICE")
def _build_slice(f, ins):
    parts = f.pop_many(ins.arg)
    f.push(Slice(parts + [NONE] * (3 - len(parts))))


@_op("BUILD_STRING")
def _build_string(f, ins):
    parts = f.pop_many(ins.arg)
    f.push(Const("".join(_objects.constant(p, "a part of a text") for p in parts)))


@_op("LIST_TO_TUPLE")
def _list_to_tuple(f, ins):
    f.push(Seq(list(f.pop().items), tuple))


@_op("LIST_APPEND", "SET_ADD")
def _list_append(f, ins):
    var = f.pop()
    into = f.stack[-ins.arg]
    f.tracer.change(into)
    into.items.append(var)
    if ins.name == "SET_ADD":
        into.items = _objects.unique(into.items)


@_op("MAP_ADD")
def _map_add(f, ins):
    key, var = f.pop_many(2)
    into = f.stack[-ins.arg]
    f.tracer.change(into)
    into.items[_objects.key(key)] = var


@_op("LIST_EXTEND", "SET_UPDATE")
def _list_extend(f, ins):
    more = _objects.items_of(f.tracer, f.pop())
    into = f.stack[-ins.arg]
    f.tracer.change(into)
    into.items += more
    if ins.name == "SET_UPDATE":
        into.items = _objects.unique(into.items)


@_op("DICT_UPDATE", "DICT_MERGE")
def _dict_update(f, ins):
    more = f.pop()
    into = f.stack[-ins.arg]
    f.tracer.change(into)
    if not isinstance(more, Map):
        given, more = more, Map({})
        if not isinstance(given, (Obj, New)):
            raise Unsupported("** of a value that is no dict")
        _builtins.update(f.tracer, more, given)
    if ins.name == "DICT_MERGE" and set(more.items) & set(into.items):
        raise Unsupported("a keyword argument is given twice")
    into.items.update(more.items)


@_op("UNPACK_SEQUENCE")
def _unpack(f, ins):
    items = _objects.unpack(f.tracer, f.pop(), ins.arg)
    if len(items) != ins.arg:
        raise Unsupported(f"{len(items)} values for {ins.arg} names")
    f.stack += reversed(items)


@_op("UNPACK_EX")
def _unpack_ex(f, ins):
    before, after = ins.arg & 0xFF, ins.arg >> 8
    items = _objects.items_of(f.tracer, f.pop())
    if len(items) < before + after:
        raise Unsupported(f"{len(items)} values for {before + after} names")
    end = len(items) - after
    f.stack += reversed(items[:before] + [Seq(items[before:end], list)] + items[end:])


# --- texts ---


@_op("FORMAT_VALUE")
def _format_value(f, ins):
    spec = f.pop() if ins.arg & 4 else Const("")
    convert = {0: None, 1: str, 2: repr, 3: ascii}[ins.arg & 3]
    f.push(_format(f.pop(), convert, spec))


def _format(var, convert, spec):
    value = _objects.constant(var, "a value in a text")
    return Const(format(convert(value) if convert else value, _objects.constant(spec, "a format")))


@_op("CONVERT_VALUE")
def _convert_value(f, ins):
    convert = {1: str, 2: repr, 3: ascii}[ins.arg]
    f.push(Const(convert(_objects.constant(f.pop(), "a value in a text"))))


@_op("FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
def _format_simple(f, ins):
    spec = f.pop() if ins.name == "FORMAT_WITH_SPEC" else Const("")
    f.push(_format(f.pop(), None, spec))


# --- functions and calls ---


@_op("MAKE_FUNCTION")
def _make_function(f, ins):
    name = Const(None)
    if _code.VERSION < (3, 11):
        name = f.pop()
    code = f.pop().value
    flags = ins.arg or 0 if _code.VERSION < (3, 13) else 0
    cells = f.pop().items if flags & 8 else ()
    annotations = f.pop() if flags & 4 else None
    kwdefaults = f.pop().items if flags & 2 else {}
    defaults = f.pop().items if flags & 1 else ()
    del annotations
    f.push(Closure(code, f.space, name.value or code.co_name, defaults, kwdefaults, cells))


@_op("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(f, ins):
    function = f.pop()
    value = f.pop()
    if ins.arg == 8:
        function.cells = list(value.items)
    elif ins.arg == 2:
        function.kwdefaults = dict(value.items)
    elif ins.arg == 1:
        function.defaults = list(value.items)
    f.push(function)


@_op("KW_NAMES")
def _kw_names(f, ins):
    f.names = f.code.code.co_consts[ins.arg]


def split_call(f, ins):
    """Takes a call's function and arguments off the stack: (function, args, kwargs)."""
    version, name = _code.VERSION, ins.name
    if name == "CALL_FUNCTION_EX":
        kwargs = f.pop() if ins.arg & 1 else Map({})
        args = _objects.items_of(f.tracer, f.pop())
        if version >= (3, 13):
            f.pop()
        function = f.pop()
        if (3, 11) <= version < (3, 13):
            f.pop()
        if not isinstance(kwargs, Map):
            raise Unsupported("** of a value that is no dict")
        return function, list(args), dict(kwargs.items)
    names = ()
    if name in ("CALL_KW", "CALL_FUNCTION_KW"):
        names = tuple(v.value for v in f.pop().items)
    elif f.names is not None:
        names, f.names = f.names, None
    args = f.pop_many(ins.arg)
    kwargs = dict(zip(names, args[len(args) - len(names) :]))
    args = args[: len(args) - len(names)]
    if version < (3, 11) and name != "CALL_METHOD":
        return f.pop(), args, kwargs
    first, second = f.pop_many(2)
    if version >= (3, 13):
        function, owner = first, second
    elif isinstance(first, Null) or isinstance(first, Obj) and first.value is apply:
        function, owner = second, NULL
    else:
        function, owner = first, second
    if not isinstance(owner, Null):
        args.insert(0, owner)
    return function, args, kwargs


@_op("CALL", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_METHOD", "CALL_FUNCTION_EX", "CALL_KW")
def _call(f, ins):
    function, args, kwargs = split_call(f, ins)
    f.push(_calls.call(f.tracer, function, args, kwargs))


@_op("CALL_INTRINSIC_1")
def _intrinsic(f, ins):
    if ins.arg == 6:  # list to tuple
        f.push(Seq(list(f.pop().items), tuple))
    elif ins.arg == 5:
        f.push(_calls.unary(f.tracer, "pos", f.pop()))
    else:
        raise Unsupported(f"the instruction {ins.name} {ins.value}")


@_op("LOAD_ASSERTION_ERROR")
def _load_assertion_error(f, ins):
    f.push(f.tracer.trusted(AssertionError))


@_op("LOAD_BUILD_CLASS")
def _build_class(f, ins):
    raise Unsupported("a class that is made in a captured function")


@_op("IMPORT_NAME")
def _import_name(f, ins):
    import importlib.util
    import sys

    names, level = f.pop(), f.pop()
    name = ins.value
    if level.value:
        name = importlib.util.resolve_name("." * level.value + name, f.space.get("__package__") or "")
    if name.partition(".")[0] not in sys.modules or name not in sys.modules:
        raise Unsupported(f"an import of {name}, which was not imported before")
    whole = isinstance(names, Const)
    f.push(f.tracer.trusted(sys.modules[name.partition(".")[0] if whole else name]))


@_op("IMPORT_FROM")
def _import_from(f, ins):
    f.push(_objects.attribute(f.tracer, f.stack[-1], ins.value))


# --- with, try, generators ---


@_op("BEFORE_WITH", "SETUP_WITH")
def _before_with(f, ins):
    manager = f.pop()
    exit_, entered = _calls.enter(f.tracer, manager)
    f.push(exit_)
    if ins.name == "SETUP_WITH":
        f.blocks.append((ins.target, len(f.stack)))
    f.push(entered)


@_op("SETUP_FINALLY")
def _setup_finally(f, ins):
    f.blocks.append((ins.target, len(f.stack)))


@_op("POP_BLOCK")
def _pop_block(f, ins):
    f.blocks.pop()


@_op("RAISE_VARARGS")
def _raise(f, ins):
    if ins.arg != 1:
        raise Unsupported("`raise` without an exception, or with a cause")
    what = f.pop()
    if isinstance(what, Obj) and isinstance(what.value, type) and issubclass(what.value, BaseException):
        what = Raised(what.value, [])
    if not isinstance(what, Raised):
        raise Unsupported(f"an exception is raised: {_objects.describe(what)}")
    raise Observed(what)


@_op("RERAISE")
def _reraise(f, ins):
    if _code.VERSION < (3, 11):
        _, value, _ = reversed(f.pop_many(3))
    else:
        value = f.pop()
    raise Observed(value)


@_op("PUSH_EXC_INFO")
def _push_exc_info(f, ins):
    f.stack.insert(len(f.stack) - 1, NONE)


@_op("POP_EXCEPT")
def _pop_except(f, ins):
    if _code.VERSION < (3, 11):
        f.blocks.pop()
        f.pop_many(3)
    else:
        f.pop()


def _matches(raised, wanted):
    classes = tuple(v.value for v in wanted.items) if isinstance(wanted, Seq) else wanted.value
    return issubclass(raised.cls if isinstance(raised, Raised) else raised.value, classes)


@_op("CHECK_EXC_MATCH")
def _check_match(f, ins):
    wanted = f.pop()
    f.push(Const(_matches(f.stack[-1], wanted)))


@_op("JUMP_IF_NOT_EXC_MATCH")
def _jump_no_match(f, ins):
    raised, wanted = f.pop_many(2)
    if not _matches(raised, wanted):
        f.index = ins.target


@_op("WITH_EXCEPT_START")
def _with_except(f, ins):
    depth = 7 if _code.VERSION < (3, 11) else 4
    raised = f.stack[-2] if _code.VERSION < (3, 11) else f.stack[-1]
    f.push(_calls.call(f.tracer, f.stack[-depth], [f.tracer.trusted(raised.cls), raised, NONE], {}))


@_op("DELETE_ATTR")
def _delete_attr(f, ins):
    _objects.delete_attribute(f.tracer, f.pop(), ins.value)


@_op("RETURN_GENERATOR")
def _return_generator(f, ins):
    f.push(NONE)  # what the POP_TOP after it takes


@_op("YIELD_VALUE")
def _yield_value(f, ins):
    f.yielded = f.pop()
    f.push(NONE)  # what next() sends


@_op("GET_YIELD_FROM_ITER")
def _yield_from_iter(f, ins):
    f.push(_objects.iterate(f.tracer, f.pop()))


def _one_more(f):
    at = f.stack[-1]
    if not isinstance(at, Iter):
        raise Unsupported("`yield from` of an iterator that came into the function")
    return at.next()


@_op("SEND")
def _send(f, ins):
    f.pop()
    var = _one_more(f)
    if var is not None:
        f.push(var)
        return
    if _code.VERSION < (3, 12):
        f.pop()
    f.push(NONE)
    f.index = ins.target


@_op("END_SEND")
def _end_send(f, ins):
    del f.stack[-2]


@_op("YIELD_FROM")
def _yield_from(f, ins):
    f.pop()
    var = _one_more(f)
    if var is None:
        f.stack[-1] = NONE
        return
    f.yielded, f.index = var, f.now
    f.push(NONE)


@_op("GET_LEN")
def _get_len(f, ins):
    f.push(Const(len(_objects.items_of(f.tracer, f.stack[-1]))))


Tracer.frame_class = Frame
del _word, _way
