"""Special functions: the operators `special_<name>` of the extension, and other names of elementwise operators.

    >>> tessera.special.xlog1py(tessera.tensor(2.0), tessera.tensor(0.0))
    tensor(0.)
    >>> tessera.special.expit(tessera.tensor(0.0))
    tensor(0.5000)

Inputs of integer dtypes give results of the default floating dtype. Raises: TypeError for arguments that are no tensors
or numbers, RuntimeError for
shapes that do not broadcast.
"""

from tessera import _C

_PREFIX = "special_"
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


def _operator(name):
    own = getattr(getattr(_C, "_special", None), _PREFIX + name, None)
    return own if own is not None or name not in _OTHER_NAMES else getattr(_C, _OTHER_NAMES[name], None)


def __getattr__(name):
    operator = None if name.startswith("_") else _operator(name)
    if operator is None:
        import tessera

        raise AttributeError(f"module '{tessera._display_name}.special' has no attribute '{name}'")
    globals()[name] = operator
    return operator


def __dir__():
    own = {name[len(_PREFIX) :] for name in dir(getattr(_C, "_special", None)) if name.startswith(_PREFIX)}
    return sorted(own | {name for name in _OTHER_NAMES if hasattr(_C, _OTHER_NAMES[name])})
