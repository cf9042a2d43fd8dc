"""Discrete Fourier transforms: the operators `fft_<name>` of the extension.

    >>> tessera.fft.rfft(tessera.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j])

Inputs of integer dtypes are transformed in the default floating dtype. Raises: RuntimeError for signals without
elements, unknown norms and dtypes that a transform does not take, IndexError for dimensions that are none.
"""

from tessera._lazy import operator_namespace

__getattr__, __dir__ = operator_namespace(__name__)
