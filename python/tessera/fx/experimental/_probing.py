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

__all__ = ["Fitted", "Problem", "solve", "specialize"]

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
        self.seen = set()
        around = {abs(n) for c in facts for n in _constants(c) if isinstance(n, int)}
        self.numbers = sorted({n for n in (*numbers, *around) if 0 < n <= 4096})

    def base(self):
        """The sizes of the trace."""
        env = self.env
        return {s: env.var_to_val.get(s, env._stand_ins.get(s)) for s in self.symbols}

    def has_few_points(self):
        """Whether the sizes can have but a few values."""
        ranges = [self.env.var_to_range[s] for s in self.symbols]
        return all(r.upper - r.lower < 3 for r in ranges)

    def points(self):
        """The sizes to try, those of the trace first: one changed, and those that are equal."""
        base = self.base()
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
        return self._distinct(tried)

    def joint_points(self, free):
        """More of them: those of `free`, which may change alone, change together; and any."""
        base = self.base()
        chance = random.Random(len(self.symbols) * 31 + sum(base.values()))
        tried = []
        for symbols, count in ((free, 60), (self.symbols, 20)):
            for _ in range(count if len(symbols) > 1 else 0):
                tried.append({**base, **{s: self._any(s, chance) for s in symbols}})
        for a, b in itertools.combinations(self.symbols, 2):
            tried += [{**base, a: self._any(a, chance), b: self._any(b, chance)} for _ in range(4)]
            if base[a] == base[b] and len(self.symbols) > 2:  # equal ones stay equal while all others change
                for _ in range(8):
                    point = {s: self._any(s, chance) for s in self.symbols}
                    tried.append({**point, b: point[a]})
        return self._distinct(tried)

    def _distinct(self, points):
        """Each once, and those alone that the trace may have."""
        for point in points:
            key = tuple(point.values())
            if key not in self.seen:
                self.seen.add(key)
                if self._may_have(point):
                    yield point

    def _may_have(self, point):
        try:
            return all(c.evaluate(point) for c in self.facts)
        except ZeroDivisionError:  # of a fact about the quotient by a size
            return False

    def _any(self, s, chance):
        known = self.env.var_to_range[s]
        low = int(max(known.lower, -1000))
        low = max(low, 2) if known.upper >= 2 else min(low, int(known.upper))
        return chance.randint(low, int(min(known.upper, low + chance.choice((8, 30, 200)))))


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


def specialize(problem):
    """Makes numbers of all sizes that are asked about."""
    for s, value in problem.base().items():
        _assume(problem, condition("==", s - value))


def solve(problem):
    """(structure, [Expr ...]) of the rule. Raises: Fitted after a guard: ask again with the expressions as they are
    now; ValueError where the rule raises at the sizes of the trace.
    """
    base = problem.base()
    first = problem.run(base)
    if first is None:
        raise ValueError("the rule raises at the sizes of the trace")
    good, bad = [], []

    def ask(point):
        outcome = problem.run(point)
        if outcome is not None and any(v < 2 and base[s] >= 2 for s, v in point.items()):
            return  # strides of sizes 0 and 1 are of no consequence: there only errors count
        same = outcome is not None and outcome[0] == first[0]
        (good if same else bad).append((point, outcome[1] if same else None))

    for point in problem.points():
        ask(point)
    bound = {s for p, _ in bad for s in problem.symbols if p[s] != base[s]}
    for point in problem.joint_points([s for s in problem.symbols if s not in bound]):
        ask(point)
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


class _Tried:
    """The points that were tried, with the numbers of the inputs at each; the sizes of the trace are the first."""

    def __init__(self, problem, good, bad):
        self.problem = problem
        self.good, self.bad = range(len(good)), range(len(good), len(good) + len(bad))
        points = [p for p, _ in (*good, *bad)]
        inputs = sorted(problem.inputs, key=lambda e: (max(sum(p for _, p in m) for m in e.terms), len(e.terms)))
        self.inputs = [(e, [e.evaluate(p) for p in points]) for e in inputs]

    def candidates(self):
        """Conditions that are true at the sizes of the trace, the weakest first, as (whether it holds at the point of
        a number, what makes it).
        """
        numbers = [*range(10), *self.problem.numbers]
        for (a, x), (b, y) in itertools.combinations(self.inputs, 2):
            if x[0] != y[0]:
                yield lambda k, x=x, y=y: x[k] != y[k], lambda a=a, b=b: condition("!=", a - b)
                if x[0] < y[0]:
                    a, x, b, y = b, y, a, x
                yield lambda k, x=x, y=y: x[k] >= y[k], lambda a=a, b=b: condition(">=", a - b)
                yield lambda k, x=x, y=y: x[k] > y[k], lambda a=a, b=b: condition(">", a - b)
            else:
                yield lambda k, x=x, y=y: x[k] >= y[k], lambda a=a, b=b: condition(">=", a - b)
                yield lambda k, x=x, y=y: x[k] <= y[k], lambda a=a, b=b: condition(">=", b - a)
        for e, x in self.inputs:
            yield from self._with_numbers(e, x, numbers)
        for (a, x), (b, y) in itertools.permutations(self.inputs, 2):
            if y[0] > 0 and x[0] % y[0] == 0:
                yield lambda k, x=x, y=y: y[k] != 0 and x[k] % y[k] == 0, lambda a=a, b=b: condition("==", a % b)
        yield from self.equal_symbols()
        for e, x in [(e, x) for e, x in self.inputs if e.is_symbol]:
            yield lambda k, x=x: x[k] == x[0], lambda e=e, n=x[0]: condition("==", e - n)
        yield from self._equalities(self.inputs, dict.fromkeys((1, 2, 3, 4, *self.problem.numbers)))
        for (a, x), (b, y), (c, z) in itertools.permutations(self.inputs, 3) if len(self.inputs) <= 6 else ():
            if x[0] == y[0] + z[0]:
                yield lambda k, x=x, y=y, z=z: x[k] == y[k] + z[k], lambda a=a, b=b, c=c: condition("==", a - b - c)

    def equal_symbols(self):
        """As `candidates`, of pairs of symbols."""
        return self._equalities([(e, x) for e, x in self.inputs if e.is_symbol], (1,))

    def _with_numbers(self, e, x, numbers):
        for n in numbers:
            if x[0] != n:
                yield lambda k, n=n: x[k] != n, lambda n=n: condition("!=", e - n)
            if x[0] >= n:
                yield lambda k, n=n: x[k] >= n, lambda n=n: condition(">=", e - n)
        for n in reversed(numbers):
            if x[0] <= n:
                yield lambda k, n=n: x[k] <= n, lambda n=n: condition(">=", n - e)
        for n in dict.fromkeys((*range(2, 10), *self.problem.numbers)):
            if n > 1 and x[0] % n == 0:
                yield lambda k, n=n: x[k] % n == 0, lambda n=n: condition("==", e % n)
            if n > 3 and x[0] > 1 and n % x[0] == 0:
                yield lambda k, n=n: x[k] != 0 and n % x[k] == 0, lambda n=n: condition("==", constant(n) % e)

    def _equalities(self, inputs, factors):
        for (a, x), (b, y) in itertools.permutations(inputs, 2):
            for n in factors:
                if x[0] == n * y[0]:
                    yield lambda k, x=x, y=y, n=n: x[k] == n * y[k], lambda a=a, b=b, n=n: condition("==", a - n * b)

    def undecided(self, c):
        """Whether a condition is news."""
        return not isinstance(c, bool) and self.problem.env._static(c) is None


def _is_special(problem, base, point):
    """Whether a size is 1 or less at a point and not at the sizes of the trace: rules have cases for it."""
    return any(e.evaluate(point) < 2 <= e.evaluate(base) for e in problem.inputs)


def _without_products(e):
    """Whether an expression multiplies no sizes, also not where one is divided by another: what does says more of them
    than rules mean, as that all elements of two tensors are as many.
    """

    def plain(atom):
        parts = [a for a in getattr(atom, "args", ()) if hasattr(a, "terms")]
        return any(a.is_number for a in parts) or all(map(_without_products, parts))

    return all(len(m) <= 1 and all(plain(atom) for atom, _ in m) for m in e.terms)


def _exclude(problem, base, good, bad):
    """Adds a guard that is true wherever the rule does what it does at the sizes of the trace, and false where it does
    something else as often as possible.
    """
    good = [*good[:1], *(g for g in good[1:] if not _is_special(problem, good[0][0], g[0]))]
    tried = _Tried(problem, good, bad)
    best, score = None, (False, 0)
    for holds, make in tried.candidates():
        if not all(map(holds, tried.good)):
            continue
        excluded = len(tried.bad) - sum(map(holds, tried.bad))
        if not excluded or (True, excluded) <= score:
            continue
        c = make()
        rank = not isinstance(c, bool) and _without_products(c.expr), excluded
        if rank > score and tried.undecided(c):
            best, score = c, rank
    if score < (True, len(bad)):
        best = _equal_sizes(tried) or best
    if best is None:
        best = condition("==", _most_restless(problem, base, bad))
    _assume(problem, best)


def _equal_sizes(tried):
    """That two symbols are equal, as in the trace, where the rule does the same at all such points; or None."""
    for holds, make in tried.equal_symbols():
        if sum(map(holds, tried.good)) > 3 and not any(map(holds, tried.bad)):
            c = make()
            if tried.undecided(c):
                return c
    return None


def _choose_a_piece(problem, base, good):
    """The rule has several forms: adds the weakest guard under which there is one."""
    tried = _Tried(problem, good, [])
    found = []
    for holds, make in tried.candidates():
        inside = [k for k in tried.good if holds(k)]
        if 1 < len(inside) < len(good):
            found.append((len(inside), make, inside))
    best = None
    for _, make, inside in sorted(found, key=lambda f: -f[0])[:60]:
        c = make()
        if tried.undecided(c) and None not in _all_fits(problem, [good[k] for k in inside]):
            best = c
            break
    if best is None:
        best = condition("==", _most_restless(problem, base, good))
    _assume(problem, best)


def _most_restless(problem, base, bad):
    """The symbol whose change alone changes the most, minus its number."""

    def troubles(s):
        return sum(all(p[t] == base[t] for t in problem.symbols if t != s) for p, _ in bad)

    s = max(problem.symbols, key=troubles)
    return s - base[s]


def _assume(problem, c):
    env = problem.env
    if any(map(is_unbacked, c.free_symbols)):
        if c.op == "!=" and abs(c.expr.terms.get((), 0)) == 1:
            env._facts.learn(c)  # sizes that are not known are taken for no 1: strides alone differ then
            return
        # The operator raises itself at run time where it does not hold.
        if env._static(c) is None and not env._expect(c):
            env._refuse(c)
        return
    env._assume(c)


# --- expressions ---


def _fit(problem, at, column, values):
    """An expression that has these numbers at these points, or None; values: expressions with their numbers there."""
    if len(set(column)) == 1:
        return constant(column[0]) if len(column) > 1 or problem.has_few_points() else None
    for e, known in values:
        if known == column:
            return e
    return (
        _polynomial(problem, at, column)
        or _floor(problem, column, values)
        or _product(problem, column, values[:16], 3)
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
    for d in (1, 2, 3, 4) if degree is None else (degree,):
        basis = list(_monomials(problem.symbols, d))
        if len(basis) + 2 > len(at) or len(basis) > 24:
            return None
        solved = _interpolate(basis, at, column)
        if solved is not None:
            return solved
    return None


def _interpolate(basis, at, column):
    rows = []
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
        if len(rows) == len(basis):
            break  # there is one polynomial at most, which is tried at the other points below
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
