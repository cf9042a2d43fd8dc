"""Nodes of a graph that compute symbolic numbers."""

import math
import operator
from fractions import Fraction

import tessera
from tessera._symbolic import OF_MATH
from tessera.fx.experimental._expressions import Condition, Expr, Symbol

__all__ = ["NumberNodes"]

_COMPARE = {"==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt}


def _functions():
    return {
        "floordiv": operator.floordiv, "mod": operator.mod, "max": tessera.sym_max, "min": tessera.sym_min,
        "truediv": operator.truediv, "float": tessera.sym_float, "sqrt": tessera.sym_sqrt, "trunc": tessera.sym_int,
        "fpow": operator.pow, "pow": operator.pow, "ite": tessera.sym_ite, "floor": math.floor, "ceil": math.ceil,
        "round": round, "fadd": operator.add, "fsub": operator.sub, "fmul": operator.mul,
        **{name.removeprefix("_sym_"): getattr(tessera, name) for name in OF_MATH},
    }  # fmt: skip


class NumberNodes:
    """Makes a node for an expression, each once.

    Args:
        leaf: function of a symbol: its node.
        emit: function of (function, arguments, expression): the node of a call.
    """

    def __init__(self, leaf, emit):
        self.leaf, self.emit = leaf, emit
        self.known = {}

    def of(self, expr):
        """The node of an expression or condition; numbers as they are."""
        if not isinstance(expr, (Expr, Condition)) or expr.is_number:
            return expr.value() if isinstance(expr, Expr) else expr
        if expr not in self.known:
            self.known[expr] = self._made(expr)
        return self.known[expr]

    def _made(self, expr):
        if isinstance(expr, Condition):
            return self._condition(expr)
        atom = expr.atom()
        if atom is not None:
            return self._atom(atom, expr)
        total = done = None
        for monomial, coefficient in sorted(expr.terms.items(), key=lambda t: not t[0]):
            part = Expr({monomial: coefficient})
            node = self._product(monomial, coefficient)
            total = part if done is None else total + part
            done = node if done is None else self.emit(operator.add, (done, node), total)
        return done

    def _product(self, monomial, coefficient):
        done = product = None
        for atom, power in monomial:
            for _ in range(power):
                alone = Expr({((atom, 1),): 1})
                node = self.of(alone)
                product = alone if done is None else product * alone
                done = node if done is None else self.emit(operator.mul, (done, node), product)
        if done is None:
            return coefficient
        if isinstance(coefficient, Fraction):
            raise NotImplementedError(f"a graph can't compute the fraction {coefficient} of a size")
        return done if coefficient == 1 else self.emit(operator.mul, (done, coefficient), product * coefficient)

    def _atom(self, atom, expr):
        if not hasattr(atom, "args"):
            return self.leaf(Symbol(atom.name))
        return self.emit(_functions()[atom.name], tuple(map(self.of, atom.args)), expr)

    def _condition(self, c):
        if c.parts:
            done, so_far = self.of(c.parts[0]), c.parts[0]
            for part in c.parts[1:]:
                so_far = Condition(c.op, parts=(so_far, part))
                done = self.emit(operator.and_ if c.op == "and" else operator.or_, (done, self.of(part)), so_far)
            return done
        left = Expr({m: k for m, k in c.expr.terms.items() if k > 0})
        right = Expr({m: -k for m, k in c.expr.terms.items() if k <= 0})
        return self.emit(_COMPARE[c.op], (self.of(left), self.of(right)), c)
