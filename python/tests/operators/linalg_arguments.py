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
    "linalg_lu": [*_ANY],
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

ORTHOGONAL = {}

SPECTRAL = {}

EIGEN = {}

FUNCTIONS = {
    "linalg_matrix_exp": [
        Given(self=matrices(2, 2)),
        Given(self=matrices(2, 3, 3)),
        Given(self=floats(2, 2, low=6.0, high=9.0)),
    ],
    "matrix_exp": [Given(self=matrices(3, 3))],
}

LINALG = {**FACTOR, **ORTHOGONAL, **SPECTRAL, **EIGEN, **FUNCTIONS}
