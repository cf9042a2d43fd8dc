"""The older place of `distributed.tensor`."""

import tessera.distributed.tensor as _now
from tessera.distributed.tensor import *  # noqa: F403
from tessera.distributed.tensor import DeviceMesh, __all__, init_device_mesh


def __getattr__(name):
    return getattr(_now, name)
