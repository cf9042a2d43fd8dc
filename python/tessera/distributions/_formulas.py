"""The formulas of distributions, each in one place: the fused operator `_dist_<name>` of the extension, or where it has
none, the same out of other operators. Arguments broadcast; outside of the support densities are 0.
"""

import math

import tessera
from tessera import _C

_OWN = getattr(_C, "_distributions", None)
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_INF = math.inf


def fused(composed):
    """The extension's operator of the function's name, if it has one."""
    return getattr(_OWN, "_dist_" + composed.__name__, composed)


def _inside(result, where):
    """A log density, -inf where `where` does not hold."""
    return _C.where(where, result, -_INF)


def _log_beta(a, b):
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


# -- log densities ------------------------------------------------------------------------------------------------


@fused
def normal_log_prob(value, loc, scale):
    return -0.5 * ((value - loc) / scale).square() - scale.log() - _HALF_LOG_2PI


@fused
def log_normal_log_prob(value, loc, scale):
    logarithm = value.log()
    return _inside(normal_log_prob(logarithm, loc, scale) - logarithm, value > 0)


@fused
def laplace_log_prob(value, loc, scale):
    return -(value - loc).abs() / scale - (2 * scale).log()


@fused
def cauchy_log_prob(value, loc, scale):
    return -((value - loc) / scale).square().log1p() - scale.log() - math.log(math.pi)


@fused
def gumbel_log_prob(value, loc, scale):
    z = (loc - value) / scale
    return z - z.exp() - scale.log()


@fused
def half_normal_log_prob(value, scale):
    return _inside(-0.5 * (value / scale).square() - scale.log() + 0.5 * math.log(2 / math.pi), value >= 0)


@fused
def half_cauchy_log_prob(value, scale):
    return _inside(-(value / scale).square().log1p() - scale.log() + math.log(2 / math.pi), value >= 0)


@fused
def exponential_log_prob(value, rate):
    return rate.log() - rate * value


@fused
def gamma_log_prob(value, concentration, rate):
    powers = _C.xlogy(concentration, rate) + _C.xlogy(concentration - 1, value)
    return powers - rate * value - concentration.lgamma()


@fused
def inverse_gamma_log_prob(value, concentration, rate):
    powers = _C.xlogy(concentration, rate) - (concentration + 1) * value.log()
    return _inside(powers - rate / value - concentration.lgamma(), value > 0)


@fused
def beta_log_prob(value, concentration1, concentration0):
    powers = _C.xlogy(concentration1 - 1, value) + _C._special.special_xlog1py(concentration0 - 1, -value)
    return powers - _log_beta(concentration1, concentration0)


@fused
def kumaraswamy_log_prob(value, concentration1, concentration0):
    powers = _C.xlogy(concentration1 - 1, value)
    powers = powers + _C._special.special_xlog1py(concentration0 - 1, -value.pow(concentration1))
    return powers + concentration1.log() + concentration0.log()


@fused
def student_t_log_prob(value, df, loc, scale):
    z = ((value - loc) / scale).square() / df
    normalizer = 0.5 * (df * math.pi).log() + scale.log() + (0.5 * df).lgamma() - (0.5 * (df + 1)).lgamma()
    return -0.5 * (df + 1) * z.log1p() - normalizer


@fused
def fisher_snedecor_log_prob(value, df1, df2):
    ratio, a, b = df1 / df2, 0.5 * df1, 0.5 * df2
    powers = a * ratio.log() + _C.xlogy(a - 1, value) - (a + b) * (ratio * value).log1p()
    return _inside(powers - _log_beta(a, b), value > 0)


@fused
def uniform_log_prob(value, low, high):
    return _inside(-(high - low).log(), (low <= value) & (value < high))


@fused
def pareto_log_prob(value, scale, alpha):
    return _inside(alpha.log() + alpha * scale.log() - (alpha + 1) * value.log(), value >= scale)


@fused
def generalized_pareto_log_prob(value, loc, scale, concentration):
    z = (value - loc) / scale
    flat = concentration == 0
    c = _C.where(flat, 1, concentration)
    tail = _C.where(flat, z, (1 + 1 / c) * (concentration * z).log1p())
    return _inside(-tail - scale.log(), (z >= 0) & (1 + concentration * z > 0))


@fused
def weibull_log_prob(value, scale, concentration):
    z = value / scale
    powers = concentration.log() - scale.log() + _C.xlogy(concentration - 1, z)
    return _inside(powers - z.pow(concentration), value >= 0)


@fused
def von_mises_log_prob(value, loc, concentration):
    # cos(d) - 1 = -2 sin(d/2)^2 keeps its digits for narrow distributions; i0e = exp(-concentration) I0.
    around = -2 * (0.5 * (value - loc)).sin().square()
    return concentration * around - math.log(2 * math.pi) - _C._special.special_i0e(concentration).log()


@fused
def bernoulli_log_prob(value, logits):
    return value * logits - _C._nn.softplus(logits)


def continuous_bernoulli_log_normalizer(logits):
    """log of the integral of exp(logits * x) over [0, 1]: log(expm1(logits) / logits), near 0 its series."""
    near = (logits.abs() < 0.02).detach()
    size = _C.where(near, 1, logits).abs()
    far = logits.clamp(min=0) + (-(-size).expm1() / size).log()
    square = logits.square()
    return _C.where(near, logits / 2 + square / 24 - square.square() / 2880, far)


@fused
def continuous_bernoulli_log_prob(value, logits):
    return value * logits - continuous_bernoulli_log_normalizer(logits)


@fused
def geometric_log_prob(value, probs):
    return _C._special.special_xlog1py(value, -probs) + probs.log()


def _log_choose(n, k):
    return (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()


@fused
def binomial_log_prob(value, total_count, logits):
    return _log_choose(total_count, value) + value * logits - total_count * _C._nn.softplus(logits)


@fused
def negative_binomial_log_prob(value, total_count, logits):
    choose = (total_count + value).lgamma() - (1 + value).lgamma() - total_count.lgamma()
    choose = _C.where(total_count + value == 0, 0, choose)
    return choose - total_count * _C._nn.softplus(logits) - value * _C._nn.softplus(-logits)


@fused
def poisson_log_prob(value, rate):
    return _C.xlogy(value, rate) - rate - (value + 1).lgamma()


@fused
def logit_relaxed_bernoulli_log_prob(value, temperature, logits):
    z = logits - temperature * value
    return temperature.log() + z - 2 * _C._nn.softplus(z)


@fused
def categorical_log_prob(value, logits):
    value = value.long()
    shape = tessera.broadcast_shapes(value.shape, logits.shape[:-1])
    logs = logits.log_softmax(-1).expand((*shape, logits.shape[-1]))
    return logs.gather(-1, value.expand(shape).unsqueeze(-1)).squeeze(-1)


@fused
def multinomial_log_prob(value, logits):
    logs = logits.log_softmax(-1)
    logs = logs.masked_fill((value == 0) & (logs == -_INF), 0)
    return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logs * value).sum(-1)


@fused
def dirichlet_log_prob(value, concentration):
    powers = _C.xlogy(concentration - 1, value).sum(-1)
    return powers + concentration.sum(-1).lgamma() - concentration.lgamma().sum(-1)


def white(scale_tril, difference):
    """inverse(scale_tril) @ difference for vectors (..., n) and matrices (batch, n, n), where the vectors' batch may
    have more dimensions before the matrices'.
    """
    if scale_tril.dim() == 2:
        rows = difference.reshape(-1, difference.shape[-1])
        solved = _C._linalg.linalg_solve_triangular(scale_tril.mT, rows, upper=True, left=False)
        return solved.reshape(difference.shape)
    return _C._linalg.linalg_solve_triangular(scale_tril, difference.unsqueeze(-1), upper=False).squeeze(-1)


def half_log_det(scale_tril):
    """The logarithm of the determinants of triangular matrices: half of that of the covariance."""
    return scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


@fused
def multivariate_normal_log_prob(value, loc, scale_tril):
    z = white(scale_tril, value - loc)
    return -0.5 * z.square().sum(-1) - half_log_det(scale_tril) - loc.shape[-1] * _HALF_LOG_2PI


# -- distribution functions ---------------------------------------------------------------------------------------


@fused
def normal_cdf(value, loc, scale):
    return _C._special.special_ndtr((value - loc) / scale)


@fused
def normal_icdf(value, loc, scale):
    return loc + scale * _C._special.special_ndtri(value)


@fused
def laplace_cdf(value, loc, scale):
    z = (value - loc) / scale
    tail = 0.5 * (-z.abs()).exp()
    return _C.where(z < 0, tail, 1 - tail)


@fused
def laplace_icdf(value, loc, scale):
    return loc + scale * _C.where(value < 0.5, (2 * value).log(), -(2 * (1 - value)).log())


@fused
def cauchy_cdf(value, loc, scale):
    z = (value - loc) / scale
    return _C.atan2(_C.ones_like(z), -z) / math.pi


@fused
def cauchy_icdf(value, loc, scale):
    return loc + scale * (math.pi * (value - 0.5)).tan()


@fused
def gumbel_cdf(value, loc, scale):
    return (-((loc - value) / scale).exp()).exp()


@fused
def gumbel_icdf(value, loc, scale):
    return loc - scale * (-value.log()).log()


@fused
def exponential_cdf(value, rate):
    return -(-rate * value).expm1()


@fused
def exponential_icdf(value, rate):
    return -(-value).log1p() / rate


@fused
def weibull_cdf(value, scale, concentration):
    return -(-(value / scale).pow(concentration)).expm1()


@fused
def weibull_icdf(value, scale, concentration):
    return scale * (-(-value).log1p()).pow(1 / concentration)


def generalized_pareto_log_survival(value, loc, scale, concentration):
    """The logarithm of the probability of draws above value."""
    z = ((value - loc) / scale).clamp(min=0)
    flat = concentration == 0
    c = _C.where(flat, 1, concentration)
    return _C.where(flat, -z, -(concentration * z).clamp(min=-1).log1p() / c)


@fused
def generalized_pareto_cdf(value, loc, scale, concentration):
    return -generalized_pareto_log_survival(value, loc, scale, concentration).expm1()


@fused
def generalized_pareto_icdf(value, loc, scale, concentration):
    logarithm = (-value).log1p()
    flat = concentration == 0
    c = _C.where(flat, 1, concentration)
    return loc + scale * _C.where(flat, -logarithm, (-concentration * logarithm).expm1() / c)


@fused
def continuous_bernoulli_cdf(value, logits):
    near = logits.abs() < 1e-3
    safe = _C.where(near, 1, logits)
    inside = (safe * value).expm1() / safe.expm1()
    inside = _C.where(near, value + 0.5 * logits * value * (value - 1), inside)
    return _C.where(value <= 0, 0, _C.where(value >= 1, 1, inside))


@fused
def continuous_bernoulli_icdf(value, logits):
    near = logits.abs() < 1e-3
    safe = _C.where(near, 1, logits)
    return _C.where(near, value + 0.5 * logits * value * (1 - value), (value * safe.expm1()).log1p() / safe)


# -- entropies ----------------------------------------------------------------------------------------------------


@fused
def gamma_entropy(concentration, rate):
    return concentration - rate.log() + concentration.lgamma() + (1 - concentration) * concentration.digamma()


@fused
def inverse_gamma_entropy(concentration, rate):
    return concentration + rate.log() + concentration.lgamma() - (1 + concentration) * concentration.digamma()


@fused
def beta_entropy(concentration1, concentration0):
    total = concentration1 + concentration0
    result = _log_beta(concentration1, concentration0) + (total - 2) * total.digamma()
    return result - (concentration1 - 1) * concentration1.digamma() - (concentration0 - 1) * concentration0.digamma()


@fused
def student_t_entropy(df, scale):
    half, more = 0.5 * df, 0.5 * (df + 1)
    log_beta = half.lgamma() + 0.5 * math.log(math.pi) - more.lgamma()
    return scale.log() + more * (more.digamma() - half.digamma()) + 0.5 * df.log() + log_beta


@fused
def bernoulli_entropy(logits):
    return _C._nn.softplus(logits) - logits * logits.sigmoid()


@fused
def geometric_entropy(probs):
    return -probs.log() - _C._special.special_xlog1py(1 - probs, -probs) / probs


@fused
def categorical_entropy(logits):
    logs = logits.log_softmax(-1)
    return -(logs.clamp(min=tessera.finfo(logs.dtype).min) * logs.exp()).sum(-1)


@fused
def dirichlet_entropy(concentration):
    total = concentration.sum(-1)
    result = concentration.lgamma().sum(-1) - total.lgamma() + (total - concentration.shape[-1]) * total.digamma()
    return result - ((concentration - 1) * concentration.digamma()).sum(-1)


# -- divergences --------------------------------------------------------------------------------------------------


@fused
def normal_kl(p_loc, p_scale, q_loc, q_scale):
    ratio = p_scale / q_scale
    return 0.5 * (ratio.square() + ((p_loc - q_loc) / q_scale).square() - 1) - ratio.log()


@fused
def laplace_kl(p_loc, p_scale, q_loc, q_scale):
    apart = (p_loc - q_loc).abs()
    return (p_scale * (-apart / p_scale).exp() + apart) / q_scale - 1 - (p_scale / q_scale).log()


@fused
def cauchy_kl(p_loc, p_scale, q_loc, q_scale):
    squares = (p_scale + q_scale).square() + (p_loc - q_loc).square()
    return squares.log() - (4 * p_scale * q_scale).log()


@fused
def gamma_kl(p_concentration, p_rate, q_concentration, q_rate):
    result = q_concentration * (p_rate / q_rate).log() + q_concentration.lgamma() - p_concentration.lgamma()
    result = result + (p_concentration - q_concentration) * p_concentration.digamma()
    return result + (q_rate - p_rate) * (p_concentration / p_rate)


@fused
def beta_kl(p_concentration1, p_concentration0, q_concentration1, q_concentration0):
    change1, change0 = q_concentration1 - p_concentration1, q_concentration0 - p_concentration0
    total = p_concentration1 + p_concentration0
    result = _log_beta(q_concentration1, q_concentration0) - _log_beta(p_concentration1, p_concentration0)
    result = result - change1 * p_concentration1.digamma() - change0 * p_concentration0.digamma()
    return result + (change1 + change0) * total.digamma()


@fused
def exponential_kl(p_rate, q_rate):
    ratio = q_rate / p_rate
    return ratio - 1 - ratio.log()


@fused
def poisson_kl(p_rate, q_rate):
    return _C.xlogy(p_rate, p_rate) - _C.xlogy(p_rate, q_rate) - (p_rate - q_rate)


@fused
def bernoulli_kl(p_logits, q_logits):
    softplus, one = _C._nn.softplus, p_logits.sigmoid()
    return one * (softplus(-q_logits) - softplus(-p_logits)) + (1 - one) * (softplus(q_logits) - softplus(p_logits))


@fused
def categorical_kl(p_logits, q_logits):
    p, q = p_logits.log_softmax(-1), q_logits.log_softmax(-1)
    each = p.exp() * (p - q)
    return _C.where(p == -_INF, 0, _C.where(q == -_INF, _INF, each)).sum(-1)


@fused
def dirichlet_kl(p_concentration, q_concentration):
    p_total, q_total = p_concentration.sum(-1), q_concentration.sum(-1)
    result = p_total.lgamma() - q_total.lgamma() - (p_concentration.lgamma() - q_concentration.lgamma()).sum(-1)
    inner = p_concentration.digamma() - p_total.digamma().unsqueeze(-1)
    return result + ((p_concentration - q_concentration) * inner).sum(-1)


@fused
def multivariate_normal_kl(p_loc, p_scale_tril, q_loc, q_scale_tril):
    n = p_loc.shape[-1]
    shape = tessera.broadcast_shapes(
        p_scale_tril.shape[:-2], q_scale_tril.shape[:-2], p_loc.shape[:-1], q_loc.shape[:-1]
    )
    q_full, p_full = q_scale_tril.expand((*shape, n, n)), p_scale_tril.expand((*shape, n, n))
    spread = _C._linalg.linalg_solve_triangular(q_full, p_full, upper=False).square().sum((-2, -1))
    moved = white(q_full, (q_loc - p_loc).expand((*shape, n))).square().sum(-1)
    return half_log_det(q_scale_tril) - half_log_det(p_scale_tril) + 0.5 * (spread + moved - n)
