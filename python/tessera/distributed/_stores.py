"""Key-value stores, over which processes find each other.

>>> from tessera.distributed import HashStore, PrefixStore
>>> store = HashStore()
>>> store.set("greeting", "hello")
>>> store.get("greeting")
b'hello'
>>> PrefixStore("numbers", store).add("n", 3)
3
>>> store.get("numbers/n")
b'3'
"""

import fcntl
import os
import struct
import threading
import time
import weakref
from datetime import timedelta

from tessera.distributed._errors import DistNetworkError, DistStoreError
from tessera.distributed._native import load

# What the extension is asked for: `Ask` in distributed/store.h.
_SET, _GET, _ADD, _APPEND, _CHECK, _COMPARE_SET, _DELETE, _MULTI_SET, _COUNT, _LIST, _WAIT, _PUSH, _POP, _LENGTH = (
    range(2, 16)
)
_DEFAULT_TIMEOUT = timedelta(seconds=300)


def _bytes(value, what):
    if type(value) is str:
        return value.encode()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    raise TypeError(f"a store's {what} is a str or bytes, but got {type(value).__name__}")


def _key(value):
    if type(value) is str:
        return value.encode()
    raise TypeError(f"a store's key is a str, but got {type(value).__name__}")


def _keys(values):
    if isinstance(values, (str, bytes)):
        raise TypeError(f"expected a list of keys, but got {type(values).__name__}")
    return list(values)


def _seconds(timeout):
    if not isinstance(timeout, timedelta):
        raise TypeError(f"a timeout is a datetime.timedelta, but got {type(timeout).__name__}")
    return timeout.total_seconds()


class Store:
    """Keys and values that the processes of a program share. Subclasses say what `set`, `get`, `add` and so on do.

    Keys are strings, values bytes (a str is stored as UTF-8). What waits for a key does so for at most `timeout`.
    """

    def __init__(self):
        self._timeout = _DEFAULT_TIMEOUT

    def _missing(self, what):
        raise NotImplementedError(f"Not implemented. A {type(self).__name__} has no {what}()")

    def set(self, key, value):
        """Stores a value, in place of what is there."""
        self._missing("set")

    def get(self, key):
        """The value of a key, waiting for it. Raises: DistStoreError when the timeout is over."""
        self._missing("get")

    def add(self, key, value):
        """Adds a number to the counter `key`, which begins at 0. Returns: the new number."""
        self._missing("add")

    def append(self, key, value):
        """Appends to the value of a key, which is created if need be."""
        self._missing("append")

    def check(self, keys):
        """Whether all of these keys are there. Does not wait."""
        self._missing("check")

    def compare_set(self, key, expected_value, desired_value):
        """Stores the desired value if the present one is the expected one, or if there is none and "" is expected.

        Returns: the value that is there now; of a missing key the expected one."""
        self._missing("compare_set")

    def delete_key(self, key):
        """Removes a key. Returns: whether it was there."""
        self._missing("delete_key")

    def num_keys(self):
        """The number of keys."""
        self._missing("num_keys")

    def list_keys(self):
        """All keys."""
        self._missing("list_keys")

    def wait(self, keys, timeout=None):
        """Waits until all of these keys are there, for `timeout` or the store's own."""
        seconds = _seconds(self.timeout if timeout is None else timeout)
        end, pause = time.monotonic() + seconds, 0.001
        while not self.check(keys):
            if time.monotonic() >= end:
                absent = ", ".join(key for key in keys if not self.check([key]))
                raise DistStoreError(
                    f"wait timeout after {seconds * 1000:.0f}ms, keys: {absent} (of a {type(self).__name__}; timed out)"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def multi_get(self, keys):
        """The values of several keys, waiting for all of them."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        """Stores several values."""
        for key, value in _pairs(keys, values):
            self.set(key, value)

    def queue_push(self, key, value):
        """Puts a value at the end of a queue, which is created if need be."""
        self._missing("queue_push")

    def queue_pop(self, key, block=True):
        """Takes the first value of a queue, waiting for one if `block`.

        Raises: QueueEmptyError if there is none and `block` is false, DistStoreError when the timeout is over."""
        self._missing("queue_pop")

    def queue_len(self, key):
        """The number of values in a queue."""
        self._missing("queue_len")

    def has_extended_api(self):
        """Whether `append`, `multi_get`, `multi_set` and the queues are more than a loop over the others."""
        return False

    def clone(self):
        """Another object for the same data, which another thread may use meanwhile."""
        self._missing("clone")

    def set_timeout(self, timeout):
        """Sets the time that what waits, waits at most (datetime.timedelta)."""
        _seconds(timeout)
        self._timeout = timeout

    @property
    def timeout(self):
        """The time that what waits, waits at most (datetime.timedelta)."""
        return getattr(self, "_timeout", _DEFAULT_TIMEOUT)

    def __reduce_ex__(self, protocol):
        raise TypeError(f"a {type(self).__name__} belongs to its process and cannot be pickled")


def _pairs(keys, values):
    keys, values = list(keys), list(values)
    if len(keys) != len(values):
        raise DistStoreError(
            f"multi_set takes as many values as keys, but got {len(keys)} keys and {len(values)} values"
        )
    return zip(keys, values)


class _NativeStore(Store):
    """A store whose data the extension holds, or reaches."""

    def _ask(self, what, *fields, timeout=None):
        return self._native.store_ask(
            self._handle, what, fields, _seconds(self._timeout if timeout is None else timeout)
        )

    def set(self, key, value):
        self._ask(_SET, _key(key), _bytes(value, "value"))

    def get(self, key):
        return self._ask(_GET, _key(key))[0]

    def add(self, key, value):
        return int(self._ask(_ADD, _key(key), b"%d" % value)[0])

    def append(self, key, value):
        self._ask(_APPEND, _key(key), _bytes(value, "value"))

    def check(self, keys):
        return self._ask(_CHECK, *map(_key, _keys(keys))) == [b"1"]

    def compare_set(self, key, expected_value, desired_value):
        expected, desired = _bytes(expected_value, "value"), _bytes(desired_value, "value")
        return self._ask(_COMPARE_SET, _key(key), expected, desired)[0]

    def delete_key(self, key):
        return self._ask(_DELETE, _key(key)) == [b"1"]

    def num_keys(self):
        return int(self._ask(_COUNT)[0])

    def list_keys(self):
        return [key.decode() for key in self._ask(_LIST) if key != b"init/"]  # which counts who came

    def wait(self, keys, timeout=None):
        self._ask(_WAIT, *map(_key, _keys(keys)), timeout=timeout)

    def multi_get(self, keys):
        return self._ask(_GET, *map(_key, keys))

    def multi_set(self, keys, values):
        flat = [part for key, value in _pairs(keys, values) for part in (_key(key), _bytes(value, "value"))]
        self._ask(_MULTI_SET, *flat)

    def queue_push(self, key, value):
        self._ask(_PUSH, _key(key), _bytes(value, "value"))

    def queue_pop(self, key, block=True):
        return self._ask(_POP, _key(key), b"1" if block else b"0")[0]

    def queue_len(self, key):
        return int(self._ask(_LENGTH, _key(key))[0])

    def has_extended_api(self):
        return True


class HashStore(_NativeStore):
    """A store of this process, for its threads."""

    def __init__(self):
        super().__init__()
        self._native = load()
        self._handle = self._native.store_local()

    def clone(self):
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other


# Servers of this process that take several masters: (host, port) -> server.
_tenants: "weakref.WeakValueDictionary[tuple, _Server]" = weakref.WeakValueDictionary()


class _Server:
    """A server of this process; its thread ends with the last store that holds it."""

    def __init__(self, host, port, descriptor):
        self.handle, self.port = load().store_serve(host, port, descriptor)


class TCPStore(_NativeStore):
    """A store that one process serves and others reach by TCP.

    Args:
        host_name: the server's host. The server listens at this address alone.
        port: its port; 0 lets the system choose (`port` says which).
        world_size: number of processes that will use it, the server's among them; None if that is not known.
        is_master: whether this process serves.
        timeout: how long to wait for the server, for the others, and for keys (datetime.timedelta).
        wait_for_workers: whether the master waits until all of `world_size` have come.
        multi_tenant: whether several masters of this process may share a server.
        master_listen_fd: a listening socket for the server, which takes it over; `port` has to be its port.
        use_libuv: kept for programs that choose between servers; there is one (`libuvBackend` gives it back).

    Raises: DistNetworkError if the server cannot listen or be reached, DistStoreError if not all come in time.
    """

    def __init__(
        self,
        host_name,
        port,
        world_size=None,
        is_master=False,
        timeout=_DEFAULT_TIMEOUT,
        wait_for_workers=True,
        multi_tenant=False,
        master_listen_fd=None,
        use_libuv=True,
    ):
        super().__init__()
        if not 0 <= port <= 65535:
            raise ValueError(f"TCPStore: a port is a number from 0 to 65535, but got {port}")
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0; None is for a number that is not known")
        self.set_timeout(timeout)
        self._native = load()
        self._host, self._port, self._libuv, self._server = host_name, port, bool(use_libuv), None
        if is_master:
            self._serve(multi_tenant, master_listen_fd)
        self._handle = self._native.store_connect(host_name, self._port, _seconds(timeout))
        if wait_for_workers:
            self._meet(world_size, is_master)

    def _serve(self, multi_tenant, descriptor):
        place = (self._host, self._port)
        self._server = _tenants.get(place) if multi_tenant and self._port else None
        if self._server is not None:
            return
        self._server = _Server(self._host, self._port, -1 if descriptor is None else descriptor)
        if descriptor is not None and self._port not in (0, self._server.port):
            raise DistNetworkError(
                f"TCPStore: master_listen_fd listens at port {self._server.port}, not at port {self._port}"
            )
        self._port = self._server.port
        if multi_tenant:
            _tenants[self._host, self._port] = self._server

    def _meet(self, world_size, is_master):
        if world_size is None or world_size < 0:
            return
        come = self.add("init/", 1)
        if not is_master:
            return
        end = time.monotonic() + _seconds(self.timeout)
        while come < world_size:
            if time.monotonic() >= end:
                raise DistStoreError(
                    f"Timed out after {_seconds(self.timeout):g} seconds waiting for clients. {come}/{world_size} "
                    "clients joined."
                )
            time.sleep(0.005)
            come = self.add("init/", 0)

    def clone(self):
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._handle = self._native.store_connect(self._host, self._port, _seconds(self.timeout))
        return other

    @property
    def host(self):
        """The server's host."""
        return self._host

    @property
    def port(self):
        """The server's port."""
        return self._port

    @property
    def libuvBackend(self):
        """What `use_libuv` was."""
        return self._libuv

    def __repr__(self):
        return f"TCPStore(host={self._host!r}, port={self._port})"


class FileStore(Store):
    """A store in a file, for processes that share a file system. Who needs a key reads what was appended.

    Args:
        file_name: the path of the file, whose folder has to exist.
        world_size: number of processes that use it: the file goes away with the last of them. It stays if negative.
    """

    _USERS = "users/"

    def __init__(self, file_name, world_size=-1):
        super().__init__()
        self._path, self._world_size = os.fspath(file_name), world_size
        self._lock, self._values, self._read = threading.RLock(), {}, 0
        self.add(self._USERS, 1)
        if world_size >= 0:
            weakref.finalize(self, _leave, self._path, world_size)

    @property
    def path(self):
        """The file's path."""
        return self._path

    def _open(self):
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DistStoreError(f"FileStore: {self._path} cannot be opened: {error.strerror}") from error

    def _with_file(self, change=None):
        """Reads what others appended; appends what `change()` returns, a list of (key, value or None)."""
        with self._lock:
            file = self._open()
            try:
                fcntl.flock(file, fcntl.LOCK_SH if change is None else fcntl.LOCK_EX)
                self._catch_up(file)
                entries = change() if change is not None else []
                if entries:
                    self._append(file, entries)
            finally:
                os.close(file)  # and gives the lock back

    def _catch_up(self, file):
        size = os.fstat(file).st_size
        if size < self._read:  # somebody began it anew
            self._values, self._read = {}, 0
        data, at = os.pread(file, size - self._read, self._read), 0
        while at < len(data):
            key_size, value_size = struct.unpack_from("<Iq", data, at)
            at += 12
            key = data[at : at + key_size].decode()
            at += key_size
            self._remember(key, data[at : at + value_size] if value_size >= 0 else None)
            at += max(value_size, 0)
        self._read += at

    def _remember(self, key, value):
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def _append(self, file, entries):
        encoded = [(key.encode(), value) for key, value in entries]
        data = b"".join(
            struct.pack("<Iq", len(key), -1 if value is None else len(value)) + key + (value or b"")
            for key, value in encoded
        )
        try:
            written = os.pwrite(file, data, self._read)
        except OSError as error:
            os.ftruncate(file, self._read)
            raise DistStoreError(f"FileStore: {self._path} cannot be written: {error.strerror}") from error
        if written != len(data):
            os.ftruncate(file, self._read)
            raise DistStoreError(f"FileStore: {self._path} cannot be written: the disk is full")
        self._read += written
        for key, value in entries:
            self._remember(key, value)

    def set(self, key, value):
        _key(key)
        value = _bytes(value, "value")
        self._with_file(lambda: [(key, value)])

    def get(self, key):
        self.wait([key])
        return self._values[key]

    def add(self, key, value):
        _key(key)
        result = 0

        def change():
            nonlocal result
            present = self._values.get(key, b"0")
            try:
                result = int(present) + value
            except ValueError:
                raise DistStoreError(f"add: the value of key '{key}' is no number") from None
            return [(key, b"%d" % result)]

        self._with_file(change)
        return result

    def append(self, key, value):
        _key(key)
        value = _bytes(value, "value")
        self._with_file(lambda: [(key, self._values.get(key, b"") + value)])

    def check(self, keys):
        keys = _keys(keys)
        for key in keys:
            _key(key)
        self._with_file()
        return all(key in self._values for key in keys)

    def compare_set(self, key, expected_value, desired_value):
        _key(key)
        expected, desired = _bytes(expected_value, "value"), _bytes(desired_value, "value")
        result = b""

        def change():
            nonlocal result
            present = self._values.get(key)
            if present == expected or (present is None and not expected):
                result = desired
                return [(key, desired)]
            result = expected if present is None else present
            return []

        self._with_file(change)
        return result

    def delete_key(self, key):
        _key(key)
        had = False

        def change():
            nonlocal had
            had = key in self._values
            return [(key, None)] if had else []

        self._with_file(change)
        return had

    def num_keys(self):
        self._with_file()
        return len(self._values)

    def list_keys(self):
        self._with_file()
        return sorted(self._values)

    def clone(self):
        return FileStore(self._path, self._world_size if self._world_size < 0 else self._world_size + 1)


def _leave(path, world_size):
    """The last of the users removes the file."""
    if not os.path.exists(path):
        return
    try:
        store = FileStore(path, -1)
        there = store.add(FileStore._USERS, -1)  # without this one, which only looks
        left = store.add("left/", 1)
        if left >= max(world_size, there):
            os.unlink(path)
    except (OSError, DistStoreError):
        pass  # at the end of a process, at best


class PrefixStore(Store):
    """A store whose keys are those of another one that begin with `prefix` and a slash.

    Args:
        prefix: what comes before every key.
        store: the other store.
    """

    def __init__(self, prefix, store):
        super().__init__()
        if store is None:
            raise ValueError("PrefixStore: the store is None; it needs one whose keys it uses")
        if not isinstance(prefix, str) or not isinstance(store, Store):
            raise TypeError("PrefixStore takes a str and a Store")
        self._prefix, self._store = prefix, store

    def _of(self, key):
        _key(key)
        return f"{self._prefix}/{key}"

    @property
    def underlying_store(self):
        """The other store."""
        return self._store

    @property
    def _underlying_non_prefix_store(self):
        inner = self._store
        return inner._underlying_non_prefix_store if isinstance(inner, PrefixStore) else inner

    def set(self, key, value):
        self._store.set(self._of(key), _bytes(value, "value"))

    def get(self, key):
        return self._store.get(self._of(key))

    def add(self, key, value):
        return self._store.add(self._of(key), value)

    def append(self, key, value):
        name, value = self._of(key), _bytes(value, "value")
        if self._store.has_extended_api() or type(self._store).append is not Store.append:
            self._store.append(name, value)
        else:  # a program's own store: all of them can set and get
            self._store.set(name, self._store.get(name) + value)

    def check(self, keys):
        return self._store.check([self._of(key) for key in _keys(keys)])

    def compare_set(self, key, expected_value, desired_value):
        expected, desired = _bytes(expected_value, "value"), _bytes(desired_value, "value")
        return self._store.compare_set(self._of(key), expected, desired)

    def delete_key(self, key):
        return self._store.delete_key(self._of(key))

    def num_keys(self):
        return self._store.num_keys()

    def list_keys(self):
        start = self._prefix + "/"
        return [key[len(start) :] for key in self._store.list_keys() if key.startswith(start)]

    def wait(self, keys, timeout=None):
        keys = [self._of(key) for key in keys]
        if timeout is None:
            self._store.wait(keys)
        else:
            self._store.wait(keys, timeout)

    def multi_get(self, keys):
        return self._store.multi_get([self._of(key) for key in keys])

    def multi_set(self, keys, values):
        self._store.multi_set([self._of(key) for key in keys], [_bytes(value, "value") for value in values])

    def queue_push(self, key, value):
        self._store.queue_push(self._of(key), value)

    def queue_pop(self, key, block=True):
        return self._store.queue_pop(self._of(key), block)

    def queue_len(self, key):
        return self._store.queue_len(self._of(key))

    def has_extended_api(self):
        return self._store.has_extended_api()

    def clone(self):
        return PrefixStore(self._prefix, self._store.clone())

    def set_timeout(self, timeout):
        self._store.set_timeout(timeout)

    @property
    def timeout(self):
        return self._store.timeout
