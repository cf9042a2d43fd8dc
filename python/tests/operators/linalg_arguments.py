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
