"""Running passes one after the other."""

import inspect

from tessera.fx.graph_module import GraphModule
from tessera.fx.passes.infra.pass_base import PassResult

__all__ = ["pass_result_wrapper", "this_before_that_pass_constraint", "PassManager"]


def pass_result_wrapper(fn):
    """A pass of a function that changes a GraphModule and may return None: it returns PassResult(module, True)."""
    if fn is None:
        return None

    def run(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return result if isinstance(result, PassResult) else PassResult(result, True)

    run.__name__ = fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
    return run


def this_before_that_pass_constraint(this, that):
    """A constraint for PassManager: `this` must not come after `that`."""
    return lambda a, b: not (a == that and b == this)


def _sorted_by(constraints, passes):
    """The passes in an order that all constraints allow, as near to the given one as can be."""
    left, done = list(passes), []
    while left:
        ready = next(
            (p for p in left if all(c(p, other) for c in constraints for other in left if other is not p)), None
        )
        if ready is None:
            raise RuntimeError("Circular dependency detected within the following passes: " + str(left))
        left.remove(ready)
        done.append(ready)
    return done


class PassManager:
    """Runs passes on a GraphModule.

    Args:
        passes: functions of a GraphModule to PassResult (or to a module or None, by pass_result_wrapper).
        constraints: functions (pass, later pass) -> bool that say which order is allowed.
        steps: how often all passes run, at most: it ends when none changes anything.
        run_checks_after_each_pass: call check() after each, else at the end.
        suppress_check_failures: check() fails silently.
    """

    def __init__(
        self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False, suppress_check_failures=False
    ):
        self.passes = list(passes or ())
        self.constraints = list(constraints or ())
        self.steps = 1 if steps is None else steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass):
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check):
        """Replaces check(). Errors: TypeError unless it takes a module alone."""
        parameters = list(inspect.signature(check).parameters)
        if len(parameters) != 1:
            raise TypeError(f"PassManager check function should only take in one variable, a module; got {parameters}")
        self.check = check

    def check(self, module):
        """What must hold of the module after passes; raises if it does not."""

    def validate_constraints(self):
        """Errors: RuntimeError if the passes' order breaks a constraint."""
        if self._validated:
            return
        for i, first in enumerate(self.passes):
            for later in self.passes[i + 1 :]:
                if not all(constraint(first, later) for constraint in self.constraints):
                    raise RuntimeError(
                        f"pass schedule constraint violated. Expected {later} before {first} but found {first} at "
                        f"index {i} in pass list"
                    )
        self._validated = True

    def solve_constraints(self):
        """Puts the passes in an order that the constraints allow."""
        self.passes = _sorted_by(self.constraints, self.passes)
        self._validated = True

    def __call__(self, module):
        """Runs the passes; returns PassResult."""
        if not self._validated:
            self.solve_constraints()
        self._check(module)
        changed_at_all = False
        for _ in range(self.steps):
            changed = False
            for fn in self.passes:
                try:
                    result = fn(module)
                except Exception as error:
                    name = getattr(fn, "__name__", type(fn).__name__)
                    raise RuntimeError(f"An error occurred when running the {name!r} pass") from error
                if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                    raise TypeError(
                        f"The result of the pass {fn} should be type PassResult. Please wrap it with "
                        "pass_result_wrapper()"
                    )
                module, changed = result.graph_module, changed or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self._check(module)
            changed_at_all |= changed
            if not changed:
                break
        self._check(module)
        return PassResult(module, changed_at_all)

    def _check(self, module):
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise
