"""A distribution of each family that has moments, in float64."""

import tessera
import tessera.distributions as D

F = tessera.float64


def T(*numbers):
    return tessera.tensor(numbers[0] if len(numbers) == 1 else numbers, dtype=F)


FAMILIES = {
    "Bernoulli": lambda: D.Bernoulli(T(0.3)),
    "Beta": lambda: D.Beta(T(0.7), T(2.0)),
    "Binomial": lambda: D.Binomial(9, T(0.3)),
    "Chi2": lambda: D.Chi2(T(3.0)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(T(0.2)),
    "Dirichlet": lambda: D.Dirichlet(T(0.7, 2.0, 3.0)),
    "Exponential": lambda: D.Exponential(T(2.0)),
    "FisherSnedecor": lambda: D.FisherSnedecor(T(5.0), T(20.0)),
    "Gamma": lambda: D.Gamma(T(0.7), T(2.0)),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(T(1.0), T(2.0), T(0.1)),
    "Geometric": lambda: D.Geometric(T(0.3)),
    "Gumbel": lambda: D.Gumbel(T(1.0), T(2.0)),
    "HalfNormal": lambda: D.HalfNormal(T(2.0)),
    "InverseGamma": lambda: D.InverseGamma(T(9.0), T(2.0)),
    "Kumaraswamy": lambda: D.Kumaraswamy(T(1.5), T(2.0)),
    "Laplace": lambda: D.Laplace(T(1.0), T(2.0)),
    "LogNormal": lambda: D.LogNormal(T(0.3), T(0.4)),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(T(0.0, 1.0), T([[1.0], [0.5]]), T(1.0, 0.5)),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(D.Categorical(T(0.3, 0.7)), D.Normal(T(0.0, 3.0), T(1.0, 2.0))),
    "Multinomial": lambda: D.Multinomial(6, T(0.2, 0.3, 0.5)),
    "MultivariateNormal": lambda: D.MultivariateNormal(T(0.0, 1.0), T([[2.0, 0.3], [0.3, 1.0]])),
    "NegativeBinomial": lambda: D.NegativeBinomial(T(4.0), T(0.3)),
    "Normal": lambda: D.Normal(T(1.0), T(2.0)),
    "OneHotCategorical": lambda: D.OneHotCategorical(T(0.2, 0.3, 0.5)),
    "Pareto": lambda: D.Pareto(T(1.0), T(9.0)),
    "Poisson": lambda: D.Poisson(T(3.0)),
    "StudentT": lambda: D.StudentT(T(12.0), T(1.0), T(2.0)),
    "Uniform": lambda: D.Uniform(T(1.0), T(4.0)),
    "Weibull": lambda: D.Weibull(T(2.0), T(1.5)),
    "Wishart": lambda: D.Wishart(T(6.0), T([[2.0, 0.3], [0.3, 1.0]])),
}
