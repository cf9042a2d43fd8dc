"""How agents of several machines find each other: "static" where ranks are known, "c10d" where agents come and go."""

from tessera._lazy import attach as _attach
from tessera.distributed.elastic.rendezvous.api import *  # noqa: F403
from tessera.distributed.elastic.rendezvous.api import __all__ as _all

__all__ = list(_all)
__getattr__, __dir__ = _attach(__name__)
