"""From a graph to the text of a Python function."""

import dataclasses
import enum
import functools
import inspect
import math
import re
import types
import typing

import tessera
from tessera.fx import config
from tessera.fx._names import IN_PLACE, INFIX, Namespace, qualified_name, shown_module
from tessera.fx.node import Node


@dataclasses.dataclass
class PythonCode:
    """What Graph.python_code returns: the text `src` of a function `forward`, the `globals` that it reads and, where
    they are asked for, `_lineno_map`: line of the body, behind `_prologue_start` lines of the text -> position of its
    node."""

    src: str
    globals: dict
    _lineno_map: typing.Optional[dict] = None
    _prologue_start: int = 0


class Globals:
    """Gives names to the objects that a function's text mentions."""

    def __init__(self, namespace):
        self._namespace = namespace
        self.found = {
            "torch": tessera, "device": tessera.device, "inf": math.inf, "nan": math.nan, "NoneType": type(None),
        }  # fmt: skip
        for name in self.found:
            namespace.reserve(name)
        self._name_of = {}
        self.wrapped = []  # names of functions that tracing keeps as they are

    def name(self, obj, hint=None):
        """The expression by which the text reaches obj."""
        path = qualified_name(obj) if hint is None else hint
        shown = shown_module("tessera")
        if "." not in path and hint is None:
            return path  # a builtin
        if path == shown or path.startswith(shown + "."):
            path = "torch" + path[len(shown) :]
            if self._reaches(path, obj):
                return path
        known = self._name_of.get(id(obj))
        if known is not None and self.found.get(known) is obj:
            return known
        name = path.replace(".", "_")
        name = name if self._namespace.is_free(name) and name.isidentifier() else self._namespace.create(name)
        self._namespace.reserve(name)
        self.found[name] = obj
        self._name_of[id(obj)] = name  # `found` keeps obj alive, so its address stays its own
        return name

    @staticmethod
    def _reaches(path, obj):
        at = tessera
        for part in path.split(".")[1:]:
            at = getattr(at, part, None)
        return at is obj or at == obj


class Writer:
    """Arguments as expressions."""

    def __init__(self, names, of_node=repr):
        self._globals, self._of_node = names, of_node

    def write(self, arg):
        kind = type(arg)
        if kind is Node:
            return self._of_node(arg)
        if kind in (str, int, bool, type(None), complex, type(Ellipsis)):
            return repr(arg)
        if isinstance(arg, Node):
            return self._of_node(arg)
        if isinstance(arg, tuple):
            return self._tuple(arg)
        if isinstance(arg, list):
            return "[" + ", ".join(map(self.write, arg)) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{self.write(k)}: {self.write(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.write, (arg.start, arg.stop, arg.step)))})"
        if isinstance(arg, enum.Enum):
            return f"{self._globals.name(type(arg))}.{arg.name}"
        if isinstance(arg, tessera.Tensor):
            raise NotImplementedError("a Tensor in a node's arguments has no text: register it and use get_attr")
        if isinstance(arg, (tessera.dtype, tessera.memory_format, tessera.layout)):
            return "torch." + str(arg).rpartition(".")[2]
        if callable(arg) and hasattr(arg, "__name__"):
            return self._globals.name(arg)
        return repr(arg)

    def _tuple(self, arg):
        inner = ", ".join(map(self.write, arg))
        if hasattr(arg, "_fields"):
            return f"{self._globals.name(type(arg))}({inner})"
        return f"({inner},)" if len(arg) == 1 else f"({inner})"

    def call(self, args, kwargs):
        return ", ".join([*map(self.write, args), *(f"{k} = {self.write(v)}" for k, v in kwargs.items())])


def _annotation(kind, names):
    """A type as the text of an annotation; names: Globals that get what it mentions."""
    if isinstance(kind, str):
        return kind if _is_known(kind) else repr(kind)
    if isinstance(kind, typing.ForwardRef):
        return repr(kind.__forward_arg__)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is not None and parts:
        if origin is types.UnionType:
            return " | ".join(_annotation(p, names) for p in parts)
        shown = "typing.Union" if origin is typing.Union else repr(kind).partition("[")[0]
        in_typing = shown.startswith("typing.")
        base = names.name(getattr(typing, shown[7:]), shown) if in_typing else names.name(origin)
        return f"{base}[{','.join(_part(p, names) for p in parts)}]"
    if kind is type(None):
        return "NoneType"
    if isinstance(kind, type):
        return names.name(kind)
    text = repr(kind)
    return names.name(kind, text) if text.startswith("typing.") and text[7:].isidentifier() else repr(text)


def _is_known(text):
    """Whether all names of an annotation that is text are known wherever generated code runs."""
    try:
        eval(text, {"torch": tessera})
    except Exception:
        return False
    return True


def _part(part, names):
    """A parameter of a generic type: a type, `...`, a list of types or a value."""
    if part is Ellipsis:
        return "..."
    if isinstance(part, list):
        return "[" + ",".join(_part(p, names) for p in part) + "]"
    is_type = isinstance(part, (type, typing.ForwardRef)) or typing.get_origin(part) is not None
    is_type = is_type or repr(part).startswith("typing.")
    return _annotation(part, names) if is_type else repr(part)


_SHORT = {
    "float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "b8", "quint": "qu", "qint": "q",
}  # fmt: skip


@functools.cache
def _dtype_text(dtype):
    name = str(dtype).rpartition(".")[2]
    letters = name.rstrip("0123456789")
    return _SHORT[letters] + name[len(letters) :] if letters in _SHORT else name.replace("float", "f", 1)


def value_text(value):
    """What is known of a value as text: `f32[2, s0]`, `Sym(s0)`; empty of others."""
    if isinstance(value, tessera.Tensor):
        return f"{_dtype_text(value.dtype)}[{', '.join(map(str, value.shape))}]"
    return f"Sym({value})" if type(value).__name__ in ("SymInt", "SymFloat", "SymBool") else ""


OWN_NAMES = set()  # what graph modules have and other modules have not; a program's modules may use these names, too


def member(module, name):
    """A module's parameter, buffer or submodule, whatever else has its name; or another attribute."""
    parts = vars(module) if name in OWN_NAMES else {}
    kept = any(name in parts.get(kind, ()) for kind in ("_parameters", "_buffers", "_modules"))
    return module.__getattr__(name) if kept else getattr(module, name)


def _attribute(path):
    """`self.a.b`, with getattr for parts that are no identifiers (as the numbers of Sequential's children)."""
    first, *rest = path.split(".")
    text, parts = ("self", [first, *rest]) if first not in OWN_NAMES else (f'self.__getattr__("{first}")', rest)
    for part in parts:
        text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
    return text


def _last_uses(nodes):
    """node -> the values that nobody reads after it; a value that nobody reads at all is its own."""
    freed, seen = {}, set()
    for node in reversed(nodes):
        mine = [n for n in node.all_input_nodes if n not in seen]
        seen.update(mine)
        freed[node] = mine
        if node not in seen and node.op not in ("placeholder", "output"):
            freed[node] = [*mine, node]
    return freed


class Emitter:
    """The lines of one function's body."""

    def __init__(self, codegen, nodes, names, verbose=False):
        self._codegen, self._names, self._verbose = codegen, names, verbose
        self._writer = Writer(names)
        self._freed = _last_uses(nodes)
        self.arguments, self.lines, self.positions = [], [], {}
        self.return_type = None
        self._last_trace = ""
        for position, node in enumerate(nodes):
            if verbose and not config.do_not_emit_stack_traces:
                self._comment(node)
            getattr(self, "_" + node.op)(node)
            self.positions[position] = len(self.lines)

    def _comment(self, node):
        trace = node.stack_trace
        if node.op in ("placeholder", "output") or trace == self._last_trace:
            return
        self._last_trace = trace
        if self.lines:
            self.lines.append(("", None))
        if not trace:
            self.lines.append(("# No stacktrace found for following nodes", None))
            return
        last = [line.strip() for line in trace.strip().split("\n")]
        at = next((i for i in reversed(range(len(last))) if last[i].startswith("File ")), 0)
        source = ", code: " + last[at + 1] if at + 1 < len(last) else ""
        place = re.sub(r'^File "(.*)", line (\d+), in', r"File: \1:\2 in", last[at])
        self.lines.append((f"# {place}{source}", None))

    def _add(self, text, node):
        freed = self._freed[node]
        end = ";  " + " = ".join([*(n.name for n in freed), "None"]) if freed else ""
        self.lines.append((text + end, node))

    def _type_of(self, node):
        """The annotation of a node; with verbose, of its value where that is known."""
        if node.type:
            return f" : {_annotation(node.type, self._names)}"
        known = value_text(node.meta.get("val")) if self._verbose else ""
        return f': "{known}"' if known else ""

    def _assign(self, node, expression):
        annotation = self._type_of(node)
        self._add(f"{node!r}{annotation} = {expression}", node)

    def _placeholder(self, node):
        target = node.target
        if node.args:
            default = f" = {self._writer.write(node.args[0])}"
        else:
            default = ""
        annotation = self._type_of(node)
        self.arguments.append(f"{target}{annotation}{default}")
        raw = target.lstrip("*")
        if raw != node.name:
            self.lines.append((f"{node!r} = {raw}", node))

    def _get_attr(self, node):
        self._assign(node, _attribute(node.target))

    def _call_method(self, node):
        self_arg = self._writer.write(node.args[0])
        if not isinstance(node.args[0], Node):
            self_arg = f"({self_arg})"
        self._assign(node, f"{self_arg}.{node.target}({self._writer.call(node.args[1:], node.kwargs)})")

    def _call_module(self, node):
        self._assign(node, f"{_attribute(node.target)}({self._writer.call(node.args, node.kwargs)})")

    def _call_function(self, node):
        target, args, write = node.target, node.args, self._writer.write
        form = INFIX.get(target)
        if form is not None and not node.kwargs and len(args) == form.count("{}"):
            return self._assign(node, form.format(*map(write, args)))
        if target in IN_PLACE and len(args) == 2 and not node.kwargs and isinstance(args[0], Node):
            first = write(args[0])
            statement = f"{first} {IN_PLACE[target]} {write(args[1])}"
            return self._add(f"{statement};  {node!r}{self._type_of(node)} = {first}", node)
        name = self._names.name(target)
        if target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            return self._assign(node, f"{write(args[0])}.{args[1]}")
        if node.meta.get("is_wrapped") and name not in self._names.wrapped:
            self._names.wrapped.append(name)
        self._assign(node, f"{name}({self._writer.call(args, node.kwargs)})")

    def _output(self, node):
        if node.type is not None:
            self.return_type = node.type
        write = self._codegen.generate_output
        known = {"write": self._writer.write} if "write" in inspect.signature(write).parameters else {}
        self.lines.append((write(node.args[0], **known), node))


class CodeGen:
    """How a graph becomes a function's text. Subclasses change its frame: `gen_fn_def` the first line and what stands
    before the body, `generate_output` the return, `process_inputs` and `process_outputs` the same for an Interpreter,
    `additional_globals` a list of (name, object)."""

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        """The def line. free_vars: the arguments as text; maybe_return_annotation: `` -> T`` or empty."""
        arguments = list(free_vars)
        if not arguments or arguments[0] != "self":
            arguments.insert(0, "self")
        return f"def {self._func_name}({', '.join(arguments)}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, write=repr):
        """The return statement of a value."""
        return f"return {write(output_args)}"

    def process_inputs(self, *args):
        """The values of the placeholders, from what the function is called with."""
        return args

    def process_outputs(self, outputs):
        """What the function returns, from the output node's value."""
        return outputs

    def additional_globals(self):
        """(name, object) pairs that the text reads besides what the nodes mention."""
        return []

    def _gen_python_code(self, nodes, namespace, *, verbose=False):
        names = Globals(namespace)
        for name, obj in self.additional_globals():
            names.found[name] = obj
            namespace.reserve(name)
        body = Emitter(self, nodes, names, verbose)
        lines = [text for text, _ in body.lines] or ["pass"]
        owners = [node for _, node in body.lines]
        if self._body_transformer is not None:
            new = [line.rstrip("\n") for line in self._body_transformer([line + "\n" for line in lines])]
            lines, owners = new, _owners(new, list(zip(lines, owners)))
        annotation = f" -> {_annotation(body.return_type, names)}" if body.return_type else ""
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in names.wrapped)
        head = self.gen_fn_def(body.arguments, annotation)
        prologue = f"\n{wraps}\n\n{head}\n" if wraps else f"\n\n\n{head}\n"
        text = prologue + "".join("    " + line + "\n" for line in "\n".join(lines).split("\n")) + "    "
        start = prologue.count("\n")
        order = {node: i for i, node in enumerate(nodes)}
        lineno_map = {i + 1: order.get(node) for i, node in enumerate(owners)}
        return PythonCode(text, names.found, lineno_map, start)


def _owners(lines, written):
    """The nodes of changed lines: those of the lines that are as they were written, (line, node) pairs in order."""
    found, at = [], 0
    for line in lines:
        same = next((i for i in range(at, len(written)) if written[i][0] == line), None)
        found.append(None if same is None else written[same][1])
        at = at if same is None else same + 1
    return found


class _PyTreeInfo(typing.NamedTuple):
    orig_args: list
    in_spec: typing.Any
    out_spec: typing.Any


class _PyTreeCodeGen(CodeGen):
    """For functions whose arguments and results are trees: the graph sees their leaves."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        given = list(self.pytree_info.orig_args)
        leaves = [text.partition("=")[0].partition(":")[0].strip() for text in free_vars]
        arguments = given if given and given[0] == "self" else ["self", *given]
        line = f"def {self._func_name}({', '.join(arguments)}){maybe_return_annotation}:"
        if not leaves:
            return line
        outer = ", ".join(a.partition("=")[0].partition(":")[0].strip() for a in arguments[1:])
        return f"{line}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec([{outer}], self._in_spec)"

    def generate_output(self, output_args, *, write=repr):
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, write=write)
        return f"return pytree.tree_unflatten({write(output_args)}, self._out_spec)"

    def process_inputs(self, *args):
        from tessera.fx import _pytree

        return tuple(_pytree.tree_flatten_spec(args, self.pytree_info.in_spec))

    def process_outputs(self, outputs):
        from tessera.utils import _pytree

        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return _pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def additional_globals(self):
        from tessera.fx import _pytree as fx_pytree
        from tessera.utils import _pytree

        return [("pytree", _pytree), ("fx_pytree", fx_pytree)]


def fresh_namespace(nodes):
    """Names of a text: those of the nodes are taken."""
    namespace = Namespace()
    for node in nodes:
        namespace.reserve(node.name)
    return namespace
