"""The formulas of distributions, each in one place: the operators of `//distributions` (`_dist_<name>` in the
extension), and what is made of them. Arguments broadcast; outside of a support densities are 0.
"""

import math

import tessera
from tessera import _C
from tessera._C import _distributions as _operators

normal_log_prob = _operators._dist_normal_log_prob
log_normal_log_prob = _operators._dist_log_normal_log_prob
laplace_log_prob = _operators._dist_laplace_log_prob
cauchy_log_prob = _operators._dist_cauchy_log_prob
gumbel_log_prob = _operators._dist_gumbel_log_prob
half_normal_log_prob = _operators._dist_half_normal_log_prob
half_cauchy_log_prob = _operators._dist_half_cauchy_log_prob
exponential_log_prob = _operators._dist_exponential_log_prob
gamma_log_prob = _operators._dist_gamma_log_prob
inverse_gamma_log_prob = _operators._dist_inverse_gamma_log_prob
beta_log_prob = _operators._dist_beta_log_prob
kumaraswamy_log_prob = _operators._dist_kumaraswamy_log_prob
student_t_log_prob = _operators._dist_student_t_log_prob
fisher_snedecor_log_prob = _operators._dist_fisher_snedecor_log_prob
uniform_log_prob = _operators._dist_uniform_log_prob
pareto_log_prob = _operators._dist_pareto_log_prob
generalized_pareto_log_prob = _operators._dist_generalized_pareto_log_prob
weibull_log_prob = _operators._dist_weibull_log_prob
von_mises_log_prob = _operators._dist_von_mises_log_prob
bernoulli_log_prob = _operators._dist_bernoulli_log_prob
continuous_bernoulli_log_prob = _operators._dist_continuous_bernoulli_log_prob
geometric_log_prob = _operators._dist_geometric_log_prob
binomial_log_prob = _operators._dist_binomial_log_prob
negative_binomial_log_prob = _operators._dist_negative_binomial_log_prob
poisson_log_prob = _operators._dist_poisson_log_prob
logit_relaxed_bernoulli_log_prob = _operators._dist_logit_relaxed_bernoulli_log_prob
multinomial_log_prob = _operators._dist_multinomial_log_prob
dirichlet_log_prob = _operators._dist_dirichlet_log_prob
multivariate_normal_log_prob = _operators._dist_multivariate_normal_log_prob
normal_cdf = _operators._dist_normal_cdf
normal_icdf = _operators._dist_normal_icdf
laplace_cdf = _operators._dist_laplace_cdf
laplace_icdf = _operators._dist_laplace_icdf
cauchy_cdf = _operators._dist_cauchy_cdf
cauchy_icdf = _operators._dist_cauchy_icdf
gumbel_cdf = _operators._dist_gumbel_cdf
gumbel_icdf = _operators._dist_gumbel_icdf
exponential_cdf = _operators._dist_exponential_cdf
exponential_icdf = _operators._dist_exponential_icdf
weibull_cdf = _operators._dist_weibull_cdf
weibull_icdf = _operators._dist_weibull_icdf
generalized_pareto_cdf = _operators._dist_generalized_pareto_cdf
generalized_pareto_icdf = _operators._dist_generalized_pareto_icdf
continuous_bernoulli_cdf = _operators._dist_continuous_bernoulli_cdf
continuous_bernoulli_icdf = _operators._dist_continuous_bernoulli_icdf
gamma_entropy = _operators._dist_gamma_entropy
inverse_gamma_entropy = _operators._dist_inverse_gamma_entropy
beta_entropy = _operators._dist_beta_entropy
student_t_entropy = _operators._dist_student_t_entropy
bernoulli_entropy = _operators._dist_bernoulli_entropy
geometric_entropy = _operators._dist_geometric_entropy
categorical_entropy = _operators._dist_categorical_entropy
dirichlet_entropy = _operators._dist_dirichlet_entropy
normal_kl = _operators._dist_normal_kl
laplace_kl = _operators._dist_laplace_kl
cauchy_kl = _operators._dist_cauchy_kl
gamma_kl = _operators._dist_gamma_kl
beta_kl = _operators._dist_beta_kl
exponential_kl = _operators._dist_exponential_kl
poisson_kl = _operators._dist_poisson_kl
bernoulli_kl = _operators._dist_bernoulli_kl
categorical_kl = _operators._dist_categorical_kl
dirichlet_kl = _operators._dist_dirichlet_kl
multivariate_normal_kl = _operators._dist_multivariate_normal_kl


def continuous_bernoulli_log_normalizer(logits):
    """log of the integral of exp(logits * x) over [0, 1]: log(expm1(logits) / logits), near 0 its series."""
    near = (logits.abs() < 0.02).detach()
    size = _C.where(near, 1, logits).abs()
    far = logits.clamp(min=0) + (-(-size).expm1() / size).log()
    square = logits.square()
    return _C.where(near, logits / 2 + square / 24 - square.square() / 2880, far)


def generalized_pareto_log_survival(value, loc, scale, concentration):
    """The logarithm of the probability of draws above value."""
    z = ((value - loc) / scale).clamp(min=0)
    flat = concentration == 0
    c = _C.where(flat, 1, concentration)
    return _C.where(flat, -z, -(concentration * z).clamp(min=-1).log1p() / c)


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
