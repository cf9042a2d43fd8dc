"""What kinds of rendezvous share."""

import ipaddress
import re
import socket

__all__ = ["parse_rendezvous_endpoint"]

_HOST = re.compile(r"[\w.-]+|[\da-fA-F:.]+(%\w+)?")  # labels with dots between them or an address


def parse_rendezvous_endpoint(endpoint, default_port):
    """(host, port) of "host:port", "host" or nothing ("localhost"). Raises: ValueError for another text."""
    text = (endpoint or "").strip()
    if not text:
        return "localhost", default_port
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, ""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not _HOST.fullmatch(host):
        raise ValueError(f"'{endpoint}' is not the host and port of a rendezvous")
    if not port:
        if colon and not text.endswith("]"):
            raise ValueError(f"'{endpoint}' has no port after the colon")
        return host, default_port
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"the port of '{endpoint}' is not a number from 0 to 65535")
    return host, int(port)


def _matches_machine_hostname(host):
    """Whether a name or address is this machine's."""
    own = {"localhost", socket.gethostname(), socket.getfqdn()}
    if host in own:
        return True
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        pass
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
        for address in found:
            with socket.socket(socket.AF_INET6 if ":" in str(address) else socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))
                return True
    except OSError:
        pass
    return False


def _parse_rendezvous_config(config_str):
    """A dictionary of "key=value,key=value". Raises: ValueError for another text."""
    found = {}
    for pair in (config_str or "").split(",") if (config_str or "").strip() else ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise ValueError(f"settings of a rendezvous are key=value,key=value, but got '{config_str}'")
        found[key.strip()] = value.strip()
    return found
