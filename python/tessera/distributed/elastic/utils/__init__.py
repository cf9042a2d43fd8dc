"""Environment, sockets, stores and logs of agents."""

from tessera._lazy import attach as _attach
from tessera.distributed.elastic.utils.api import get_env_variable_or_raise, get_socket_with_port, macros

__getattr__, __dir__ = _attach(__name__)

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]
