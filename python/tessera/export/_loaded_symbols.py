"""Symbols of programs that are read from files."""

import math
import re

import tessera
from tessera.export._symbols import expression_of, text_of
from tessera.export._tracer import export_mode

_NAME = re.compile(r"(s|u|zuf)\d+")


class LoadedSymbols:
    """The symbols of a program.

    Args:
        ranges: {expression as text: {"min_val", "max_val"}}.
    """

    def __init__(self, ranges):
        from tessera.fx.experimental.symbolic_shapes import ShapeEnv, ValueRanges

        self.env = ShapeEnv()
        self.mode = export_mode(allow_non_fake_inputs=True, shape_env=self.env, static_shapes=True)
        self._made, self._ranges = {}, {}
        for text, bounds in ranges.items():
            low, high = bounds["min_val"], bounds["max_val"]
            if any(n is not None and type(n) is not int for n in (low, high)):
                raise ValueError(f"expected bounds, got {bounds!r}")
            vr = ValueRanges(-math.inf if low is None else low, math.inf if high is None else high)
            expr = self.expression(text)
            self._ranges[expr] = vr
            if expr.is_symbol:
                traced = vr if str(expr)[0] != "s" else ValueRanges(max(vr.lower, 2), max(vr.upper, 2))
                self.env.var_to_range[expr] = traced

    def _symbol(self, name):
        from tessera.fx.experimental.symbolic_shapes import Symbol, ValueRanges

        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a symbol")
        if name not in self._made:
            symbol = self._made[name] = Symbol(name, name[0] != "s")
            self.env.var_to_range[symbol] = ValueRanges(2, math.inf) if name[0] == "s" else ValueRanges.unknown_int()
            if name[0] == "s":
                self.env.var_to_val[symbol] = 2
            else:
                self.env._stand_ins[symbol] = 2 if name[0] == "u" else 1.5
        return self._made[name]

    def expression(self, text):
        """The expression of a text. ValueError for others."""
        return expression_of(text, self._symbol)

    def condition(self, text):
        """The text of a condition, once it has been understood."""
        return text_of(self.expression(text))

    def size(self, data):
        """A size: a number, or an expression of symbols."""
        if "as_expr" in data:
            hint = data["as_expr"].get("hint")
            expr = self.expression(data["as_expr"]["expr_str"])
            if expr.is_symbol and hint and type(hint.get("as_int")) is int and expr in self.env.var_to_val:
                self.env.var_to_val[expr] = hint["as_int"]
            return expr
        return tessera.export._serialize._whole(data["as_int"])

    def value(self, data, kind):
        """A symbolic number of a node, or a number."""
        if "as_expr" not in data:
            return next(iter(data.values()))
        expr = self.expression(data["as_expr"]["expr_str"])
        if kind == "as_sym_bool":
            return self.env.create_symboolnode(expr)
        if kind == "as_sym_float":
            return self.env.create_symfloatnode(expr, hint=None)
        return self.env.create_symintnode(expr, hint=None)

    def tensor(self, sizes, strides, offset, dtype, device):
        """What stands for a tensor of these sizes."""
        from tessera.fx.experimental.symbolic_shapes import constant

        exprs = [n if hasattr(n, "terms") else constant(n) for n in (*sizes, *strides)]
        if all(e.is_number for e in exprs):
            return None
        count = len(sizes)
        hints = [max(0, int(self.env._stand_in(e))) for e in exprs[:count]]
        made = tessera.empty(hints, dtype=dtype, device=device)
        self.env._attach(made, exprs[:count], exprs[count:], offset if hasattr(offset, "terms") else constant(offset))
        return made

    def ranges(self):
        """{expression: range}."""
        return self._ranges
