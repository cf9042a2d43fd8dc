"""Stands in for torch in processes started under `python -m tessera`, and hands over to it."""

import os
import sys

try:
    import tessera  # noqa: F401
except ImportError:  # run from a source tree, and the child has a path of its own
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)))

from tessera import _alias

_alias.install()
