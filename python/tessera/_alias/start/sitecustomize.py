"""Runs at the start of every Python program below `python -m tessera`, because its folder is on PYTHONPATH.

It is written for any version of Python.

In the interpreter for which the alias was installed, the folder `site` takes the place of this one on sys.path; in
all others this folder just goes. Then the sitecustomize that would have run without this one runs, if there is one.
"""

import os
import sys

VARIABLE = "TESSERA_ALIAS"
HERE = os.path.dirname(os.path.abspath(__file__))


def mark():
    """What the variable is where this file puts the alias into this interpreter: version, environment, which file."""
    tag = getattr(getattr(sys, "implementation", None), "cache_tag", None) or ""
    return os.pathsep.join([tag + getattr(sys, "abiflags", ""), os.path.realpath(sys.prefix), HERE])


def start():
    ours = os.environ.get(VARIABLE) == mark()
    paths = []
    for path in sys.path:
        if path != HERE:
            paths.append(path)
        elif ours:
            paths.append(os.path.join(os.path.dirname(HERE), "site"))
    sys.path[:] = paths
    sys.path_importer_cache.pop(HERE, None)


if __name__ == "sitecustomize":
    this = sys.modules.pop(__name__)  # in a variable: Python 2 empties a module that nothing holds
    start()
    import sitecustomize  # noqa: F401  (the next one; without any, ModuleNotFoundError, which Python expects)
