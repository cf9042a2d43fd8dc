"""Some eigenvalues and eigenvectors of large symmetric matrices, by products with the matrix alone.

The method is A. Knyazev's locally optimal block preconditioned conjugate gradient, with the bases of J. Duersch, M.
Shao, C. Yang and M. Gu, "A robust and efficient implementation of LOBPCG" (2018), for method="ortho".
"""

import tessera
from tessera._C import _handle_torch_function, _has_torch_function

# Parameters of method="ortho" with their defaults; None: by the dtype.
_ORTHO = {
    "iparams": {"ortho_i_max": 3, "ortho_j_max": 3},
    "fparams": {"ortho_tau_ortho": None, "ortho_tau_drop": None, "ortho_tau_replace": None},
    "bparams": {"ortho_use_drop": False},
}


def lobpcg(
    A,
    k=None,
    B=None,
    X=None,
    n=None,
    iK=None,
    niter=None,
    tol=None,
    largest=None,
    method=None,
    tracker=None,
    ortho_iparams=None,
    ortho_fparams=None,
    ortho_bparams=None,
):
    """The `k` largest or smallest eigenvalues of symmetric (hermitian) matrices, with their eigenvectors.

    Solves A x = lambda B x. Derivatives with respect to A and B are those of simple eigenvalues.

    Args:
        A: symmetric matrices, shape (..., m, m), float32 or float64 (or complex). A single one may be sparse.
        k: how many; default 1, or as many as `X` has columns.
        B: symmetric positive definite, of A's shape; default: the identity.
        X: where to start: shape (..., m, n), n >= k. Default: random numbers of the global generator.
        n: the number of vectors that are worked on where `X` is not given; default `k`.
        iK: the preconditioner, shape (..., m, m): about the inverse of A. Default: none.
        niter: the largest number of steps; default, and -1: until all have converged, but at most 1000.
        tol: the residual |A x - lambda B x| at which a pair has converged, as a part of (|A| + |lambda| |B|) |x|.
            Default: the root of the dtype's eps.
        largest: the largest eigenvalues; False: the smallest. Default True.
        method: "ortho" (default): orthonormal bases, robust; "basic": Gram matrices, faster steps.
        tracker: called after each step with the solver, whose attributes show the state: `iparams`, `fparams`,
            `bparams` (what was asked for), `ivars` ("istep", "converged_count", ...), `fvars`, `bvars`, `tvars`
            ("rerr"), the tensors `A`, `B`, `iK`, `E`, `X`, `S`, `R`. Tensors change with the next step: keep copies.
            bvars["force_stop"] = True ends the iteration.
        ortho_iparams, ortho_fparams, ortho_bparams: parameters of method="ortho": how often a basis is made orthogonal
            ("ortho_i_max", "ortho_j_max"), what counts as orthogonal ("ortho_tau_ortho"), what as dependent
            ("ortho_tau_drop", "ortho_tau_replace"), and whether dependent vectors are dropped rather than replaced by
            random ones ("ortho_use_drop").

    Returns: a tuple (E, X) of shapes (..., k) and (..., m, k), largest (smallest) first; X^H B X is the identity.
    Raises: ValueError for matrices with fewer than 3 n rows, k > n, or unknown methods and parameters; RuntimeError for
        shapes and dtypes that do not fit.
    """
    tensors = (A, B, X, iK)
    if _has_torch_function(tensors):
        return _handle_torch_function(
            lobpcg,
            tensors,
            A,
            k=k,
            B=B,
            X=X,
            n=n,
            iK=iK,
            niter=niter,
            tol=tol,
            largest=largest,
            method=method,
            tracker=tracker,
            ortho_iparams=ortho_iparams,
            ortho_fparams=ortho_fparams,
            ortho_bparams=ortho_bparams,
        )
    k, n = _counts(A, k, n, X)
    _check(A, B, X, iK, k, n)
    method = "ortho" if method is None else method
    if method not in ("ortho", "basic"):
        raise ValueError(f"lobpcg(): expected the method 'ortho' or 'basic', but got {method!r}")
    ortho = _ortho_parameters(ortho_iparams, ortho_fparams, ortho_bparams)
    eps = tessera.finfo(A.dtype).eps
    options = {
        "iparams": {"m": A.shape[-1], "n": n, "k": k, "niter": 1000 if niter is None or niter < 0 else niter},
        "fparams": {"tol": eps**0.5 if tol is None else tol},
        "bparams": {"largest": True if largest is None else largest},
    }
    for kind in options:
        options[kind].update(ortho[kind] if method == "ortho" else {})

    def solve(A, B):
        return _solve_all(A, B, X, iK, n, method, tracker, options)

    if tessera.is_grad_enabled() and (A.requires_grad or B is not None and B.requires_grad):
        return _Eigenpairs.apply(A, B, solve)
    with tessera.no_grad():
        return solve(A, B)


def _counts(A, k, n, X):
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"lobpcg(): expected square matrices, but got a tensor of the shape {tuple(A.shape)}")
    columns = None if X is None else X.shape[-1]
    k = (1 if columns is None else columns) if k is None else k
    return k, (k if n is None else n) if columns is None else columns


def _check(A, B, X, iK, k, n):
    m = A.shape[-1]
    if not (A.is_floating_point() or A.is_complex()) or A.dtype in (tessera.float16, tessera.bfloat16):
        raise RuntimeError(f"lobpcg(): expected float32, float64, complex64 or complex128, but got {A.dtype}")
    for name, tensor, columns in (("B", B, m), ("X", X, n), ("iK", iK, m)):
        if tensor is None:
            continue
        if tensor.shape != (*A.shape[:-1], columns) or tensor.dtype != A.dtype:
            raise RuntimeError(
                f"lobpcg(): expected {name} of the shape {(*A.shape[:-1], columns)} and {A.dtype}, but got "
                f"{tuple(tensor.shape)} and {tensor.dtype}"
            )
    if not 0 <= k <= n:
        raise ValueError(f"lobpcg(): expected 0 <= k <= n, but got k={k} and n={n}")
    if m < 3 * n:
        raise ValueError(
            f"lobpcg(): LOBPCG is not applicable where the number of rows (={m}) is smaller than 3 times the number of "
            f"vectors (={n}); use linalg.eigh"
        )


def _ortho_parameters(*given):
    found = {}
    for (kind, defaults), values in zip(_ORTHO.items(), given):
        found[kind] = dict(defaults)
        for name, value in (values or {}).items():
            full = name if name.startswith("ortho_") else "ortho_" + name
            if full not in defaults:
                raise ValueError(f"lobpcg(): ortho_{kind} may have {sorted(defaults)}, but got {name!r}")
            found[kind][full] = value
    return found


def _solve_all(A, B, X, iK, n, method, tracker, options):
    """Each matrix of the batch by itself."""
    m, k = A.shape[-1], options["iparams"]["k"]
    flat = [t if t is None else [t] if t.dim() == 2 else t.flatten(0, -3) for t in (A, B, X, iK)]
    count = len(flat[0])
    values = tessera.empty(count, k, dtype=A.real.dtype if A.is_complex() else A.dtype, device=A.device)
    vectors = tessera.empty(count, m, k, dtype=A.dtype, device=A.device)
    for i in range(count):
        a, b, x, preconditioner = (None if t is None else t[i] for t in flat)
        if x is None:
            x = tessera.randn(m, n, dtype=A.dtype, device=A.device)
        solver = _Solver(a, b, x, preconditioner, method, tracker, {key: dict(v) for key, v in options.items()})
        solver.ivars["batch_index"] = i
        solver.run()
        values[i], vectors[i] = solver.E[:k], solver.X[:, :k]
    return values.reshape(*A.shape[:-2], k), vectors.reshape(*A.shape[:-1], k)


def _size(matrix):
    """The Frobenius norm."""
    if matrix.layout != tessera.strided:
        matrix = (matrix.coalesce() if matrix.is_sparse else matrix).values()
    return float(tessera.linalg.vector_norm(matrix))


class _Solver:
    """The iteration for one matrix; what `tracker` sees."""

    def __init__(self, A, B, X, iK, method, tracker, options):
        self.A, self.B, self.iK, self.X = A, B, iK, X
        self.method, self.tracker = method, tracker
        self.iparams, self.fparams, self.bparams = options["iparams"], options["fparams"], options["bparams"]
        self.ivars = {"istep": 0, "converged_count": 0, "iterations_left": self.iparams["niter"]}
        self.fvars = {"A_norm": _size(A), "B_norm": 1.0}
        if B is not None:
            self.fvars["B_norm"] = _size(B) / B.shape[-1] ** 0.5
        self.fvars["A_norm"] /= max(A.shape[-1], 1) ** 0.5
        self.bvars = {"force_stop": False}
        self.tvars = {}
        self.E = self.R = self.S = None
        eps = tessera.finfo(A.dtype).eps
        for name, default in (("tau_ortho", 10 * eps), ("tau_drop", eps), ("tau_replace", eps)):
            if self.fparams.get("ortho_" + name, 0) is None:
                self.fparams["ortho_" + name] = default

    def run(self):
        # Knyazev's three blocks: the approximations X, the residuals W, the last directions P.
        self.X, self.E = self._ritz(self._basis(self.X, None), self.X.shape[1])[:2]
        directions = self.X[:, :0]
        self._measure()
        while not self._done():
            active = self._active()
            W = self.R[:, active]
            if self.iK is not None:
                W = self.iK @ W
            self.S = tessera.cat([self.X, self._basis(tessera.cat([W, directions], 1), self.X)], 1)
            count = self.X.shape[1]
            X, self.E, Z = self._ritz(self.S, count)
            # What the step added to X: the direction of the next one.
            directions = (self.S[:, count:] @ Z[count:])[:, active]
            self.X = X
            self.ivars["istep"] += 1
            self.ivars["iterations_left"] -= 1
            self._measure()

    def _measure(self):
        BX = self._of_B(self.X)
        self.R = self.A @ self.X - BX * self.E
        size = tessera.linalg.vector_norm(self.X, dim=0) * (self.fvars["A_norm"] + self.E.abs() * self.fvars["B_norm"])
        error = tessera.linalg.vector_norm(self.R, dim=0)
        self.tvars["rerr"] = tessera.where(size > 0, error / size, error)
        small = self.tvars["rerr"] < self.fparams["tol"]
        self.ivars["converged_count"] = int(small.int().cumprod(0).sum())
        if self.tracker is not None:
            self.tracker(self)

    def _done(self):
        return (
            self.bvars["force_stop"]
            or self.ivars["converged_count"] >= self.iparams["k"]
            or self.ivars["iterations_left"] <= 0
            or not bool(self.R.isfinite().all())
        )

    def _active(self):
        """The vectors that have not converged."""
        active = (self.tvars["rerr"] >= self.fparams["tol"]).nonzero().flatten()
        return active if active.numel() else tessera.arange(self.X.shape[1], device=self.X.device)

    def _of_B(self, U):
        return U if self.B is None else self.B @ U

    def _ritz(self, S, count):
        """(vectors, values, coordinates) of the best approximations in the span of S."""
        gram, reduced = S.mH @ self._of_B(S), S.mH @ (self.A @ S)
        # Columns of the size 1 first: what is left in `gram` is their dependence.
        scale = gram.diagonal().real.clamp_min(tessera.finfo(S.dtype).tiny).rsqrt() if S.numel() else gram.diagonal()
        whiten = _whitening(gram * scale.unsqueeze(1) * scale, tessera.finfo(S.dtype).eps) * scale.unsqueeze(1)
        reduced = whiten.mH @ reduced @ whiten
        values, coordinates = tessera.linalg.eigh((reduced + reduced.mH) / 2)
        if self.bparams["largest"]:
            values, coordinates = values.flip(0), coordinates.flip(1)
        Z = whiten @ coordinates[:, :count]
        return S @ Z, values[:count], Z

    def _basis(self, U, V):
        """U with columns of the size 1; method "ortho": orthonormal, and orthogonal to V (which is orthonormal)."""
        U = _normal(U)
        if self.method == "basic":
            return U
        p = {
            name.removeprefix("ortho_"): v
            for part in (self.iparams, self.fparams, self.bparams)
            for name, v in part.items()
        }
        BV = None if V is None else self._of_B(V)
        for _ in range(p["i_max"]):
            for _ in range(p["j_max"]):
                if BV is not None:
                    U = _normal(U - V @ (BV.mH @ U))
                U = self._orthonormal(U, p)
                gram = U.mH @ self._of_B(U)
                identity = tessera.eye(U.shape[1], dtype=U.dtype, device=U.device)
                if U.numel() == 0 or float((gram - identity).abs().max()) <= p["tau_ortho"] * U.shape[0] ** 0.5:
                    break
            if BV is None or U.numel() == 0 or float((BV.mH @ U).abs().max()) <= p["tau_ortho"] * U.shape[0] ** 0.5:
                break
        return U

    def _orthonormal(self, U, p):
        """A basis of the span of U by the eigenvectors of its Gram matrix; what is dependent is dropped or replaced."""
        gram = U.mH @ self._of_B(U)
        values, vectors = tessera.linalg.eigh((gram + gram.mH) / 2)
        limit = (p["tau_drop"] if p["use_drop"] else p["tau_replace"]) * float(values.max() if values.numel() else 0)
        kept = values > max(limit, tessera.finfo(values.dtype).tiny)
        basis = (U @ vectors[:, kept]) * values[kept].rsqrt()
        missing = U.shape[1] - basis.shape[1]
        if p["use_drop"] or not missing:
            return basis
        fresh = tessera.randn(U.shape[0], missing, dtype=U.dtype, device=U.device)
        return tessera.cat([basis, _normal(fresh - basis @ (self._of_B(basis).mH @ fresh))], 1)


def _normal(U):
    """Columns of the size 1; those of zeros stay."""
    size = tessera.linalg.vector_norm(U, dim=0)
    return U / tessera.where(size > 0, size, tessera.ones_like(size))


def _whitening(gram, eps):
    """T with T^H gram T = 1, over the directions in which gram is not singular."""
    values, vectors = tessera.linalg.eigh((gram + gram.mH) / 2)
    kept = values > eps * gram.shape[0] * float(values.max() if values.numel() else 0)
    return vectors[:, kept] * values[kept].rsqrt()


class _Eigenpairs(tessera.autograd.Function):
    """Derivatives of what `solve(A, B)` finds, from the pairs alone.

    With x^H B x = 1 and K the inverse of lambda B - A on what is orthogonal to B x,
    dlambda = x^H (dA - lambda dB) x and dx = K (dA - lambda dB) x - x (x^H dB x) / 2.
    """

    @staticmethod
    def forward(ctx, A, B, solve):
        E, X = solve(A, B)
        ctx.save_for_backward(A, B, E, X)
        return E, X

    @staticmethod
    def backward(ctx, grad_E, grad_X):
        A, B, E, X = ctx.saved_tensors
        BX = X if B is None else B @ X
        vectors, gradients = X.mT.unsqueeze(-1), grad_X.mT.unsqueeze(-1)  # (..., k, m, 1)
        images = BX.mT.unsqueeze(-1)
        values = E.unsqueeze(-1).unsqueeze(-1)
        along = vectors.mH @ gradients
        metric = tessera.eye(A.shape[-1], dtype=A.dtype, device=A.device) if B is None else B.unsqueeze(-3)
        shifted = values * metric - A.unsqueeze(-3) + images @ images.mH
        turned = tessera.linalg.solve(shifted, gradients - images @ along)  # K times the gradient
        outer = (grad_E.unsqueeze(-1).unsqueeze(-1) * vectors + turned) @ vectors.mH
        grad_A, grad_B = outer.sum(-3), None
        grad_A = (grad_A + grad_A.mH) / 2
        if B is not None and ctx.needs_input_grad[1]:
            grad_B = -(values * outer + along / 2 * (vectors @ vectors.mH)).sum(-3)
            grad_B = (grad_B + grad_B.mH) / 2
        return grad_A, grad_B, None
