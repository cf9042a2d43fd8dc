"""Arguments of the operators of linear algebra: matrices that have the decomposition that is asked for, apart enough
from those that do not for finite differences.

One dict for each op table of `linalg/tables`.
"""

import tessera
from op_arguments import Given, floats


def _matrices(values, shift):
    return (values.detach() * 0.5 + shift.to(values.dtype)).requires_grad_()


def matrices(*shape):
    """Matrices of full rank: singular values, eigenvalues and pivots far from each other and from 0."""

    def make(dtype):
        rows, columns = shape[-2:]
        return _matrices(floats(*shape)(dtype), tessera.eye(rows, columns) * (1 + tessera.arange(columns)))

    return make


# Functions for Given.through: operators that read a part of a matrix, or that want it to be special, are differentiated
# through what makes it so.


def hermitian(A):
    """With positive eigenvalues, where A is one of `matrices`."""
    return (A + A.mH) / 2


def lower(A):
    return A.tril()


def upper(A):
    return A.triu()


# For Given.seen: what of vectors is determined, whose signs or phases are not.


def without_phases(*vectors):
    """The results, those at these places without their phases."""
    return lambda *results: [r.abs() if i in vectors else r for i, r in enumerate(results)]


def pivots(*shape):
    """Exchanges of rows: each with itself, the first with the last."""

    def make(dtype):
        p = tessera.arange(1, shape[-1] + 1, dtype=tessera.int32)
        p[0] = shape[-1]
        return p.expand(shape).contiguous()

    return make


def unmoved(*shape):
    return lambda dtype: tessera.arange(1, shape[-1] + 1, dtype=tessera.int32).expand(shape).contiguous()


_EQUATIONS = [
    Given(A=matrices(3, 3), B=floats(3, 2)),
    Given(A=matrices(3, 3), B=floats(3)),
    Given(A=matrices(2, 3, 3), B=floats(3, 2)),
    Given(A=matrices(2, 3, 3), B=floats(2, 3)),
    Given(A=matrices(3, 3), B=floats(2, 3), left=False),
]
_OF_LU = [
    Given(LU=matrices(3, 3), pivots=pivots(3), B=floats(3, 2)),
    Given(LU=matrices(2, 3, 3), pivots=pivots(2, 3), B=floats(3, 2), adjoint=True),
    Given(LU=matrices(3, 3), pivots=pivots(3), B=floats(2, 3), left=False),
    Given(LU=matrices(3, 3), pivots=pivots(3), B=floats(2, 2, 3), left=False, adjoint=True),
]
_SQUARE = [Given(A=matrices(3, 3)), Given(A=matrices(2, 2, 2))]
_ANY = [Given(A=matrices(3, 3)), Given(A=matrices(2, 2, 4)), Given(A=matrices(4, 2))]
_POSITIVE = [
    Given(self=matrices(3, 3)).through(self=hermitian),
    Given(self=matrices(2, 2, 2), upper=True).through(self=hermitian),
]
_TRIANGLE = [Given(self=matrices(3, 3)).through(self=lower), Given(self=matrices(2, 2), upper=True).through(self=upper)]

FACTOR = {
    "linalg_cholesky_ex": _POSITIVE,
    "linalg_cholesky": _POSITIVE,
    "cholesky": _POSITIVE,
    "cholesky_solve": [
        Given(self=floats(3, 2), input2=matrices(3, 3)).through(input2=lower),
        Given(self=floats(2, 3, 2), input2=matrices(3, 3), upper=True).through(input2=upper),
    ],
    "cholesky_inverse": _TRIANGLE,
    "linalg_lu_factor_ex": [*_ANY],
    "linalg_lu_factor": [*_ANY],
    "linalg_lu": [Given(A=given.arguments["A"]).seen(lambda P, L, U: [L, U]) for given in _ANY],
    "_lu_with_info": [Given(self=matrices(3, 3))],
    "lu_unpack": [
        Given(LU_data=matrices(3, 3), LU_pivots=pivots(3)),
        Given(LU_data=matrices(2, 2, 4), LU_pivots=pivots(2, 2)),
        Given(LU_data=matrices(4, 2), LU_pivots=pivots(2)),
    ],
    "linalg_lu_solve": _OF_LU,
    "lu_solve": [Given(self=floats(3, 2), LU_data=matrices(3, 3), LU_pivots=pivots(3))],
    "_linalg_solve_ex": _EQUATIONS,
    "linalg_solve_ex": _EQUATIONS,
    "linalg_solve": _EQUATIONS,
    "linalg_solve_triangular": [
        Given(self=matrices(3, 3), B=floats(3, 2), upper=True),
        Given(self=matrices(2, 3, 3), B=floats(3, 2), upper=False),
        Given(self=matrices(3, 3), B=floats(2, 3), upper=False, left=False, unitriangular=True),
    ],
    "triangular_solve": [
        Given(self=floats(3, 2), A=matrices(3, 3)),
        Given(self=floats(2, 3, 2), A=matrices(3, 3), upper=False, transpose=True),
    ],
    "linalg_inv_ex": _SQUARE,
    "linalg_inv": _SQUARE,
    "inverse": [Given(self=matrices(3, 3))],
    "linalg_tensorinv": [Given(self=lambda dtype: matrices(4, 4)(dtype).detach().reshape(2, 2, 4).requires_grad_())],
    "linalg_tensorsolve": [
        Given(self=lambda dtype: matrices(4, 4)(dtype).detach().reshape(2, 2, 4).requires_grad_(), other=floats(2, 2))
    ],
    "_linalg_det": _SQUARE,
    "linalg_det": _SQUARE,
    "det": [Given(self=matrices(3, 3))],
    "_linalg_slogdet": _SQUARE,
    "linalg_slogdet": _SQUARE,
    "slogdet": [Given(self=matrices(3, 3))],
    "logdet": [Given(self=matrices(3, 3))],
    "linalg_ldl_factor_ex": [Given(self=matrices(3, 3)).through(self=hermitian)],
    "linalg_ldl_factor": [Given(self=matrices(3, 3)).through(self=hermitian)],
    "linalg_ldl_solve": [
        Given(LD=matrices(3, 3), pivots=unmoved(3), B=floats(3, 2)),
        Given(LD=matrices(2, 3, 3), pivots=unmoved(2, 3), B=floats(3, 2), hermitian=True),
    ],
}

_reflections = [Given(input=matrices(4, 3), tau=floats(3)), Given(input=matrices(2, 4, 3), tau=floats(2, 2))]
_older_reflections = [Given(self=g.arguments["input"], input2=g.arguments["tau"]) for g in _reflections]
_applied_reflections = [
    Given(self=matrices(4, 3), input2=floats(3), input3=floats(4, 2), left=True, transpose=False),
    Given(self=matrices(4, 3), input2=floats(3), input3=floats(3, 4), left=False, transpose=True),
    Given(self=matrices(2, 4, 3), input2=floats(2, 3), input3=floats(2, 4, 4), left=True, transpose=True),
    Given(self=matrices(3, 4), input2=floats(3), input3=floats(2, 3), left=False, transpose=False),
]
_least_squares = [
    Given(self=matrices(4, 3), b=floats(4, 2), driver="gels"),
    Given(self=matrices(3, 4), b=floats(3, 2), driver="gels"),
    Given(self=matrices(2, 4, 3), b=floats(2, 4), driver="gels"),
    Given(self=matrices(4, 3), b=floats(4, 2), rcond=1e-6, driver="gelsy"),
    Given(self=matrices(2, 3, 4), b=floats(1, 3, 1), driver=None),
]

ORTHOGONAL = {
    "linalg_qr": [
        Given(A=matrices(4, 3), mode="reduced"),
        Given(A=matrices(2, 3, 4), mode="complete"),
        Given(A=matrices(3, 3), mode="complete"),
    ],
    "qr": [Given(self=matrices(4, 3), some=True), Given(self=matrices(3, 4), some=False)],
    "geqrf": [Given(self=matrices(4, 3))],
    "linalg_householder_product": _reflections,
    "orgqr": _older_reflections,
    "ormqr": _applied_reflections,
    "linalg_lstsq": _least_squares,
}

_VECTORS = without_phases(1)
_BOTH_VECTORS = without_phases(0, 2)

SPECTRAL = {
    "_linalg_eigh": [
        Given(A=matrices(3, 3)).through(A=hermitian).seen(_VECTORS),
        Given(A=matrices(2, 3, 3), UPLO="U").through(A=hermitian).seen(_VECTORS),
    ],
    "linalg_eigh": [Given(self=matrices(3, 3)).through(self=hermitian).seen(_VECTORS)],
    "linalg_eigvalsh": [
        Given(self=matrices(3, 3)).through(self=hermitian),
        Given(self=matrices(2, 2, 2), UPLO="U").through(self=hermitian),
    ],
    "_linalg_svd": [
        Given(A=matrices(3, 3), driver=None).seen(_BOTH_VECTORS),
        Given(A=matrices(2, 4, 2), driver=None).seen(_BOTH_VECTORS),
        Given(A=matrices(2, 3), driver=None).seen(_BOTH_VECTORS),
    ],
    "linalg_svd": [Given(A=matrices(3, 3), driver=None).seen(_BOTH_VECTORS)],
    "linalg_svdvals": [Given(A=matrices(3, 2), driver=None), Given(A=matrices(2, 2, 3), driver=None)],
    "svd": [Given(self=matrices(3, 2)).seen(_BOTH_VECTORS), Given(self=matrices(2, 3, 3)).seen(_BOTH_VECTORS)],
}

_determined = without_phases(1)
EIGEN = {
    "linalg_eig": [Given(self=matrices(3, 3)).seen(_determined), Given(self=matrices(2, 2, 2)).seen(_determined)],
    "linalg_eigvals": [Given(self=matrices(3, 3))],
    "_linalg_eigvals": [Given(self=matrices(2, 3, 3))],
}

INF = float("inf")


def tolerance(*values):
    """Real numbers, whatever the matrices are made of."""
    return lambda dtype: tessera.tensor(values if len(values) != 1 else values[0], dtype=tessera.float64)


FUNCTIONS = {
    "linalg_matrix_norm": [Given(self=matrices(2, 3), ord=p) for p in (1, -1, 2, -2, INF, -INF)]
    + [Given(self=matrices(3, 2, 2), ord=2, dim=[0, 2], keepdim=True)],
    "linalg_matrix_norm.str_ord": [
        Given(self=matrices(2, 3), ord="fro"),
        Given(self=matrices(2, 3, 2), ord="nuc", dim=[2, 0], keepdim=True),
    ],
    "linalg_norm": [
        Given(self=matrices(2, 3), ord=None),
        Given(self=floats(4), ord=3),
        Given(self=matrices(2, 3), ord=2),
        Given(self=matrices(2, 3, 2), ord=1, dim=[0, 1]),
    ],
    "linalg_norm.ord_str": [
        Given(self=matrices(3, 2), ord="nuc"),
        Given(self=matrices(2, 3, 2), ord="fro", dim=[0, 1]),
    ],
    "linalg_cond": [Given(self=matrices(2, 3), p=None)]
    + [Given(self=matrices(2, 2), p=p) for p in (1, -1, 2, -2, INF, -INF)],
    "linalg_cond.p_str": [Given(self=matrices(2, 2), p="fro"), Given(self=matrices(2, 2, 2), p="nuc")],
    "linalg_matrix_rank.atol_rtol_tensor": [
        Given(input=matrices(2, 3), atol=None, rtol=None),
        Given(input=matrices(2, 3, 3), atol=tolerance(0.1, 1.1), rtol=None, hermitian=True),
        Given(input=matrices(2, 3), atol=None, rtol=tolerance(0.5)),
    ],
    "linalg_matrix_rank.atol_rtol_float": [Given(self=matrices(2, 3), atol=0.5, rtol=None)],
    "linalg_matrix_rank": [Given(self=matrices(3, 3), tol=0.5)],
    "linalg_matrix_rank.tol_tensor": [Given(input=matrices(2, 3), tol=tolerance(0.5))],
    "linalg_pinv.atol_rtol_tensor": [
        Given(self=matrices(2, 3), atol=None, rtol=None),
        Given(self=matrices(2, 3, 2), atol=tolerance(1e-3), rtol=None),
        Given(self=matrices(3, 3), atol=None, rtol=None, hermitian=True).through(self=hermitian),
    ],
    "linalg_pinv.atol_rtol_float": [Given(self=matrices(3, 2), atol=1e-3, rtol=None)],
    "linalg_pinv": [Given(self=matrices(2, 3), rcond=1e-3)],
    "linalg_pinv.rcond_tensor": [Given(self=matrices(2, 3), rcond=tolerance(1e-3))],
    "pinverse": [Given(self=matrices(2, 3))],
    "nuclear_norm": [Given(self=matrices(2, 3))],
    "nuclear_norm.dim": [Given(self=matrices(2, 3, 2), dim=[0, 2])],
    "frobenius_norm.dim": [Given(self=matrices(2, 3, 2), dim=[0, 2])],
    "norm_except_dim": [Given(v=floats(2, 3, 2), dim=1), Given(v=floats(2, 3), dim=-1), Given(v=floats(3), dim=0)],
    "linalg_matrix_exp": [
        Given(self=matrices(2, 2)),
        Given(self=matrices(2, 3, 3)),
        Given(self=floats(2, 2, low=6.0, high=9.0)),
    ],
    "matrix_exp": [Given(self=matrices(3, 3))],
}

# Overloads that write to out= take what theirs take.
_OUT = {
    "linalg_cond.p_str_out": "linalg_cond.p_str",
    "linalg_matrix_norm.str_ord_out": "linalg_matrix_norm.str_ord",
    "linalg_matrix_rank.atol_rtol_float_out": "linalg_matrix_rank.atol_rtol_float",
    "linalg_matrix_rank.atol_rtol_tensor_out": "linalg_matrix_rank.atol_rtol_tensor",
    "linalg_matrix_rank.out_tol_tensor": "linalg_matrix_rank.tol_tensor",
    "linalg_norm.ord_str_out": "linalg_norm.ord_str",
    "linalg_pinv.atol_rtol_float_out": "linalg_pinv.atol_rtol_float",
    "linalg_pinv.atol_rtol_tensor_out": "linalg_pinv.atol_rtol_tensor",
    "linalg_pinv.out_rcond_tensor": "linalg_pinv.rcond_tensor",
    "nuclear_norm.dim_out": "nuclear_norm.dim",
}
FUNCTIONS.update((out, FUNCTIONS[name]) for out, name in _OUT.items())

LINALG = {**FACTOR, **ORTHOGONAL, **SPECTRAL, **EIGEN, **FUNCTIONS}
