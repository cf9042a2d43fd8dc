"""Normal distributions over vectors."""

import math

import tessera
from tessera import _C
from tessera._C import Size

from . import _formulas as formulas
from . import constraints
from ._family import Family, at_value
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

_LOG_2PI = math.log(2 * math.pi)
MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")
MATRIX_CONSTRAINTS = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


def the_matrix(**given):
    """(name, matrix) of the one that is given. Raises: ValueError unless it is one, of two dimensions or more."""
    there = [(name, matrix) for name, matrix in given.items() if matrix is not None]
    if len(there) != 1:
        raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    name, matrix = there[0]
    if matrix.dim() < 2:
        noun = "scale_tril matrix" if name == "scale_tril" else name
        raise ValueError(f"{noun} must be at least two-dimensional, with optional leading batch dimensions")
    return name, matrix


def scale_tril_of(name, matrix):
    """The Cholesky factor of the covariance, from any of the matrices that describe it."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return _C._linalg.linalg_cholesky(matrix)
    # P = U U^T with U upper triangular (a Cholesky factor of P with rows and columns in reverse); L = inverse(U)^T.
    upper = _C._linalg.linalg_cholesky(matrix.flip((-2, -1))).flip((-2, -1))
    return _triangular_inverse(upper.mT)


def _triangular_inverse(lower):
    identity = _C.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return _C._linalg.linalg_solve_triangular(lower, identity, upper=False)


class OneMatrix(Family):
    """Families of a covariance that is given by one of three matrices; the others follow when they are asked for.

    `_unbroadcasted_scale_tril` is the Cholesky factor without the batch dimensions that only other parameters have.
    """

    def _full(self, matrix):
        n = matrix.shape[-1]
        return matrix.expand(self._batch_shape + (n, n))

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance (..., n, n)."""
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The covariance matrix (..., n, n)."""
        factor = self._unbroadcasted_scale_tril
        return self._full(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance matrix (..., n, n)."""
        return self._full(_C.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _expand_into(self, new, batch_shape):
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        super()._expand_into(new, batch_shape)


class MultivariateNormal(OneMatrix, parameters="loc _unbroadcasted_scale_tril"):
    """The normal distribution over vectors with mean `loc` (..., n).

    Args:
        loc: the mean.
        covariance_matrix, precision_matrix, scale_tril: one of these (..., n, n): positive definite, or the lower
            Cholesky factor of the covariance, which is what computations use.
        validate_args: as of Distribution.

    >>> m = tessera.distributions.MultivariateNormal(tessera.zeros(2), tessera.eye(2))
    >>> m.log_prob(tessera.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {"loc": constraints.real_vector, **MATRIX_CONSTRAINTS}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = the_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        n = loc.shape[-1]
        batch_shape = tessera.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc, self.__dict__[name] = loc.expand(batch_shape + (n,)), matrix.expand(batch_shape + matrix.shape[-2:])
        Distribution.__init__(self, batch_shape, loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)

    mean = mode = property(lambda self: self.loc)
    log_prob = at_value(formulas.multivariate_normal_log_prob)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + (n,), with gradients."""
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        factor = self._unbroadcasted_scale_tril
        if factor.dim() == 2:
            return self.loc + noise @ factor.mT
        return self.loc + (factor @ noise.unsqueeze(-1)).squeeze(-1)

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        half = formulas.half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1 + _LOG_2PI) + half).expand(self._batch_shape)


class LowRankMultivariateNormal(Family, parameters="loc cov_factor cov_diag"):
    """The normal distribution over vectors with mean `loc` (..., n) and covariance
    cov_factor @ cov_factor^T + diag(cov_diag), where cov_factor is (..., n, m) with m much less than n.

    Densities are computed from matrices (m, m) by Woodbury's identity and the matrix determinant lemma.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        batch = tessera.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand(batch + event_shape)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch + event_shape)
        Distribution.__init__(self, batch, event_shape, validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _C._linalg.linalg_cholesky(self._capacitance())

    def _capacitance(self):
        """I + W^T D^-1 W."""
        weighted = self._weighted()
        identity = _C.eye(weighted.shape[-2], dtype=weighted.dtype, device=weighted.device)
        return identity + weighted @ self._unbroadcasted_cov_factor

    def _weighted(self):
        """W^T D^-1."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _expand_into(self, new, batch_shape):
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        super()._expand_into(new, batch_shape)

    mean = mode = property(lambda self: self.loc)

    def _matrix(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self):
        """The diagonal of the covariance (..., n)."""
        own = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return own.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self):
        """The covariance matrix (..., n, n)."""
        factor = self._unbroadcasted_cov_factor
        return self._matrix(factor @ factor.mT + _C.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor of the covariance (..., n, n)."""
        # D^(1/2) chol(I + D^(-1/2) W W^T D^(-1/2)): better conditioned than the covariance itself.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        weighted = self._unbroadcasted_cov_factor / root
        identity = _C.eye(weighted.shape[-2], dtype=weighted.dtype, device=weighted.device)
        return self._matrix(root * _C._linalg.linalg_cholesky(identity + weighted @ weighted.mT))

    @lazy_property
    def precision_matrix(self):
        """The inverse of the covariance matrix (..., n, n)."""
        inner = _C._linalg.linalg_solve_triangular(self._capacitance_tril, self._weighted(), upper=False)
        return self._matrix(_C.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - inner.mT @ inner)

    def rsample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + (n,), with gradients."""
        shape, like = self._extended_shape(sample_shape), self.loc
        rank = self.cov_factor.shape[-1:]
        of_factor = _standard_normal(shape[:-1] + rank, like.dtype, like.device)
        of_diag = _standard_normal(shape, like.dtype, like.device)
        moved = (self._unbroadcasted_cov_factor @ of_factor.unsqueeze(-1)).squeeze(-1)
        return like + moved + self._unbroadcasted_cov_diag.sqrt() * of_diag

    def _mahalanobis(self, difference):
        """difference^T covariance^-1 difference."""
        inner = (self._weighted() @ difference.unsqueeze(-1)).squeeze(-1)
        plain = (difference.square() / self._unbroadcasted_cov_diag).sum(-1)
        shape = tessera.broadcast_shapes(inner.shape[:-1], self._capacitance_tril.shape[:-2])
        factor = self._capacitance_tril.expand(shape + self._capacitance_tril.shape[-2:])
        return plain - formulas.white(factor, inner.expand(shape + inner.shape[-1:])).square().sum(-1)

    def _log_det(self):
        """The logarithm of the covariance's determinant."""
        return 2 * formulas.half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def log_prob(self, value):
        """The logarithm of the density at vectors `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + self._log_det() + self._mahalanobis(value - self.loc))

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        return (0.5 * (self._event_shape[0] * (1 + _LOG_2PI) + self._log_det())).expand(self._batch_shape)
