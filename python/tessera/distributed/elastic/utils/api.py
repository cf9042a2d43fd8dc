"""Environment, sockets, and macros in arguments of workers."""

import os
import socket
from string import Template

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name):
    """A variable of the environment. Raises: ValueError if it is not set."""
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"the environment variable {env_name} has to be set")
    return value


def get_socket_with_port():
    """A socket that listens on the loopback interface, at a free port.

    Raises: RuntimeError if there is none."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            made = socket.socket(family)
            made.bind((host, 0))
            made.listen(0)
            return made
        except OSError:
            continue
    raise RuntimeError("no socket can listen on the loopback interface")


class macros:
    """What stands for values of a worker in its arguments: `local_rank`."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args, local_rank):
        """Arguments with the values in place; what is no text stays as it is."""
        return [Template(one).safe_substitute(local_rank=local_rank) if isinstance(one, str) else one for one in args]
