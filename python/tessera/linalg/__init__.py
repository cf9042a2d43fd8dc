"""Linear algebra: the operators `linalg_<name>` of the extension, norms, and products with a variable number of
arguments.

>>> tessera.linalg.vector_norm(tessera.tensor([3.0, 4.0]))
tensor(5.)
"""

from tessera import _C

_PREFIX = "linalg_"
_IN_PYTHON = ("matrix_norm", "norm")


def _operator(name):
    return getattr(getattr(_C, "_linalg", None), _PREFIX + name, None)


def __getattr__(name):
    if name == "LinAlgError":
        value = _C._LinAlgError
    elif name in _IN_PYTHON:
        from tessera.linalg import _norms

        value = getattr(_norms, name)
    else:
        value = None if name.startswith("_") else _operator(name)
    if value is None:
        import tessera

        raise AttributeError(f"module '{tessera._display_name}.linalg' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    own = {name[len(_PREFIX) :] for name in dir(getattr(_C, "_linalg", None)) if name.startswith(_PREFIX)}
    return sorted(own | set(_IN_PYTHON) | {"LinAlgError"})
