"""Instructions of code objects in one form for all versions of Python, and what is alive at a place."""

import dis
import functools
import sys

VERSION = sys.version_info[:2]


class Instruction:
    """One instruction. Attributes: name, arg, value (what arg means), offset, line, target (index of a jump's)."""

    __slots__ = ("name", "arg", "value", "offset", "line", "target")

    def __repr__(self):
        return f"{self.name} {self.value!r}"


class Code:
    """A code object, ready to be captured. Attributes: code, instructions, at (offset -> index)."""

    def __init__(self, code):
        self.code = code
        self.instructions = []
        self.at = {}
        line = code.co_firstlineno
        jumps = {}
        for ins in dis.get_instructions(code):
            if ins.opname == "CACHE":
                continue
            starts = ins.starts_line
            if VERSION >= (3, 11) and ins.positions is not None and ins.positions.lineno:
                line = ins.positions.lineno
            elif starts and not isinstance(starts, bool):
                line = starts
            made = Instruction()
            made.name, made.arg, made.value, made.offset, made.line = ins.opname, ins.arg, ins.argval, ins.offset, line
            made.target = None
            index = len(self.instructions)
            if ins.opcode in dis.hasjrel or ins.opcode in dis.hasjabs:
                jumps[index] = ins.argval
            self.at[ins.offset] = index
            self.instructions.append(made)
        for index, offset in jumps.items():
            while offset not in self.at:  # into the caches of an instruction: what follows them
                offset += 2
            self.instructions[index].target = self.at[offset]
        self.handlers = _handlers(code)

    def handler(self, index):
        """(index of the handler, depth of the stack, whether it wants the offset) of an instruction; None without."""
        offset = self.instructions[index].offset
        for start, end, target, depth, lasti in self.handlers:
            if start <= offset < end:
                return self.at[target], depth, lasti
        return None

    def live(self, index):
        """Names of variables that may be read from an instruction on."""
        return _live(self, index)


def _handlers(code):
    if VERSION < (3, 11):
        return []
    return [(e.start, e.end, e.target, e.depth, e.lasti) for e in dis._parse_exception_table(code)]


@functools.lru_cache(4096)
def _live(code, index):
    seen, todo, names = set(), [index], set()
    instructions = code.instructions
    while todo:
        i = todo.pop()
        while i < len(instructions) and i not in seen:
            seen.add(i)
            ins = instructions[i]
            if ins.name.startswith(("LOAD_", "STORE_", "DELETE_")):
                if ins.name.startswith("STORE_FAST_LOAD"):
                    names.add(ins.value[1])
                elif isinstance(ins.value, tuple):
                    names.update(v for v in ins.value if isinstance(v, str) and ins.name.startswith("LOAD_FAST"))
                elif ins.name.startswith(("LOAD_FAST", "LOAD_CLOSURE", "LOAD_DEREF", "LOAD_CLASSDEREF", "DELETE_FAST",
                                          "STORE_DEREF", "DELETE_DEREF", "LOAD_FROM_DICT_OR_DEREF")):  # fmt: skip
                    names.add(ins.value)
            found = code.handler(i)
            if found is not None:
                todo.append(found[0])
            if ins.target is not None:
                todo.append(ins.target)
            if ins.name in _ENDS:
                break
            i += 1
    return frozenset(names)


_ENDS = frozenset(
    "RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE JUMP_FORWARD JUMP_ABSOLUTE JUMP_BACKWARD "
    "JUMP_BACKWARD_NO_INTERRUPT".split()
)


@functools.lru_cache(4096)
def of(code):
    """The Code of a code object."""
    return Code(code)
