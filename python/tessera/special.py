"""Special functions: the operators `special_<name>` of the extension, and other names of elementwise operators.

    >>> tessera.special.xlog1py(tessera.tensor(2.0), tessera.tensor(0.0))
    tensor(0.)
    >>> tessera.special.expit(tessera.tensor(0.0))
    tensor(0.5000)

Inputs of integer dtypes give results of the default floating dtype. Raises: TypeError for arguments that are no tensors
or numbers, RuntimeError for
shapes that do not broadcast.
"""

from tessera._lazy import operator_namespace

# Names here -> operators of the top-level namespace.
_OTHER_NAMES = {
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp2": "exp2",
    "expit": "sigmoid",
    "expm1": "expm1",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "i0": "i0",
    "log1p": "log1p",
    "log_softmax": "log_softmax",
    "logit": "logit",
    "logsumexp": "logsumexp",
    "multigammaln": "mvlgamma",
    "polygamma": "polygamma",
    "psi": "digamma",
    "round": "round",
    "sinc": "sinc",
    "softmax": "softmax",
    "xlogy": "xlogy",
}

__getattr__, __dir__ = operator_namespace(__name__, _OTHER_NAMES)
__all__ = __dir__()
