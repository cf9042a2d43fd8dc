"""Draws that several families are made of, with gradients to their parameters."""

import tessera
from tessera import _C


def smallest(value):
    """The smallest positive normal number of a tensor's dtype."""
    return tessera.finfo(value.dtype).tiny


def gamma_draws(concentration, rate):
    """Draws of Gamma distributions, kept above 0."""
    return kept_positive(_C._standard_gamma(concentration) / rate)


def chi2_draws(df):
    """Draws of chi-squared distributions, kept above 0."""
    return gamma_draws(0.5 * df, 0.5)


def kept_positive(draws):
    """The same tensor, whose numbers are at least the smallest of its dtype: an underflow changes no gradient."""
    draws.data.clamp_(min=smallest(draws))
    return draws


def dirichlet_draws(concentration):
    """Draws of Dirichlet distributions over the last dimension."""
    return _C._sample_dirichlet(concentration)
