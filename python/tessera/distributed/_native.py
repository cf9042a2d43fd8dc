"""The extension `tessera._distributed`, loaded when it is first needed: stores and groups behind handles."""

import functools
from importlib import import_module

from tessera.distributed._errors import DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError


@functools.cache
def load():
    """The extension. Raises ImportError if this build has none."""
    extension = import_module("tessera._distributed")
    extension.set_errors(
        DistBackendError, DistNetworkError, DistStoreError, DistBackendError, QueueEmptyError, KeyboardInterrupt
    )
    return extension


def is_built():
    """Whether this build has the extension."""
    from importlib.util import find_spec

    return find_spec("tessera._distributed") is not None
