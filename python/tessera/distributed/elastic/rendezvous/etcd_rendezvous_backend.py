"""The state of a rendezvous, and the agents' store, in an etcd server (version 3.4 or later, by its JSON gateway)."""

import base64
import json
import urllib.request
from datetime import timedelta
from urllib.parse import urlsplit

from tessera.distributed._stores import Store
from tessera.distributed.elastic.rendezvous.api import RendezvousConnectionError
from tessera.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend
from tessera.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

__all__ = ["EtcdRendezvousBackend", "EtcdStore", "create_backend"]


def _text(value):
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


class _Client:
    """Requests to the server at `url`, each with a limit in seconds."""

    def __init__(self, url, limit):
        self._url, self._limit, self.host = url, limit, urlsplit(url).hostname

    def ask(self, what, body):
        request = urllib.request.Request(f"{self._url}/v3/kv/{what}", json.dumps(body).encode(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self._limit) as reply:
                return json.load(reply)
        except (OSError, ValueError) as error:
            raise RendezvousConnectionError(f"the etcd server at {self._url} cannot be reached: {error}") from error

    def read(self, key):
        """(value, revision) of a key; (None, 0) if it is not there."""
        found = self.ask("range", {"key": _text(key)}).get("kvs")
        return (base64.b64decode(found[0].get("value", "")), int(found[0]["mod_revision"])) if found else (None, 0)

    def write(self, key, value, revision):
        """Writes if the key still has this revision (0: is not there). Returns: whether it had."""
        place = _text(key)
        compare = {"key": place, "result": "EQUAL", "target": "MOD", "mod_revision": str(revision)}
        put = {"requestPut": {"key": place, "value": _text(value)}}
        return self.ask("txn", {"compare": [compare], "success": [put]}).get("succeeded", False)

    def change(self, key, how):
        """Replaces a value by `how(value)`, until nobody came between. Returns: the new value."""
        while True:
            value, revision = self.read(key)
            new = how(value)
            if new == value or self.write(key, new, revision):
                return new

    def count(self, prefix):
        """The number of keys that begin so, and the keys."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found = self.ask("range", {"key": _text(prefix), "range_end": _text(end), "keys_only": True})
        return [base64.b64decode(one["key"]).decode() for one in found.get("kvs", ())]


class EtcdStore(Store):
    """Keys and values below a prefix in an etcd server.

    Args:
        client: of the server.
        prefix: before all keys.
        timeout: how long it waits for keys.
    """

    def __init__(self, client, prefix, timeout=None):
        super().__init__()
        self._client, self._prefix, self.host = client, prefix, client.host
        if timeout is not None:
            self.set_timeout(timeout)

    def _place(self, key):
        return self._prefix + key

    def set(self, key, value):
        self._client.ask("put", {"key": _text(self._place(key)), "value": _text(value)})

    def get(self, key):
        self.wait([key])
        return self._client.read(self._place(key))[0]

    def add(self, key, value):
        return int(self._client.change(self._place(key), lambda old: str(int(old or 0) + value).encode()))

    def append(self, key, value):
        more = value.encode() if isinstance(value, str) else value
        self._client.change(self._place(key), lambda old: (old or b"") + more)

    def compare_set(self, key, expected_value, desired_value):
        expected, desired = (
            value.encode() if isinstance(value, str) else value for value in (expected_value, desired_value)
        )
        while True:
            value, revision = self._client.read(self._place(key))
            if value != expected and not (value is None and expected == b""):
                return expected if value is None else value
            if self._client.write(self._place(key), desired, revision):
                return desired

    def check(self, keys):
        return all(self._client.read(self._place(key))[0] is not None for key in keys)

    def delete_key(self, key):
        return int(self._client.ask("deleterange", {"key": _text(self._place(key))}).get("deleted", 0)) > 0

    def list_keys(self):
        return [key[len(self._prefix) :] for key in self._client.count(self._prefix)]

    def num_keys(self):
        return len(self.list_keys())


class EtcdRendezvousBackend(RendezvousBackend):
    """A state under one key of an etcd server; tokens are the key's revisions.

    Args:
        client: of the server.
        run_id: the job's name.
        key_prefix: before the name.

    Raises: ValueError for an empty name.
    """

    def __init__(self, client, run_id, key_prefix="/torch/elastic/rendezvous", name="etcd"):
        if not run_id:
            raise ValueError("a rendezvous needs the job's name (run_id)")
        self._client, self._key, self._name = client, f"{key_prefix}/{run_id}", name

    @property
    def name(self):
        """The name that it was asked for by: "etcd" or "etcd-v2"."""
        return self._name

    def get_state(self):
        """(state, token), or None if there is none."""
        value, revision = self._client.read(self._key)
        return None if value is None else (value, revision)

    def set_state(self, state, token=None):
        """Stores a state if the present one is that of `token`. Returns: (state, token, whether it was stored)."""
        stored = isinstance(token, (int, type(None))) and self._client.write(self._key, state, token or 0)
        found = self.get_state()
        return None if found is None else (*found, stored)


def create_backend(params):
    """A backend and a store in the etcd server at the endpoint. Settings: protocol (http, https), read_timeout
    (seconds). Returns: (backend, store).

    Raises: ValueError for another protocol, RendezvousConnectionError."""
    protocol = str(params.get("protocol", "http")).strip().lower()
    if protocol not in ("http", "https"):
        raise ValueError(f"the protocol of an etcd rendezvous is http or https, but got '{protocol}'")
    host, port = parse_rendezvous_endpoint(params.endpoint, 2379)
    client = _Client(f"{protocol}://{host}:{port}", params.get_as_int("read_timeout", 60))
    backend = EtcdRendezvousBackend(client, params.run_id, name=params.backend)
    backend.get_state()
    return backend, EtcdStore(client, f"/torch/elastic/store/{params.run_id}/", timedelta(minutes=5))
