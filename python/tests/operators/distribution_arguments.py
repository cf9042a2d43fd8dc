"""Arguments of the operators of the distributions that have to fit each other."""

import tessera
from op_arguments import Given, floats, integers


def lower(*shape):
    """Triangular matrices with a positive diagonal."""
    return lambda dtype: tessera.tril(
        floats(*shape, low=0.3, high=0.9)(dtype).detach() + tessera.eye(shape[-1], dtype=dtype)
    ).requires_grad_()


def triangle(name):
    """Of the tensor that is differentiated, the lower triangle counts."""
    return {name: tessera.tril}


_counts = lambda dtype: floats(2, 3, low=3.2, high=4.8)(dtype)
_above = lambda dtype: floats(2, 3, low=1.2, high=1.9)(dtype)

DISTRIBUTIONS = {
    "_dist_uniform_log_prob": [Given(value=floats(2, 3), low=floats(2, 3, low=-0.9, high=0.2), high=_above)],
    "_dist_pareto_log_prob": [Given(value=_above)],
    "_dist_generalized_pareto_log_prob": [
        Given(value=_above),
        Given(value=_above, concentration=floats(2, 3, low=-0.1, high=-0.02)),
    ],
    "_dist_generalized_pareto_cdf": [
        Given(value=_above),
        Given(value=_above, concentration=floats(2, 3, low=-0.003, high=-0.001)),
    ],
    "_dist_binomial_log_prob": [Given(total_count=_counts)],
    "_dist_fisher_snedecor_log_prob": [Given(df1=_counts, df2=_above), Given(value=_counts)],
    "_dist_continuous_bernoulli_log_prob": [
        Given(logits=floats(2, 3, low=-0.2, high=0.2)),
        Given(logits=floats(2, 3, low=-3.0, high=-1.0)),
    ],
    "_dist_continuous_bernoulli_cdf": [Given(), Given(logits=floats(2, 3, low=-3.0, high=-1.0))],
    "_dist_continuous_bernoulli_icdf": [Given(), Given(logits=floats(2, 3, low=-3.0, high=-1.0))],
    "_dist_categorical_log_prob": [Given(value=integers(0, 2), logits=floats(2, 3))],
    "_dist_multivariate_normal_log_prob": [
        Given(value=floats(4, 2, 3), loc=floats(2, 3), scale_tril=lower(2, 3, 3)).through(**triangle("scale_tril")),
        Given(value=floats(4, 3), loc=floats(2, 1, 3), scale_tril=lower(3, 3)).through(**triangle("scale_tril")),
    ],
    "_dist_multivariate_normal_kl": [
        Given(p_loc=floats(2, 3), p_scale_tril=lower(2, 3, 3), q_loc=floats(3), q_scale_tril=lower(3, 3)).through(
            **triangle("p_scale_tril"), **triangle("q_scale_tril")
        )
    ],
    "_sample_dirichlet": [Given(self=floats(2, 3, low=1.2, high=2.5))],
    "_dirichlet_grad": [Given(x=floats(2, 3, low=0.2, high=0.8), alpha=_above, total=_counts)],
}
