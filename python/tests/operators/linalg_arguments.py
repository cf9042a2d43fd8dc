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

_reflections = [Given(input=matrices(4, 3), tau=floats(3)), Given(input=matrices(2, 4, 3), tau=floats(2, 2))]
_older_reflections = [Given(self=g.arguments["input"], input2=g.arguments["tau"]) for g in _reflections]
_applied_reflections = [
    Given(self=matrices(4, 3), input2=floats(3), input3=floats(4, 2), left=True, transpose=False),
    Given(self=matrices(4, 3), input2=floats(3), input3=floats(2, 4), left=False, transpose=True),
    Given(self=matrices(2, 4, 3), input2=floats(2, 2), input3=floats(2, 4, 4), left=True, transpose=True),
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

SPECTRAL = {}

_determined = without_phases(1)
EIGEN = {
    "linalg_eig": [Given(self=matrices(3, 3)).seen(_determined), Given(self=matrices(2, 2, 2)).seen(_determined)],
    "linalg_eigvals": [Given(self=matrices(3, 3))],
    "_linalg_eigvals": [Given(self=matrices(2, 3, 3))],
}

FUNCTIONS = {
    "linalg_matrix_exp": [
        Given(self=matrices(2, 2)),
        Given(self=matrices(2, 3, 3)),
        Given(self=floats(2, 2, low=6.0, high=9.0)),
    ],
    "matrix_exp": [Given(self=matrices(3, 3))],
}

LINALG = {**FACTOR, **ORTHOGONAL, **SPECTRAL, **EIGEN, **FUNCTIONS}
