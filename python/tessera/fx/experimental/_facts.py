"""What is known of symbols: ranges, equalities, and conditions that were assumed."""

import math

from tessera.fx.experimental._expressions import (
    Condition,
    Expr,
    ValueRanges,
    combined,
    condition,
    constant,
    is_unbacked,
)

__all__ = ["Facts"]


class Facts:
    """Ranges of symbols, symbols that are equal to expressions, conditions that hold."""

    def __init__(self):
        self.ranges = {}
        self.replacements = {}
        self.true = set()  # conditions
        self.version = 0  # grows with every fact

    def replace(self, expr):
        """An expression or condition with equal ones in place of symbols."""
        while self.replacements and not isinstance(expr, bool) and expr.free_symbols & self.replacements.keys():
            expr = expr.subs(self.replacements)
        if isinstance(expr, Expr) and self.true:
            expr = self._without_known_remainders(expr)
        return expr

    def _without_known_remainders(self, expr):
        for monomial in expr.terms:
            for atom, _ in monomial:
                if getattr(atom, "name", "") == "mod" and hasattr(atom, "args"):
                    whole = Expr({((atom, 1),): 1})
                    if condition("==", whole) in self.true:
                        rest = {m: c for m, c in expr.terms.items() if atom not in dict(m)}
                        return self._without_known_remainders(Expr(rest))
        return expr

    def ranges_for(self, size_like):
        """The ranges; those of `size_like` begin at 2."""
        if not size_like:
            return self.ranges
        two = ValueRanges(2, math.inf)
        return {s: r & two if s in size_like else r for s, r in self.ranges.items()}

    def decide(self, c, size_like=()):
        """True or False where the facts say so, else None."""
        c = self.replace(c)
        if isinstance(c, bool):
            return c
        if c.parts:
            return self._decide_parts(c, size_like)
        if c in self.true:
            return True
        if ~c in self.true:
            return False
        bounds = c.expr.bounds(self.ranges_for(size_like))
        if c.op in ("==", "!="):
            if bounds.lower > 0 or bounds.upper < 0:
                return c.op == "!="
            return None if not self._excluded(c.expr) else c.op == "!="
        strict = c.op == ">"
        if bounds.lower > 0 or (bounds.lower == 0 and not strict):
            return True
        if bounds.upper < 0 or (bounds.upper == 0 and strict):
            return False
        return self._implied(c)

    def _decide_parts(self, c, size_like):
        found = [self.decide(p, size_like) for p in c.parts]
        if c.op == "and":
            return False if False in found else True if all(f is True for f in found) else None
        return True if True in found else False if all(f is False for f in found) else None

    def _excluded(self, expr):
        """expr == 0 contradicts expr >= 1 or expr <= -1."""
        return any(self._implied(condition(">=", e - 1)) is True for e in (expr, -expr))

    def _implied(self, c):
        """e >= 0 follows from f >= 0 if e - f is never negative; it contradicts f if -e - 1 follows."""
        if isinstance(c, bool):
            return c
        for fact in self.true:
            if fact.op not in (">=", "=="):
                continue
            for f in (fact.expr, -fact.expr) if fact.op == "==" else (fact.expr,):
                if (c.expr - f).bounds(self.ranges).lower >= 0:
                    return True
                if not c.expr.is_real and (-c.expr - 1 - f).bounds(self.ranges).lower >= 0:
                    return False
        return None

    def learn(self, c):
        """c holds."""
        c = self.replace(c)
        if isinstance(c, bool):
            return
        self.version += 1
        if c.op == "and":
            for part in c.parts:
                self.learn(part)
            return
        self.true.add(c)
        if c.parts:
            return
        if c.op == "==":
            self._equal(c.expr)
        elif c.op in (">=", ">"):
            self._bound(c.expr, strict=c.op == ">")
        else:
            self._unequal(c.expr)

    def _linear_symbols(self, expr):
        """(symbol, coefficient) of the symbols that occur once, alone."""
        for monomial, coefficient in expr.terms.items():
            if len(monomial) == 1 and monomial[0][1] == 1 and not hasattr(monomial[0][0], "args"):
                symbol = Expr({monomial: 1})
                rest = Expr({m: v for m, v in expr.terms.items() if m != monomial})
                if symbol not in rest.free_symbols:
                    yield symbol, coefficient, rest

    def _equal(self, expr):
        """expr == 0: a symbol is replaced by the rest, the newest first."""
        found = [
            (symbol, rest, coefficient)
            for symbol, coefficient, rest in self._linear_symbols(expr)
            if abs(coefficient) == 1 or rest.is_number
        ]
        # What is not known is replaced by what is, later symbols by earlier ones.
        for symbol, rest, coefficient in sorted(found, key=lambda f: (is_unbacked(f[0]), f[0].key), reverse=True):
            value = rest * -coefficient if abs(coefficient) == 1 else constant(-rest.value() // coefficient)
            known = self.ranges.get(symbol)
            if is_unbacked(symbol) is False and any(map(is_unbacked, value.free_symbols)):
                continue
            self._narrow(symbol, value.bounds(self.ranges))
            if value.is_symbol and known is not None:
                self._narrow(value, known)
            self.replacements[symbol] = value
            self.replacements.update({s: e.subs({symbol: value}) for s, e in self.replacements.items()})
            self.true = {r for r in map(self.replace, self.true) if isinstance(r, Condition)}
            return

    def _narrow(self, symbol, values):
        known = self.ranges.get(symbol, ValueRanges.unknown_int())
        low, high = values.lower, values.upper
        if not symbol.is_real:
            low = low if math.isinf(low) else math.ceil(low)
            high = high if math.isinf(high) else math.floor(high)
        self.ranges[symbol] = known & ValueRanges(low, high)

    def _bound(self, expr, strict):
        """c * s + rest >= 0 bounds s by the range of the rest."""
        for symbol, coefficient, rest in self._linear_symbols(expr):
            bounds = rest.bounds(self.ranges)
            if not expr.is_real and not strict:
                if coefficient > 0 and not math.isinf(bounds.upper):
                    self._narrow(symbol, ValueRanges(math.ceil(-bounds.upper / coefficient), math.inf))
                if coefficient < 0 and not math.isinf(bounds.upper):
                    self._narrow(symbol, ValueRanges(-math.inf, math.floor(bounds.upper / -coefficient)))

    def _unequal(self, expr):
        """s != number at the end of a range shortens it."""
        for symbol, coefficient, rest in self._linear_symbols(expr):
            if rest.is_number and abs(coefficient) == 1:
                value, known = -rest.value() * coefficient, self.ranges.get(symbol)
                if known is not None and value == known.lower:
                    self.ranges[symbol] = ValueRanges(value + 1, known.upper)
                elif known is not None and value == known.upper:
                    self.ranges[symbol] = ValueRanges(known.lower, value - 1)
