"""Checks of a program's inputs: generated code that looks at each size and number once."""

import math
import re

import tessera
from tessera.export._symbols import is_symbolic, text_of
from tessera.export.graph_signature import ConstantArgument, InputKind
from tessera.utils import _pytree as pytree

_FUNCTIONS = {
    "FloorDiv": lambda a, b: a // b, "CleanDiv": lambda a, b: a // b, "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b, "Max": max, "Min": min, "Eq": lambda a, b: a == b, "Ne": lambda a, b: a != b,
    "PowByNatural": pow, "IntTrueDiv": lambda a, b: a / b, "FloatTrueDiv": lambda a, b: a / b, "ToFloat": float,
    "TruncToInt": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil, "Abs": abs, "ceiling": math.ceil,
    "floor": math.floor, "TruncToFloat": lambda a: float(math.trunc(a)), "Tensor": tessera.Tensor, "inf": math.inf,
    "And": lambda *a: all(a), "Or": lambda *a: any(a), "Not": lambda a: not a, "Identity": lambda a: a, "oo": math.inf,
    "int_oo": math.inf, "ModularIndexing": lambda a, b, c: a // b % c, "RoundToInt": round, "nan": math.nan,
}  # fmt: skip


def input_texts(in_spec, forward_arg_names):
    """How a program's lines would name each leaf of its arguments: `x`, `d['a']`."""
    numbered = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    found = []
    for path, _ in pytree.tree_flatten_with_path(numbered)[0]:
        first = path[1]
        at = getattr(first, "idx", None)
        if at is None:
            name = str(first.key)
        else:
            names = forward_arg_names
            name = names[at] if names is not None and at < len(names) else f"args[{at}]"
        found.append(name + pytree.keystr(path[2:]))
    return found


def _bounds(vr):
    low, high = str(vr.lower), str(vr.upper)
    return (None if "oo" in low else int(vr.lower)), (None if "oo" in high else int(vr.upper))


class GuardCode:
    """The checks of an ExportedProgram's inputs, as the text of a function of the placeholders' values."""

    def __init__(self, program):
        self._lines, self._symbols = [], {}
        entry = program.module_call_graph[0].signature
        specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        texts = input_texts(entry.in_spec, entry.forward_arg_names)
        self.names = [s.arg.name for s in specs]
        dynamic = []
        for spec, text in zip(specs, texts):
            value = spec.arg.value if isinstance(spec.arg, ConstantArgument) else nodes[spec.arg.name].meta.get("val")
            self._input(spec.arg.name, text, value, dynamic)
        for variable, text, expr in dynamic:
            self._dynamic(variable, text, expr)
        for symbol, vr in program.range_constraints.items():
            self._range(text_of(symbol), vr)
        for guard in program._guards_code:
            self._need(guard, self._readable(guard))

    def _need(self, condition, message):
        self._lines.append(f"    if not ({condition}): _fail({message!r})")

    def _input(self, name, text, value, dynamic):
        if isinstance(value, tessera.Tensor):
            self._need(f"isinstance({name}, Tensor)", f"isinstance({text}, Tensor)")
            self._need(f"{name}.dim() == {value.dim()}", f"len({text}.size()) == {value.dim()}")
            for dim, size in enumerate(value.shape):
                shown, variable = f"{text}.size()[{dim}]", f"{name}.shape[{dim}]"
                if is_symbolic(size):
                    dynamic.append((variable, shown, size.node.expr))
                else:
                    self._need(f"{variable} == {size}", f"{shown} == {size}")
        elif is_symbolic(value):
            dynamic.append((name, text, value.node.expr))
        elif isinstance(value, float) and math.isnan(value):
            self._need(f"{name} != {name}", f"{text} is nan")
        elif value is None or isinstance(value, (int, float, str, complex)):
            self._need(f"type({name}) is type({value!r}) and {name} == {value!r}", f"{text} == {value!r}")

    def _dynamic(self, variable, text, expr):
        symbol = text_of(expr)
        if expr.is_symbol and symbol not in self._symbols:
            self._symbols[symbol] = text
            self._lines.append(f"    {symbol} = {variable}")
        elif expr.free_symbols and all(str(s) in self._symbols for s in expr.free_symbols):
            self._need(f"{variable} == {symbol}", f"{text} == {self._readable(symbol)}")
        elif len(expr.free_symbols) == 1:
            self._solve(variable, text, expr)

    def _solve(self, variable, text, expr):
        """A size a * s + b, where s is no size of its own."""
        (symbol,) = expr.free_symbols
        offset = expr.subs({symbol: 0}).value()
        factor = expr.subs({symbol: 1}).value() - offset
        self._need(f"({variable} - ({offset})) % ({factor}) == 0", f"({text} - {offset}) % {factor} == 0")
        self._symbols[str(symbol)] = f"({text} - {offset})/{factor}"
        self._lines.append(f"    {symbol} = ({variable} - ({offset})) // ({factor})")

    def _readable(self, text):
        return re.sub(r"\b[a-z]+\d+\b", lambda m: self._symbols.get(m.group(), m.group()), text)

    def _range(self, symbol, vr):
        if not all(name in self._symbols for name in re.findall(r"\b[a-z]+\d+\b", symbol)):
            return  # of a number that the program itself finds
        low, high = _bounds(vr)
        if low is not None and low > 0:
            self._need(f"{symbol} >= {low}", f"{self._readable(symbol)} >= {low}")
        if high is not None:
            self._need(f"{symbol} <= {high}", f"{self._readable(symbol)} <= {high}")

    def text(self):
        """The function's text."""
        return "\n".join([f"def check({', '.join(self.names)}):", *self._lines, "    return None"])

    def compile(self):
        """The function. AssertionError at a call whose arguments do not fit."""
        space = {**_FUNCTIONS, "math": math, "_fail": _fail, "device": tessera.device}
        exec(self.text(), space)
        return space["check"]


def _fail(message):
    raise AssertionError(f"Guard failed: {message}")


class GuardsFn(tessera.nn.Module):
    """Checks the inputs of a program when it is called with their leaves."""

    def __init__(self, code):
        super().__init__()
        self.code = code
        self._names, self._check = code.names, code.compile()

    def forward(self, *leaves):
        if any(isinstance(leaf, tessera.fx.Proxy) for leaf in leaves):
            return None  # a trace of the program: there is nothing to check
        return self._check(*leaves)

    def __deepcopy__(self, memo):
        return self
