"""What stores do at their edges: the last user's file, stores of a program's own, sockets that are given, waits."""

import os
import socket
from datetime import timedelta

import pytest
import tessera.distributed as dist

SOON = timedelta(milliseconds=100)


class Own(dist.Store):
    """A store of a program: it can set and get bytes."""

    def __init__(self):
        super().__init__()
        self.values = {}

    def set(self, key, value):
        assert type(value) is bytes
        self.values[key] = value

    def get(self, key):
        return self.values.get(key, b"")


def test_the_last_user_removes_the_file(tmp_path):
    path = str(tmp_path / "store")
    first, second = dist.FileStore(path, 1), dist.FileStore(path, 1)
    del first
    assert os.path.exists(path)
    second.set("a", "1")
    del second
    assert not os.path.exists(path)


def test_prefixed_stores_give_bytes_and_append_by_what_is_there():
    own = Own()
    store = dist.PrefixStore("p", own)
    store.append("key", "po")
    store.append("key", b"tato")
    store.multi_set(["a"], ["b"])
    assert own.values == {"p/key": b"potato", "p/a": b"b"} and not store.has_extended_api()
    with pytest.raises(ValueError, match="the store is None"):
        dist.PrefixStore("p", None)
    with pytest.raises(RuntimeError, match="Not implemented. A Store has no get"):
        dist.PrefixStore("p", dist.Store()).append("key", "x")


def test_waits_that_end_name_time_and_keys():
    tcp = dist.TCPStore("127.0.0.1", 0, 1, True)
    for store, keys in ((tcp, "keys: /a, /b"), (dist.HashStore(), "no key 'a'")):
        with pytest.raises(dist.DistStoreError, match=f"wait timeout after 100ms.*{keys}"):
            store.wait(["a", "b"], SOON)
    with pytest.raises(dist.DistStoreError, match=r"(?s)Timed out after 0.1 seconds.*1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, SOON)
    with pytest.raises(ValueError, match="world size cannot be 0"):
        dist.TCPStore("127.0.0.1", 0, 0, False, SOON)


def test_a_bound_socket_is_taken_over():
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    host, port = bound.getsockname()
    store = dist.TCPStore(host, port, 1, True, timedelta(seconds=5), master_listen_fd=bound.detach())
    store.set("a", "b")
    assert store.get("a") == b"b" and store.port == port


def test_names_may_become_known_while_a_client_waits():
    with pytest.raises(dist.DistNetworkError, match=r"timed out after \d+ms .*no-such-host.*cannot be resolved"):
        dist.TCPStore("no-such-host.invalid", 29, 1, False, SOON)
