"""L-BFGS (Nocedal and Wright, Numerical Optimization, chapters 3 and 7)."""

import tessera

from .optimizer import Optimizer, check_lr

__all__ = ["LBFGS"]


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum of the cubic through two points with values and slopes, within the bounds (eq. 3.59)."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


def _strong_wolfe(evaluate, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step along d that meets the strong Wolfe conditions (algorithms 3.5 and 3.6). Returns (loss, gradient, step,
    evaluations).
    """
    d_norm = d.abs().max()
    g = g.clone()
    f_new, g_new = evaluate(x, t, d)
    evals = 1
    gtd_new = g_new.dot(d)
    # points are (step, loss, gradient, slope); first find two that bracket a good one
    prev = (0, f, g, gtd)
    done = False
    bracket = None
    n = 0
    while n < max_ls:
        new = (t, f_new, g_new.clone(), gtd_new)
        if f_new > f + c1 * t * gtd or (n > 1 and f_new >= prev[1]):
            bracket = [prev, new]
            break
        if abs(gtd_new) <= -c2 * gtd:
            bracket = [new]
            done = True
            break
        if gtd_new >= 0:
            bracket = [prev, new]
            break
        low, high = t + 0.01 * (t - prev[0]), t * 10
        at = _cubic_interpolate(prev[0], prev[1], prev[3], t, f_new, gtd_new, bounds=(low, high))
        prev = new
        t = at
        f_new, g_new = evaluate(x, t, d)
        evals += 1
        gtd_new = g_new.dot(d)
        n += 1
    if n == max_ls:
        bracket = [(0, f, g, gtd), (t, f_new, g_new.clone(), gtd_new)]
    # then shrink the bracket
    stuck = False
    low = 0 if len(bracket) == 1 or bracket[0][1] <= bracket[1][1] else 1
    high = 1 - low
    while not done and n < max_ls:
        if abs(bracket[1][0] - bracket[0][0]) * d_norm < tolerance_change:
            break
        (t0, f0, _, s0), (t1, f1, _, s1) = bracket
        t = _cubic_interpolate(t0, f0, s0, t1, f1, s1)
        # a point too near to an end is moved inwards, once it happens twice
        left, right = min(t0, t1), max(t0, t1)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        f_new, g_new = evaluate(x, t, d)
        evals += 1
        gtd_new = g_new.dot(d)
        n += 1
        new = (t, f_new, g_new.clone(), gtd_new)
        if f_new > f + c1 * t * gtd or f_new >= bracket[low][1]:
            bracket[high] = new
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(gtd_new) <= -c2 * gtd:
                done = True
            elif gtd_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = new
    t, f_new, g_new, _ = bracket[low if len(bracket) > 1 else 0]
    return f_new, g_new, t, evals


class LBFGS(Optimizer):
    """Quasi-Newton steps with the last history_size pairs of differences; line_search_fn None (fixed step lr) or
    'strong_wolfe'.

    step(closure) evaluates the closure several times and returns the first loss. One parameter group only (ValueError).
    """

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        check_lr(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(
            params,
            dict(
                lr=lr,
                max_iter=max_iter,
                max_eval=max_eval,
                tolerance_grad=tolerance_grad,
                tolerance_change=tolerance_change,
                history_size=history_size,
                line_search_fn=line_search_fn,
            ),
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]
        self._numel_cache = None

    def _numel(self):
        if self._numel_cache is None:
            self._numel_cache = sum(2 * p.numel() if p.is_complex() else p.numel() for p in self._params)
        return self._numel_cache

    def _gather_flat_grad(self):
        """All gradients as one vector."""
        views = []
        for p in self._params:
            if p.grad is None:
                view = p.new_zeros(p.numel())
            elif p.grad.is_sparse:
                view = p.grad.to_dense().view(-1)
            else:
                view = p.grad.reshape(-1)
            views.append(tessera.view_as_real(view).reshape(-1) if view.is_complex() else view)
        return tessera.cat(views, 0)

    def _add_grad(self, step_size, direction):
        at = 0
        for p in self._params:
            if p.is_complex():
                p = tessera.view_as_real(p)
            n = p.numel()
            p.add_(direction[at : at + n].view_as(p), alpha=step_size)
            at += n

    def _clone_param(self):
        return [p.clone(memory_format=tessera.contiguous_format) for p in self._params]

    def _set_param(self, values):
        for p, v in zip(self._params, values):
            p.copy_(v)

    def _directional_evaluate(self, closure, x, t, d):
        """Loss and gradient at x + t d; the parameters are put back."""
        self._add_grad(t, d)
        loss = float(closure())
        flat_grad = self._gather_flat_grad()
        self._set_param(x)
        return loss, flat_grad

    @staticmethod
    def _direction(flat_grad, state, history_size):
        """The two-loop recursion (algorithm 7.4); the newest pair of differences is added to the history first."""
        dirs, stps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y = flat_grad.sub(state["prev_flat_grad"])
        s = state["d"].mul(state["t"])
        ys = y.dot(s)
        if ys > 1e-10:
            if len(dirs) == history_size:
                dirs.pop(0)
                stps.pop(0)
                ro.pop(0)
            dirs.append(y)
            stps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)
        n = len(dirs)
        al = state.setdefault("al", [None] * history_size)
        q = flat_grad.neg()
        for i in range(n - 1, -1, -1):
            al[i] = stps[i].dot(q) * ro[i]
            q.add_(dirs[i], alpha=-al[i])
        r = q.mul(state["H_diag"])
        for i in range(n):
            r.add_(stps[i], alpha=al[i] - dirs[i].dot(r) * ro[i])
        return r

    @tessera.no_grad()
    def step(self, closure):
        """Does up to max_iter iterations. closure: computes the loss and its gradients and returns the loss."""
        grad_closure = tessera.enable_grad()(closure)
        group = self.param_groups[0]
        lr = float(group["lr"])
        tolerance_change = group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        orig_loss = grad_closure()
        loss = float(orig_loss)
        evals = 1
        state["func_evals"] += 1
        flat_grad = self._gather_flat_grad()
        if flat_grad.abs().max() <= group["tolerance_grad"]:
            return orig_loss
        n_iter = 0
        while n_iter < group["max_iter"]:
            n_iter += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d = flat_grad.neg()
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                d = self._direction(flat_grad, state, group["history_size"])
            state["d"] = d
            if state.get("prev_flat_grad") is None:
                state["prev_flat_grad"] = flat_grad.clone(memory_format=tessera.contiguous_format)
            else:
                state["prev_flat_grad"].copy_(flat_grad)
            state["prev_loss"] = prev_loss = loss
            t = min(1.0, 1.0 / flat_grad.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            gtd = flat_grad.dot(d)
            state["t"] = t
            if gtd > -tolerance_change:
                break
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                x = self._clone_param()
                loss, flat_grad, t, ls_evals = _strong_wolfe(
                    lambda x, t, d: self._directional_evaluate(grad_closure, x, t, d), x, t, d, loss, flat_grad, gtd
                )
                self._add_grad(t, d)
                state["t"] = t
            else:
                self._add_grad(t, d)
                ls_evals = 0
                if n_iter != group["max_iter"]:
                    loss = float(grad_closure())
                    flat_grad = self._gather_flat_grad()
                    ls_evals = 1
            evals += ls_evals
            state["func_evals"] += ls_evals
            if (
                evals >= group["max_eval"]
                or flat_grad.abs().max() <= group["tolerance_grad"]
                or d.mul(t).abs().max() <= tolerance_change
                or abs(loss - prev_loss) < tolerance_change
            ):
                break
        return orig_loss
