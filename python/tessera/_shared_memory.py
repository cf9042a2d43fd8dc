"""Memory of storages that other processes can map, and how it is handed to them.

A storage that is shared lies in a file of the kernel's memory: under the strategy "file_descriptor" one without a name,
under "file_system" one in /dev/shm. `Regions` knows which file lies under which address, so that a storage that is sent
again, by this process or by one that forked from it, is the same memory for all. An entry counts as long as the
kernel's list of mappings shows that file at that address; files of memory that is gone are let go when more memory
comes to be shared and when Python collects garbage.

A named file has a link for each process that has it and one for each message that is under way, which becomes the
receiver's: it goes with the last of them. Python's resource tracker removes the links of processes that are killed.
"""

import collections
import gc
import os
import resource
import threading
import weakref

STRATEGIES = ("file_descriptor", "file_system")
_FOLDER = "/dev/shm"
_UNCHECKED_FILES = 16  # as many regions, or bytes, may wait to be looked at
_UNCHECKED_BYTES = 16 << 20

_strategy = STRATEGIES[0]


def strategy():
    return _strategy


def set_strategy(name):
    """Raises: AssertionError for a name that is not one of STRATEGIES."""
    global _strategy
    if name not in STRATEGIES:
        raise AssertionError(f"a sharing strategy is one of {', '.join(STRATEGIES)}, but got {name!r}")
    if name == "file_system":
        _tracker().ensure_running()  # one for this process and those that it is going to fork
    _strategy = name


class Region:
    """A file under a mapping: its identity, and a descriptor or a path by which others get it."""

    def __init__(self, storage, descriptor=None, path=None):
        self.size = storage.nbytes()
        self.descriptor, self.path = descriptor, path
        self.process = os.getpid()
        facts = os.stat(path if descriptor is None else descriptor)
        self.identity = (facts.st_dev, facts.st_ino)

    def let_go(self):
        if self.descriptor is not None:
            os.close(self.descriptor)
        elif self.process == os.getpid():  # what a process forked from the owner knows is the owner's link
            unlink(self.path)


def _mapped_files(addresses):
    """{address: (device, inode)} of those `addresses` where a mapping of this process begins."""
    found = {}
    with open("/proc/self/maps", "rb") as lines:
        for line in lines:
            address = int(line[: line.index(b"-")], 16)
            if address in addresses:
                _, _, _, device, inode, *_ = line.split()
                major, minor = (int(part, 16) for part in device.split(b":"))
                found[address] = (os.makedev(major, minor), int(inode))
    return found


class Regions:
    """Address -> Region, for the shared memory of this process. Its methods are for who holds `_lock`."""

    def __init__(self):
        self._known = {}
        self._seen = {}  # address -> weak reference to the storage's object, which shows that the memory is there
        self._died = collections.deque()  # (address, reference) of objects that went; tensors may have the memory still
        self._doubtful = set()  # their addresses
        self._new_doubts = self._new_bytes = 0  # since the list of mappings was read last
        self.descriptors = 0

    def add(self, storage, region):
        if collect not in gc.callbacks:
            gc.callbacks.append(collect)
        self._doubt()
        if self._new_doubts >= _UNCHECKED_FILES or self._new_bytes >= _UNCHECKED_BYTES:
            self.clean()
        address = storage.data_ptr()
        self._forget(address)  # whose memory is gone: this one is there
        self._known[address] = region
        self.descriptors += region.descriptor is not None
        self._watch(address, storage)

    def find(self, storage):
        """The region of a shared storage; None if it is not known here."""
        address = storage.data_ptr()
        region = self._known.get(address)
        if region is None or region.size < storage.nbytes():
            return None
        seen = self._seen.get(address)
        if seen is None or seen() is not storage:
            self._check({address})
            self._watch(address, storage)
        return self._known.get(address)

    def clean(self):
        """Lets go of the files of memory that is gone."""
        self._doubt()
        self._check(self._doubtful)
        self._new_doubts = self._new_bytes = 0

    def _watch(self, address, storage):
        if address in self._known:
            self._doubtful.discard(address)
            self._seen[address] = weakref.ref(storage, lambda ref: self._died.append((address, ref)))

    def _doubt(self):
        while self._died:
            address, ref = self._died.popleft()
            if self._seen.get(address) is ref:
                del self._seen[address]
                self._doubtful.add(address)
                self._new_doubts += 1
                self._new_bytes += self._known[address].size

    def _check(self, addresses):
        mapped = _mapped_files(addresses) if addresses else {}
        for address in list(addresses):
            if mapped.get(address) != self._known[address].identity:
                self._forget(address)

    def _forget(self, address):
        region = self._known.pop(address, None)
        if region is not None:
            self._seen.pop(address, None)
            self._doubtful.discard(address)
            self.descriptors -= region.descriptor is not None
            region.let_go()

    def unlink_all(self):
        """At the end of the process: its links go."""
        for region in self._known.values():
            if region.path is not None:
                region.let_go()


regions = Regions()
_lock = threading.Lock()


def _after_fork():
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def collect(phase, info):
    """Called by Python's garbage collector."""
    if phase == "stop" and info["generation"] == 2 and _lock.acquire(blocking=False):
        try:
            regions.clean()
        finally:
            _lock.release()


# --- files with names ---


def _tracker():
    from multiprocessing import resource_tracker

    return resource_tracker


def _new_path():
    """A path for a link, which the tracker knows before there is one."""
    path = f"{_FOLDER}/torch_{os.getpid()}_{os.urandom(8).hex()}"
    _tracker().register(path[len(_FOLDER) :], "shared_memory")
    return path


def unlink(path):
    """Removes a link of a named file, if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:  # not made yet, or gone by somebody's hand
        pass
    _tracker().unregister(path[len(_FOLDER) :], "shared_memory")


def _unlink_at_exit():
    """Asks the multiprocessing package, which does so at the end of children as well."""
    from multiprocessing import util

    global _unlinks_at_exit_of
    if _unlinks_at_exit_of != os.getpid():
        _unlinks_at_exit_of = os.getpid()
        util.Finalize(None, regions.unlink_all, exitpriority=-100)


_unlinks_at_exit_of = None  # the process that was asked


def _named_file(size):
    """(descriptor, path) of a new file with so many bytes of memory behind it. Raises: OSError where there is none."""
    path = _new_path()
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(descriptor, 0, size)  # an error now, not a signal at the first write
    except BaseException:
        if descriptor >= 0:
            os.close(descriptor)
        unlink(path)
        raise
    return descriptor, path


def _map_over(address, size, descriptor):
    """Puts a file under the shared memory at an address, whose mapping is the caller's and begins there."""
    import ctypes
    import mmap

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    fixed = 0x10
    done = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | fixed, descriptor, 0)
    if done != address:
        error = ctypes.get_errno()
        raise OSError(error, f"{size} bytes could not be mapped: {os.strerror(error)}")


# --- moving and sending ---


def _move_to_named_file(storage):
    size = storage.nbytes()
    descriptor, path = _named_file(size)
    try:
        anonymous, _ = storage._share_fd_cpu_()
        try:
            done = 0
            while done < size:
                done += os.sendfile(descriptor, anonymous, done, size - done)
        finally:
            os.close(anonymous)
        _map_over(storage.data_ptr(), size, descriptor)
        regions.add(storage, Region(storage, path=path))
    except BaseException:
        unlink(path)
        raise
    finally:
        os.close(descriptor)
    _unlink_at_exit()


def _has_descriptors():
    """Half of those that the process may have are for others."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most == resource.RLIM_INFINITY or regions.descriptors < most // 2


def _move(storage):
    if _strategy != "file_system":
        if not _has_descriptors():
            regions.clean()
        if _has_descriptors():
            descriptor, _ = storage._share_fd_cpu_()
            regions.add(storage, Region(storage, descriptor))
            return
    _move_to_named_file(storage)


def share(storage, without_file):
    """Moves a storage in CPU memory to a file that other processes can map; where there is none to be had, what
    `without_file()` does has to do.
    """
    if storage.is_shared() or storage.device.type != "cpu" or not storage.nbytes() or not storage.resizable():
        without_file()
        return
    with _lock:
        try:
            _move(storage)
        except (OSError, RuntimeError):
            without_file()


def region_to_send(storage):
    """(region, storage): the region of the memory, which is shared from now on.

    Memory that can't move, since it is somebody else's or somebody has its address, is copied: then the storage is
    another one.

    Raises: RuntimeError if the storage is shared in a way that processes can only inherit.
    """
    with _lock:
        if not storage.is_shared():
            if not storage.resizable():
                storage = storage.clone()
            _move(storage)
        region = regions.find(storage)
        if region is None:
            raise RuntimeError(
                f"this shared memory of {storage.nbytes()} bytes has no file by which it could be sent to a process: "
                "children inherit it, or a clone() of the tensor can be sent"
            )
        return region, storage


def link_to_send(region):
    """Another name of a named file, for a message; the receiver unlinks it. Raises: FileNotFoundError if the process
    that made the file has ended.
    """
    path = _new_path()
    try:
        os.link(region.path, path)
    except BaseException:
        unlink(path)
        raise
    return path


def receive_descriptor(cls, descriptor, size):
    """The storage over a descriptor, which becomes the storage's."""
    try:
        storage = cls._new_shared_fd_cpu(descriptor, size)
        with _lock:
            regions.add(storage, Region(storage, descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return storage


def receive_path(cls, path, size):
    """The storage over a named file, whose link becomes the storage's."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        storage = cls._new_shared_fd_cpu(descriptor, size)
        with _lock:
            regions.add(storage, Region(storage, path=path))
    finally:
        os.close(descriptor)
    _unlink_at_exit()
    return storage
