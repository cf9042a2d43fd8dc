"""Distributions over matrices."""

import math
from warnings import warn

import tessera
from tessera import _C
from tessera._C import Size

from . import _formulas as formulas
from . import constraints
from ._bounded import Beta
from ._draws import chi2_draws
from ._family import Family
from ._multivariate import MATRIX_CONSTRAINTS, OneMatrix, scale_tril_of, the_matrix
from .distribution import Distribution
from .exp_family import ExponentialFamily


class LKJCholesky(Family, parameters="concentration"):
    """The distribution over Cholesky factors (dim, dim) of correlation matrices whose density of a correlation matrix C
    is proportional to det(C) ** (concentration - 1) (Lewandowski, Kurowicka and Joe, 2009): uniform for 1.

    Draws are made row by row, by the onion method. Raises: ValueError for dim < 2.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self._take(validate_args, event_shape=Size((dim, dim)), concentration=concentration)

    def _expand_into(self, new, batch_shape):
        new.dim = self.dim
        super()._expand_into(new, batch_shape)

    @property
    def _beta(self):
        """The distribution of the square of each row's norm left of the diagonal."""
        eta, dim = self.concentration, self.dim
        before = _C.arange(dim - 1, dtype=eta.dtype, device=eta.device)
        offset = _C.cat([before.new_zeros((1,)), before])
        first = (offset + 0.5).expand(eta.shape + (dim,))
        return Beta(first, (eta + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset, validate_args=False)

    def sample(self, sample_shape=Size()):
        """Cholesky factors of shape sample_shape + batch_shape + (dim, dim)."""
        with tessera.no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            direction = _C.randn(shape, dtype=square.dtype, device=square.device).tril(-1)
            direction = direction / direction.square().sum(-1, keepdim=True).sqrt()
            direction[..., 0, :] = 0  # the first row has nothing left of the diagonal
            below = square.sqrt() * direction
            rest = (1 - below.square().sum(-1)).clamp(min=tessera.finfo(below.dtype).tiny)
            return below + _C.diag_embed(rest.sqrt())

    def log_prob(self, value):
        """The logarithm of the density of factors (..., dim, dim)."""
        # det(C) is the product of squared diagonal elements, and the map from factors to matrices has the Jacobian
        # prod_i L_ii^(dim - i); the normaliser is that of the paper's page 1999.
        if self._validate_args:
            self._validate_sample(value)
        eta, dim, less = self.concentration, self.dim, self.dim - 1
        rows = _C.arange(2, dim + 1, dtype=value.dtype, device=value.device)
        powers = 2 * (eta.unsqueeze(-1) - 1) + dim - rows
        unnormalised = (powers * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        alpha = eta + 0.5 * less
        normaliser = 0.5 * less * math.log(math.pi) + _C.mvlgamma(alpha - 0.5, less)
        return unnormalised - normaliser + less * alpha.lgamma()


class Wishart(OneMatrix, ExponentialFamily, parameters="df"):
    """The Wishart distribution over positive definite matrices (n, n): of sums of x x^T over `df` normal vectors.

    Args:
        df: degrees of freedom, more than n - 1; not necessarily an integer.
        covariance_matrix, precision_matrix, scale_tril: one of these (..., n, n), of the normal vectors.
        validate_args: as of Distribution.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self):
        """df is more than n - 1."""
        return {**MATRIX_CONSTRAINTS, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        name, matrix = the_matrix(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        df = df if hasattr(df, "dtype") else _C.tensor(df, dtype=matrix.dtype, device=matrix.device)
        self._event_shape = matrix.shape[-2:]
        if (df <= self._event_shape[-1] - 1).any():
            shown = df.item() if df.dim() == 0 else df
            raise ValueError(f"Value of df={shown} expected to be greater than ndim - 1 = {self._event_shape[-1] - 1}.")
        batch_shape = tessera.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df, self.__dict__[name] = df.expand(batch_shape), matrix.expand(batch_shape + self._event_shape)
        Distribution.__init__(self, batch_shape, self._event_shape, validate_args)
        self._unbroadcasted_scale_tril = scale_tril_of(name, matrix)

    def _expand_into(self, new, batch_shape):
        new._event_shape = self._event_shape
        super()._expand_into(new, batch_shape)

    mean = property(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self):
        """(df - n - 1) covariance_matrix, nan where df <= n + 1."""
        less = self.df - self._event_shape[-1] - 1
        return less.masked_fill(less <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self.df[..., None, None] * (covariance.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape=Size()):
        """Draws by Bartlett's decomposition: chi on the diagonal, normal below."""
        n = self._event_shape[-1]
        shape = self._extended_shape(sample_shape)
        df = self.df.unsqueeze(-1) - _C.arange(n, dtype=self.df.dtype, device=self.df.device)
        noise = _C.diag_embed(chi2_draws(df.expand(shape[:-1])).sqrt())
        rows, columns = _C.tril_indices(n, n, offset=-1, device=noise.device).unbind(0)
        below = _C.zeros_like(noise)
        below[..., rows, columns] = _C.randn(shape[:-2] + rows.shape, dtype=noise.dtype, device=noise.device)
        root = self._unbroadcasted_scale_tril @ (noise + below)
        return root @ root.mT

    def rsample(self, sample_shape=Size(), max_try_correction=None):
        """Draws of shape sample_shape + batch_shape + (n, n), with gradients.

        Draws that rounding made singular, which is told by a warning, are drawn again, `max_try_correction` times at
        most (3 by default). Unless that is 0, the first draws are not used: PyTorch, whose numbers these are for a
        seed, draws again what is regular.
        """
        tries = 3 if max_try_correction is None else max_try_correction
        if tries > 0:
            self._bartlett_sampling(sample_shape)
        drawn, shape = self._bartlett_sampling(sample_shape), Size(sample_shape)
        singular = ~self.support.check(drawn.detach())
        if singular.any():
            warn("Singular sample detected.", stacklevel=2)
            for _ in range(tries):
                drawn = _C.where(singular[..., None, None], self._bartlett_sampling(shape), drawn)
                singular = ~self.support.check(drawn.detach())
                if not singular.any():
                    break
        return drawn

    def log_prob(self, value):
        """The logarithm of the density at positive definite matrices (..., n, n)."""
        if self._validate_args:
            self._validate_sample(value)
        n, df, factor = self._event_shape[-1], self.df, self._unbroadcasted_scale_tril
        shape = tessera.broadcast_shapes(value.shape, factor.shape)
        root = _C._linalg.linalg_cholesky(value)
        spread = _C._linalg.linalg_solve_triangular(factor.expand(shape), root.expand(shape), upper=False)
        trace = spread.square().sum((-2, -1))
        return (df - n - 1) * formulas.half_log_det(root) - 0.5 * trace - self._log_normaliser()

    def _log_normaliser(self):
        n, half = self._event_shape[-1], 0.5 * self.df
        of_matrix = self.df * (formulas.half_log_det(self._unbroadcasted_scale_tril) + 0.5 * n * math.log(2))
        return of_matrix + _C.mvlgamma(half, n)

    def _expected_log_det(self):
        """E[log det X]."""
        n = self._event_shape[-1]
        steps = 0.5 * (self.df.unsqueeze(-1) - _C.arange(n, dtype=self.df.dtype, device=self.df.device))
        half = formulas.half_log_det(self._unbroadcasted_scale_tril)
        return steps.digamma().sum(-1) + n * math.log(2) + 2 * half

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        n = self._event_shape[-1]
        result = self._log_normaliser() - 0.5 * (self.df - n - 1) * self._expected_log_det() + 0.5 * n * self.df
        return result.expand(self._batch_shape)

    @property
    def _natural_params(self):
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, half_df, minus_half_precision):
        n = self._event_shape[-1]
        log_det = _C._linalg.linalg_slogdet(-2 * minus_half_precision).logabsdet
        return half_df * (n * math.log(2) - log_det) + _C.mvlgamma(half_df, n)
