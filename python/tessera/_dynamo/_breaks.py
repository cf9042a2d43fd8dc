"""Where a graph ends: the instruction that a graph cannot hold is written as a line of Python, and another piece goes
on behind it. What has no such line is left to Python to the end of the function.
"""

from . import _code, _frames
from ._emit import Text
from ._frames import _BINARY, _WORDS, _symbol, after_loop, below_method, split_call
from ._resume import apply
from ._tracer import kind_of
from ._values import NULL, Exit, Null, Obj, Super
from .exc import Unsupported

# Functions that look at the frame which calls them.
_FRAME_BOUND = (locals, globals, vars, dir, eval, exec, super, breakpoint)


class LeftToPython(Exception):
    """There is no line for an instruction."""


def write(piece, frame, ins):
    """Writes lines that do what `ins` does, and go on behind it.

    Args:
        piece: _points.Piece. frame: Frame, with the state before the instruction.
    """
    way = _WAYS.get(ins.name)
    if way is None:
        raise LeftToPython
    frame.index = frame.now + 1
    way(piece, frame, ins)


def _result(piece, frame, text):
    name = piece.emitter.name(text, "__r")
    frame.push(Text(name))
    return name


def _go_on(piece, frame, index=None):
    piece.leave(frame, frame.index if index is None else index)


def _call(piece, f, ins):
    names = f.names
    function, args, kwargs = split_call(f, ins)
    if isinstance(function, (Super, Exit)) or isinstance(function, Obj) and function.value in _frame_bound(function):
        f.names = names
        raise LeftToPython
    e = piece.emitter
    words = "{" + ", ".join(f"{k!r}: {e.expression(v)}" for k, v in kwargs.items()) + "}"
    values = "".join(e.expression(a) + ", " for a in args)
    text = f"{e.writer.bind(piece.point.invoke)}({e.expression(function)}, ({values}), {words})"
    _result(piece, f, text)
    _go_on(piece, f)


def _frame_bound(function):
    try:
        return _FRAME_BOUND if function.value in _FRAME_BOUND else ()
    except Exception:
        return ()


def _attribute(piece, f, ins):
    text = f"getattr({piece.emitter.expression(f.pop())}, {ins.value!r})"
    method = ins.name == "LOAD_METHOD" or (ins.name == "LOAD_ATTR" and _code.VERSION >= (3, 12) and ins.arg & 1)
    if method and _code.VERSION < (3, 13):
        f.push(below_method(f))
    _result(piece, f, text)
    if method and _code.VERSION >= (3, 13):
        f.push(NULL)
    _go_on(piece, f)


def _binary(piece, f, ins):
    import operator

    e = piece.emitter
    right, left = f.pop(), f.pop()
    symbol = _symbol(ins) if ins.name == "BINARY_OP" else _old_symbol(ins.name)
    function = getattr(operator, ("i" + _BINARY[symbol[:-1]].rstrip("_")) if symbol.endswith("=") else _BINARY[symbol])
    _result(piece, f, f"{e.writer.bind(function)}({e.expression(left)}, {e.expression(right)})")
    _go_on(piece, f)


def _old_symbol(name):
    kind, _, word = name.partition("_")
    return _WORDS[word] + ("=" if kind == "INPLACE" else "")


def _unary(piece, f, ins):
    import operator

    e = piece.emitter
    function = {"UNARY_NEGATIVE": operator.neg, "UNARY_POSITIVE": operator.pos, "UNARY_INVERT": operator.invert,
                "UNARY_NOT": operator.not_, "TO_BOOL": bool, "GET_ITER": iter}[ins.name]  # fmt: skip
    _result(piece, f, f"{e.writer.bind(function)}({e.expression(f.pop())})")
    _go_on(piece, f)


def _compare(piece, f, ins):
    e = piece.emitter
    right, left = f.pop(), f.pop()
    symbol = ins.value.removeprefix("bool(").removesuffix(")")
    text = f"{e.expression(left)} {symbol} {e.expression(right)}"
    _result(piece, f, f"bool({text})" if _code.VERSION >= (3, 13) and ins.arg & 16 else text)
    _go_on(piece, f)


def _contains(piece, f, ins):
    e = piece.emitter
    right, left = f.pop(), f.pop()
    _result(piece, f, f"{e.expression(left)} {'not in' if ins.arg else 'in'} {e.expression(right)}")
    _go_on(piece, f)


def _subscript(piece, f, ins):
    e = piece.emitter
    key, owner = f.pop(), f.pop()
    _result(piece, f, f"{e.expression(owner)}[{e.expression(key)}]")
    _go_on(piece, f)


def _store_subscript(piece, f, ins):
    e = piece.emitter
    value, owner, key = (e.expression(v) for v in f.pop_many(3))
    e.line(f"{owner}[{key}] = {value}")
    _go_on(piece, f)


def _delete_subscript(piece, f, ins):
    owner, key = (piece.emitter.expression(v) for v in f.pop_many(2))
    piece.emitter.line(f"del {owner}[{key}]")
    _go_on(piece, f)


def _store_attribute(piece, f, ins):
    e = piece.emitter
    owner = e.expression(f.pop())
    e.line(f"setattr({owner}, {ins.value!r}, {e.expression(f.pop())})")
    _go_on(piece, f)


def _unpack(piece, f, ins):
    e = piece.emitter
    value = e.expression(f.pop())
    names = [e.writer.fresh("__u") for _ in range(ins.arg)]
    e.line(f"{''.join(n + ', ' for n in names)[:-1]} = {value}" if names else f"() = {value}")
    f.stack += [Text(n) for n in reversed(names)]
    _go_on(piece, f)


def _format(piece, f, ins):
    e = piece.emitter
    spec = (
        e.expression(f.pop()) if ins.name == "FORMAT_WITH_SPEC" or ins.name == "FORMAT_VALUE" and ins.arg & 4 else "''"
    )
    convert = {0: "", 1: "str", 2: "repr", 3: "ascii"}[(ins.arg & 3) if ins.name == "FORMAT_VALUE" else 0]
    _result(piece, f, f"format({convert}({e.expression(f.pop())}), {spec})")
    _go_on(piece, f)


def _convert(piece, f, ins):
    convert = {1: "str", 2: "repr", 3: "ascii"}[ins.arg]
    _result(piece, f, f"{convert}({piece.emitter.expression(f.pop())})")
    _go_on(piece, f)


def _branch(piece, f, ins):
    e = piece.emitter
    value = e.expression(f.pop())
    test = {"TRUE": value, "FALSE": f"not {value}", "NOT_NONE": f"{value} is not None", "NONE": f"{value} is None"}
    word = ins.name.partition("_IF_")[2]
    e.line(f"if {test[word]}:")
    piece.leave(f, ins.target, indent="    ")
    _go_on(piece, f)


def _branch_or_pop(piece, f, ins):
    e = piece.emitter
    value = e.expression(f.stack[-1])
    e.line(f"if {value if 'TRUE' in ins.name else f'not {value}'}:")
    piece.leave(f, ins.target, indent="    ")
    f.pop()
    _go_on(piece, f)


def _for_iter(piece, f, ins):
    e = piece.emitter
    at = e.expression(f.stack[-1])
    end = e.writer.bind(_END)
    value = e.name(f"next({at}, {end})", "__r")
    e.line(f"if {value} is {end}:")
    kept = f.pop()
    piece.leave(f, after_loop(f.code, ins), indent="    ")
    f.stack += [kept, Text(value)]
    _go_on(piece, f)


_END = object()
_WAYS = {
    **dict.fromkeys(("CALL", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_METHOD", "CALL_FUNCTION_EX", "CALL_KW"), _call),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), _attribute),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "UNARY_NOT", "TO_BOOL", "GET_ITER"), _unary),
    "BINARY_OP": _binary, "COMPARE_OP": _compare, "CONTAINS_OP": _contains, "BINARY_SUBSCR": _subscript,
    "STORE_SUBSCR": _store_subscript, "DELETE_SUBSCR": _delete_subscript, "STORE_ATTR": _store_attribute,
    "UNPACK_SEQUENCE": _unpack, "FORMAT_VALUE": _format, "FORMAT_SIMPLE": _format, "FORMAT_WITH_SPEC": _format,
    "CONVERT_VALUE": _convert, "FOR_ITER": _for_iter,
    **dict.fromkeys(("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"), _branch_or_pop),
}  # fmt: skip
for _word in _WORDS:
    _WAYS["BINARY_" + _word] = _WAYS["INPLACE_" + _word] = _binary
for _name in _frames._TABLE:
    if _name.startswith("POP_JUMP_"):
        _WAYS[_name] = _branch


def check_stack(stack):
    """Raises Unsupported for values on the stack that no other piece can take over."""
    for var in stack:
        if not isinstance(var, (Null, Text)) and kind_of(var) in ("raised",):
            raise Unsupported("a graph ends where an exception is handled")


__all__ = ["LeftToPython", "apply", "check_stack", "write"]
