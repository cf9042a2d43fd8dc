"""Special functions: every name is the operator `special_<name>` of the extension, with the documented arguments and `out=`.

    >>> tessera.special.xlog1py(tessera.tensor(2.0), tessera.tensor(0.0))
    tensor(0.)

Inputs of integer dtypes give results of the default floating dtype. Raises: TypeError for arguments that are no tensors or numbers, RuntimeError for
shapes that do not broadcast.
"""

from tessera import _C

_PREFIX = "special_"


def __getattr__(name):
    operator = None if name.startswith("_") else getattr(_C._special, _PREFIX + name, None)
    if operator is None:
        import tessera

        raise AttributeError(f"module '{tessera._display_name}.special' has no attribute '{name}'")
    globals()[name] = operator
    return operator


def __dir__():
    return sorted(name[len(_PREFIX):] for name in dir(_C._special) if name.startswith(_PREFIX))
