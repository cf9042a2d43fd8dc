"""Sizes as symbols: the ShapeEnv of a trace makes them, decides questions about them, and records what it assumed."""

import contextlib
import dataclasses
import enum
import itertools
import math
import operator
import os
import sys

import tessera
from tessera import SymBool, SymFloat, SymInt
from tessera.fx.experimental._expressions import (
    _MATH,
    Condition,
    Expr,
    Symbol,
    ValueRanges,
    as_expr,
    combined,
    condition,
    constant,
    int_oo,
    is_unbacked,
)
from tessera.fx.experimental._facts import Facts
from tessera.fx.experimental.sym_node import SymNode
from tessera.fx.proxy import asserted

__all__ = [
    "ConstraintViolationError", "DimDynamic", "GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound",
    "RelaxedUnspecConstraint", "ShapeEnv", "ShapeGuard", "StatefulSymbolicContext", "StatelessSymbolicContext",
    "StrictMinMaxConstraint", "SymIntSymbolicContext", "SymbolicContext", "TrackedFake", "ValueRanges",
    "canonicalize_bool_expr", "check_consistent", "create_contiguous", "expect_true", "free_symbols",
    "free_unbacked_symbols", "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true",
    "guard_scalar", "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols", "has_hint",
    "has_static_value", "has_symbolic_sizes_strides", "hint_int", "int_oo", "is_accessor_node", "is_concrete_bool",
    "is_concrete_float", "is_concrete_int", "is_nested_int", "is_symbol_binding_fx_node", "is_symbolic",
    "optimization_hint", "size_hint", "statically_known_false", "statically_known_true", "sym_and", "sym_eq", "sym_or",
]  # fmt: skip


class DimDynamic(enum.Enum):
    """What becomes of a size: a symbol of its own, one for all equal sizes, a number, an unknown number; for strides,
    what follows from the sizes.
    """

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    UNBACKED = 3
    INFER_STRIDE = 4


class ConstraintViolationError(RuntimeError):
    """What was assumed of a size is more than what was allowed."""


class PendingUnbackedSymbolNotFound(RuntimeError):
    """A symbol that an operator made is not among its results."""


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision needs a number that is not known while tracing.

    Args:
        cond: the expression.
        message: more about it.
    """

    def __init__(self, cond, *args):
        super().__init__(*args)
        self.cond = cond


@dataclasses.dataclass(frozen=True)
class StrictMinMaxConstraint:
    """The size may be all numbers of the range `vr`; what assumes more of it is a violation, or a warning."""

    warn_only: bool
    vr: ValueRanges


@dataclasses.dataclass(frozen=True)
class RelaxedUnspecConstraint:
    """The size may not be one number."""

    warn_only: bool


@dataclasses.dataclass(frozen=True)
class ShapeGuard:
    """What was assumed (`expr`), and at which line of the program (`sloc`)."""

    expr: Condition
    sloc: str
    size_oblivious: bool = False

    @property
    def stack(self):
        return self.sloc


class SymbolicContext:
    """Which sizes of a tensor are symbols."""


@dataclasses.dataclass(frozen=True)
class SymIntSymbolicContext(SymbolicContext):
    """Which values a whole number may have: a constraint, or None."""

    constraint: "StrictMinMaxConstraint | RelaxedUnspecConstraint | None"


@dataclasses.dataclass(frozen=True)
class TrackedFake:
    """A fake tensor or symbolic number, where it came from, and which of its sizes are symbols."""

    fake: object
    source: object
    symbolic_context: "SymbolicContext | None"


@dataclasses.dataclass
class StatelessSymbolicContext(SymbolicContext):
    """Which sizes of a tensor are symbols: a DimDynamic for each, and constraints (or None) for each.

    shape_ids: {dimension: name}: unknown sizes with one name are one symbol.
    """

    dynamic_sizes: list
    dynamic_strides: "list | None" = None
    constraint_sizes: "list | None" = None
    constraint_strides: "list | None" = None
    shape_ids: "dict | None" = None

    def __post_init__(self):
        n = len(self.dynamic_sizes)
        self.dynamic_strides = self.dynamic_strides or [DimDynamic.INFER_STRIDE] * n
        self.constraint_sizes = self.constraint_sizes or [None] * n
        self.constraint_strides = self.constraint_strides or [None] * n


@dataclasses.dataclass
class StatefulSymbolicContext(StatelessSymbolicContext):
    """The same, for a tensor that is made fake again and again."""

    tensor_source: object = None
    shape_env_to_source_to_symbol_cache: "dict | None" = None


_PACKAGE = os.path.dirname(os.path.abspath(tessera.__file__)) + os.sep


def _user_frame():
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<")):
        frame = frame.f_back
    return frame


def _asserted():
    """What an assert statement wants, if the program stands at one, else None."""
    frame = _user_frame()
    return None if frame is None else asserted(frame)


def _user_line():
    """ "file.py:12" of the innermost line that is not the package's."""
    frame = _user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "<unknown>"


class _SymbolicShape:
    """What a fake tensor carries for sizes with symbols; python/bindings ask it."""

    def __init__(self, env, sizes, strides, offset):
        self.env, self.sizes, self.strides, self.offset = env, sizes, strides, offset

    def _number(self, expr):
        return self.env._number(expr)

    def _of(self, exprs, dim):
        n = len(exprs)
        if not -n <= dim < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
        return self._number(exprs[dim])

    def size(self, dim=None):
        return tessera.Size(map(self._number, self.sizes)) if dim is None else self._of(self.sizes, dim)

    def stride(self, dim=None):
        return tuple(map(self._number, self.strides)) if dim is None else self._of(self.strides, dim)

    def numel(self):
        total = constant(1)
        for size in self.sizes:
            total = total * size
        return self._number(total)

    def storage_offset(self):
        return self._number(self.offset)


class ShapeEnv:
    """The symbols of a trace, what is known of them, and the guards: what was assumed because the program asked.

    Args:
        should_record_events, tracked_fakes: None.
        allow_scalar_outputs, allow_dynamic_output_shape_ops: numbers and sizes that depend on values become symbols
            (otherwise DataDependentOutputException and DynamicOutputShapeException).
        assume_static_by_default: sizes without a context are numbers.
        specialize_zero_one: sizes of 0 and 1 are numbers, and symbols are 2 or more.
        duck_shape: equal sizes have one symbol.
        prefer_deferred_runtime_asserts_over_guards, trace_asserts: False.

    >>> from tessera.fx.experimental.symbolic_shapes import ShapeEnv
    >>> from tessera._subclasses.fake_tensor import FakeTensorMode
    >>> x = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(tessera.ones(5, 3))
    >>> tessera.cat([x, x]).flatten().shape[0]
    2*s0*s1
    """

    allow_scalar_outputs = allow_dynamic_output_shape_ops = specialize_zero_one = duck_shape = True
    assume_static_by_default = prefer_deferred_runtime_asserts_over_guards = False
    checks_assertions = False  # `assert` of what is not known while tracing is checked at run time

    def __init__(
        self, *, should_record_events=None, tracked_fakes=None, allow_scalar_outputs=True,
        allow_dynamic_output_shape_ops=True, assume_static_by_default=False, specialize_zero_one=True, duck_shape=True,
        prefer_deferred_runtime_asserts_over_guards=False, trace_asserts=False,
    ):  # fmt: skip
        refused = dict(
            should_record_events=should_record_events, tracked_fakes=tracked_fakes, trace_asserts=trace_asserts
        )
        for name, value in refused.items():
            if value:
                raise NotImplementedError(f"ShapeEnv({name}={value!r}) is not supported; leave it out")
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        self.assume_static_by_default = assume_static_by_default
        self.specialize_zero_one = specialize_zero_one
        self.duck_shape = duck_shape
        self.prefer_deferred_runtime_asserts_over_guards = prefer_deferred_runtime_asserts_over_guards
        self.var_to_val = {}
        self.var_to_sources = {}
        self.source_to_var = {}
        self.var_to_constraint = {}
        self.guards = []
        self.deferred_runtime_asserts = {}
        self.pending_fresh_unbacked_symbols = []
        self.size_like = set()
        self._by_shape_id = {}
        self.frozen = False
        self._facts = Facts()
        self._stand_ins, self._stand_ins_changed = {}, False
        self._by_value = {}
        self._counts = {"s": 0, "u": 0, "zf": 0, "zuf": 0}
        self._suppressed = 0
        self._calls = {}

    @property
    def var_to_range(self):
        """{symbol: ValueRanges}"""
        return self._facts.ranges

    @property
    def replacements(self):
        """{symbol: Expr}: what turned out to be equal to others."""
        return self._facts.replacements

    # --- making symbols ---

    def _fresh(self, prefix, unbacked):
        name = f"{prefix}{self._counts[prefix]}"
        self._counts[prefix] += 1
        return Symbol(name, unbacked)

    def create_symbol(
        self, val, source, dynamic_dim=DimDynamic.DUCK, constraint_dim=None, positive=True,
        do_not_specialize_zero_one=False, symbolic_context=None,
    ):  # fmt: skip
        """The expression for a size: a number, or a symbol with `val` as its hint.

        Args:
            source: name or Source of the size, for guards.
            dynamic_dim: DimDynamic.
            constraint_dim: StrictMinMaxConstraint, RelaxedUnspecConstraint or None.
            positive: the size is no negative number.
            do_not_specialize_zero_one: 0 and 1 have symbols, too.
            symbolic_context: of no effect.
        """
        if dynamic_dim is DimDynamic.STATIC:
            return constant(val)
        if dynamic_dim is DimDynamic.UNBACKED:
            symbol = self._unbacked("u", ValueRanges(0, int_oo), source)
            self.size_like.add(symbol)
            self._stand_ins[symbol] = max(2, int(val))
            if constraint_dim is not None:
                self.var_to_constraint.setdefault(symbol, []).append(constraint_dim)
            return symbol
        zero_one = self.specialize_zero_one and not do_not_specialize_zero_one
        if zero_one and val in (0, 1):
            return constant(val)
        if dynamic_dim is DimDynamic.DUCK and self.duck_shape and val in self._by_value:
            symbol = self._by_value[val]
        else:
            symbol = self._fresh("s", False)
            self.var_to_val[symbol] = val
            low = (2 if zero_one else 0) if positive else -int_oo
            self._facts.ranges[symbol] = ValueRanges(low, int_oo)
            if dynamic_dim is DimDynamic.DUCK:
                self._by_value.setdefault(val, symbol)
        if isinstance(constraint_dim, StrictMinMaxConstraint):
            known = self._facts.ranges[symbol]
            self._facts.ranges[symbol] = known & ValueRanges(
                max(constraint_dim.vr.lower, known.lower), constraint_dim.vr.upper
            )
        if constraint_dim is not None:
            self.var_to_constraint.setdefault(symbol, []).append(constraint_dim)
        self.var_to_sources.setdefault(symbol, []).append(source)
        self.source_to_var[_name_of(source)] = symbol
        return symbol

    def create_unspecified_symbol(
        self, val, source, dynamic_dim=DimDynamic.DUCK, constraint_dim=None, symbolic_context=None
    ):
        """As create_symbol for a number that is no size: it may be negative, 0 and 1, and a float."""
        if isinstance(val, float) and dynamic_dim is not DimDynamic.STATIC:
            symbol = self._fresh("zf", False)
            self.var_to_val[symbol], self._facts.ranges[symbol] = val, ValueRanges(-math.inf, math.inf)
            self.var_to_sources[symbol], self.source_to_var[_name_of(source)] = [source], symbol
            return symbol
        return self.create_symbol(
            val, source, dynamic_dim, constraint_dim, positive=None, do_not_specialize_zero_one=True,
            symbolic_context=symbolic_context,
        )  # fmt: skip

    def create_symintnode(self, sym, *, hint, source=None):
        """A SymInt of an expression; a plain int of a number."""
        if source is not None and sym.is_symbol:
            self.source_to_var[_name_of(source)] = sym
        return int(sym.value()) if sym.is_number else SymInt(SymNode(sym, self, int, hint))

    def create_symfloatnode(self, sym, *, hint, source=None):
        """A SymFloat of an expression; a plain float of a number."""
        return float(sym.value()) if sym.is_number else SymFloat(SymNode(sym, self, float, hint))

    def create_symboolnode(self, sym):
        """A SymBool of a condition."""
        return sym if isinstance(sym, bool) else SymBool(SymNode(sym, self, bool))

    def _unbacked(self, prefix, values, source=None):
        symbol = self._fresh(prefix, True)
        self._facts.ranges[symbol] = values
        self._stand_ins[symbol] = (5, 7, 11, 13, 17, 19, 23)[len(self._stand_ins) % 7] if prefix == "u" else 1.5
        self.pending_fresh_unbacked_symbols.append(symbol)
        self.var_to_sources[symbol] = [source] if source is not None else []
        return symbol

    def create_unbacked_symint(self, source=None):
        """A SymInt that is not known while tracing."""
        return SymInt(SymNode(self._unbacked("u", ValueRanges.unknown_int(), source), self, int))

    def create_unbacked_symfloat(self):
        """A SymFloat that is not known while tracing."""
        return SymFloat(SymNode(self._unbacked("zuf", ValueRanges(-math.inf, math.inf)), self, float))

    def create_unbacked_symbool(self):
        """A SymBool that is not known while tracing."""
        return SymBool(SymNode(condition("==", self._unbacked("u", ValueRanges(0, 1)) - 1), self, bool))

    def is_unbacked_symint(self, symbol):
        """Whether a symbol is not known while tracing."""
        return is_unbacked(symbol)

    def create_unspecified_symint_and_symbol(self, value, source, dynamic_dim):
        """A SymInt of its own for a number."""
        symbol = self.create_unspecified_symbol(value, source, dynamic_dim)
        return self.create_symintnode(symbol, hint=value, source=source)

    def add_var_to_val(self, expr, val):
        """The number that a symbol is in the run under way, which was not known. AssertionError if it was."""
        assert expr not in self.var_to_val, f"{expr} is {self.var_to_val[expr]} already"
        self.var_to_val[expr] = int(val)

    add_backed_var_to_val = add_var_to_val

    def create_symbolic_sizes_strides_storage_offset(self, ex, source, *, symbolic_context=None):
        """(sizes, strides, offset) of a tensor as numbers, some of them symbolic; strides follow from sizes."""
        shape = self._shape_of(ex, source, symbolic_context)
        return tuple(shape.size()), shape.stride(), shape.storage_offset()

    def _shape_of(self, t, source, context):
        static = DimDynamic.STATIC if self.assume_static_by_default else DimDynamic.DUCK
        kinds = context.dynamic_sizes if context is not None else [static] * t.dim()
        constraints = context.constraint_sizes if context is not None else [None] * t.dim()
        ids = getattr(context, "shape_ids", None) or {}
        name, sizes = _name_of(source), []
        for i, (size, kind, limit) in enumerate(zip(t.shape, kinds, constraints)):
            symbol = self._by_shape_id.get(ids[i]) if i in ids else None
            if symbol is None:
                symbol = self.create_symbol(size, f"{name}.size()[{i}]", kind, limit)
            if i in ids:
                self._by_shape_id[ids[i]] = symbol
            sizes.append(symbol)
        # A stride is the next smaller one times its size, where that is so; otherwise it is a number.
        strides, plain = [None] * t.dim(), t.stride()
        order = sorted(range(t.dim()), key=lambda i: (plain[i], -i))
        expected, expr = 1, constant(1)
        for i in order:
            strides[i] = expr if plain[i] == expected else constant(plain[i])
            if plain[i] == expected or plain[i] > 0:
                expected, expr = plain[i] * max(1, t.shape[i]), strides[i] * sizes[i]
        return _SymbolicShape(self, sizes, strides, constant(t.storage_offset()))

    def _give_symbols(self, fake, real, source, context):
        """Gives a fake tensor symbols for the sizes of a real one."""
        shape = self._shape_of(real, source if source is not None else f"__t{len(self.source_to_var)}", context)
        self._attach(fake, shape.sizes, shape.strides, shape.offset)

    def _attach(self, fake, sizes, strides, offset):
        """The sizes of a fake tensor are these expressions."""
        exprs = (*sizes, *strides, offset)
        symbolic = any(not e.is_number for e in exprs)
        shape = _SymbolicShape(self, tuple(sizes), tuple(strides), offset) if symbolic else None
        tessera._C._set_symbolic_shape(fake, shape)

    def _number(self, expr):
        """An expression as an int or a SymInt."""
        expr = self.replace(expr)
        return int(expr.value()) if expr.is_number else SymInt(SymNode(expr, self, int))

    # --- deciding ---

    def replace(self, expr):
        """With what is known of its symbols in their place."""
        return expr if isinstance(expr, bool) else self._facts.replace(expr)

    simplify = replace

    def bound_sympy(self, expr, size_oblivious=False):
        """The ValueRanges of an expression."""
        return self.replace(expr).bounds(self._facts.ranges_for(size_oblivious and self.size_like))

    def size_hint(self, expr, *, allow_none=False):
        """The number of an expression in the run under way; None (or an error) with symbols that are not known."""
        if isinstance(expr, bool):
            return expr
        expr = self.replace(expr)
        if isinstance(expr, bool):
            return expr
        if any(is_unbacked(s) for s in expr.free_symbols):
            if allow_none:
                return None
            self._refuse(expr)
        return expr.evaluate(self.var_to_val)

    def _stand_in(self, expr):
        """The hint, with arbitrary numbers for what is not known."""
        expr = self.replace(expr)
        return expr if isinstance(expr, bool) else expr.evaluate({**self._stand_ins, **self.var_to_val})

    def _static(self, c, size_oblivious=False):
        """True or False where that is so whatever the sizes are, else None."""
        return c if isinstance(c, bool) else self._facts.decide(c, self.size_like if size_oblivious else ())

    def evaluate_expr(
        self, orig_expr, hint=None, fx_node=None, size_oblivious=False, fallback_value=None, *, forcing_spec=False
    ):
        """The number, or bool, of an expression; a guard says what was assumed.

        Args:
            hint, fx_node, forcing_spec: of no effect: hints are computed.
            size_oblivious: sizes that are not known count as 2 or more.
            fallback_value: instead of GuardOnDataDependentSymNode.
        """
        expr = self.replace(orig_expr)
        if isinstance(expr, bool):
            return expr
        if isinstance(expr, Expr):
            if expr.is_number:
                return expr.value()
            value = self.size_hint(expr, allow_none=True)
            if value is None:
                return fallback_value if fallback_value is not None else self._refuse(expr)
            self._assume(condition("==", expr - value))
            return value
        known = self._static(expr, size_oblivious)
        if known is not None:
            return known
        value = self.size_hint(expr, allow_none=True)
        wanted = _asserted() if value is None and fallback_value is None and self.checks_assertions else None
        if wanted is not None:
            return self._expect(expr if wanted else ~expr) is wanted
        if value is None:
            return fallback_value if fallback_value is not None else self._refuse(expr)
        self._assume(expr if value else ~expr)
        return value

    def _assume(self, c):
        """Records a guard, and what follows from it."""
        if isinstance(c, bool):
            return
        if self.frozen:
            return
        if not self._suppressed:
            self.guards.append(ShapeGuard(c, _user_line()))
        self._facts.learn(c)

    def _expect(self, expr):
        """torch._check: what can't be decided is assumed, and kept for a check at run time."""
        expr = self.replace(expr)
        known = self._static(expr)
        if known is not None:
            return known
        value = self.size_hint(expr, allow_none=True)
        if value is not None and not self.prefer_deferred_runtime_asserts_over_guards:
            return self.evaluate_expr(expr)
        if value is False:
            return False
        newest = max(expr.free_symbols, key=lambda s: (is_unbacked(s), s.key))
        self.deferred_runtime_asserts.setdefault(newest, []).append(ShapeGuard(expr, _user_line()))
        self._facts.learn(expr)
        return True

    guard_or_defer_runtime_assert = _expect

    def constrain_symbol_range(self, s, compiler_min, compiler_max):
        """The symbol is in the range from now on."""
        self._facts.ranges[s] = self._facts.ranges[s] & ValueRanges(compiler_min, compiler_max)

    def _refuse(self, expr):
        free = sorted(map(str, expr.free_symbols))
        asked = "guard on" if isinstance(expr, Condition) or expr.is_real else "extract specialized integer from"
        raise GuardOnDataDependentSymNode(
            expr,
            f"Could not {asked} data-dependent expression {expr} (unhinted: {expr}). "
            f"Caused by: {_user_line()}. The number {', '.join(free)} comes from the values of a tensor, which are not "
            "known while tracing. Say what is known of it with torch._check(...), or take torch.cond for a branch that "
            "depends on it.",
        )

    def has_hint(self, expr):
        """Whether the number of an expression is known in the run under way."""
        return self.size_hint(expr, allow_none=True) is not None

    def evaluate_sym_node(self, sym_node, size_oblivious=False, fallback_value=None):
        """evaluate_expr() of a SymNode's expression."""
        return self.evaluate_expr(sym_node._expr, size_oblivious=size_oblivious, fallback_value=fallback_value)

    # --- guards ---

    @contextlib.contextmanager
    def suppress_guards(self):
        """Context manager: what is assumed is not recorded."""
        self._suppressed += 1
        try:
            yield
        finally:
            self._suppressed -= 1

    @contextlib.contextmanager
    def ignore_fresh_unbacked_symbols(self):
        """Context manager: symbols that are made are not expected among results."""
        kept = list(self.pending_fresh_unbacked_symbols)
        try:
            yield
        finally:
            self.pending_fresh_unbacked_symbols[:] = kept

    def freeze(self):
        """No more guards."""
        self.frozen = True

    def freeze_runtime_asserts(self):
        """No more checks for run time are expected: of no effect."""

    def get_nontrivial_guards(self):
        """The conditions that were assumed and are not decided by what is known of the symbols since."""
        found = [self.replace(g.expr) for g in self.guards]
        return [c for c in found if not isinstance(c, bool)]

    def get_pruned_guards(self, symints):
        """The guards that are about symbols of the numbers given."""
        wanted = frozenset().union(*[free_symbols(s) for s in symints]) if symints else frozenset()
        return [g for g in self.guards if g.expr.free_symbols <= wanted]

    def format_guards(self, verbose=False):
        """A line for each guard; verbose: with the line of the program."""
        return "\n".join(f" - {g.expr}" + (f" at {g.sloc}" if verbose else "") for g in self.guards)

    def _sources(self, placeholders, sources):
        """[(expression, what gives it)] of the sizes of fake tensors and of numbers."""
        found = []
        for value, source in zip(placeholders, sources):
            name = _name_of(source)
            if isinstance(value, tessera.Tensor):
                shape = tessera._C._symbolic_shape(value)
                sizes = value.shape if shape is None else shape.sizes
                strides = value.stride() if shape is None else shape.strides
                found += [(as_expr(e), f"{name}.size()[{i}]") for i, e in enumerate(sizes)]
                found += [(as_expr(e), f"{name}.stride()[{i}]") for i, e in enumerate(strides)]
            elif isinstance(value, (SymInt, SymFloat, SymBool)):
                found.append((value.node._expr, name))
            elif isinstance(value, (bool, int, float)):
                found.append((as_expr(value), name))
        return found

    def produce_guards(self, placeholders, sources, *args, guards=None, ignore_static=True, **kwargs):
        """Conditions, as texts in terms of the sources, under which what was traced holds for other inputs.

        Args:
            placeholders: fake tensors and numbers of the trace. sources: their names, or Sources.
            guards: ShapeGuards (default: all).
            ignore_static: nothing is said of sizes that were numbers from the start.
            args, kwargs: of no effect.
        Raises: ConstraintViolationError: a size that was to be dynamic is not.
        """
        found = self._sources(placeholders, sources)
        where, texts = {}, []
        for expr, text in found:
            if isinstance(expr, Expr) and expr.is_symbol:
                if expr in where:
                    texts.append(f"{text} == {where[expr]}")
                where.setdefault(expr, text)
        for expr, text in found:
            if isinstance(expr, Expr) and not expr.is_symbol and not (expr.is_number and ignore_static):
                if expr.free_symbols <= where.keys():
                    texts.append(f"{text} == {_code(expr, where)}")
        self._check_constraints(where)
        for guard in self.guards if guards is None else guards:
            if guard.expr.free_symbols <= where.keys():
                texts.append(_code(guard.expr, where))
        for assert_ in itertools.chain.from_iterable(self.deferred_runtime_asserts.values()):
            free = assert_.expr.free_symbols
            if free <= where.keys() and any(map(is_unbacked, free)):
                texts.append(_code(assert_.expr, where))
        for symbol, text in where.items():
            texts += self._range_texts(symbol, text)
        return list(dict.fromkeys(texts))

    def _range_texts(self, symbol, text):
        known = self._facts.ranges.get(symbol)
        if known is None or is_unbacked(symbol):
            return []
        low = [f"{known.lower} <= {text}"] if 0 < known.lower < math.inf else []
        return low + ([f"{text} <= {known.upper}"] if known.upper < math.inf else [])

    def _check_constraints(self, where):
        bad, names = [], []
        for symbol, limits in self.var_to_constraint.items():
            value = self.replace(symbol)
            name = where.get(symbol, _name_of(self.var_to_sources[symbol][0]))
            for limit in limits:
                if value.is_number:
                    names.append(name)
                    bad.append(
                        f"You marked {name} as dynamic but your code specialized it to be a constant ({value.value()}"
                        "). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using "
                        "Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO."
                    )
                elif isinstance(limit, StrictMinMaxConstraint) and not limit.vr.issubset(self._facts.ranges[symbol]):
                    known = self._facts.ranges[symbol]
                    if known.lower > max(limit.vr.lower, 2) or known.upper < limit.vr.upper:
                        names.append(name)
                        bad.append(f"{name} is allowed to be in {limit.vr}, but only {known} is supported")
        if bad:
            shown = ", ".join(dict.fromkeys(names))
            raise ConstraintViolationError(f"Constraints violated ({shown})!\n  - " + "\n  - ".join(dict.fromkeys(bad)))

    def bind_symbols(self, placeholders, args):
        """{symbol: number} of the sizes of tensors that were fake tensors of the trace, and of numbers."""
        bound = {}
        for fake, given in zip(placeholders, args):
            found = self._sources([fake], [""])
            if isinstance(given, tessera.Tensor):
                values = (*given.shape, *given.stride())
            else:
                values = (given,)
            for (expr, _), value in zip(found, values):
                if isinstance(expr, Expr) and expr.is_symbol:
                    bound.setdefault(expr, value)
        return bound

    def produce_guards_expression(self, placeholders, *, guards=None, ignore_static=True):
        """The conditions of produce_guards as one Python expression over `L['args'][i]`, or None without any."""
        names = [f"L['args'][{i}]" for i in range(len(placeholders))]
        texts = self.produce_guards(placeholders, names, guards=guards, ignore_static=ignore_static)
        return " and ".join(texts) if texts else None

    def evaluate_guards_expression(self, code, args):
        """Whether an expression of produce_guards_expression holds for values."""
        return bool(eval(code, {"L": {"args": args}, "math": math}))

    def evaluate_guards_for_args(self, placeholders, args, *, ignore_static=True):
        """Whether what was traced holds for these values."""
        code = self.produce_guards_expression(placeholders, ignore_static=ignore_static)
        return code is None or self.evaluate_guards_expression(code, args)


def _name_of(source):
    return source if isinstance(source, str) else source.name() if callable(source.name) else source.name


_CODE = {
    "floordiv": "({} // {})", "mod": "({} % {})", "max": "max({}, {})", "min": "min({}, {})", "truediv": "({} / {})",
    "float": "float({})", "sqrt": "math.sqrt({})", "trunc": "math.trunc({})", "floor": "math.floor({})",
    "ceil": "math.ceil({})", "round": "round({})", "fpow": "({} ** {})", "pow": "({} ** {})",
    "ite": "({1} if {0} else {2})", "fadd": "({} + {})", "fsub": "({} - {})", "fmul": "({} * {})",
    **{name: f"math.{name}({{}})" for name in _MATH},
}  # fmt: skip


def _number_text(number):
    return f"math.{number}".replace("math.-", "-math.") if number - number != 0 else str(number)


def _code(e, where):
    """An expression or condition as Python code; where: {symbol: code}."""
    if isinstance(e, Condition):
        if e.parts:
            return "(" + f" {e.op} ".join(_code(p, where) for p in e.parts) + ")"
        left = Expr({m: c for m, c in e.expr.terms.items() if c > 0})
        right = Expr({m: -c for m, c in e.expr.terms.items() if c <= 0})
        return f"{_code(left, where)} {e.op} {_code(right, where)}"
    parts = []
    for monomial, coefficient in e.terms.items():
        factors = [] if coefficient == 1 and monomial else [_number_text(coefficient)]
        for atom, power in monomial:
            if hasattr(atom, "args"):
                text = _CODE[atom.name].format(*[_code(a, where) for a in atom.args])
            else:
                text = where[Symbol(atom.name)]
            factors += [text] * power
        parts.append("*".join(factors))
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})" if parts else "0"


# --- questions ---


def _numbers_in(value):
    if isinstance(value, (SymInt, SymFloat, SymBool)):
        yield value.node.expr
    elif isinstance(value, (Expr, Condition)):
        yield value
    elif isinstance(value, tessera.Tensor):
        shape = tessera._C._symbolic_shape(value)
        if shape is not None:
            yield from (shape.env.replace(e) for e in (*shape.sizes, *shape.strides, shape.offset))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _numbers_in(part)


def free_symbols(val):
    """The symbols in a number, a tensor's sizes, an expression, or lists of these."""
    return set().union(*[e.free_symbols for e in _numbers_in(val)])


def free_unbacked_symbols(val):
    """Those of free_symbols that are not known while tracing."""
    return {s for s in free_symbols(val) if is_unbacked(s)}


def has_free_symbols(val):
    """Whether there are symbols in it."""
    return bool(free_symbols(val))


def has_free_unbacked_symbols(x):
    """Whether there are symbols in it that are not known while tracing."""
    return bool(free_unbacked_symbols(x))


def has_symbolic_sizes_strides(elem):
    """Whether a tensor has sizes with symbols."""
    return tessera._C._symbolic_shape(elem) is not None


def is_symbolic(val):
    """Whether a number is symbolic."""
    return isinstance(val, (SymInt, SymFloat, SymBool))


def has_static_value(a):
    """Whether a number is always the same."""
    return not is_symbolic(a) or a.node.maybe_as_int() is not None


def is_concrete_int(a):
    """Whether it is an int, or a SymInt that is always the same."""
    return has_static_value(a)


def is_concrete_float(a):
    """Whether it is a float, or a SymFloat that is always the same."""
    return has_static_value(a)


def is_concrete_bool(a):
    """Whether it is a bool, or a SymBool that is always the same."""
    return has_static_value(a)


def is_nested_int(s):
    """Whether it is the size of a ragged dimension."""
    return isinstance(s, SymInt) and hasattr(s, "nested_int_coeff")


def has_hint(a):
    """Whether the number is known in the run under way."""
    return not is_symbolic(a) or a.node.has_hint()


def size_hint(a, fallback=None):
    """As hint_int, None for a number that is not known and has no fallback."""
    known = a.node.hint if is_symbolic(a) else int(a)
    return fallback if known is None else known


def hint_int(a, fallback=None):
    """The number in the run under way, without a guard; `fallback` where it is not known."""
    return a.node.require_hint(fallback) if is_symbolic(a) else int(a)


def optimization_hint(a, fallback=None):
    """As hint_int."""
    return hint_int(a, fallback)


def guard_int(a):
    """The int of a size, from now on always this one."""
    return a.node.guard_int() if is_symbolic(a) else int(a)


def guard_float(a):
    """The float, from now on always this one."""
    return a.node.guard_float() if is_symbolic(a) else float(a)


def guard_bool(a):
    """The bool, from now on always this one."""
    return a.node.guard_bool() if is_symbolic(a) else bool(a)


def guard_scalar(a):
    """The plain number, from now on always this one."""
    return a.node.pytype(a.node.shape_env.evaluate_expr(a.node._expr)) if is_symbolic(a) else a


def expect_true(a, skip=0):
    """Whether a condition holds; what is not known is assumed, and checked at run time. skip: of no effect."""
    return a.node.expect_true() if is_symbolic(a) else bool(a)


def statically_known_true(x):
    """Whether a condition holds whatever the sizes are. No guard."""
    return x.node.shape_env._static(x.node.expr) is True if is_symbolic(x) else bool(x)


def statically_known_false(x):
    """Whether a condition never holds. No guard."""
    return x.node.shape_env._static(x.node.expr) is False if is_symbolic(x) else not x


def guard_size_oblivious(expr):
    """The bool of a condition; sizes that are not known count as 2 or more."""
    return expr.node.guard_size_oblivious() if is_symbolic(expr) else bool(expr)


def guard_or_false(a):
    """The bool of a condition; False where it is not known while tracing."""
    return _guard_or(a, False)


def guard_or_true(a):
    """The bool of a condition; True where it is not known while tracing."""
    return _guard_or(a, True)


def _guard_or(a, fallback):
    return bool(a.node.shape_env.evaluate_expr(a.node.expr, fallback_value=fallback)) if is_symbolic(a) else bool(a)


def sym_and(x, *others):
    """All of the conditions, symbolic if one is."""
    for other in others:
        x = x & other if is_symbolic(x) else (other if x else False)
    return x


def sym_or(x, *others):
    """Any of the conditions, symbolic if one is."""
    for other in others:
        x = x | other if is_symbolic(x) else (True if x else other)
    return x


def sym_eq(x, y):
    """Whether numbers, or sequences of numbers, are equal; symbolic if they are."""
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and sym_and(True, *[sym_eq(a, b) for a, b in zip(x, y)])
    return x == y


def canonicalize_bool_expr(expr):
    """Conditions are kept in one form: the expression itself."""
    return expr


def is_symbol_binding_fx_node(node):
    """The symbol that is first seen as the number which a node of a graph gives, or None."""
    value = node.meta.get("val")
    if not is_symbolic(value) or not getattr(value.node._expr, "is_symbol", False):
        return None
    return value.node._expr if node.op == "placeholder" or is_unbacked(value.node._expr) else None


def is_accessor_node(node):
    """Whether a node reads a size, stride or offset of a tensor, or a part of a sequence."""
    ops = tessera.ops.aten
    read = (ops.sym_size.int, ops.sym_stride.int, ops.sym_storage_offset.default, ops.sym_numel.default)
    if node.op == "call_method":
        return node.target in ("size", "stride", "storage_offset", "item")
    return node.op == "call_function" and (node.target in read or node.target is operator.getitem)


def create_contiguous(shape):
    """Row-major strides for sizes."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(size * strides[-1])
    return list(reversed(strides[: len(shape)]))


def check_consistent(new, old):
    """torch._check that the sizes of two tensors, or two numbers, are equal."""
    if isinstance(new, tessera.Tensor):
        for a, b in zip(new.shape, old.shape):
            tessera._check(a == b)
    elif isinstance(new, (int, float, SymInt, SymFloat)):
        tessera._check(new == old)
