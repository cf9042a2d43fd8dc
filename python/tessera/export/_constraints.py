"""What a trace has found out about sizes, against what was said of them: errors with suggested fixes, ranges."""

import math

from tessera.export import dynamic_shapes as _shapes
from tessera.export._symbols import text_of
from tessera.export.dynamic_shapes import _DimHintType


class _Named:
    """A named dimension's symbol."""

    def __init__(self, dim, expr, text, value):
        self.dim, self.expr, self.text, self.value = dim, expr, text, value


class _Hinted:
    """The symbol of a dimension, or number, without a name."""

    def __init__(self, hint, expr, text):
        self.hint, self.expr, self.text = hint, expr, text


def _violation(message):
    from tessera.fx.experimental.symbolic_shapes import ConstraintViolationError

    return ConstraintViolationError(message)


def _shown_range(low, high):
    return f"[{low}, {'int_oo' if high == math.inf else high}]"


class Constraints:
    """The symbols of an export's inputs.

    Args:
        env: ShapeEnv.
    """

    def __init__(self, env):
        self._env = env
        self._named, self._hinted, self._derived, self._first = {}, [], [], {}

    # --- making symbols ---

    def _symbol(self, value, text, low, high, zero_one=True):
        from tessera.fx.experimental.symbolic_shapes import DimDynamic

        expr = self._env.create_symbol(
            value, text, DimDynamic.DYNAMIC, None, positive=True if zero_one else None,
            do_not_specialize_zero_one=not zero_one,
        )  # fmt: skip
        if expr.is_symbol:
            self._env.constrain_symbol_range(expr, max(low, 2) if zero_one else low, high)
        return expr

    def add_dim(self, dim, text, value):
        """Makes the symbol of a Dim's root, given a size that it is, or is derived from it."""
        root = dim.root
        size = dim._root_size(value) if dim is not root else value
        if size is None:
            at = text.rpartition("[")[2].rstrip("]")
            raise _shapes._user_error(
                f"Expected shape[{at}] = {value} of input Tensor to be of the form {dim.__name__}, where "
                f"{root.__name__} is an integer ({text})"
            )
        if not root.min <= size <= root.max:
            raise _violation(f"{size} not in range {_shown_range(max(root.min, 2), root.max)}")
        known = self._named.get(root.__name__)
        if known is None:
            expr = self._symbol(size, text, root.min, root.max)
            self._named[root.__name__] = _Named(root, expr, text, size)
        elif known.value != size:
            raise _shapes._user_error(self._unequal(dim, known, text, value))
        elif dim is root:
            known.text = known.text if known.text in self._first else text
        if dim is root:
            self._first.setdefault(text, root)

    @staticmethod
    def _unequal(dim, known, text, value):
        if dim is known.dim or dim.root is dim:
            return f"{text} = {value} is not equal to {known.text} = {known.value}"
        return (
            f"Expected input {text} to be equal to {dim.__name__}, where {known.dim.__name__} = {known.value}, but got "
            f"{value}"
        )

    def of_dim(self, dim):
        """The expression of a dimension with a name."""
        known = self._named[dim.root.__name__]
        if dim is dim.root or dim._factor == 1 and dim._offset == 0:
            return known.expr
        expr = known.expr * dim._factor + dim._offset
        self._derived.append((dim, expr))
        return expr

    def of_hint(self, hint, text, value):
        """The expression of a dimension without a name."""
        low, high = hint.min or 0, math.inf if hint.max is None else hint.max
        if value in (0, 1) and hint.type is _DimHintType.DYNAMIC:
            place = text.removeprefix("L").replace(".size()[", ".shape[")
            raise ValueError(
                "Found the following conflicts between user-specified ranges and inferred ranges from model tracing:\n"
                f"- Received user-specified dim hint Dim.DYNAMIC(min={hint.min}, max={hint.max}), but export 0/1 "
                f"specialized due to hint of {value} for dimension inputs{place}."
            )
        if not low <= value <= high and value > 1:
            raise _violation(f"{value} not in range {_shown_range(max(low, 2), high)}, for {text}")
        expr = self._symbol(value, text, low, high)
        self._hinted.append(_Hinted(hint, expr, text))
        return expr

    def number(self, value, hint, text):
        """What stands for a whole number among the arguments."""
        low, high = hint.min or 0, math.inf if hint.max is None else hint.max
        if not low <= value <= high:
            raise _violation(f"{value} not in range {_shown_range(low, high)}, for {text}")
        expr = self._symbol(value, text, low, high, zero_one=False)
        self._hinted.append(_Hinted(hint, expr, text))
        return self._env.create_symintnode(expr, hint=value)

    # --- what the trace allows ---

    def _now(self, expr):
        return self._env.replace(expr)

    def _range(self, symbol):
        return self._env.var_to_range[symbol]

    def _text_of_symbol(self, symbol):
        """How messages call a symbol: (name, text of the size)."""
        for name, known in self._named.items():
            if known.expr == symbol:
                return name, known.text
        for known in self._hinted:
            if known.expr == symbol:
                return known.text, known.text
        return str(symbol), str(symbol)

    def check(self):
        """UserError with suggested fixes if a size that was to be dynamic is not, or not in all of its range."""
        names, reasons, fixes = [], [], {}
        for name, known in self._named.items():
            found = list(self._violations(name, known))
            for reason, fix in found:
                reasons.append(reason)
                fixes.update(fix)
            if found:
                names.append(name)
        for known in self._hinted:
            if known.hint.type is _DimHintType.DYNAMIC and self._now(known.expr).is_number:
                names.append(known.text)
                reasons.append(self._specialized(known.text, known.expr))
        self._check_hint_ranges()
        if not reasons:
            return
        lines = [f"Constraints violated ({', '.join(names)})!", *(f"  - {reason}" for reason in dict.fromkeys(reasons))]
        if fixes:
            lines += ["Suggested fixes:", *(f"  {name} = {fix}" for name, fix in fixes.items())]
        raise _shapes._user_error("\n".join(lines), "CONSTRAINT_VIOLATION")

    def _check_hint_ranges(self):
        for known in self._hinted:
            if known.expr.is_symbol and known.hint.type is not _DimHintType.STATIC:
                found = self._range(known.expr)
                if found.lower > found.upper:
                    raise _shapes._user_error(
                        f"the program allows no size of {known.text} in the range that {known.hint!r} says",
                        "CONSTRAINT_VIOLATION",
                    )

    def _specialized(self, name, expr):
        return (
            f"You marked {name} as dynamic but your code specialized it to be a constant ({self._now(expr)}). If "
            "you're using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, "
            f"replace it with either Dim.STATIC or Dim.AUTO.{self._place(expr)}"
        )

    def _place(self, expr, *, equal=True):
        """The line of the program that a symbol's first guard (of equality) is of, as the end of a message."""
        found = (g.sloc for g in self._env.guards if expr in g.expr.free_symbols and (g.expr.op == "==") == equal)
        line = next(found, None)
        return f" (It was assumed at {line})" if line else ""

    def _violations(self, name, known):
        """(reason, fixes) pairs of what the trace has found out about a named dimension."""
        now = self._now(known.expr)
        if now.is_number:
            yield self._specialized(name, known.expr), {name: str(now)}
        elif now != known.expr:
            if len(now.free_symbols) == 1:  # of several sizes it is computed at each call, and stands as an expression
                yield self._relation(name, known, now)
        else:
            yield from self._bounds(name, known)
            yield from self._conditions(name, known)

    def _relation(self, name, known, now):
        (symbol,) = now.free_symbols
        other, text = self._text_of_symbol(symbol)
        if now.is_symbol:
            reason = f"The values of {name} = {known.text} and {other} = {text} must always be equal."
            return reason + self._place(known.expr), {name: other}
        shown = str(now).replace(str(symbol), other)
        return (
            f"The values of {name} = {known.text} must always be related to the values of {other} = {text} by "
            f"{name} = {shown}.{self._place(known.expr)}"
        ), {name: shown}

    def _bounds(self, name, known):
        found, dim = self._range(known.expr), known.dim
        low = found.lower if found.lower > max(dim.min, 2) else dim.min
        high = min(found.upper, dim.max)
        if (low, high) == (dim.min, dim.max):
            return
        limits = ([f"min={low}"] if low > 0 else []) + ([f"max={high}"] if high != math.inf else [])
        shown = f"{found.lower} <= {known.text}" + (f" and {known.text} <= {high}" if high != math.inf else "")
        reason = self._not_all(name, known, shown) + self._place(known.expr, equal=False)
        yield reason, {name: f"Dim('{name}', {', '.join(limits)})"}

    @staticmethod
    def _not_all(name, known, guard):
        dim, limits = known.dim, ""
        if dim.max != math.inf or dim.min > 2:
            low, high = f"{dim.min} <= " * (dim.min > 2), f" <= {dim.max}" * (dim.max != math.inf)
            limits = f"{low}{name}{high} "
        where = f"{name} = {known.text} in the specified range {limits}"
        return f"Not all values of {where}satisfy the generated guard {guard}"

    def _open_conditions(self, symbols_of_interest=None):
        """The guards with equal symbols replaced, which ranges alone do not decide."""
        from tessera.fx.experimental._facts import Facts

        facts = Facts()
        facts.ranges = dict(self._env.var_to_range)
        found = []
        for guard in self._env.guards:
            condition = guard.expr
            while not isinstance(condition, bool) and condition.free_symbols & self._env.replacements.keys():
                condition = condition.subs(self._env.replacements)
            if isinstance(condition, bool) or facts.decide(condition) is True or condition in found:
                continue
            if symbols_of_interest is None or condition.free_symbols == symbols_of_interest:
                found.append(condition)
        return found

    def _conditions(self, name, known):
        for condition in self._open_conditions({known.expr}):
            shown = text_of(condition).replace(str(known.expr), known.text)
            reason = self._not_all(name, known, shown + ".") + self._place(known.expr, equal=condition.op == "==")
            yield reason, self._multiple(name, known, condition)

    def _multiple(self, name, known, condition):
        """The fix for `name % k == r`."""
        if condition.op != "==":
            return {}
        for monomial, coefficient in condition.expr.terms.items():
            atom = monomial[0][0] if monomial else None
            if getattr(atom, "name", "") == "mod" and hasattr(atom, "args") and atom.args[1].is_number:
                if atom.args[0] != known.expr:
                    return {}
                k, rest = atom.args[1].value(), -condition.expr.terms.get((), 0) // coefficient
                found = self._range(known.expr)
                low = max(0, math.ceil((found.lower - rest) / k))
                high = "oo" if found.upper == math.inf else (found.upper - rest) // k
                plus = f" + {rest}" if rest else ""
                return {f"_{name}": f"Dim('_{name}', min={low}, max={high})", name: f"{k}*_{name}{plus}"}
        return {}

    # --- results ---

    def ranges(self):
        """{expression: ValueRanges} of the sizes of inputs."""
        from tessera.fx.experimental.symbolic_shapes import ValueRanges

        found = {}
        for known in self._named.values():
            if known.expr.is_symbol:
                traced = self._range(known.expr)
                low = known.dim.min if traced.lower <= max(known.dim.min, 2) else traced.lower
                found[known.expr] = ValueRanges(low, min(traced.upper, known.dim.max))
        for known in self._hinted:
            for symbol in self._now(known.expr).free_symbols:
                found.setdefault(symbol, self._range(symbol))
        for known in (*self._named.values(), *self._hinted):
            if not (now := self._now(known.expr)).is_number:
                found.setdefault(now, now.bounds(found))
        for _, expr in self._derived:
            found.setdefault(expr, expr.bounds(found))
        for symbol in self._env.var_to_range:
            if self._env.is_unbacked_symint(symbol) and self._now(symbol) == symbol:
                found.setdefault(symbol, self._range(symbol))
        return found

    def guards(self):
        """Conditions on the sizes of inputs beyond their ranges, as texts."""
        inputs = set()
        for known in (*self._named.values(), *self._hinted):
            inputs |= self._now(known.expr).free_symbols
        return [text_of(c) for c in self._open_conditions() if c.free_symbols <= inputs]

    def assertions(self):
        """[(condition, text of the program's line)] that have to be checked while the program runs."""
        asked = [g for guards in self._env.deferred_runtime_asserts.values() for g in guards]
        return [(g.expr, g.sloc) for g in asked]
