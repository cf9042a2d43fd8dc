"""The divergences that are known.

Between different families of numbers, KL(p || q) = -H(p) - E_p[log q(x)], where log q is a sum of few functions of x:
`_KNOWN` has their expectations by p's family, `_EXPECTED_LOG` writes log q with them.
"""

import math

import tessera
from tessera import _C

from . import _formulas as formulas
from ._bounded import Beta, ContinuousBernoulli, Uniform
from ._categories import Categorical, OneHotCategorical
from ._counts import Bernoulli, Binomial, Geometric, Poisson
from ._multivariate import LowRankMultivariateNormal, MultivariateNormal
from ._positive import Exponential, Gamma, HalfNormal, Pareto
from ._real_line import Cauchy, Gumbel, Laplace, Normal
from ._simplex import Dirichlet
from .exp_family import ExponentialFamily
from .independent import Independent
from .kl import kl_divergence, register_kl
from .transformed_distribution import TransformedDistribution
from .utils import _sum_rightmost, euler_constant

_INF = math.inf


# -- a family with itself, one operator each -------------------------------------------------------------------------


def _by_formula(kind, formula):
    """Registers a formula of p's parameters and q's."""

    @register_kl(kind, kind)
    def kl(p, q):
        return formula(*[getattr(p, name) for name in kind._names], *[getattr(q, name) for name in kind._names])


_by_formula(Normal, formulas.normal_kl)
_by_formula(Laplace, formulas.laplace_kl)
_by_formula(Cauchy, formulas.cauchy_kl)
_by_formula(Gamma, formulas.gamma_kl)
_by_formula(Beta, formulas.beta_kl)
_by_formula(Exponential, formulas.exponential_kl)
_by_formula(Poisson, formulas.poisson_kl)
_by_formula(Categorical, formulas.categorical_kl)
_by_formula(OneHotCategorical, formulas.categorical_kl)
_by_formula(Dirichlet, formulas.dirichlet_kl)


# -- counts ----------------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    impossible = ((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1))
    return _C.where(impossible, _INF, formulas.bernoulli_kl(p.logits, q.logits))


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    return _C.where(p.total_count > q.total_count, _INF, p.total_count * _bernoulli(p, q))


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - q.probs.log() - _C._special.special_xlog1py(p.mean, -q.probs)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return -p.entropy() + q.rate - _C.xlogy(p.probs, q.rate)


# -- numbers ---------------------------------------------------------------------------------------------------------


def _uniform_log(low, high):
    """E[log x] for x uniform over [low, high], of numbers that are not negative."""
    return (_C.xlogy(high, high) - _C.xlogy(low, low)) / (high - low) - 1


def _around(p, center):
    """E|x - center| of a normal distribution."""
    apart = (p.loc - center) / p.scale
    folded = math.sqrt(2 / math.pi) * (-0.5 * apart.square()).exp() + apart * (apart / math.sqrt(2)).erf()
    return p.scale * folded


# family of p -> expectations: log(x); log_rest: log(1 - x); exp(p, t): exp(t x); around(p, c): |x - c|;
# ends: the bounds of the support
_KNOWN = {
    Normal: {"exp": lambda p, t: (p.loc * t + 0.5 * (p.scale * t).square()).exp(), "around": _around},
    Laplace: {},
    Gumbel: {"exp": lambda p, t: (p.loc * t + (1 - p.scale * t).lgamma()).exp()},
    Exponential: {
        "log": lambda p: -euler_constant - p.rate.log(),
        "exp": lambda p, t: p.rate / (p.rate - t),
        "ends": lambda p: (0, _INF),
    },
    Gamma: {
        "log": lambda p: p.concentration.digamma() - p.rate.log(),
        "exp": lambda p, t: (-p.concentration * (-t / p.rate).log1p()).exp(),
        "ends": lambda p: (0, _INF),
    },
    Pareto: {"log": lambda p: p.scale.log() + 1 / p.alpha, "ends": lambda p: (p.scale, _INF)},
    Beta: {
        "log": lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
        "log_rest": lambda p: p.concentration0.digamma() - (p.concentration1 + p.concentration0).digamma(),
        "ends": lambda p: (0, 1),
    },
    ContinuousBernoulli: {"ends": lambda p: (0, 1)},
    Uniform: {
        "log": lambda p: _uniform_log(p.low, p.high),
        "log_rest": lambda p: _uniform_log(1 - p.high, 1 - p.low),
        "exp": lambda p, t: ((p.high * t).exp() - (p.low * t).exp()) / (t * (p.high - p.low)),
        "ends": lambda p: (p.low, p.high),
    },
}


def _of_normal(p, q, known):
    square = (p.mean - q.loc).square() + p.variance
    return -0.5 * square / q.scale.square() - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _of_laplace(p, q, known):
    return -known["around"](p, q.loc) / q.scale - (2 * q.scale).log()


def _of_gumbel(p, q, known):
    rate = q.scale.reciprocal()
    return (q.loc - p.mean) * rate - (q.loc * rate).exp() * known["exp"](p, -rate) - q.scale.log()


def _of_exponential(p, q, known):
    return q.rate.log() - q.rate * p.mean


def _of_gamma(p, q, known):
    a, rate = q.concentration, q.rate
    return a * rate.log() - a.lgamma() + (a - 1) * known["log"](p) - rate * p.mean


def _of_pareto(p, q, known):
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * known["log"](p)


def _of_beta(p, q, known):
    a, b = q.concentration1, q.concentration0
    powers = (a - 1) * known["log"](p) + (b - 1) * known["log_rest"](p)
    return powers + (a + b).lgamma() - a.lgamma() - b.lgamma()


def _of_continuous_bernoulli(p, q, known):
    return p.mean * q.logits - formulas.continuous_bernoulli_log_normalizer(q.logits)


def _of_uniform(p, q, known):
    return -(q.high - q.low).log()


# family of q -> E_p[log q(x)], of x in q's support; and the bounds of that
_EXPECTED_LOG = {
    Normal: (_of_normal, None),
    Laplace: (_of_laplace, None),
    Gumbel: (_of_gumbel, None),
    Exponential: (_of_exponential, lambda q: (0, _INF)),
    Gamma: (_of_gamma, lambda q: (0, _INF)),
    Pareto: (_of_pareto, lambda q: (q.scale, _INF)),
    Beta: (_of_beta, lambda q: (0, 1)),
    ContinuousBernoulli: (_of_continuous_bernoulli, lambda q: (0, 1)),
    Uniform: (_of_uniform, lambda q: (q.low, q.high)),
}


def _cross(kind_p, kind_q):
    """Registers -H(p) - E_p[log q], inf where p's support is not within q's."""
    known, (expected_log, q_ends) = _KNOWN[kind_p], _EXPECTED_LOG[kind_q]
    p_ends = known.get("ends")

    @register_kl(kind_p, kind_q)
    def kl(p, q):
        result = -p.entropy() - expected_log(p, q, known)
        if q_ends is None:
            return result
        (low, high), (q_low, q_high) = p_ends(p), q_ends(q)
        outside = _C.as_tensor(low < q_low) | _C.as_tensor(high > q_high)
        return _C.where(outside.to(result.device), _INF, result)


def _infinite(kind_p, kind_q):
    """Registers inf: some of p's support is never within q's."""

    @register_kl(kind_p, kind_q)
    def kl(p, q):
        like = getattr(p, kind_p._names[0])
        shape = tessera.broadcast_shapes(p.batch_shape, q.batch_shape)
        return _C.full(shape, _INF, dtype=like.dtype, device=like.device)


_FINITE = {
    Normal: (Gumbel, Laplace),
    Laplace: (Normal,),
    Gumbel: (Gumbel, Normal),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Pareto: (Exponential, Gamma, Normal, Pareto),
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (ContinuousBernoulli, Exponential, Normal, Uniform),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto, Uniform),
}
_NEVER_WITHIN = {
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Poisson: (Bernoulli, Binomial),
}

for _table, _register in ((_FINITE, _cross), (_NEVER_WITHIN, _infinite)):
    for _p, _others in _table.items():
        for _q in _others:
            _register(_p, _q)


# -- vectors ---------------------------------------------------------------------------------------------------------


def _root(p):
    """R with covariance R R^T."""
    if isinstance(p, MultivariateNormal):
        return p._unbroadcasted_scale_tril
    diagonal = _C.diag_embed(p._unbroadcasted_cov_diag.sqrt())
    factor = p._unbroadcasted_cov_factor
    shape = tessera.broadcast_shapes(factor.shape[:-2], diagonal.shape[:-2])
    return _C.cat([factor.expand(shape + factor.shape[-2:]), diagonal.expand(shape + diagonal.shape[-2:])], -1)


def _log_det(p):
    """The logarithm of the covariance's determinant."""
    if isinstance(p, MultivariateNormal):
        return 2 * formulas.half_log_det(p._unbroadcasted_scale_tril)
    return p._log_det()


def _squares(q, columns):
    """The trace of C^T covariance^-1 C, for matrices C (..., n, k)."""
    if isinstance(q, MultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        shape = tessera.broadcast_shapes(factor.shape[:-2], columns.shape[:-2])
        factor, columns = factor.expand(shape + factor.shape[-2:]), columns.expand(shape + columns.shape[-2:])
        return _C._linalg.linalg_solve_triangular(factor, columns, upper=False).square().sum((-2, -1))
    plain = (columns.square() / q._unbroadcasted_cov_diag.unsqueeze(-1)).sum((-2, -1))
    inner, factor = q._weighted() @ columns, q._capacitance_tril
    shape = tessera.broadcast_shapes(factor.shape[:-2], inner.shape[:-2])
    factor, inner = factor.expand(shape + factor.shape[-2:]), inner.expand(shape + inner.shape[-2:])
    return plain - _C._linalg.linalg_solve_triangular(factor, inner, upper=False).square().sum((-2, -1))


def _normal_vectors(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed: "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    moved = (q.loc - p.loc).unsqueeze(-1)
    return 0.5 * (_log_det(q) - _log_det(p) + _squares(q, _root(p)) + _squares(q, moved) - p.event_shape[0])


for _p, _q in (
    (LowRankMultivariateNormal, LowRankMultivariateNormal),
    (LowRankMultivariateNormal, MultivariateNormal),
    (MultivariateNormal, LowRankMultivariateNormal),
):
    register_kl(_p, _q)(_normal_vectors)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p, q):
    if p.event_shape != q.event_shape:
        return _normal_vectors(p, q)
    return formulas.multivariate_normal_kl(p.loc, p._unbroadcasted_scale_tril, q.loc, q._unbroadcasted_scale_tril)


# -- what is made of others ------------------------------------------------------------------------------------------


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    zero = _C.zeros_like(p.scale)
    return formulas.normal_kl(zero, p.scale, zero, q.scale)


@register_kl(Independent, Independent)
def _independent(p, q):
    count = p.reinterpreted_batch_ndims
    if count != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"KL between Independents of {count} and {q.reinterpreted_batch_ndims} joined dimensions is not known"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), count)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms:
        raise NotImplementedError("KL between TransformedDistributions with different transforms is not known")
    if p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"KL between TransformedDistributions of event shapes {p.event_shape} and {q.event_shape} is not known"
        )
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), more)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p, q):
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            f"divergences: p is a {type(p).__name__}, q a {type(q).__name__}"
        )
    p_theta, p_normalizer, gradients = p._expected_statistics()
    q_theta = q._natural_params
    result = q._log_normalizer(*q_theta) - p_normalizer
    for p_one, q_one, gradient in zip(p_theta, q_theta, gradients):
        result = result - _sum_rightmost((q_one - p_one) * gradient, gradient.dim() - len(p.batch_shape))
    return result
