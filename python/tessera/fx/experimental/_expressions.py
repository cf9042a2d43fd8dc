"""Integer and real expressions over symbols in one canonical form, and ranges of values.

An expression is a polynomial over atoms: symbols, and functions (floor division, remainder ...) of expressions.
Equal polynomials are equal objects, which is nearly all that sizes need; there is no dependency on a computer algebra
system, and nothing is imported before the first symbol exists.
"""

import math
import operator
from fractions import Fraction
from functools import lru_cache

__all__ = ["Condition", "Expr", "Symbol", "ValueRanges", "condition", "constant", "function", "int_oo"]


class _Infinity(float):
    """Prints as int_oo: no integer is larger."""

    def __repr__(self):
        return "int_oo" if self > 0 else "-int_oo"

    __str__ = __repr__

    def __neg__(self):
        return _Infinity(-float(self))


int_oo = _Infinity(math.inf)


class ValueRanges:
    """The numbers from `lower` to `upper`, both included.

    >>> from tessera.fx.experimental.symbolic_shapes import ValueRanges
    >>> ValueRanges(2, 8) & ValueRanges(4, 100)
    VR[4, 8]
    """

    __slots__ = ("lower", "upper")

    def __init__(self, lower, upper):
        self.lower = -int_oo if lower == -math.inf else lower
        self.upper = int_oo if upper == math.inf else upper

    def __and__(self, other):
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper))

    def __or__(self, other):
        return ValueRanges(min(self.lower, other.lower), max(self.upper, other.upper))

    def __contains__(self, value):
        return self.lower <= value <= self.upper

    def issubset(self, other):
        """Whether every number of this range is in the other."""
        return self.lower >= other.lower and self.upper <= other.upper

    def is_singleton(self):
        """Whether it is one number."""
        return self.lower == self.upper

    def __eq__(self, other):
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self):
        return hash((float(self.lower), float(self.upper)))

    def __repr__(self):
        return f"VR[{self.lower}, {self.upper}]"

    @staticmethod
    def unknown_int():
        """All integers."""
        return ValueRanges(-int_oo, int_oo)


class _Atom:
    """What polynomials are made of: a symbol, or a function of expressions. Compared by its key."""

    __slots__ = ("key", "_hash")

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (isinstance(other, _Atom) and self.key == other.key)

    def __lt__(self, other):
        return self.key < other.key


class _SymbolAtom(_Atom):
    __slots__ = ("name", "unbacked")

    def __init__(self, name, unbacked):
        self.name, self.unbacked = name, unbacked
        self.key = (0, len(name), name)
        self._hash = hash(self.key)

    def __str__(self):
        return self.name


_MATH = tuple("acos asin atan cos cosh log2 sin sinh tan tanh".split())  # of floats; sqrt is there, too
_REAL = frozenset(("truediv", "float", "sqrt", "fpow", "fadd", "fsub", "fmul", *_MATH))
_FUNCTIONS = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
    "truediv": lambda a, b: a / b,
    "float": float,
    "sqrt": lambda a: math.sqrt(a),
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "fpow": lambda a, b: float(a) ** float(b),
    "pow": lambda a, b: a**b,
    "ite": lambda c, a, b: a if c else b,
    "fadd": operator.add, "fsub": operator.sub, "fmul": operator.mul,  # in the program's order
    **{name: getattr(math, name) for name in _MATH},
}  # fmt: skip
_SHOWN = {
    "mod": "Mod({}, {})", "max": "Max({}, {})", "min": "Min({}, {})", "truediv": "IntTrueDiv({}, {})",
    "float": "ToFloat({})", "sqrt": "OpaqueUnaryFn_sqrt({})", "trunc": "TruncToInt({})", "floor": "FloorToInt({})",
    "ceil": "CeilToInt({})", "round": "RoundToInt({})", "fpow": "FloatPow({}, {})", "pow": "PowByNatural({}, {})",
    "floordiv": "({}//{})", "ite": "Piecewise(({1}, {0}), ({2}, True))",
    "fadd": "({} + {})", "fsub": "({} - {})", "fmul": "{}*{}",
    **{name: f"OpaqueUnaryFn_{name}({{}})" for name in _MATH},
}  # fmt: skip


class _FunctionAtom(_Atom):
    __slots__ = ("name", "args")

    def __init__(self, name, args):
        self.name, self.args = name, args
        self.key = (1, name, tuple(a.key for a in args))
        self._hash = hash(self.key)

    def __str__(self):
        shown = [str(a) for a in self.args]
        if self.name == "floordiv":
            shown = [f"({text})" if len(a.terms) > 1 else text for a, text in zip(self.args, shown)]
        return _SHOWN[self.name].format(*shown)


def _add_power(powers, atom, power):
    powers[atom] = powers.get(atom, 0) + power


def _product(a, b):
    powers = dict(a)
    for atom, power in b:
        _add_power(powers, atom, power)
    return tuple(sorted(powers.items()))


_OFTEN = 12  # evaluations after which a function of its own is worth making


def _compiled(terms):
    """A function of {symbol: number} that evaluates a polynomial."""
    names = {"_whole": _whole}

    def name_of(value):
        names[f"n{len(names)}"] = value
        return f"n{len(names) - 1}"

    def factor(atom, power):
        if isinstance(atom, _SymbolAtom):
            text = f"v[{name_of(_symbol_of(atom))}]"
        else:
            text = f"{name_of(_FUNCTIONS[atom.name])}({', '.join(f'{name_of(a.evaluate)}(v)' for a in atom.args)})"
        return text if power == 1 else f"{text}**{power}"

    parts = ["*".join([name_of(c), *(factor(a, p) for a, p in monomial)]) for monomial, c in terms.items()]
    return eval(f"lambda v: _whole({' + '.join(parts) or 0})", names)


class Expr:
    """A polynomial: `terms` maps products of atoms ((atom, power), ...) to their coefficients."""

    __slots__ = ("terms", "key", "_hash", "_symbols", "_asked")

    def __init__(self, terms):
        self.terms = {m: _whole(c) for m, c in terms.items() if c != 0}
        self.key = tuple(sorted((tuple((a.key, p) for a, p in m), (float(c), str(c))) for m, c in self.terms.items()))
        self._hash = hash(self.key)
        self._symbols = None
        self._asked = 0  # how often it was evaluated; then a function that does it

    # --- what it is ---

    @property
    def is_number(self):
        return not any(self.terms)

    is_constant = is_number

    def value(self):
        """The number of an expression without symbols."""
        return self.terms.get((), 0)

    @property
    def is_symbol(self):
        return self.atom() is not None and isinstance(self.atom(), _SymbolAtom)

    def atom(self):
        """The atom, if the expression is one and nothing else; else None."""
        if len(self.terms) == 1:
            ((monomial, coefficient),) = self.terms.items()
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                return monomial[0][0]
        return None

    @property
    def name(self):
        """The name of a symbol."""
        return str(self)

    @property
    def free_symbols(self):
        """The set of its symbols."""
        if self._symbols is None:
            found = set()
            for monomial in self.terms:
                for atom, _ in monomial:
                    if isinstance(atom, _SymbolAtom):
                        found.add(_symbol_of(atom))
                    else:
                        for a in atom.args:
                            found |= a.free_symbols
            self._symbols = frozenset(found)
        return self._symbols

    @property
    def is_real(self):
        """True if its values are floating point."""
        return any(isinstance(c, float) for c in self.terms.values()) or any(
            (a.name in _REAL or (a.name in ("max", "min", "ite", "pow") and a.args[-1].is_real))
            if isinstance(a, _FunctionAtom)
            else a.name.startswith("z")  # zf0: a float among the inputs; zuf0: a number of a tensor
            for m in self.terms for a, _ in m
        )  # fmt: skip

    def evaluate(self, values):
        """The number for {symbol: number}. Raises: KeyError for a missing symbol."""
        if callable(self._asked):
            return self._asked(values)
        self._asked += 1
        if self._asked == _OFTEN:
            self._asked = _compiled(self.terms)
        total = 0
        for monomial, coefficient in self.terms.items():
            part = coefficient
            for atom, power in monomial:
                if isinstance(atom, _SymbolAtom):
                    number = values[_symbol_of(atom)]
                else:
                    number = _FUNCTIONS[atom.name](*[a.evaluate(values) for a in atom.args])
                part = part * number**power
            total = total + part
        return _whole(total)

    def subs(self, replacements):
        """With expressions or numbers in place of symbols, {symbol: expression}."""
        if not self.free_symbols & replacements.keys():
            return self
        total = constant(0)
        for monomial, coefficient in self.terms.items():
            part = constant(coefficient)
            for atom, power in monomial:
                if isinstance(atom, _SymbolAtom):
                    symbol = _symbol_of(atom)
                    base = as_expr(replacements.get(symbol, symbol))
                else:
                    base = function(atom.name, *[a.subs(replacements) for a in atom.args])
                part = part * base**power
            total = total + part
        return total

    xreplace = subs

    def bounds(self, ranges):
        """A ValueRanges that holds its values; ranges: {symbol: ValueRanges}."""
        low = high = 0
        for monomial, coefficient in self.terms.items():
            a, b = coefficient, coefficient
            for atom, power in monomial:
                lo, hi = _atom_bounds(atom, ranges)
                for _ in range(power):
                    corners = [_times(x, y) for x in (a, b) for y in (lo, hi)]
                    a, b = min(corners), max(corners)
            low, high = low + a, high + b
        return ValueRanges(low, high)

    # --- arithmetic ---

    def __add__(self, other):
        terms = dict(self.terms)
        for monomial, coefficient in as_expr(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Expr(terms)

    __radd__ = __add__

    def __neg__(self):
        return Expr({m: -c for m, c in self.terms.items()})

    def __sub__(self, other):
        return self + -as_expr(other)

    def __rsub__(self, other):
        return as_expr(other) - self

    def __mul__(self, other):
        terms = {}
        for m1, c1 in self.terms.items():
            for m2, c2 in as_expr(other).terms.items():
                m = _product(m1, m2)
                terms[m] = terms.get(m, 0) + c1 * c2
        return Expr(terms)

    __rmul__ = __mul__

    def __pow__(self, power):
        if not isinstance(power, int) or power < 0 or power > 8:
            return function("fpow" if isinstance(power, float) else "pow", self, as_expr(power))
        result = constant(1)
        for _ in range(power):
            result = result * self
        return result

    def __floordiv__(self, other):
        return function("floordiv", self, as_expr(other))

    def __rfloordiv__(self, other):
        return function("floordiv", as_expr(other), self)

    def __mod__(self, other):
        return function("mod", self, as_expr(other))

    def __truediv__(self, other):
        return function("truediv", self, as_expr(other))

    def __eq__(self, other):
        if isinstance(other, (int, float, Fraction)):
            return self.is_number and self.value() == other
        return isinstance(other, Expr) and self.key == other.key

    def __hash__(self):
        return self._hash

    def __int__(self):
        if not self.is_number:
            raise TypeError(f"{self} is not a number")
        return int(self.value())

    def __lt__(self, other):
        return self.key < other.key

    def __str__(self):
        if not self.terms:
            return "0"
        parts = []
        for monomial, coefficient in sorted(self.terms.items(), key=_shown_order):
            factors = [str(a) if p == 1 else f"{a}**{p}" for a, p in monomial]
            sign, size = ("-", -coefficient) if coefficient < 0 else ("+", coefficient)
            if size != 1 or not factors:
                factors.insert(0, f"({size})" if isinstance(size, Fraction) else str(size))
            parts.append((sign, "*".join(factors)))
        text = ("-" if parts[0][0] == "-" else "") + parts[0][1]
        return text + "".join(f" {sign} {part}" for sign, part in parts[1:])

    __repr__ = __str__


def _shown_order(item):
    monomial = item[0]
    return (not monomial, -sum(p for _, p in monomial), tuple(a.key for a, _ in monomial))


def _whole(number):
    return number.numerator if type(number) is Fraction and number.denominator == 1 else number


def _times(a, b):
    return 0 if a == 0 or b == 0 else a * b


def constant(value):
    """A number as an expression."""
    return Expr({(): value})


def as_expr(value):
    """Numbers as expressions, expressions and conditions as they are."""
    return value if isinstance(value, (Expr, Condition)) else constant(value)


_symbols: dict = {}


def Symbol(name, unbacked=False):
    """The symbol of a name; `unbacked`: it stands for a number that is not known while tracing."""
    if name not in _symbols:
        _symbols[name] = Expr({((_SymbolAtom(name, unbacked), 1),): 1})
    return _symbols[name]


def _symbol_of(atom):
    return _symbols[atom.name]


def is_unbacked(symbol):
    """Whether a symbol stands for a number that is not known while tracing."""
    return symbol.atom().unbacked


def _atom_bounds(atom, ranges):
    if isinstance(atom, _SymbolAtom):
        known = ranges.get(_symbol_of(atom))
        return (-math.inf, math.inf) if known is None else (known.lower, known.upper)
    parts = [a.bounds(ranges) if isinstance(a, Expr) else None for a in atom.args]
    if atom.name in ("max", "min"):
        pick = max if atom.name == "max" else min
        return pick(parts[0].lower, parts[1].lower), pick(parts[0].upper, parts[1].upper)
    if atom.name == "mod" and parts[1].lower > 0:
        return 0, min(parts[1].upper - 1, parts[0].upper if parts[0].lower >= 0 else math.inf)
    if atom.name in ("floordiv", "truediv") and parts[1].lower > 0:
        corners = [_ratio(x, y) for x in (parts[0].lower, parts[0].upper) for y in (parts[1].lower, parts[1].upper)]
        corners = list(map(_floor, corners)) if atom.name == "floordiv" else corners
        return min(corners), max(corners)
    if atom.name == "float":
        return parts[0].lower, parts[0].upper
    if atom.name in ("trunc", "floor", "ceil", "round"):
        return _floor(parts[0].lower), -_floor(-parts[0].upper)
    if atom.name == "sqrt":
        return 0, math.inf
    if atom.name == "ite":
        both = parts[1] | parts[2]
        return both.lower, both.upper
    return -math.inf, math.inf


def _floor(x):
    return x if math.isinf(x) else math.floor(x)


def _ratio(x, y):
    if math.isinf(y):
        return 0 if not math.isinf(x) else x
    return x if math.isinf(x) else Fraction(x) / Fraction(y)


def _divided(a, b):
    """(q, r) with a == q * b + r, where q takes what a product `b` divides exactly."""
    if len(b.terms) != 1:
        return (constant(1), constant(0)) if a == b else (constant(0), a)
    ((divisor, by),) = b.terms.items()
    wanted, q, r = dict(divisor), {}, {}
    for monomial, coefficient in a.terms.items():
        powers = dict(monomial)
        fits = all(powers.get(atom, 0) >= p for atom, p in wanted.items()) and isinstance(coefficient, int)
        whole = coefficient // by if fits and isinstance(by, int) else 0
        if whole:
            left = {atom: p - wanted.get(atom, 0) for atom, p in powers.items() if p > wanted.get(atom, 0)}
            q[tuple(sorted(left.items()))] = whole
            coefficient -= whole * by
        if coefficient:
            r[monomial] = coefficient
    return Expr(q), Expr(r)


@lru_cache(maxsize=65536)
def function(name, *args):
    """The function of the name of expressions, simplified: "floordiv", "mod", "max", "min", "truediv", "float", "sqrt",
    "trunc", "floor", "ceil", "round", "fpow", "pow", "fadd", "fsub", "fmul", a name of _MATH, or "ite" of a condition
    and two expressions.
    """
    if all(getattr(a, "is_number", False) for a in args):
        return constant(_FUNCTIONS[name](*[a.value() for a in args]))
    if name in ("floordiv", "mod") and not args[0].is_real and not args[1].is_real:
        a, b = args
        if b == 1:
            return a if name == "floordiv" else constant(0)
        q, r = _divided(a, b)
        whole = r == 0 or (r.is_number and b.is_number and 0 <= r.value() < b.value())
        if name == "floordiv":
            if whole:
                return q
            common = _common_factor(r, b)
            return q + Expr({((_FunctionAtom(name, (_over(r, common), _over(b, common))), 1),): 1})
        return r if whole else Expr({((_FunctionAtom(name, (r, b)), 1),): 1})
    if name in ("max", "min"):
        if args[0] == args[1]:
            return args[0]
        args = tuple(sorted(args))
    if name in ("trunc", "floor", "ceil", "round") and not args[0].is_real:
        return args[0]
    if name == "float" and args[0].is_real:
        return args[0]
    if name == "ite" and args[0].is_number:
        return args[1] if args[0].value() else args[2]
    return Expr({((_FunctionAtom(name, tuple(args)), 1),): 1})


def _common_factor(a, b):
    numbers = [c for e in (a, b) for c in e.terms.values()]
    return math.gcd(*numbers) if all(isinstance(c, int) for c in numbers) else 1


def _over(e, number):
    return e if number == 1 else Expr({m: c // number for m, c in e.terms.items()})


class Condition:
    """`expr` compared with 0: op is "==", "!=", ">=" or ">"; or "and", "or", "not" of conditions `parts`."""

    __slots__ = ("op", "expr", "parts", "key", "_hash")

    def __init__(self, op, expr=None, parts=()):
        self.op, self.expr, self.parts = op, expr, tuple(parts)
        self.key = (op, expr.key if expr is not None else tuple(p.key for p in parts))
        self._hash = hash(self.key)

    @property
    def is_number(self):
        return False

    @property
    def is_real(self):
        return False

    @property
    def free_symbols(self):
        if self.expr is not None:
            return self.expr.free_symbols
        return frozenset().union(*[p.free_symbols for p in self.parts])

    def evaluate(self, values):
        """True or False for {symbol: number}."""
        if self.op == "and":
            return all(p.evaluate(values) for p in self.parts)
        if self.op == "or":
            return any(p.evaluate(values) for p in self.parts)
        number = self.expr.evaluate(values)
        return {"==": number == 0, "!=": number != 0, ">=": number >= 0, ">": number > 0}[self.op]

    def subs(self, replacements):
        """With expressions in place of symbols; a bool where that decides it."""
        if self.expr is not None:
            return condition(self.op, self.expr.subs(replacements))
        return combined(self.op, [p.subs(replacements) for p in self.parts])

    def __invert__(self):
        if self.op in ("and", "or"):
            return combined("or" if self.op == "and" else "and", [~p for p in self.parts])
        if self.op in ("==", "!="):
            return condition("!=" if self.op == "==" else "==", self.expr)
        if self.op == ">=":
            return condition(">", -self.expr) if self.expr.is_real else condition(">=", -self.expr - 1)
        return condition(">=", -self.expr)

    def __eq__(self, other):
        return isinstance(other, Condition) and self.key == other.key

    def __hash__(self):
        return self._hash

    def __str__(self):
        if self.parts:
            return f"{self.op.capitalize()}({', '.join(map(str, self.parts))})"
        left = Expr({m: c for m, c in self.expr.terms.items() if c > 0 and m})
        right = Expr({m: -c for m, c in self.expr.terms.items() if c <= 0 or not m})
        op = self.op
        if left == 0:
            left = Expr({m: c for m, c in right.terms.items() if m})
            right, op = left - right, {">=": "<=", ">": "<"}.get(op, op)
        if op in ("==", "!="):
            return f"{'Eq' if op == '==' else 'Ne'}({left}, {right})"
        return f"{left} {op} {right}"

    __repr__ = __str__


def condition(op, expr):
    """Condition(op, expr) in its canonical form; a bool where there is nothing to decide."""
    if expr.is_number:
        return {"==": expr.value() == 0, "!=": expr.value() != 0, ">=": expr.value() >= 0, ">": expr.value() > 0}[op]
    if not expr.is_real:
        if op == ">":
            op, expr = ">=", expr - 1
        whole = all(isinstance(c, int) for c in expr.terms.values())
        common = math.gcd(*[c for m, c in expr.terms.items() if m]) if whole else 1
        if common > 1:
            rest = expr.terms.get((), 0)
            if op in ("==", "!=") and rest % common:
                return op == "!="
            expr = Expr({m: c // common for m, c in expr.terms.items()})  # floor of the constant: the tighter bound
    if op in ("==", "!=") and max(expr.terms.items(), key=lambda t: tuple((a.key, p) for a, p in t[0]))[1] < 0:
        expr = -expr
    return Condition(op, expr)


def combined(op, parts):
    """Condition "and" or "or" of conditions and bools."""
    decided = op == "or"
    kept = []
    for p in parts:
        if isinstance(p, bool):
            if p is decided:
                return decided
        elif p not in kept:
            kept.append(p)
    return (not decided) if not kept else kept[0] if len(kept) == 1 else Condition(op, parts=kept)
