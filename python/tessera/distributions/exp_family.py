"""Exponential families, whose entropy and divergences follow from their log normaliser."""

import tessera

from .distribution import Distribution


class ExponentialFamily(Distribution):
    """Distributions with density exp(<t(x), theta> - F(theta) + k(x)).

    Subclasses give `_natural_params`, a tuple of the tensors theta; `_log_normalizer(*theta)`, which is F; and
    `_mean_carrier_measure`, the expectation of k.
    """

    @property
    def _natural_params(self):
        raise NotImplementedError(f"{type(self)} does not implement _natural_params")

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError(f"{type(self)} has no _log_normalizer of {len(natural_params)} natural parameters")

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError(f"{type(self)} does not implement _mean_carrier_measure")

    def _expected_statistics(self, create_graph=True):
        """(theta, F(theta), the gradient of F: the expectations of t(x)); gradients go to theta's own history."""
        theta = [one if one.requires_grad else one.detach().requires_grad_() for one in self._natural_params]
        with tessera.enable_grad():
            normalizer = self._log_normalizer(*theta)
            gradients = tessera.autograd.grad(normalizer.sum(), theta, create_graph=create_graph)
        return theta, normalizer, gradients

    def entropy(self):
        """The entropy by Bregman's identity, F(theta) - <theta, gradient of F> - E[k(x)], of batch_shape.

        Raises: NotImplementedError for families whose carrier measure has no known expectation.
        """
        carrier = self._mean_carrier_measure
        theta, result, gradients = self._expected_statistics()
        result = result - carrier
        for one, gradient in zip(theta, gradients):
            product = one * gradient
            result = result - product.reshape(self._batch_shape + (-1,)).sum(-1)
        return result
