"""draft_export(): a program in any case, and a report of what is unsound about it.

The trace is that of export(), with the example's real tensors beside those that stand for them. What a program asks of
numbers that are not known while tracing is answered by the real ones, kept as a check in the graph, and reported. So
are operators without a rule for shapes, and rules that say something else than the operator does.
"""

import functools

import tessera
from tessera.export import dynamic_shapes as _shapes
from tessera.export._draft_report import DraftExportReport, FailureReport, FailureType, Place
from tessera.export._symbols import is_symbolic
from tessera.export._trace import Export
from tessera.export._tracer import ExportTracer, export_mode_class, recording_off
from tessera.utils import _pytree as pytree

__all__ = ["draft"]

_UNKNOWN = object()  # the real value of something that the trace could not follow


class _Findings:
    """The failures of one draft, each place once."""

    def __init__(self):
        self.found = {}

    def add(self, kind, key, **data):
        """Notes a failure; one of the same key again is counted."""
        key = (kind, key)
        if key in self.found:
            if "occurrences" in self.found[key].data:
                self.found[key].data["occurrences"] += 1
            return
        self.found[key] = FailureReport(kind, data)

    def add_at(self, kind, expr, place, **data):
        """Notes a failure that has a place in the program, of an expression."""
        stack = list(place.frames)
        more = dict(frame_locals=place.locals, stack=stack, user_stack=stack)
        self.add(kind, (str(expr), place.key), expr=str(expr), **data, **more)


def _draft_env(findings):
    """A ShapeEnv class whose symbols know the real numbers: function of the settings, as Inputs wants it."""
    from tessera.fx.experimental.symbolic_shapes import Condition, ShapeEnv, condition

    class DraftEnv(ShapeEnv):
        """Answers by the real numbers what an export refuses, and writes down where each guard was made."""

        def __init__(self, **settings):
            super().__init__(**settings)
            self.places = []  # (guard, Place)

        def bind(self, symbol, value):
            """The number that a symbol is for the example."""
            self.var_to_val.setdefault(symbol, int(value) if isinstance(value, (bool, int)) else value)
            self._stand_ins[symbol] = self.var_to_val[symbol]

        def real(self, expr):
            """The number of an expression for the example, or _UNKNOWN."""
            if isinstance(expr, bool):
                return expr
            return expr.evaluate(self.var_to_val) if expr.free_symbols <= self.var_to_val.keys() else _UNKNOWN

        def sources(self, expr):
            """{symbol: what it is of the inputs} of an expression."""
            found = {str(s): self.var_to_sources.get(s) for s in sorted(expr.free_symbols)}
            return {s: str(where[0]) for s, where in found.items() if where}

        def _refuse(self, expr):
            value = self.real(expr)
            if value is _UNKNOWN:
                super()._refuse(expr)
            findings.add_at(
                FailureType.DATA_DEPENDENT_ERROR, expr, Place(3), result=value, occurrences=1,
                symbol_to_sources=self.sources(expr),
            )  # fmt: skip
            if isinstance(expr, Condition):
                holds = expr if value else ~expr
            else:
                holds = condition("==", expr - value)
            self._expect(holds)
            return value

        def _assume(self, c):
            if not isinstance(c, bool) and not self.frozen:
                self.places.append((c, Place(3)))
            super()._assume(c)

    return DraftEnv


class _DraftTracer(ExportTracer):
    """Follows the real tensors beside those of the trace.

    Args:
        mode, attributes: as of ExportTracer. findings: _Findings.
    """

    def __init__(self, mode, attributes, findings):
        super().__init__(mode, attributes)
        self.findings = findings
        self.real = mode.real  # id of what stands for a tensor -> (that, the real tensor)
        mode.values_found = self._found

    def _found(self, func, args, kwargs, result):
        """A number or size that depends on values was given a symbol: it is bound to what it really is."""
        self._learn(result, self._computed(func, args, kwargs))
        if is_symbolic(result) and id(args[0]) in self._nodes:
            self.symbols.add_reading(self.node_of(args[0]), result)

    def _real_value(self, value):
        if isinstance(value, tessera.Tensor):
            known = self.real.get(id(value))
            return known[1] if known is not None else value if not self._is_fake(value) else _UNKNOWN
        return self.fake_mode.shape_env.real(value.node.expr) if is_symbolic(value) else value

    def _computed(self, op, args, kwargs):
        """What an operator makes of the real tensors, or _UNKNOWN."""
        from tessera.utils._python_dispatch import _disable_current_modes

        args, kwargs = pytree.tree_map(self._real_value, (args, kwargs))
        if any(leaf is _UNKNOWN for leaf in pytree.tree_leaves((args, kwargs))):
            return _UNKNOWN
        with _disable_current_modes(), recording_off(), tessera.no_grad():
            return op(*args, **kwargs)

    def ran(self, compute, op, args, kwargs):
        """As of ExportTracer, and the same with the real tensors."""
        from tessera._subclasses import fake_tensor
        from tessera.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

        of_data = (
            GuardOnDataDependentSymNode, fake_tensor.DataDependentOutputException,
            fake_tensor.DynamicOutputShapeException,
        )  # fmt: skip
        custom = getattr(op, "namespace", "aten") not in ("aten", "prims")
        try:
            result, error = compute(), None
        except of_data as caught:
            error = caught
        except (NotImplementedError, RuntimeError) as caught:
            if not custom:
                raise
            error = caught
        real = self._computed(op, args, kwargs)
        if error is not None:
            if real is _UNKNOWN:
                raise error
            return self._instead(op, error, custom, real)
        if custom and real is not _UNKNOWN:
            reason = self._mismatch(result, real)
            if reason is not None:
                self.findings.add(FailureType.MISMATCHED_FAKE_KERNEL, str(op), op=str(op), reason=reason)
                return self._unknown_twins(real)
        self._learn(result, real)
        return result

    def _instead(self, op, error, custom, real):
        """What takes the place of a result that could not be told without values."""
        if custom:
            self.findings.add(FailureType.MISSING_FAKE_KERNEL, str(op), op=str(op))
        else:
            self.findings.add_at(
                FailureType.DATA_DEPENDENT_ERROR, getattr(error, "cond", op), Place(4), result=real, occurrences=1,
                symbol_to_sources={},
            )  # fmt: skip
        return self._unknown_twins(real)

    def _mismatch(self, result, real):
        """What a fake result and a real one differ in, as text; None if in nothing."""
        fakes, reals = pytree.tree_leaves(result), pytree.tree_leaves(real)
        if len(fakes) != len(reals):
            return f"Number of results {len(reals)} and {len(fakes)} are not equal"
        env = self.fake_mode.shape_env
        for fake, true in zip(fakes, reals):
            if not isinstance(fake, tessera.Tensor) or not isinstance(true, tessera.Tensor):
                continue
            for what in ("dtype", "layout", "device"):
                a, b = getattr(true, what), getattr(fake, what)
                if a != b:
                    return f"{what.capitalize()}s {a} and {b} are not equal".replace("tessera.", "torch.")
            if fake.dim() != true.dim():
                return f"Numbers of dimensions {true.dim()} and {fake.dim()} are not equal"
            for kind, sizes, known in (("Shapes", true.shape, fake.shape), ("Strides", true.stride(), fake.stride())):
                known = [env.real(s.node.expr) if is_symbolic(s) else s for s in known]
                if any(k is not _UNKNOWN and k != s for k, s in zip(known, sizes)) and true.numel():
                    return f"{kind} {tuple(sizes)} and {tuple(known)} are not equal"
        return None

    def _learn(self, result, real):
        """Binds new symbols to what they really are, and keeps the real tensors."""
        if real is _UNKNOWN:
            return
        env = self.fake_mode.shape_env
        for fake, true in zip(pytree.tree_leaves(result), pytree.tree_leaves(real)):
            if isinstance(fake, tessera.Tensor) and self._is_fake(fake):
                self.real[id(fake)] = fake, true
                for size, number in zip(fake.shape, true.shape):
                    self._bind(env, size, number)
            else:
                self._bind(env, fake, true)

    @staticmethod
    def _bind(env, value, number):
        if not is_symbolic(value) or is_symbolic(number):
            return
        unknown = [s for s in value.node._expr.free_symbols if env.is_unbacked_symint(s) and s not in env.var_to_val]
        if len(unknown) == 1 and (value.node._expr == unknown[0] or type(number) is bool):
            env.bind(unknown[0], number)

    def _unknown_twins(self, real):
        """Stand-ins of real results, of sizes that nothing is known of."""
        from tessera._subclasses._symbolic_calls import unknown_twin

        env = self.fake_mode.shape_env
        made = pytree.tree_map_only(tessera.Tensor, lambda t: unknown_twin(self.fake_mode, env, t), real)
        self._learn(made, real)
        return made


@functools.cache
def _draft_mode():
    """The class of the modes of drafts."""

    class DraftMode(export_mode_class()):
        """The mode of an export that knows copies of the real tensors."""

        def __init__(self, **settings):
            super().__init__(**settings)
            self.real = {}

        def from_tensor(self, tensor, **more):
            """As of FakeTensorMode."""
            made = super().from_tensor(tensor, **more)
            if id(made) not in self.real and made is not tensor:
                with tessera.no_grad(), recording_off(), tessera._subclasses.fake_tensor.unset_fake_temporarily():
                    self.real[id(made)] = made, tensor.detach().clone()
            return made

    return DraftMode


def _relaxed(specs):
    """dynamic_shapes in which what may be fixed says so, with the ranges that they had."""

    def auto(s):
        if isinstance(s, _shapes.Dim):
            return _shapes.Dim.AUTO(min=s.min, max=None if s.max == float("inf") else s.max)
        if isinstance(s, _shapes._DimHint) and s != _shapes.Dim.STATIC:
            return _shapes._DimHint(_shapes._DimHintType.AUTO, s.min, s.max)
        return s

    return pytree.tree_map(auto, specs, is_leaf=lambda s: isinstance(s, (_shapes.Dim, _shapes._DimHint)))


def draft(mod, args, kwargs, *, dynamic_shapes, **more):
    """See export.draft_export."""
    from tessera._dynamo.exc import UserError, UserErrorType

    if hasattr(dynamic_shapes, "dynamic_shapes"):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    findings = _Findings()
    program, violated = _attempt(mod, args, kwargs, findings, dynamic_shapes, more)
    if program is None:
        specs = _relaxed(dynamic_shapes)
        _report_guards(findings, violated, specs)
        program, again = _attempt(mod, args, kwargs, findings, specs, more)
        if program is None:
            raise UserError(UserErrorType.CONSTRAINT_VIOLATION, f"{specs} allows no program: {again.error}")
    program._report = DraftExportReport(list(findings.found.values()))
    return program


class _Violation:
    """An export whose program allows less sizes than it was to: its ShapeEnv and the error."""

    def __init__(self, env, error):
        self.env, self.error = env, error


def _attempt(mod, args, kwargs, findings, specs, more):
    """(program, None), or (None, the _Violation) if the sizes are not all allowed."""
    from tessera._dynamo.exc import UserError

    run = Export(
        mod, args, kwargs, dynamic_shapes=specs, make_mode=_draft_mode(), make_env=_draft_env(findings),
        tracer_class=lambda mode, attributes: _DraftTracer(mode, attributes, findings), **more,
    )  # fmt: skip
    try:
        return run.run(), None
    except UserError as error:
        if error.error_type.name != "CONSTRAINT_VIOLATION":
            raise
        return None, _Violation(run.inputs.env, error)


def _report_guards(findings, violated, specs):
    env = violated.env
    for guard, place in env.places:
        findings.add_at(
            FailureType.GUARD_ADDED, guard, place, symbol_to_sources=env.sources(guard), new_dynamic_shapes=str(specs)
        )
    if not env.places:
        nothing = Place()
        nothing.frames, nothing.locals = [], {}
        findings.add_at(
            FailureType.GUARD_ADDED, violated.error.message, nothing, symbol_to_sources={},
            new_dynamic_shapes=str(specs),
        )  # fmt: skip
