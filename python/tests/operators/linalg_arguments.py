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


FACTOR = {}

ORTHOGONAL = {}

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
