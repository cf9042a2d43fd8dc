"""How the processes of a program find each other: URLs of which each gives a store, a rank and a size.

>>> from tessera.distributed.rendezvous import register_rendezvous_handler, rendezvous
>>> def alone(url, timeout, **kwargs):
...     from tessera.distributed import HashStore
...     yield HashStore(), 0, 1
>>> register_rendezvous_handler("alone", alone)
>>> store, rank, size = next(rendezvous("alone://"))
>>> rank, size
(0, 1)
"""

import os
from urllib.parse import parse_qsl, urlparse, urlunparse

from tessera.distributed._stores import FileStore, TCPStore
from tessera.distributed.constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers: dict = {}


def register_rendezvous_handler(scheme, handler):
    """Makes a scheme of URLs known.

    Args:
        scheme: such as "tcp".
        handler: called as `handler(url, timeout=..., ...)`; an iterator of (store, rank, size).

    Raises: RuntimeError if the scheme has a handler.
    """
    if scheme in _handlers:
        raise RuntimeError(f"the scheme {scheme}:// has a rendezvous handler already")
    _handlers[scheme] = handler


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """What a URL leads to: an iterator of (store, rank, world size).

    Args:
        url: of a known scheme: env, tcp, file or a registered one. It may carry `?rank=0&world_size=2`.
        rank: of this process, if the URL does not say so.
        world_size: number of processes, if the URL does not say so; None: any number, which comes out as -1 unless
            the URL or the environment has one.
        kwargs: for the handler, among them `timeout`.

    Raises: RuntimeError for another scheme, AssertionError where the URL and an argument both give a rank or a size;
        what the handler raises.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"a rendezvous takes a URL, but got {type(url).__name__}")
    parts = urlparse(url if isinstance(url, str) else url.decode())
    query = dict(parse_qsl(parts.query))
    for name, value in (("rank", rank), ("world_size", world_size)):
        if value == -1 or value is None and (name in query or (parts.scheme == "env" and "WORLD_SIZE" in os.environ)):
            continue
        assert name not in query, f"the URL {url} has node-specific arguments: {name}, given as {value} besides"
        query[name] = str(-1 if value is None else value)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://; known are {sorted(_handlers)}")
    kwargs.setdefault("timeout", default_pg_timeout)
    full = urlunparse(parts._replace(query="&".join(f"{name}={value}" for name, value in query.items())))
    return _handlers[parts.scheme](full, **kwargs)


def _numbers(url, kind):
    """The parts of a URL, and the rank and the size that it carries."""
    parts = urlparse(url)
    query = dict(parse_qsl(parts.query))
    for name in ("rank", "world_size"):
        if name not in query:
            raise ValueError(
                f"{name.removeprefix('world_')} parameter missing: a rendezvous at {kind}:// needs {name}, as an "
                f"argument or in the URL {url}"
            )
    return parts, int(query["rank"]), int(query["world_size"])


def _from_file(url, timeout=default_pg_timeout, **kwargs):
    parts, rank, size = _numbers(url, "file")
    path = parts.netloc + parts.path
    if not path:
        raise ValueError(f"path missing: a rendezvous at file:// needs one, but the URL is {url}")
    store = FileStore(path, size)
    store.set_timeout(timeout)
    yield store, rank, size


def _agent_serves():
    """Whether torchrun's agent holds the store that its workers are to use."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "") == "True"


def _store_at(host, port, rank, size, timeout):
    """The store at rank 0; under torchrun it is the agent's, where each attempt has its own keys."""
    from tessera.distributed._stores import PrefixStore

    if not _agent_serves():
        return TCPStore(host, port, None if size < 0 else size, rank == 0, timeout, multi_tenant=True)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"/worker/attempt_{attempt}", TCPStore(host, port, None if size < 0 else size, False, timeout))


def _from_tcp(url, timeout=default_pg_timeout, **kwargs):
    parts, rank, size = _numbers(url, "tcp")
    if parts.hostname is None or parts.port is None:
        raise ValueError(f"port number missing: a rendezvous at tcp:// needs a host and a port, but the URL is {url}")
    yield _store_at(parts.hostname, parts.port, rank, size, timeout), rank, size


def _from_environment(url, timeout=default_pg_timeout, **kwargs):
    query = dict(parse_qsl(urlparse(url).query))

    def variable(name):
        value = os.environ.get(name)
        if value is None:
            raise ValueError(f"a rendezvous at env:// needs the environment variable {name}, which is not set")
        return value

    rank = int(query["rank"]) if "rank" in query else int(variable("RANK"))
    size = int(query["world_size"]) if "world_size" in query else int(variable("WORLD_SIZE"))
    host, port = variable("MASTER_ADDR"), int(variable("MASTER_PORT"))
    yield _store_at(host, port, rank, size, timeout), rank, size


register_rendezvous_handler("tcp", _from_tcp)
register_rendezvous_handler("env", _from_environment)
register_rendezvous_handler("file", _from_file)
