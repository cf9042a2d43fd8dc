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


class InputChecks:
    """Whether a program accepts its arguments, with messages that say where in the call a value does not fit.

    Args:
        program: ExportedProgram.
    """

    def __init__(self, program):
        self._signature = program.module_call_graph[0].signature
        specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        self._expected = [
            s.arg.value if isinstance(s.arg, ConstantArgument) else nodes[s.arg.name].meta.get("val") for s in specs
        ]
        self._ranges = program.range_constraints

    def __call__(self, args, kwargs):
        """Errors: RuntimeError if a value does not fit. args, kwargs: of the program's structure."""
        places = pytree.tree_flatten_with_path((args, kwargs))[0]
        values, sizes = tessera.fx._pytree.tree_flatten_spec((args, kwargs), self._signature.in_spec), {}
        for (path, _), value, expected in zip(places, values, self._expected):
            first = path[0].idx == 0
            place = ("*args" if first else "") + (pytree.keystr(path[1:]) if first else repr(path[1].key))
            place += "" if first else pytree.keystr(path[2:])
            if isinstance(expected, tessera.Tensor):
                self._tensor(place, value, expected.shape, sizes)
            elif is_symbolic(expected):
                self._size(place, value, expected, sizes)
            elif expected is None or isinstance(expected, (int, float, str, complex)):
                same = type(value) is type(expected) and (value == expected or value != value and expected != expected)
                self._need(
                    same,
                    place,
                    f"equal to {expected}",
                    type(value) if value is not None and not isinstance(value, (int, float, str, complex)) else value,
                )

    @staticmethod
    def _need(fits, place, wanted, got, hint=""):
        if not fits:
            raise RuntimeError(f"Expected input at {place} to be {wanted}, but got {got}{hint}")

    def _tensor(self, place, value, shape, sizes):
        self._need(isinstance(value, tessera.Tensor), place, "a tensor", type(value))
        if value.dim() != len(shape):
            raise RuntimeError(
                f"Unexpected number of dimensions in input at {place}.shape (expected {shape}, got {value.shape})"
            )
        for dim, (size, expected) in enumerate(zip(value.shape, shape)):
            if is_symbolic(expected):
                self._size(f"{place}.shape[{dim}]", size, expected, sizes)
            else:
                self._need(size == expected, f"{place}.shape[{dim}]", f"equal to {expected}", size, _RE_EXPORT)

    def _size(self, place, value, expected, sizes):
        expr = expected.node.expr
        known = expr.subs(sizes)
        if expr.is_symbol and expr not in sizes:
            sizes[expr] = value
        elif getattr(known, "is_number", True):
            self._need(value == int(known), place, f"equal to {int(known)}", value)
        elif len(known.free_symbols) == 1:
            (symbol,) = known.free_symbols
            offset = int(known.subs({symbol: 0}))
            factor = int(known.subs({symbol: 1})) - offset
            self._need((value - offset) % factor == 0, place, f"of the form {expr}", value)
            sizes[symbol] = (value - offset) // factor
        if (found := self._ranges.get(expr)) is not None:
            self._need(value >= found.lower, place, f">= {found.lower}", value)
            self._need(value <= found.upper, place, f"<= {found.upper}", value)


_RE_EXPORT = ". If this dimension is meant to be dynamic, export again with dynamic_shapes (e.g. with Dim.DYNAMIC)"


class GuardsFn(tessera.nn.Module):
    """Checks the inputs of a program when it is called with their leaves."""

    _is_impure = True

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
