"""The profiler of a block of code, annotations, and ranges for other profilers.

`tessera.profiler.profile` does the same with schedules and files.
"""

import functools
import uuid
import warnings

import tessera
from tessera.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    MemRecordsAcc,
)
from tessera.profiler import _recording
from tessera.profiler._kinds import DeviceType, ProfilerActivity, _ExperimentalConfig, kineto_available
from tessera.profiler._nvprof import EnforceUnique, parse_nvprof_trace

__all__ = [
    "DeviceType",
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "ProfilerActivity",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]

_recording.hide_functions_of(__file__)


class profile:
    """Context manager that records operators, nodes of backward and annotations of this thread.

    >>> import tessera.autograd.profiler as profiler
    >>> x = tessera.ones(3, requires_grad=True)
    >>> with profiler.profile() as prof:
    ...     (x * 2).sum().backward()
    >>> [e.count for e in prof.key_averages() if e.key == "MulBackward0"]
    [1]

    Args:
        enabled: False: nothing happens.
        use_cuda, use_device: the kind of device whose work is recorded as well, "cuda"; a warning says if there is
            none, or no CUPTI to record it with.
        record_shapes: events have the sizes of arguments (`input_shapes`) and the numbers among them.
        with_flops: events have estimates of floating point operations (`flops`).
        profile_memory: events have the CPU memory that was taken less what was given back.
        with_stack: events have the functions of Python around them (`stack`), which are events as well.
        with_modules: events have the modules around them (`module_hierarchy`).
        use_kineto: no difference.
        use_cpu: False: annotations alone are recorded; needs `use_kineto`.
        experimental_config: `_ExperimentalConfig`, or None.
        acc_events: events of several uses are kept together.
        custom_trace_id_callback: gives the trace's identity, a text.
        post_processing_timeout_s: no difference: nothing is worked out before somebody asks.

    Recordings do not nest, and there is one at a time in a process. Raises: RuntimeError for another one.
    """

    def __init__(
        self,
        enabled=True,
        *,
        use_cuda=False,
        use_device=None,
        record_shapes=False,
        with_flops=False,
        profile_memory=False,
        with_stack=False,
        with_modules=False,
        use_kineto=False,
        use_cpu=True,
        experimental_config=None,
        acc_events=False,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        self.enabled = enabled
        self.entered = False
        if not enabled:
            return
        if use_cuda:
            use_device = "cuda"
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        if experimental_config is not None and not isinstance(experimental_config, _ExperimentalConfig):
            raise TypeError(
                f"profile: experimental_config must be an _ExperimentalConfig, not {type(experimental_config).__name__}"
            )
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError(
                f"profile: post_processing_timeout_s must not be negative, got {post_processing_timeout_s}"
            )
        self.use_device = _recorded_device(use_device)
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_cpu = use_cpu
        self.acc_events = acc_events
        self.experimental_config = experimental_config or _ExperimentalConfig()
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        self._recordings = []
        self._gc = None

    def config(self, create_trace_id=False):
        """The options as a dict; with a new identity of the trace if asked for."""
        if create_trace_id:
            self.trace_id = self.create_trace_id()
        more = self.experimental_config
        return {
            "record_shapes": self.record_shapes,
            "with_flops": self.with_flops,
            "profile_memory": self.profile_memory,
            "with_stack": self.with_stack,
            "with_modules": self.with_modules,
            "use_cpu": self.use_cpu,
            "all_threads": more.profile_all_threads,
            "overloads": more.capture_overload_names,
            "metadata": more.expose_kineto_event_metadata,
            "use_device": self.use_device,
            "owners": not more.disable_external_correlation,
            "call_stacks": more.verbose and self.with_stack,
            "trace_id": self.trace_id,
        }

    def default_trace_id(self):
        """A new identity: 32 hexadecimal digits."""
        return uuid.uuid4().hex.upper()

    def create_trace_id(self):
        """What `custom_trace_id_callback` gives, else `default_trace_id()`."""
        return self.custom_trace_id_callback() if self.custom_trace_id_callback else self.default_trace_id()

    def __enter__(self):
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def _prepare_trace(self):
        self.entered = True

    def _start_trace(self):
        self.entered = True
        try:
            _recording.start(self.config(create_trace_id=True))
        except RuntimeError:
            self.entered = False
            raise
        if self.experimental_config.record_python_gc_info:
            self._gc = _CollectionEvents()

    def __exit__(self, exc_type, exc_value, traceback):
        if not self.enabled:
            return False
        if self._gc is not None:
            self._gc.stop()
            self._gc = None
        recording = _recording.stop(self.config())
        self.entered = False
        if not self.acc_events:
            self._recordings.clear()
        self._recordings.append(recording)
        return False

    def _ready(self):
        if not self.enabled or not self._recordings:
            raise RuntimeError("Profiler didn't finish running")
        return self._recordings[-1]

    @property
    def function_events(self):
        """The events, an `EventList` (of all uses with `acc_events`). Raises: RuntimeError before the end."""
        last = self._ready()
        if self.experimental_config.trace_only:
            raise RuntimeError("this recording has no events in Python: _ExperimentalConfig(trace_only=True)")
        if len(self._recordings) == 1:
            return last.events()
        events = EventList(
            (event for recording in self._recordings for event in recording.events()),
            use_device=self.use_device,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
        )
        events._tree_built = True
        return events

    def toggle_collection_dynamic(self, enabled, activities):
        """Recording pauses (`enabled=False`) or goes on, if `activities` has the CPU. Raises: RuntimeError if nothing
        records.
        """
        if ProfilerActivity.CPU in set(activities):
            _recording.set_enabled(enabled)

    def __repr__(self):
        return repr(self.function_events) if self._finished() else "<unfinished tessera.autograd.profile>"

    def __str__(self):
        return str(self.function_events) if self._finished() else "<unfinished tessera.autograd.profile>"

    def _finished(self):
        return self.enabled and bool(self._recordings)

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
    ):
        """The events as a text: `EventList.table`."""
        return self.function_events.table(
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
        )

    def export_chrome_trace(self, path):
        """Writes a trace for chrome://tracing and Perfetto; compressed if `path` ends with ".gz"."""
        write_text(path, self._ready().chrome_trace([f'"trace_id": "{self.trace_id}"']))

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes stacks for programs that draw flame graphs: `EventList.export_stacks`. Raises: AssertionError without
        `with_stack=True`.
        """
        events = self.function_events
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        events.export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape=False,
        group_by_stack_n=0,
        group_by_overload_name=False,
        include_python_functions=False,
    ):
        """Averages of events: `EventList.key_averages`."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def total_average(self):
        """All events together: `EventList.total_average`."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self):
        """Microseconds on the CPU of all events, each moment once."""
        return self.function_events.self_cpu_time_total


def write_text(path, text):
    """Writes a text file, compressed if its name ends with ".gz"."""
    import gzip

    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.write(text)


def _recorded_device(device):
    """The kind of device that is recorded: "cuda" or None. Warns if there is no such device. Raises: ValueError for a
    kind that nobody knows.
    """
    known = ("cuda", "xpu", "mtia", "hpu", "privateuseone")
    if device is None:
        return None
    if device not in known:
        raise ValueError(f"profile: use_device must be one of {known} or None, got {device!r}")
    if device == "cuda" and tessera.cuda.is_available():
        return device
    what = "there is no such device" if device == "cuda" else "the work of such devices cannot be recorded"
    warnings.warn(f"{device}: {what}; what the CPU does is recorded alone", stacklevel=3)
    return None


class _CollectionEvents:
    """Collections of Python's garbage as annotations."""

    def __init__(self):
        import gc

        self._open = None
        gc.callbacks.append(self)

    def __call__(self, phase, info):
        if phase == "start":
            self._open = _recording.begin(f"Python GC, generation {info['generation']}")
        elif self._open is not None:
            _recording.end(self._open)
            self._open = None

    def stop(self):
        import gc

        gc.callbacks.remove(self)


class record_function:
    """Context manager or decorator: an event of this name around a block or the calls of a function.

    Args:
        name: what it is called.
        args: a text that belongs to it, or None.

    Raises: TypeError for a name that is no text.
    """

    def __init__(self, name, args=None):
        if not isinstance(name, str):
            raise TypeError(f"record_function: name must be a str, not {type(name).__name__}")
        if args is not None and not isinstance(args, str):
            raise TypeError(f"record_function: args must be a str or None, not {type(args).__name__}")
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True  # False: the event ends with a future, not with the block
        self._open = None

    def __enter__(self):
        self._open = _recording.begin(self.name if self.args is None else f"{self.name}, {self.args}")
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if self._open is not None and self.run_callbacks_on_exit:
            _recording.end(self._open)
            self._open = None
        return False

    def __call__(self, func):
        @functools.wraps(func)
        def recorded(*args, **kwargs):
            with record_function(self.name, self.args):
                return func(*args, **kwargs)

        return recorded

    def _call_end_callbacks_on_future(self, fut):
        """The event ends when the future is done, not with the block. Returns: a future with the same result. Raises:
        RuntimeError on a second call.
        """
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        begun, self._open = self._open, None

        def done(future):
            if begun is not None:
                _recording.end(begun)
            return future.value()

        return fut.then(done)


class _Ranges:
    """Operators, nodes and annotations of this thread as ranges of another profiler."""

    def __init__(self, enabled, record_shapes, functions):
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False
        self._functions = functions  # gives the functions (push(name), pop())

    def __enter__(self):
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{type(self).__name__} context manager is not reentrant")
        push, pop = self._functions()
        _recording.set_emitter(push, pop, self.record_shapes)
        self.entered = True
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if self.entered:
            _recording.set_emitter(None, None, False)
            self.entered = False
        return False


class emit_nvtx(_Ranges):
    """Context manager: operators emit NVTX ranges, for NVIDIA's profilers.

    An operator's range is named "aten::mm, seq = 5" (the number of the node that it may make), a node's
    "MmBackward0, seq = 5", so that a viewer can tell which belongs to which.

    Args:
        enabled: False: nothing happens.
        record_shapes: names tell the sizes of arguments, too: "sizes = [[3, 4], [4, 5]]".

    Raises: RuntimeError, on entry, without the CUDA library.
    """

    def __init__(self, enabled=True, record_shapes=False):
        super().__init__(enabled, record_shapes, _nvtx_functions)


def _nvtx_functions():
    from tessera.cuda import nvtx

    nvtx._functions()  # raises where there are none
    return nvtx.range_push, nvtx.range_pop


class emit_itt(_Ranges):
    """Context manager: operators emit ITT ranges, for Intel's VTune.

    Args:
        enabled: False: nothing happens.
        record_shapes: names tell the sizes of arguments, too.
    """

    def __init__(self, enabled=True, record_shapes=False):
        super().__init__(enabled, record_shapes, _itt_functions)


def _itt_functions():
    from tessera.profiler import itt

    return itt.range_push, itt.range_pop


def load_nvprof(path):
    """Opens a file of nvprof (an SQLite database) and gives its annotations with their kernels, an `EventList`.

    Raises: FileNotFoundError, and sqlite3.DatabaseError for another kind of file.
    """
    return EventList(parse_nvprof_trace(path), use_device="cuda")


class KinetoStepTracker:
    """Counts steps for all who count: the step is the furthest count of any of them."""

    _counts = {}
    _step = 0

    @classmethod
    def init_step_count(cls, requester):
        """Someone begins to count, from the present step on."""
        cls._counts[requester] = cls._step

    @classmethod
    def erase_step_count(cls, requester):
        """Someone counts no more. Returns: whether they did."""
        return cls._counts.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        """One more step of someone. Returns: the step."""
        if requester not in cls._counts:
            cls.init_step_count(requester)
        cls._counts[requester] += 1
        cls._step = max(cls._step, *cls._counts.values())
        return cls._step

    @classmethod
    def current_step(cls):
        """The step."""
        return cls._step
