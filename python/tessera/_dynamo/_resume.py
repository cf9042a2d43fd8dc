"""Python's own continuation of a function from the middle: its code with a head that restores variables and stack, and
jumps to where it goes on.
"""

import dis
import functools
import operator
import threading
import types

from ._code import VERSION

_pending = threading.local()


def _take():
    return _pending.values.pop()


def _invoke(function, *args, **kwargs):
    return function(*args, **kwargs)


apply = getattr(operator, "call", _invoke)
_EXTENDED = dis.opmap["EXTENDED_ARG"]
_CACHES = {}
if VERSION >= (3, 13):
    _CACHES = {name: count for name, count in getattr(dis, "_inline_cache_entries").items()}
elif VERSION >= (3, 11):
    _CACHES = {dis.opname[i]: count for i, count in enumerate(getattr(dis, "_inline_cache_entries"))}


def _encode(name, arg=0):
    """Bytes of one instruction."""
    out = []
    for shift in (24, 16, 8):
        if arg >> shift:
            out += [_EXTENDED, (arg >> shift) & 0xFF]
    out += [dis.opmap[name], arg & 0xFF]
    return bytes(out) + bytes(2 * _CACHES.get(name, 0))


class _Head:
    """The instructions in front of a function's own."""

    def __init__(self, code, consts):
        self.bytes, self.code, self.consts = b"", code, consts

    def add(self, name, arg=0):
        self.bytes += _encode(name, arg)

    def take(self):
        """Puts the next of the pending values on the stack."""
        if VERSION >= (3, 13):
            self.add("LOAD_CONST", self.consts)
            self.add("PUSH_NULL")
            self.add("CALL", 0)
        elif VERSION >= (3, 11):
            self.add("PUSH_NULL")
            self.add("LOAD_CONST", self.consts)
            if VERSION < (3, 12):
                self.add("PRECALL", 0)
            self.add("CALL", 0)
        else:
            self.add("LOAD_CONST", self.consts)
            self.add("CALL_FUNCTION", 0)

    def null(self):
        self.add("PUSH_NULL")


def _slots(code):
    """{name: index} of variables among a frame's."""
    names = {name: i for i, name in enumerate(code.co_varnames)}
    if VERSION >= (3, 11):
        at = len(names)
        for name in code.co_cellvars:
            if name not in names:
                names[name] = at
                at += 1
    return names


@functools.lru_cache(1024)
def continuation(code, offset, stack, names, cells, blocks):
    """The code that goes on.

    Args:
        offset: of the instruction. stack: tuple of bools, whether a place holds a value (else nothing).
        names, cells: of variables with values, and of those that functions share.
        blocks: of Python 3.10: ((offset of the handler, depth of the stack) ...).
    """
    head = _Head(code, len(code.co_consts))
    if VERSION >= (3, 11):
        if code.co_freevars:
            head.add("COPY_FREE_VARS", len(code.co_freevars))
        head.add("RESUME", 0)
    slots = _slots(code)
    for name in names:
        head.take()
        head.add("STORE_FAST", slots[name])
    if VERSION >= (3, 11):
        for name in cells:
            head.take()
            head.add("STORE_FAST", slots[name])
    size = len(head.bytes)
    todo = list(blocks)
    marks = []  # where SETUP_FINALLY instructions stand, with their targets
    for depth in range(len(stack) + 1):
        while todo and todo[0][1] == depth:
            marks.append((len(head.bytes), todo.pop(0)[0]))
            head.bytes += (
                bytes([_EXTENDED, 0, _EXTENDED, 0, dis.opmap["SETUP_FINALLY"], 0]) if VERSION < (3, 11) else b""
            )
        if depth < len(stack):
            head.take() if stack[depth] else head.null()
    del size
    return _assemble(code, head, offset, marks)


def _patched(data, at, value):
    """Writes a jump's argument into the three units that were left for it."""
    unit = bytes([_EXTENDED, (value >> 16) & 0xFF, _EXTENDED, (value >> 8) & 0xFF, data[at + 4], value & 0xFF])
    return data[:at] + unit + data[at + 6 :]


def _assemble(code, head, offset, marks):
    body, places = code.co_code, {}
    if VERSION < (3, 11):
        body, places = _moved_jumps(code, len(head.bytes) + 6)
    jump_at = len(head.bytes)
    data = head.bytes + bytes([_EXTENDED, 0, _EXTENDED, 0, dis.opmap["JUMP_FORWARD"], 0])
    start = len(data)
    data = _patched(data, jump_at, places.get(offset, offset) // 2)
    for at, target in marks:
        data = _patched(data, at, (start + places.get(target, target) - (at + 6)) // 2)
    changes = dict(
        co_code=data + body, co_consts=(*code.co_consts, _take), co_argcount=0, co_posonlyargcount=0,
        co_kwonlyargcount=0, co_flags=code.co_flags & ~0x0C, co_stacksize=code.co_stacksize + 4,
        co_name=f"{code.co_name}_from_line_{_line_of(code, offset)}",
    )  # fmt: skip
    if VERSION < (3, 11):
        changes.update(co_cellvars=(), co_freevars=code.co_cellvars + code.co_freevars)
        changes.update(co_linetable=_no_line_310(start) + code.co_linetable)
    else:
        changes.update(co_linetable=_no_line(start) + code.co_linetable, co_exceptiontable=_table(code, start))
    return code.replace(**changes)


def _line_of(code, offset):
    return max((line for at, line in dis.findlinestarts(code) if at <= offset and line), default=code.co_firstlineno)


def _no_line(size):
    """Entries of the table of lines for code that has none."""
    out, units = b"", size // 2
    while units:
        count = min(units, 8)
        out += bytes([0x80 | 15 << 3 | count - 1])
        units -= count
    return out


def _no_line_310(size):
    out = b""
    while size:
        count = min(size, 254)
        out += bytes([count, 0x80])
        size -= count
    return out


def _varint(value, mark=0):
    parts = [value & 63]
    while value > 63:
        value >>= 6
        parts.append(64 | value & 63)
    parts.reverse()
    parts[0] |= mark
    return bytes(parts)


def _table(code, shift):
    """The table of exception handlers, moved."""
    out = b""
    for e in dis._parse_exception_table(code):
        out += _varint((e.start + shift) // 2, 128) + _varint((e.end - e.start) // 2)
        out += _varint((e.target + shift) // 2) + _varint(e.depth << 1 | e.lasti)
    return out


def _moved_jumps(code, shift):
    """The code of Python 3.10 after `shift` bytes: its jumps to fixed places are moved. (bytes, {old: new offset})"""
    instructions = []
    extra = 0
    for at in range(0, len(code.co_code), 2):
        op, arg = code.co_code[at], code.co_code[at + 1] | extra << 8
        if op == _EXTENDED:
            extra = arg
            continue
        extra = 0
        instructions.append([at, op, arg])
    # the first unit of each instruction, with its EXTENDED_ARGs
    starts, last = {}, 0
    for ins in instructions:
        starts[last] = ins
        for at in range(last, ins[0] + 2, 2):
            starts.setdefault(at, ins)
        last = ins[0] + 2
    widths = [1 + sum(bool(i[2] >> s) for s in (8, 16, 24)) for i in instructions]
    while True:
        places, at = {}, 0
        for ins, width in zip(instructions, widths):
            places[id(ins)] = at
            at += 2 * width
        changed = False
        values = []
        for i, ins in enumerate(instructions):
            at_, op, arg = ins
            if op in dis.hasjabs:
                arg = (places[id(starts[arg * 2])] + shift) // 2
            elif op in dis.hasjrel:
                arg = (places[id(starts[at_ + 2 + arg * 2])] - places[id(ins)]) // 2 - widths[i]
            values.append(arg)
            need = 1 + sum(bool(arg >> s) for s in (8, 16, 24))
            if need > widths[i]:
                widths[i], changed = need, True
        if not changed:
            break
    out = b""
    for ins, width, arg in zip(instructions, widths, values):
        for k in range(width - 1, 0, -1):
            out += bytes([_EXTENDED, arg >> 8 * k & 0xFF])
        out += bytes([ins[1], arg & 0xFF])
    return out, {at: places[id(ins)] for at, ins in starts.items()}


def run(code, space, values, closure):
    """Runs a continuation. `values`: of variables, cells and stack, in their order. Returns: what the function does."""
    function = types.FunctionType(code, space, code.co_name, None, closure or None)
    before = getattr(_pending, "values", None)
    _pending.values = list(reversed(values))
    try:
        return function()
    finally:
        _pending.values = before
