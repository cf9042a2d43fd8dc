"""Factorizations and solutions of matrices that break naive code: LAPACK's residual ratios stay below 30, and are no
worse than twice those of SciPy, or below 3: there both are at the level of rounding.
"""

import warnings

import numpy as np
import pytest
import scipy.linalg as sl
import tessera
from hard_matrices import (
    KINDS,
    clustered_hermitian,
    frank,
    geometric,
    graded_rows,
    grcar,
    identity,
    jordan_turned,
    kahan,
    matrix,
    nilpotent,
    positive,
    random,
    shift,
    symmetric,
    wilkinson,
)
from residuals import eigenpairs, eps, inverse, least_squares, norm, orthonormal, product, ratio, solution, wide

L = tessera.linalg
DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (1, 2, 7, 33)
LARGE, IN_BLOCKS = 130, (random, geometric, graded_rows, clustered_hermitian, wilkinson)
LARGEST, LEVEL = 30, 3


def array(t):
    return t.resolve_conj().numpy()


def arrays(*tensors):
    return [array(t) for t in tensors]


def right_sides(a, columns=3):
    rng = np.random.default_rng(5)
    b = rng.standard_normal((len(a), columns))
    return (b + 1j * b[:, ::-1] if np.iscomplexobj(a) else b).astype(a.dtype)


class Singular(Exception):
    """The matrix has no such factorization: nothing to measure."""


# ---- what is measured: the matrix of a kind, ours and SciPy's results, and the ratios of either


def plain(a):
    return a


def tall(a):
    return a[:, : max(1, 2 * len(a) // 3)].copy()


def broad(a):
    return tall(a).T.copy()


class Case:
    of = staticmethod(plain)

    def ours(self, a):
        return arrays(*self.tensors(tessera.from_numpy(a)))

    def may_fail(self, a):
        """Exactly singular, for methods that say so."""
        return False


class LU(Case):
    def tensors(self, a):
        return L.lu(a)

    def theirs(self, a):
        return sl.lu(a)

    def ratios(self, a, P, lower, U):
        assert np.abs(lower).max() <= (1.5 if np.iscomplexobj(a) else 1)  # rows were exchanged
        return {"A - P L U": product(a, P, lower, U)}


class Cholesky(Case):
    of = staticmethod(positive)

    def tensors(self, a):
        return [L.cholesky(a)]

    def theirs(self, a):
        return [sl.cholesky(a, lower=True)]

    def ratios(self, a, lower):
        assert not np.triu(lower, 1).any()
        return {"A - L L^H": product(a, lower, lower.conj().T)}


class QR(Case):
    def tensors(self, a):
        return L.qr(a)

    def theirs(self, a):
        return sl.qr(a, mode="economic")

    def ratios(self, a, Q, R):
        assert not np.tril(R, -1).any()
        return {"A - Q R": product(a, Q, R), "Q^H Q": orthonormal(Q, a.dtype)}


class TallQR(QR):
    of = staticmethod(tall)


class BroadQR(QR):
    of = staticmethod(broad)


class Reflections(QR):
    of = staticmethod(tall)

    def tensors(self, a):
        factor, scales = tessera.geqrf(a)
        return L.householder_product(factor, scales), factor[: a.shape[1]].triu()


class Eigh(Case):
    of = staticmethod(symmetric)

    def tensors(self, a):
        return L.eigh(a)

    def theirs(self, a):
        return sl.eigh(a)

    def ratios(self, a, values, vectors):
        assert (np.diff(values) >= 0).all()
        alone = array(L.eigvalsh(tessera.from_numpy(a)))
        return {
            "A V - V W": eigenpairs(a, values, vectors),
            "V^H V": orthonormal(vectors, a.dtype),
            "eigvalsh": ratio(wide(values - alone)[:, None], norm(wide(a)), len(a), a.dtype),
        }


class SVD(Case):
    def tensors(self, a):
        return L.svd(a, full_matrices=False)

    def theirs(self, a):
        return sl.svd(a, full_matrices=False)

    def ratios(self, a, U, S, Vh):
        assert (np.diff(S) <= 0).all() and (S >= 0).all()
        alone = array(L.svdvals(tessera.from_numpy(a)))
        return {
            "A - U S V^H": product(a, wide(U) * wide(S), Vh),
            "U^H U": orthonormal(U, a.dtype),
            "V^H V": orthonormal(Vh.conj().T, a.dtype),
            "svdvals": ratio(wide(S - alone)[:, None], norm(wide(a)), max(a.shape), a.dtype),
        }


class TallSVD(SVD):
    of = staticmethod(tall)


class BroadSVD(SVD):
    of = staticmethod(broad)


class Eig(Case):
    def tensors(self, a):
        return L.eig(a)

    def theirs(self, a):
        return sl.eig(a)

    def ratios(self, a, values, vectors):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1, rtol=100 * float(eps(a.dtype)) * len(a))
        return {"A V - V W": eigenpairs(a, values, vectors)}


def is_singular(a):
    """Elimination meets an exact 0: SciPy's."""
    return (np.diag(sl.lu_factor(a)[0]) == 0).any()


class Solve(Case):
    def may_fail(self, a):
        return is_singular(a)

    def tensors(self, a):
        return [L.solve(a, tessera.from_numpy(right_sides(a.numpy())))]

    def theirs(self, a):
        return [sl.lu_solve(sl.lu_factor(a), right_sides(a))]

    def ratios(self, a, X):
        return {"A X - B": solution(a, X, right_sides(a))}


class SolveRight(Solve):
    def tensors(self, a):
        return [L.solve(a.mT, tessera.from_numpy(right_sides(a.numpy())).mT, left=False).mT]


class Inverse(Solve):
    def tensors(self, a):
        return [L.inv(a)]

    def theirs(self, a):
        return [sl.inv(a)]

    def ratios(self, a, X):
        return {"A X - 1": inverse(a, X)}


class SolveLDL(Solve):
    of = staticmethod(symmetric)

    def tensors(self, a):
        factors, pivots = L.ldl_factor(a, hermitian=a.is_complex())
        return [L.ldl_solve(factors, pivots, tessera.from_numpy(right_sides(a.numpy())), hermitian=a.is_complex())]


class SolveCholesky(Solve):
    of = staticmethod(positive)

    def may_fail(self, a):
        return False

    def tensors(self, a):
        return [tessera.cholesky_solve(tessera.from_numpy(right_sides(a.numpy())), L.cholesky(a))]

    def theirs(self, a):
        return [sl.cho_solve(sl.cho_factor(a), right_sides(a))]


class SolveTriangular(Solve):
    of = staticmethod(np.tril)

    def may_fail(self, a):
        return (np.diag(a) == 0).any()

    def tensors(self, a):
        return [L.solve_triangular(a, tessera.from_numpy(right_sides(a.numpy())), upper=False)]

    def theirs(self, a):
        return [sl.solve_triangular(a, right_sides(a), lower=True)]


class LeastSquares(Case):
    of = staticmethod(tall)
    driver = "gelsy"

    def may_fail(self, a):
        """Of full rank to more than rounding."""
        values = sl.svdvals(a)
        return values[-1] <= 100 * len(a) * np.finfo(a.dtype).eps * values[0]

    def tensors(self, a):
        return [L.lstsq(a, tessera.from_numpy(right_sides(a.numpy())), driver=self.driver).solution]

    def theirs(self, a):
        return [sl.lstsq(a, right_sides(a), lapack_driver="gelsy" if self.driver == "gels" else self.driver)[0]]

    def ratios(self, a, X):
        return {"A^H (B - A X)": least_squares(a, X, right_sides(a))}


class LeastSquaresByQR(LeastSquares):
    driver = "gels"


class LeastSquaresBySVD(LeastSquares):
    driver = "gelsd"


class LeastSquaresByOldSVD(LeastSquares):
    driver = "gelss"


class PseudoInverse(Case):
    def tensors(self, a):
        return [L.pinv(a)]

    def theirs(self, a):
        return [np.linalg.pinv(a, rcond=max(a.shape) * np.finfo(a.dtype).eps)]

    def ratios(self, a, P):
        aw, p = wide(a), wide(P)
        size = norm(p)
        return {"P A P - P": ratio(p @ aw @ p - p, norm(aw) * size * size + size, len(a), a.dtype)}


CASES = [
    LU,
    Cholesky,
    QR,
    TallQR,
    BroadQR,
    Reflections,
    Eigh,
    SVD,
    TallSVD,
    BroadSVD,
    Eig,
    Solve,
    SolveRight,
    Inverse,
    SolveLDL,
    SolveCholesky,
    SolveTriangular,
    LeastSquares,
    LeastSquaresByQR,
    LeastSquaresBySVD,
    LeastSquaresByOldSVD,
    PseudoInverse,
]
# What cannot be measured: results beyond the dtype's range.
OVERFLOWS = {
    "denormal": {"Solve", "SolveRight", "Inverse", "SolveLDL", "SolveCholesky", "SolveTriangular", "PseudoInverse"}
    | {c.__name__ for c in CASES if issubclass(c, LeastSquares)},
    "mixed_scales": {"Solve", "SolveRight", "Inverse", "SolveLDL", "SolveTriangular", "PseudoInverse"},
}


# The vectors of a matrix whose rows and columns differ by 1e30 depend on how it was balanced, SciPy's as well: there is
# no scale on which both are small.
BALANCED = {("Eig", "mixed_scales")}


def measured(case, kind, n, dtype):
    """(our ratios, SciPy's), or None where there is nothing to measure."""
    a = case.of(matrix(kind, n, dtype))
    name = type(case).__name__
    if name in OVERFLOWS.get(kind.__name__, ()) or (name, kind.__name__) in BALANCED:
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if case.may_fail(a):
            return None
        theirs = case.theirs(a)
        if not all(np.isfinite(x).all() for x in theirs):  # a result beyond the dtype's range
            return None
        return case.ratios(a, *case.ours(a)), case.ratios(a, *theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_residuals(case, dtype):
    bad, count = [], 0
    for kind in KINDS:
        for n in SIZES + ((LARGE,) if kind in IN_BLOCKS else ()):
            found = measured(case(), kind, n, dtype)
            if found is None:
                continue
            count += 1
            for name, got in found[0].items():
                theirs = found[1][name]
                if not got < LARGEST or not got <= max(2 * theirs, LEVEL):
                    bad.append(f"{kind.__name__} {n}: {name} {got:.3g}, SciPy's {theirs:.3g}")
    assert count >= 50
    assert not bad, "\n".join(bad)


# ---- the exponential


def exponential(a):
    """In long double: a series of a / 2^s."""
    a = wide(a)
    squarings = max(0, int(np.ceil(np.log2(float(norm(a)) + 1e-300))) + 2)
    term = total = np.eye(len(a), dtype=a.dtype)
    for k in range(1, 40):
        term = term @ (a / np.longdouble(2) ** squarings) / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-3, 0.3, 2.0, 20.0])
def test_exponentials(size, dtype):
    bad = []
    for kind in (
        random,
        identity,
        graded_rows,
        clustered_hermitian,
        jordan_turned,
        nilpotent,
        kahan,
        frank,
        grcar,
        shift,
    ):
        for n in (3, 7, 33):
            a = matrix(kind, n, dtype)
            a = (a * (size / norm(wide(a)))).astype(dtype)
            wanted = exponential(a)
            scale = norm(wanted) * (1 + size)
            got, theirs = (
                ratio(wide(x) - wanted, scale, n, dtype)
                for x in (array(L.matrix_exp(tessera.from_numpy(a))), sl.expm(a))
            )
            if not got < LARGEST or not got <= max(2 * theirs, LEVEL):
                bad.append(f"{kind.__name__} {n}: {got:.3g}, SciPy's {theirs:.3g}")
    assert not bad, "\n".join(bad)
