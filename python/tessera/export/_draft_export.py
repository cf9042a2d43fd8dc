"""draft_export(): a program in any case, and a report of what is unsound about it."""

import contextlib
import dataclasses
import enum
import typing

import tessera
from tessera.export import dynamic_shapes as _shapes
from tessera.export._trace import Export, traced
from tessera.export._tracer import ExportTracer, export_mode, user_frame
from tessera.utils import _pytree as pytree
from tessera.utils._python_dispatch import TorchDispatchMode

__all__ = ["DraftExportReport", "FailureReport", "FailureType"]


class FailureType(enum.Enum):
    """Kinds of failures."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self):
        return self.name


@dataclasses.dataclass
class FailureReport:
    """One failure: its kind, what is known of it, and whether export() succeeds with it."""

    failure_type: FailureType
    data: typing.Dict[str, typing.Any]
    xfail: bool = False

    def print(self):
        """The failure as text."""
        title, advice = _TEXTS[self.failure_type]
        lines = [f"{title}:", *(f"    {name}: {value}" for name, value in self.data.items() if value), f"    {advice}"]
        return "\n".join(lines) + "\n"


_TEXTS = {
    FailureType.MISSING_FAKE_KERNEL: (
        "Missing fake kernel", "Register one with torch.library.register_fake, so that export() knows the results."),
    FailureType.DATA_DEPENDENT_ERROR: (
        "Data dependent error", "The program depends on a tensor's numbers there; it was traced with those of "
        "the example "
        "inputs. Use torch.cond, or torch._check() on what is known of the number."),
    FailureType.GUARD_ADDED: (
        "Guard added", "The program allows less sizes than dynamic_shapes says; what it allows was taken."),
    FailureType.MISMATCHED_FAKE_KERNEL: (
        "Mismatched fake kernel", "The fake kernel and the kernel give other sizes, strides, dtypes or devices."),
}  # fmt: skip


class DraftExportReport:
    """What draft_export() found: `failures`, a list of FailureReport. Prints as text."""

    def __init__(self, failures):
        self.failures = failures

    def successful(self):
        """Whether export() would have made the same program."""
        return all(failure.xfail for failure in self.failures)

    def __str__(self):
        if self.successful():
            return (
                "Congratulations: No issues are found during export, and it was able to soundly produce a graph. "
                "export() may be called instead of draft_export().\n"
            )
        head = f"{len(self.failures)} issue(s) found during export, and it was not able to soundly produce a graph.\n"
        return head + "\n".join(f"{i + 1}. {failure.print()}" for i, failure in enumerate(self.failures))

    __repr__ = __str__


class _RealMode(TorchDispatchMode):
    """The place of the fake mode, with copies of the real tensors."""

    tracer = None

    def __init__(self, **_settings):
        super().__init__()
        self._copies = {}  # id -> (tensor, its copy)

    def from_tensor(self, tensor, *, static_shapes=True):
        """A copy of a tensor, the same for each call."""
        assert static_shapes
        if id(tensor) not in self._copies:
            copied = tensor.detach().clone(memory_format=tessera.preserve_format)
            is_parameter = isinstance(tensor, tessera.nn.Parameter)
            copied = tessera.nn.Parameter(copied, False) if is_parameter else copied
            self._copies[id(tensor)] = tensor, copied.requires_grad_(tensor.requires_grad)
        return self._copies[id(tensor)][1]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

    @contextlib.contextmanager
    def nested(self, tracer):
        """As of ExportMode."""
        with self, self.tracer.recorded_by(tracer):
            yield


class _RealTracer(ExportTracer):
    """Traces with real tensors, and compares each operator's fake result with its real one."""

    def __init__(self, mode, attributes):
        super().__init__(mode, attributes)
        self.failures = []
        self._checked = set()
        self._shadow = export_mode(allow_non_fake_inputs=True)

    def _is_fake(self, tensor):
        return id(tensor) in self._nodes

    def record(self, op, *args, **kwargs):
        """As of ExportTracer."""
        schema = op._schema
        shadows = None if schema.is_mutable else self._fake_result(op, args, kwargs)
        result = super().record(op, *args, **kwargs)
        if shadows is not None:
            self._compare(op, shadows, result)
        return result

    def _report(self, kind, op, **more):
        frame = user_frame(3)
        place = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        if (kind, str(op), place) not in self._checked:
            self._checked.add((kind, str(op), place))
            self.failures.append(FailureReport(kind, {"op": str(op), **more, "location": place}))

    def _fake_result(self, op, args, kwargs):
        """[result] of an operator on fake tensors, or None if it has none."""
        from tessera._subclasses import fake_tensor

        fake = lambda a: self._shadow.from_tensor(a.detach(), static_shapes=True)  # noqa: E731
        args, kwargs = pytree.tree_map_only(tessera.Tensor, fake, (args, kwargs))
        try:
            with self._shadow, tessera.no_grad():
                return [op(*args, **kwargs)]
        except (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException) as error:
            self._report(FailureType.DATA_DEPENDENT_ERROR, op, reason=str(error).partition("\n")[0])
        except (NotImplementedError, RuntimeError) as error:
            self._report(FailureType.MISSING_FAKE_KERNEL, op, reason=str(error).partition("\n")[0])
        return None

    def _compare(self, op, shadows, result):
        pairs = zip(pytree.tree_leaves(shadows[0]), pytree.tree_leaves(result))
        for shadow, real in pairs:
            if isinstance(real, tessera.Tensor) and isinstance(shadow, tessera.Tensor):
                found = [(t.shape, t.stride(), t.dtype, t.device) for t in (shadow, real)]
                if found[0] != found[1]:
                    self._report(FailureType.MISMATCHED_FAKE_KERNEL, op, fake=found[0], real=found[1])


def _without_numbers(program):
    """Replaces the real tensors of a program's notes by fake ones."""
    mode = export_mode(allow_non_fake_inputs=True)
    known = {}

    def fake(value):
        if not isinstance(value, tessera.Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = value, mode.from_tensor(value.detach(), static_shapes=True)
        return known[id(value)][1]

    for node in program.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(fake, node.meta["val"])


def _kind_of(error):
    """What an error of a trace with fake tensors says of the program."""
    from tessera._subclasses import fake_tensor
    from tessera.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    of_data = (
        GuardOnDataDependentSymNode, fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
    )  # fmt: skip
    return FailureType.DATA_DEPENDENT_ERROR if isinstance(error, of_data) else FailureType.MISSING_FAKE_KERNEL


def _relaxed(specs):
    """dynamic_shapes in which what may be fixed says so."""
    is_spec = lambda s: isinstance(s, (_shapes.Dim, _shapes._DimHint))  # noqa: E731
    auto = lambda s: _shapes.Dim.AUTO if is_spec(s) and s != _shapes.Dim.STATIC else s  # noqa: E731
    return pytree.tree_map(auto, specs, is_leaf=is_spec)


def draft(mod, args, kwargs, *, dynamic_shapes, **more):
    """See export.draft_export."""
    from tessera._dynamo.exc import UserError

    if hasattr(dynamic_shapes, "dynamic_shapes"):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    failures, specs = [], dynamic_shapes
    try:
        try:
            program = traced(mod, args, kwargs, dynamic_shapes=specs, **more)
        except UserError as error:
            if error.error_type.name != "CONSTRAINT_VIOLATION":
                raise
            failures.append(FailureReport(FailureType.GUARD_ADDED, {"reason": error.msg}))
            program = traced(mod, args, kwargs, dynamic_shapes=_relaxed(specs), **more)
    except RuntimeError as error:
        if isinstance(error, UserError):
            raise
        run = Export(mod, args, kwargs, make_mode=_RealMode, tracer_class=_RealTracer, **more)
        program = run.run()
        failures += run.tracer.failures or [FailureReport(_kind_of(error), {"reason": str(error)})]
        if specs is not None:
            failures.append(
                FailureReport(FailureType.GUARD_ADDED, {"reason": "all sizes are those of the example inputs"})
            )
        _without_numbers(program)
    program._report = DraftExportReport(failures)
    return program
