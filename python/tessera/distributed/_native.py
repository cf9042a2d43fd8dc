"""The extension `tessera._distributed`, loaded when it is first needed: stores and groups behind handles."""

import sys
from importlib import import_module

from tessera.distributed._errors import DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError


def load():
    """The extension. Raises ImportError if this build has none."""
    known = sys.modules.get("tessera._distributed")
    if known is None:
        known = import_module("tessera._distributed")
        known.set_errors(
            DistBackendError, DistNetworkError, DistStoreError, DistBackendError, QueueEmptyError, KeyboardInterrupt
        )
    return known


def is_built():
    """Whether this build has the extension."""
    from importlib.util import find_spec

    return find_spec("tessera._distributed") is not None
