"""Probability distributions, with samplers whose gradients reach their parameters.

    >>> m = tessera.distributions.Categorical(tessera.tensor([0.25, 0.75]))
    >>> m.log_prob(tessera.tensor(1))
    tensor(-0.2877)

Each family is a class with `sample`, `log_prob` and, where they are known, `rsample`, `cdf`, `icdf`, `entropy`, `mean`,
`mode` and `variance`; `transforms` map one to another, `constraints` say where parameters and values lie, and
`kl_divergence` compares two of them. README.md says how a family is declared.
"""

import sys as _sys
from types import ModuleType as _ModuleType

from . import _kl_pairs  # noqa: F401 (it registers divergences)
from . import _bounded, _categories, _counts, _matrices, _multivariate, _positive, _real_line, _relaxed, _simplex
from . import constraint_registry, constraints, exp_family, kl, transforms, utils
from .constraint_registry import biject_to, transform_to
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .independent import Independent
from .kl import kl_divergence, register_kl
from .mixture_same_family import MixtureSameFamily
from .transformed_distribution import TransformedDistribution
from .transforms import *
from .transforms import __all__ as _transforms

# Where users know families from: `tessera.distributions.normal.Normal`. Their files hold several.
_MODULES = {
    _bounded: {
        "beta": "Beta",
        "continuous_bernoulli": "ContinuousBernoulli",
        "kumaraswamy": "Kumaraswamy",
        "uniform": "Uniform",
        "von_mises": "VonMises",
    },
    _categories: {
        "categorical": "Categorical",
        "multinomial": "Multinomial",
        "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    },
    _counts: {
        "bernoulli": "Bernoulli",
        "binomial": "Binomial",
        "geometric": "Geometric",
        "negative_binomial": "NegativeBinomial",
        "poisson": "Poisson",
    },
    _matrices: {"lkj_cholesky": "LKJCholesky", "wishart": "Wishart"},
    _multivariate: {
        "lowrank_multivariate_normal": "LowRankMultivariateNormal",
        "multivariate_normal": "MultivariateNormal",
    },
    _positive: {
        "chi2": "Chi2",
        "exponential": "Exponential",
        "fishersnedecor": "FisherSnedecor",
        "gamma": "Gamma",
        "generalized_pareto": "GeneralizedPareto",
        "half_cauchy": "HalfCauchy",
        "half_normal": "HalfNormal",
        "inverse_gamma": "InverseGamma",
        "log_normal": "LogNormal",
        "pareto": "Pareto",
        "weibull": "Weibull",
    },
    _real_line: {
        "cauchy": "Cauchy",
        "gumbel": "Gumbel",
        "laplace": "Laplace",
        "normal": "Normal",
        "studentT": "StudentT",
    },
    _relaxed: {
        "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
        "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical",
    },
    _simplex: {"dirichlet": "Dirichlet", "logistic_normal": "LogisticNormal"},
}
_INNER = {"LogitRelaxedBernoulli", "ExpRelaxedCategorical"}  # to be found in their modules alone


def _publish():
    """Makes the documented modules, and returns the names of the families."""
    names, here = [], globals()
    for room, modules in _MODULES.items():
        for short, classes in modules.items():
            module = _ModuleType(f"{__name__}.{short}", f"The families {', '.join(classes.split())}.")
            module.__file__, module.__package__ = room.__file__, __name__
            module.__spec__ = type(__spec__)(module.__name__, None, origin=room.__file__)
            module.__all__ = classes.split()
            module.Distribution, module.constraints = Distribution, constraints  # programs take them from there
            for name in module.__all__:
                family = getattr(room, name)
                family.__module__ = module.__name__
                setattr(module, name, family)
                if name not in _INNER:
                    here[name] = family
                    names.append(name)
            _sys.modules[module.__name__] = here[short] = module
    return names


__all__ = [
    "Distribution",
    "ExponentialFamily",
    "Independent",
    "MixtureSameFamily",
    "TransformedDistribution",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    *_publish(),
    *_transforms,
]
