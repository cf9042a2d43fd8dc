"""The state of a rendezvous in a store of this package."""

import base64
import os
import tempfile
from datetime import timedelta

from tessera.distributed._errors import DistError, DistNetworkError
from tessera.distributed._stores import FileStore, TCPStore
from tessera.distributed.elastic.rendezvous.api import RendezvousConnectionError, RendezvousStateError
from tessera.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend
from tessera.distributed.elastic.rendezvous.utils import _matches_machine_hostname, parse_rendezvous_endpoint

__all__ = ["DEFAULT_PORT", "C10dRendezvousBackend", "FileStore", "TCPStore", "create_backend"]

DEFAULT_PORT = 29400
_EMPTY = b"none"


class C10dRendezvousBackend(RendezvousBackend):
    """A state under one key of a store.

    Args:
        store: the store.
        run_id: the job's name.

    Raises: ValueError for an empty name.
    """

    def __init__(self, store, run_id):
        if not run_id:
            raise ValueError("a rendezvous needs the job's name (run_id)")
        self._store, self._key = store, f"torch.rendezvous.{run_id}"

    @property
    def name(self):
        """ "c10d"."""
        return "c10d"

    def _call(self, function, *args):
        try:
            return function(*args)
        except (DistError, OSError) as error:
            raise RendezvousConnectionError(f"the store of the rendezvous cannot be reached: {error}") from error

    @staticmethod
    def _decoded(value):
        if value in (b"", _EMPTY):
            return None
        try:
            return base64.b64decode(value, validate=True), value
        except ValueError as error:
            raise RendezvousStateError("what lies at the place of the rendezvous is no state of one") from error

    def get_state(self):
        """(state, token), or None if there is none."""
        return self._decoded(self._call(self._store.compare_set, self._key, "", _EMPTY.decode()))

    def set_state(self, state, token=None):
        """Stores a state if the present one is that of `token`. Returns: (state, token, whether it was stored)."""
        new = base64.b64encode(state)
        expected = _EMPTY if token is None else token
        if not isinstance(expected, bytes):
            found = self.get_state()
            return None if found is None else (*found, False)
        self._call(self._store.compare_set, self._key, "", _EMPTY.decode())
        present = self._call(self._store.compare_set, self._key, expected.decode(), new.decode())
        found = self._decoded(present)
        return None if found is None else (*found, present == new)


def _tcp_store(params):
    host, port = parse_rendezvous_endpoint(params.endpoint, DEFAULT_PORT)
    asked = params.get_as_bool("is_host")
    serves = _matches_machine_hostname(host) if asked is None else asked
    timeout = timedelta(seconds=params.get_as_int("read_timeout", 60))
    # Of agents of one machine the first serves.
    for master in [True, False] if serves else [False]:
        try:
            return TCPStore(host, port, None, master, timeout, False, multi_tenant=True)
        except (DistNetworkError, OSError) as error:
            if not master or asked:
                raise RendezvousConnectionError(f"the store of the rendezvous cannot be reached: {error}") from error
    return None


def _file_store(params):
    path = params.endpoint
    if not path:
        descriptor, path = tempfile.mkstemp()
        os.close(descriptor)
    try:
        return FileStore(path)
    except DistError as error:
        raise RendezvousConnectionError(f"the file of the rendezvous cannot be used: {error}") from error


def create_backend(params):
    """A backend over a TCPStore at the endpoint, or with store_type=file a FileStore. Returns: (backend, store).

    Raises: ValueError for another store_type, RendezvousConnectionError."""
    kind = str(params.get("store_type", "tcp")).strip().lower()
    if kind not in ("tcp", "file"):
        raise ValueError(f"store_type of a c10d rendezvous is tcp or file, but got '{kind}'")
    store = _tcp_store(params) if kind == "tcp" else _file_store(params)
    return C10dRendezvousBackend(store, params.run_id), store
