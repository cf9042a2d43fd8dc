"""L-BFGS (Nocedal and Wright, Numerical Optimization, chapters 3 and 7). Directions and line searches are those of
optim/lbfgs.
"""

import tessera
from tessera._C import _lbfgs

from .optimizer import Optimizer, as_real, constructor

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Quasi-Newton steps with the last history_size pairs of differences; line_search_fn None (fixed step lr) or
    'strong_wolfe'.

    step(closure) evaluates the closure several times, at most max_eval + 1 (default of max_eval: 1.25 max_iter), and
    returns the first loss. One parameter group only (ValueError).
    """

    _steps_are_tensors = False

    __init__ = constructor(
        dict(
            lr=1,
            max_iter=20,
            max_eval=None,
            tolerance_grad=1e-7,
            tolerance_change=1e-9,
            history_size=100,
            line_search_fn=None,
        )
    )

    def _begin(self):
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        for options in (self.defaults, self.param_groups[0]):
            if options["max_eval"] is None:
                options["max_eval"] = options["max_iter"] * 5 // 4

    @property
    def _params(self):
        return self.param_groups[0]["params"]

    def _gradient(self):
        """All gradients as one vector."""
        grads = [tessera.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return tessera.cat([g.reshape(-1) for g in as_real(*(g.to_dense() if g.is_sparse else g for g in grads))])

    def _move(self, direction, distance):
        """parameters += distance direction"""
        views = as_real(*self._params)
        for view, part in zip(views, direction.split([view.numel() for view in views])):
            view.add_(part.view_as(view), alpha=distance)

    def _direction(self, state, gradient):
        """Where to go from here; the way that was last gone joins the history."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return gradient.neg()
        history = state["old_dirs"], state["old_stps"], state["ro"]
        change, way = gradient.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(way)
        if curvature > 1e-10:  # else the Hessian that the history stands for would not be positive
            for values, newest in zip(history, (change, way, 1.0 / curvature)):
                values.append(newest)
                del values[: max(0, len(values) - self.param_groups[0]["history_size"])]
            state["H_diag"] = curvature / change.dot(change)
        direction, state["al"] = _lbfgs.direction(gradient, *history, state["H_diag"])
        return direction

    def _search(self, evaluate, state, loss, gradient, slope, most_trials):
        """Loss and gradient after the way that a line search chose, which is gone."""
        here = [p.clone(memory_format=tessera.contiguous_format) for p in self._params]

        def at(distance):
            self._move(state["d"], distance)
            value, there = evaluate()
            for p, value_here in zip(self._params, here):
                p.copy_(value_here)
            return float(value), there

        start = state["d"], state["t"], loss, gradient, slope
        loss, gradient, state["t"], _ = _lbfgs.strong_wolfe(at, *start, most_trials)
        self._move(state["d"], state["t"])
        return loss, gradient

    @tessera.no_grad()
    def step(self, closure):
        """Does up to max_iter iterations. closure: computes the loss and its gradients and returns the loss.

        Raises: RuntimeError for another line_search_fn.
        """
        options = self.param_groups[0]
        state = self.state[self._params[0]]
        for count in ("func_evals", "n_iter"):
            state.setdefault(count, 0)
        evaluated_before = state["func_evals"]

        def evaluate():
            state["func_evals"] += 1
            with tessera.enable_grad():
                loss = closure()
            return loss, self._gradient()

        first_loss, gradient = evaluate()
        loss = float(first_loss)
        for left in reversed(range(options["max_iter"])):
            if gradient.abs().max() <= options["tolerance_grad"]:
                break
            state["n_iter"] += 1
            direction = self._direction(state, gradient)
            slope = gradient.dot(direction)
            rate = float(options["lr"])
            if state["n_iter"] == 1:
                rate *= min(1.0, 1.0 / gradient.abs().sum().item())
            loss_before = loss
            state.update(d=direction, t=rate, prev_flat_grad=gradient, prev_loss=loss)
            if slope > -options["tolerance_change"]:
                break
            if options["line_search_fn"] == "strong_wolfe":
                most_trials = min(25, options["max_eval"] - (state["func_evals"] - evaluated_before))
                loss, gradient = self._search(evaluate, state, loss, gradient, slope, most_trials)
            elif options["line_search_fn"] is not None:
                raise RuntimeError("only 'strong_wolfe' is supported")
            else:
                self._move(direction, rate)
                if left:
                    loss, gradient = evaluate()
                    loss = float(loss)
            if (
                state["func_evals"] - evaluated_before >= options["max_eval"]
                or direction.mul(state["t"]).abs().max() <= options["tolerance_change"]
                or abs(loss - loss_before) < options["tolerance_change"]
            ):
                break
        return first_loss
