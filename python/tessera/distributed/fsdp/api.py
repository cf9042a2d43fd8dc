"""How sharded training treats numbers and places."""

from tessera.distributed.fsdp._policies import *  # noqa: F403
from tessera.distributed.fsdp._policies import __all__
