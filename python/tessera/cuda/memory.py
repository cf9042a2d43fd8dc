"""What the caching allocators of devices and of pinned memory hold. Without a device: nothing."""

import collections
import contextlib
import ctypes
import pickle
import sys
import warnings

import tessera
from tessera.cuda import _device_index, _lazy_init, _library, current_stream, is_initialized


def empty_cache():
    """Gives unused memory back to the system."""
    if is_initialized():
        _library._module.empty_cache()


def caching_allocator_alloc(size, device=None, stream=None):
    """The address of new memory, for other libraries; `caching_allocator_delete` frees it.

    Args:
        size: bytes.
        device: by default the selected one.
        stream: whose work uses it: a Stream or an address; by default the selected one.

    Raises: RuntimeError without a device, TypeError for another stream.
    """
    index = _device_index(device)
    stream = current_stream(index) if stream is None else stream
    if isinstance(stream, tessera.cuda.Stream):
        stream = stream.cuda_stream
    if not isinstance(stream, int):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.cuda.Stream` or `int` representing a pointer to a "
            "existing stream"
        )
    return _library._module.allocate(index, stream, size)


def caching_allocator_delete(mem_ptr):
    """Frees memory of `caching_allocator_alloc`."""
    if mem_ptr:
        _lazy_init().release(mem_ptr)


def caching_allocator_enable(value=True):
    """Switches caching on or off: without it memory comes from the device each time, and goes back at once."""
    library = _library.load()
    if library is not None:
        library.set_caching(bool(value))


class CUDAPluggableAllocator:
    """An allocator in a shared library.

    Args:
        path_to_so_file: the library.
        alloc_fn_name: its function `void* (ssize_t size, int device, cudaStream_t stream)`.
        free_fn_name: its function `void (void* ptr, ssize_t size, int device, cudaStream_t stream)`.

    Raises: OSError and AttributeError if they can't be loaded.
    """

    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        library = ctypes.CDLL(path_to_so_file)
        self._functions = getattr(library, alloc_fn_name), getattr(library, free_fn_name)  # keep the library loaded
        self._addresses = tuple(ctypes.cast(f, ctypes.c_void_p).value for f in self._functions)

    def allocator(self):
        """What `change_current_allocator` installs: the addresses of the two functions."""
        return self._addresses


def change_current_allocator(allocator):
    """Installs an allocator in place of the caching one, before anything is allocated. Raises: RuntimeError afterwards,
    or without a device.
    """
    global _backend, _kept
    _lazy_init().set_pluggable_allocator(*allocator.allocator())
    _backend, _kept = "pluggable", allocator


_backend, _kept = "native", None


def get_allocator_backend():
    """The name of the allocator: 'native', or 'pluggable' for one that was installed."""
    return _backend


def mem_get_info(device=None):
    """(free, total): bytes of a device. Raises: RuntimeError without a device."""
    index = _device_index(device)
    return _library._module.memory_info(index)


def set_per_process_memory_fraction(fraction, device=None):
    """At most this part of a device's memory is taken; beyond, OutOfMemoryError is raised.

    Raises: TypeError if `fraction` is no float, ValueError outside [0, 1], RuntimeError without a device.
    """
    index = _device_index(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _library._module.set_memory_fraction(fraction, index)


def get_per_process_memory_fraction(device=None):
    """The part of a device's memory that may be taken. Raises: RuntimeError without a device."""
    index = _device_index(device)
    return _library._module.memory_fraction(index)


def list_gpu_processes(device=None):
    """A text: the processes that use a device, and how much of its memory."""
    from tessera.cuda import _nvml

    try:
        found = _nvml.gpu_processes(device)
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    lines = [f"GPU:{_device_index(device)}"] + [
        f"process {pid:>10d} uses {used / 2**20:>12.3f} MB GPU memory" for pid, used in found
    ]
    return "\n".join(lines if found else lines + ["no processes are running"])


# ---- statistics
# -------------------------------------------------------------------------------------------------------------


def _stats(device):
    if not is_initialized():
        return {}
    index = _device_index(device)
    return dict(_library._module.memory_stats(index))


def _nested(flat):
    result = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        inner = result
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return result


def memory_stats(device=None):
    """Counters of the allocator: an OrderedDict from names such as 'allocated_bytes.all.peak', empty while CUDA is not
    in use.
    """
    return collections.OrderedDict(sorted(_stats(device).items()))


def memory_stats_as_nested_dict(device=None):
    """The counters as nested dicts."""
    return _nested(_stats(device))


def host_memory_stats():
    """Counters of the allocator of pinned memory: an OrderedDict."""
    return collections.OrderedDict(sorted(_library._module.pinned_memory_stats()) if is_initialized() else ())


def host_memory_stats_as_nested_dict():
    """The counters of pinned memory as nested dicts."""
    return _nested(host_memory_stats())


def _counter(name, key, doc):
    def function(device=None):
        return _stats(device).get(key, 0)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


memory_allocated = _counter("memory_allocated", "allocated_bytes.all.current", "Bytes that tensors use on a device.")
max_memory_allocated = _counter(
    "max_memory_allocated",
    "allocated_bytes.all.peak",
    "The most bytes that tensors used on a device since the start or `reset_peak_memory_stats`.",
)
memory_reserved = _counter(
    "memory_reserved", "reserved_bytes.all.current", "Bytes that the allocator holds on a device."
)
max_memory_reserved = _counter(
    "max_memory_reserved", "reserved_bytes.all.peak", "The most bytes that the allocator held on a device."
)


def memory_cached(device=None):
    """Deprecated: `memory_reserved`."""
    warnings.warn(
        "`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`", FutureWarning, stacklevel=2
    )
    return memory_reserved(device)


def max_memory_cached(device=None):
    """Deprecated: `max_memory_reserved`."""
    warnings.warn(
        "`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`",
        FutureWarning,
        stacklevel=2,
    )
    return max_memory_reserved(device)


def reset_peak_memory_stats(device=None):
    """Sets the peaks of a device to the present values. Raises: RuntimeError without a device."""
    index = _device_index(device)
    _library._module.reset_peak_memory_stats(index)


def reset_accumulated_memory_stats(device=None):
    """Sets the sums over time of a device to zero. Raises: RuntimeError without a device."""
    index = _device_index(device)
    _library._module.reset_accumulated_memory_stats(index)


def reset_max_memory_allocated(device=None):
    """Deprecated: `reset_peak_memory_stats`."""
    warnings.warn(
        "torch.cuda.reset_max_memory_allocated now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak "
        "memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device=None):
    """Deprecated: `reset_peak_memory_stats`."""
    warnings.warn(
        "torch.cuda.reset_max_memory_cached now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak "
        "memory stats.",
        FutureWarning,
        stacklevel=2,
    )
    reset_peak_memory_stats(device)


def reset_peak_host_memory_stats():
    """Sets the peaks of pinned memory to the present values."""
    if is_initialized():
        _library._module.reset_peak_pinned_memory_stats()


def reset_accumulated_host_memory_stats():
    """Sets the sums over time of pinned memory to zero."""
    if is_initialized():
        _library._module.reset_accumulated_pinned_memory_stats()


def _bytes_text(n):
    for unit in ("B  ", "KiB", "MiB", "GiB", "TiB"):
        if n < 768 * 1024 or unit == "TiB":
            return f"{n:>7d} {unit}"
        n //= 1024


def _count_text(n):
    for unit in (" ", "K", "M", "B"):
        if n < 750 * 1000 or unit == "B":
            return f"{n:>7d} {unit}  "
        n //= 1000


_SUMMARY = (
    ("Allocated memory", "allocated_bytes", _bytes_text),
    ("Active memory", "active_bytes", _bytes_text),
    ("Requested memory", "requested_bytes", _bytes_text),
    ("GPU reserved memory", "reserved_bytes", _bytes_text),
    ("Non-releasable memory", "inactive_split_bytes", _bytes_text),
    ("Allocations", "allocation", _count_text),
    ("Active allocs", "active", _count_text),
    ("GPU reserved segments", "segment", _count_text),
    ("Non-releasable allocs", "inactive_split", _count_text),
)


def memory_summary(device=None, abbreviated=False):
    """A table of the counters, as text. Raises: RuntimeError without a device."""
    index = _device_index(device)
    stats = memory_stats(index)
    columns = ("current", "peak", "allocated", "freed")
    title = f" CUDA OOMs: {stats['num_ooms']:<12d} | {'':6} cudaMalloc retries: {stats['num_alloc_retries']:<8d} "
    wide = "=" * 75
    lines = [
        f"|{wide}|",
        f"|{'Tessera CUDA memory summary, device ID ' + str(index):^75}|",
        f"|{'-' * 75}|",
        f"|{title:^75}|",
        f"|{wide}|",
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |",
    ]
    for name, key, text in _SUMMARY:
        lines.append(f"|{'-' * 75}|")
        for kind, shown in (
            ("all", name),
            ("large_pool", "      from large pool"),
            ("small_pool", "      from small pool"),
        ):
            if not abbreviated or kind == "all":
                lines.append(
                    f"| {shown:<22}|"
                    + "|".join(f" {text(stats[f'{key}.{kind}.{column}'])}" for column in columns)
                    + "|"
                )
    for name, key in (("Oversize allocations", "oversize_allocations"), ("Oversize GPU segments", "oversize_segments")):
        lines += [
            f"|{'-' * 75}|",
            f"| {name:<22}|" + "|".join(f" {_count_text(stats[f'{key}.{column}'])}" for column in columns) + "|",
        ]
    return "\n".join([*lines, f"|{wide}|", ""])


# ---- snapshots
# --------------------------------------------------------------------------------------------------------------


def memory_snapshot(mempool_id=None, include_traces=True):
    """The segments of the allocator on all devices, or of one pool: a list of dicts, each with its blocks.

    `include_traces` is for those who ask for all of a snapshot: segments have no traces, see `_snapshot`.
    """
    segments = _library._module.memory_snapshot() if is_initialized() else []
    return segments if mempool_id is None else [s for s in segments if s["segment_pool_id"] == tuple(mempool_id)]


_ACTIONS = frozenset(
    (
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "oom",
        "snapshot",
    )
)
_shown_device, _hidden_actions = None, frozenset()


def _record_memory_history(
    enabled="all",
    context="all",
    stacks="all",
    max_entries=sys.maxsize,
    device=None,
    clear_history=False,
    compile_context=False,
    global_record_annotations=False,
    skip_actions=None,
):
    """Begins to record what the allocators do, for `_snapshot`; None ends it.

    Args:
        enabled: None, 'state' or 'all' (or True and False).
        context, stacks: which events get stacks (None, 'state', 'alloc', 'all'), and of which languages ('python',
            'all'): none are recorded here.
        max_entries: the last ones are kept.
        device: only its events are shown.
        clear_history: forget what was recorded.
        skip_actions: kinds of events, such as 'alloc', that are not shown.

    Raises: RuntimeError for other values, NotImplementedError for `compile_context` and `global_record_annotations`, of
        which there is nothing to record.
    """
    global _shown_device, _hidden_actions
    for name, value, choices in (
        ("enabled", enabled, (None, "state", "all", True, False)),
        ("context", context, (None, "state", "alloc", "all")),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in choices:
            raise RuntimeError(f"expected {name} to be one of {', '.join(map(repr, choices))}, got {value!r}")
    if compile_context or global_record_annotations:
        raise NotImplementedError(
            "compile_context and global_record_annotations: there are no contexts of compiled code and no annotations "
            "to record; leave them out"
        )
    hidden = frozenset(skip_actions or ())
    if unknown := sorted(hidden - _ACTIONS):
        raise RuntimeError(f"skip_actions: expected names among {', '.join(sorted(_ACTIONS))}, got {unknown}")
    shown = None if device is None else _device_index(device)
    _lazy_init().record_memory_history(enabled in ("all", True), min(max_entries, sys.maxsize), bool(clear_history))
    _shown_device, _hidden_actions = shown, hidden


def _traces():
    """The recorded events: a list for each device."""
    lists = [[] for _ in range(tessera.cuda.device_count())]
    for event in _library._module.memory_history() if is_initialized() else ():
        device = event.pop("device")
        if _shown_device in (None, device) and event["action"] not in _hidden_actions:
            lists[device].append(event)
    return lists


def _snapshot(device=None):
    """Segments, settings and traces as one dict; only of `device` if that is given."""
    segments = memory_snapshot()
    if device is not None:
        index = _device_index(device)
        segments = [s for s in segments if s["device"] == index]
    text = _library._module.allocator_settings() if is_initialized() else ""
    return {
        "segments": segments,
        "device_traces": _traces(),
        "allocator_settings": {"PYTORCH_ALLOC_CONF": text} if text else {},
        "external_annotations": [],
    }


def _dump_snapshot(filename="dump_snapshot.pickle"):
    """Writes `_snapshot()` to a file."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


# ---- pools
# ------------------------------------------------------------------------------------------------------------------


class MemPool:
    """Memory that only blocks under `use_mem_pool` come from. It goes back to the device when the pool and all its
    blocks are gone.

    Args:
        allocator: where the pool's memory comes from, as `CUDAPluggableAllocator.allocator()` gives it; by default from
            the device.
        use_on_oom: others may take the pool's free memory when the device has no more.
        no_split: blocks are not cut into smaller ones.

    Raises: RuntimeError without a device.
    """

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        self._library = _lazy_init()
        self.id = self._library.new_pool_id(True)
        self.allocator, self.use_on_oom, self.no_split = allocator, use_on_oom, no_split
        self._device = self._library.current_device()
        self._library.begin_pool(self._device, self.id)  # the pool's own use, which keeps it
        self._library.set_pool_options(self._device, self.id, *(allocator or (0, 0)), bool(use_on_oom), bool(no_split))
        self._library.end_pool(self._device, self.id)

    def use_count(self):
        """How many use the pool: the object itself and each `use_mem_pool` block."""
        return self._library.pool_use_count(self._device, self.id)

    def snapshot(self, include_traces=True):
        """The pool's segments: see `memory_snapshot`."""
        return memory_snapshot(self.id, include_traces)

    def __del__(self, is_finalizing=sys.is_finalizing):
        if getattr(self, "_device", None) is not None and not is_finalizing():
            self._library.release_pool(self._device, self.id)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """Context manager: what this thread allocates on a device comes from the pool. Raises: RuntimeError without a
    device.
    """
    index = _device_index(device)
    library = _library._module
    library.begin_pool(index, pool.id)
    try:
        yield
    finally:
        library.end_pool(index, pool.id)
        library.release_pool(index, pool.id)
