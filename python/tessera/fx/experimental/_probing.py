"""Expressions for what an operator's shape rule computes, found by running the rule itself at many sizes.

There is one set of shape rules, in C++, over plain integers. To know what it makes of symbols it is run at the sizes of
the trace and at some hundred others: small ones, ones around every number among the arguments, large and random ones.
An expression is taken for a size of the result if it fits at every one of them. Where the rule raises, or does
something else, there is a condition under which it does not: the weakest one of a family (equal sizes, multiples,
bounds) that tells the points apart becomes a guard. What fits nothing is made a number, which is a guard, too.
"""

import itertools
import random
from fractions import Fraction

from tessera.fx.experimental._expressions import Condition, condition, constant, function, is_unbacked

__all__ = ["Fitted", "Problem", "solve"]

_LARGE = (97, 211, 1009)


class Fitted(Exception):
    """Facts were added: the expressions have changed."""


class Problem:
    """What is asked: a rule over symbols.

    Args:
        env: ShapeEnv.
        inputs: expressions among the arguments: sizes, numbers.
        numbers: plain integers among the arguments, around which the rule may change.
        run: function of {symbol: int}: (structure, [int ...]), or None where the rule raises.
    """

    def __init__(self, env, inputs, numbers, run):
        self.env, self.run = env, run
        self.inputs = list(dict.fromkeys(e for e in inputs if not e.is_number))
        self.symbols = sorted(set().union(*[e.free_symbols for e in self.inputs]))
        facts = [c for c in env._facts.true if c.free_symbols <= set(self.symbols)]
        self.facts = facts
        around = {abs(n) for c in facts for n in _constants(c) if isinstance(n, int)}
        self.numbers = sorted({n for n in (*numbers, *around) if 0 < n <= 4096})

    def base(self):
        """The sizes of the trace."""
        env = self.env
        return {s: env.var_to_val.get(s, env._stand_ins.get(s)) for s in self.symbols}

    def points(self):
        """The sizes to try, those of the trace first."""
        base, seen = self.base(), set()
        chance = random.Random(len(self.symbols) * 31 + sum(base.values()))
        tried = [base]
        for s in self.symbols:
            known = self.env.var_to_range[s]
            low = known.lower if known.lower > -1000 else 2
            values = [*range(int(low), int(low) + 10), *_LARGE, base[s] + 1, base[s] - 1, base[s] + 2, 2 * base[s]]
            for n in self.numbers[-24:]:
                values += [n - 1, n, n + 1, 2 * n, 3 * n]
            tried += [{**base, s: v} for v in values if low <= v <= known.upper]
        for value in set(base.values()):  # equal sizes may have to stay equal
            equal = [s for s in self.symbols if base[s] == value]
            for pair in (*itertools.combinations(equal, 2), equal):
                for v in (value + 1, value + 3, 2 * value, 97) if len(pair) > 1 else ():
                    tried.append({**base, **dict.fromkeys(pair, v)})
        if len(self.symbols) > 1:
            for _ in range(60):
                tried.append({s: self._any(s, chance) for s in self.symbols})
        for point in tried:
            key = tuple(point.values())
            if key not in seen and self._allowed(point):
                seen.add(key)
                yield point

    def _any(self, s, chance):
        known = self.env.var_to_range[s]
        low = max(int(max(known.lower, -1000)), 2) if known.upper >= 2 else int(known.lower)
        return chance.randint(low, int(min(known.upper, low + chance.choice((8, 30, 200)))))

    def _allowed(self, point):
        """Whether the sizes are such as the trace may have."""
        return all(c.evaluate(point) for c in self.facts)


def _constants(e):
    """The numbers in a condition or an expression."""
    if isinstance(e, Condition):
        for part in e.parts or (e.expr,):
            yield from _constants(part)
        return
    for monomial, coefficient in e.terms.items():
        yield coefficient
        for atom, _ in monomial:
            for a in getattr(atom, "args", ()):
                yield from _constants(a)


def solve(problem):
    """(structure, [Expr ...]) of the rule. Raises: Fitted after a guard: ask again with the expressions as they are
    now; ValueError where the rule raises at the sizes of the trace.
    """
    base = problem.base()
    first = problem.run(base)
    if first is None:
        raise ValueError("the rule raises at the sizes of the trace")
    good, bad = [], []
    for point in problem.points():
        outcome = problem.run(point)
        if outcome is not None and any(v < 2 and base[s] >= 2 for s, v in point.items()):
            continue  # strides of sizes 0 and 1 are of no consequence: there only errors count
        same = outcome is not None and outcome[0] == first[0]
        (good if same else bad).append((point, outcome[1] if same else None))
    if bad:
        _exclude(problem, base, good, bad)
        raise Fitted
    fits = _all_fits(problem, good)
    if None in fits:
        _choose_a_piece(problem, base, good)
        raise Fitted
    return first[0], fits


def _all_fits(problem, good):
    """An expression, or None, for each number of the results at these points."""
    at = [p for p, _ in good]
    known = [(e, tuple(e.evaluate(p) for p in at)) for e in problem.inputs]
    fits = []
    for column in zip(*[numbers for _, numbers in good]):
        found = _fit(problem, at, column, known)
        fits.append(found)
        if found is not None and not found.is_number and all(found != e for e, _ in known):
            known.append((found, column))  # strides are products of sizes
    return fits


# --- guards ---


def _candidates(problem, base):
    """Conditions that are true at the sizes of the trace, the weakest first."""
    value = {e: e.evaluate(base) for e in problem.inputs}
    inputs = sorted(problem.inputs, key=lambda e: (max(sum(p for _, p in m) for m in e.terms), len(e.terms)))
    numbers = [*range(10), *problem.numbers]
    for a, b in itertools.combinations(inputs, 2):
        if value[a] != value[b]:
            yield condition("!=", a - b)
            yield condition(">=", (a - b if value[a] > value[b] else b - a) - 1)
        else:
            yield condition(">=", a - b)
            yield condition(">=", b - a)
    for e in inputs:
        for n in numbers:
            if value[e] != n:
                yield condition("!=", e - n)
        for n in numbers:
            if value[e] >= n:
                yield condition(">=", e - n)
        for n in reversed(numbers):
            if value[e] <= n:
                yield condition(">=", n - e)
    for e in inputs:
        for n in (*range(2, 10), *problem.numbers):
            if n > 1 and value[e] % n == 0:
                yield condition("==", e % n)
    for a, b in itertools.combinations(inputs, 2):
        for x, y in ((a, b), (b, a)):
            if value[y] > 0 and value[x] % value[y] == 0:
                yield condition("==", x % y)
    simple = [e for e in inputs if e.is_symbol]
    for a, b in itertools.combinations(simple, 2):
        if value[a] == value[b]:
            yield condition("==", a - b)
    for e in simple:
        yield condition("==", e - value[e])
    for a, b in itertools.combinations(inputs, 2):
        if value[a] == value[b]:
            yield condition("==", a - b)
        for n in (*range(2, 5), *problem.numbers):
            if value[a] == n * value[b]:
                yield condition("==", a - n * b)
            if value[b] == n * value[a]:
                yield condition("==", b - n * a)
    for a, b, c in itertools.permutations(inputs, 3):
        if len(inputs) <= 6 and value[a] == value[b] + value[c]:
            yield condition("==", a - b - c)


def _exclude(problem, base, good, bad):
    """Adds a guard that is true wherever the rule does what it does at the sizes of the trace, and false where it does
    something else as often as possible.
    """
    best, score = None, (False, 0)
    for c in _undecided(problem, base):
        excluded = sum(not c.evaluate(p) for p, _ in bad)
        rank = all(len(m) <= 1 for m in c.expr.terms), excluded  # of symbols alone before products
        if excluded and rank > score and all(c.evaluate(p) for p, _ in good):
            best, score = c, rank
    if best is None:
        best = condition("==", _most_restless(problem, base, bad))
    _assume(problem, best)


def _choose_a_piece(problem, base, good):
    """The rule has several forms: adds the weakest guard under which there is one."""
    best, score = None, 1
    for c in _undecided(problem, base):
        inside = [(p, n) for p, n in good if c.evaluate(p)]
        if len(inside) > score and None not in _all_fits(problem, inside):
            best, score = c, len(inside)
    if best is None:
        best = condition("==", _most_restless(problem, base, good))
    _assume(problem, best)


def _undecided(problem, base):
    for c in dict.fromkeys(_candidates(problem, base)):
        if not isinstance(c, bool) and problem.env._static(c) is None:
            yield c


def _most_restless(problem, base, bad):
    """The symbol whose change alone changes the most, minus its number."""

    def troubles(s):
        return sum(all(p[t] == base[t] for t in problem.symbols if t != s) for p, _ in bad)

    s = max(problem.symbols, key=troubles)
    return s - base[s]


def _assume(problem, c):
    env = problem.env
    if any(map(is_unbacked, c.free_symbols)):
        # The operator raises itself at run time where it does not hold.
        if env._static(c) is None and not env._expect(c):
            env._refuse(c)
        return
    env._assume(c)


# --- expressions ---


def _fit(problem, at, column, values):
    """An expression that has these numbers at these points, or None; values: expressions with their numbers there."""
    if len(set(column)) == 1:
        return constant(column[0]) if len(column) > 1 or not problem.symbols else None
    for e, known in values:
        if known == column:
            return e
    return (
        _polynomial(problem, at, column)
        or _floor(problem, column, values)
        or _product(problem, column, values, 4)
        or _extreme(column, values)
        or _quotient(problem, at, column, values)
    )


def _monomials(symbols, degree):
    for d in range(degree + 1):
        for chosen in itertools.combinations_with_replacement(symbols, d):
            product = constant(1)
            for s in chosen:
                product = product * s
            yield product


def _polynomial(problem, at, column, degree=None):
    """A polynomial over the symbols."""
    n = len(problem.symbols)
    for d in (1, 2, 3, 4) if degree is None else (degree,):
        basis = list(_monomials(problem.symbols, d))
        if len(basis) + 2 > len(at) or (n > 3 and d > 3):
            return None
        solved = _interpolate(basis, at, column)
        if solved is not None:
            return solved
    return None


def _interpolate(basis, at, column):
    rows, picked = [], []
    for point, value in zip(at, column):
        row = [Fraction(b.evaluate(point)) for b in basis] + [Fraction(value)]
        for pivot, done in rows:
            if row[pivot]:
                factor = row[pivot]
                row = [x - factor * y for x, y in zip(row, done)]
        pivot = next((i for i, x in enumerate(row[:-1]) if x), None)
        if pivot is None:
            if row[-1]:
                return None
            continue
        row = [x / row[pivot] for x in row]
        rows = [(i, [x - r[pivot] * y for x, y in zip(r, row)]) for i, r in rows] + [(pivot, row)]
        picked.append(point)
    found = constant(0)
    for pivot, row in rows:
        found = found + basis[pivot] * row[-1]
    # Coefficients that are no integers give integers at integers only by chance of the points.
    denominators = [c.denominator for c in found.terms.values() if isinstance(c, Fraction)]
    if denominators:
        common = 1
        for d in denominators:
            common = common * d // _gcd(common, d)
        found = (found * common) // constant(common)
    if any(found.evaluate(p) != v for p, v in zip(at, column)):
        return None
    return found


def _gcd(a, b):
    while b:
        a, b = b, a % b
    return a


def _divisors(problem):
    return list(dict.fromkeys([*range(2, 17), *[n for n in problem.numbers if n <= 512], 32, 64]))


def _floor(problem, column, values):
    """(k * e + b) // c of an input e."""
    for e, known in values:
        low, high = min(range(len(column)), key=known.__getitem__), max(range(len(column)), key=known.__getitem__)
        if known[low] == known[high]:
            continue
        slope = Fraction(column[high] - column[low], known[high] - known[low])
        for c in _divisors(problem):
            k = round(slope * c)
            if k == 0 or _gcd(abs(k), c) != 1:
                continue
            least = max(c * q - k * x for q, x in zip(column, known))
            most = min(c * q + c - 1 - k * x for q, x in zip(column, known))
            if least == most:
                return (e * k + least) // constant(c)
    return None


def _extreme(column, values):
    """min or max of an input plus a number, and another or a number."""
    plain = [(constant(n), [n] * len(column)) for n in {column[0], min(column), max(column)}]
    for (a, x), (b, y) in itertools.permutations([*values, *plain], 2):
        if a.is_number:
            continue
        for shift in dict.fromkeys(
            (0, column[0] - x[0], column[-1] - x[-1], max(column) - max(x), min(column) - min(x))
        ):
            for name, choose in (("min", min), ("max", max)):
                if all(choose(i + shift, j) == q for i, j, q in zip(x, y, column)):
                    return function(name, a + shift, b)
    return None


def _quotient(problem, at, column, values):
    """A polynomial over an input, without rest."""
    for e, known in values:
        if 0 in known or e.is_number:
            continue
        whole = _polynomial(problem, at, tuple(q * x for q, x in zip(column, known)))
        if whole is not None:
            return whole // e
    return None


def _product(problem, column, values, most):
    """A product of at most so many of the expressions, a floor of one of them, and a number."""
    for i, (e, known) in enumerate(values):
        if 0 in known or len(set(known)) == 1 or any(q % x for q, x in zip(column, known)):
            continue
        rest = tuple(q // x for q, x in zip(column, known))
        if len(set(rest)) == 1:
            return e * rest[0]
        found = _product(problem, rest, values[i:], most - 1) if most > 1 else _floor(problem, rest, values)
        if found is not None:
            return e * found
    return None
