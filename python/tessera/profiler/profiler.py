"""`profile`: recordings by a schedule, with tables, traces and pages of each."""

import json
import os
import socket
import time

from tessera.autograd import profiler as _autograd
from tessera.profiler import _recording
from tessera.profiler._execution_trace import ExecutionTraceObserver
from tessera.profiler._kinds import ProfilerActivity, supported_activities
from tessera.profiler._schedule import ProfilerAction, always, schedule
from tessera.profiler._schedule import always as _default_schedule_fn  # noqa: F401 - by this name lightning takes it

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

_STEPS = "ProfilerStep"
_recording.hide_functions_of(__file__)


def _checked_activities(activities):
    if activities is None:
        return set(supported_activities())
    chosen = set()
    for activity in activities:
        if not isinstance(activity, ProfilerActivity):
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(activity)}")
        chosen.add(activity)
    if not chosen:
        raise AssertionError("No valid profiler activities found")
    devices = chosen - supported_activities()
    if devices:
        import warnings

        names = ", ".join(sorted(activity.name for activity in devices))
        warnings.warn(f"{names}: there is no such device here whose work could be recorded", stacklevel=4)
    return chosen


class _KinetoProfile:
    """A recording that is begun and ended by hand: `start`, `stop`; for `profile`'s arguments see there."""

    def __init__(
        self,
        *,
        activities=None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        self.activities = _checked_activities(activities)
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.profiler = None
        self.use_device = "cuda" if ProfilerActivity.CUDA in self.activities & supported_activities() else None
        self._metadata, self._preset = {}, {}
        self._running = False

    def start(self):
        """Recording begins. Raises: RuntimeError if one has begun already."""
        self.prepare_trace()
        self.start_trace()

    def stop(self):
        """Recording ends. Raises: AssertionError if it had not begun."""
        self.stop_trace()

    def prepare_trace(self):
        """Makes ready what can be before recording begins."""
        if self.profiler is None or not self.acc_events:
            self.profiler = _autograd.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                use_kineto=True,
                use_device=self.use_device,
                record_shapes=self.record_shapes or self.execution_trace_observer is not None,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                experimental_config=self.experimental_config,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
                post_processing_timeout_s=self.post_processing_timeout_s,
            )

    def start_trace(self):
        """Recording begins, after `prepare_trace`."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        if self.execution_trace_observer is not None:
            self.execution_trace_observer._require_path()
        self.profiler._start_trace()
        self._running = True
        self._metadata = {}

    def stop_trace(self):
        """Recording ends. Raises: AssertionError if it had not begun."""
        if self.profiler is None or not self._running:
            raise AssertionError("Profiler must be initialized before stopping trace")
        self._running = False
        self.profiler.__exit__(None, None, None)
        if self.execution_trace_observer is not None:
            self.execution_trace_observer._write(self.profiler._ready())

    def _events_for(self, what):
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {what}")
        return self.profiler

    def export_chrome_trace(self, path):
        """Writes a trace for chrome://tracing and Perfetto; compressed if `path` ends with ".gz"."""
        recorder = self._events_for("exporting chrome trace")
        _autograd.write_text(path, recorder._ready().chrome_trace(self._fields(os.path.basename(str(path)))))

    def _fields(self, name):
        fields = {
            "deviceProperties": _device_properties() if self.use_device else [],
            "trace_id": self.profiler.trace_id,
            "host_name": socket.gethostname(),
            "traceName": name,
        }
        for option in ("record_shapes", "with_flops", "profile_memory", "with_stack", "with_modules"):
            if getattr(self, option):
                fields[option] = 1
        fields.update(self._distributed())
        fields = {key: json.dumps(value) for key, value in fields.items()}
        fields.update(self._preset)
        fields.update(self._metadata)
        return [f"{json.dumps(key)}: {value}" for key, value in fields.items()]

    def _get_distributed_info(self):
        return self._distributed().get("distributedInfo")

    @staticmethod
    def _distributed():
        """Rank and backend, if the program has a process group."""
        import sys

        distributed = sys.modules.get("tessera.distributed")
        if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
            return {}
        info = {
            "backend": str(distributed.get_backend()),
            "rank": distributed.get_rank(),
            "world_size": distributed.get_world_size(),
        }
        return {"distributedInfo": info}

    def export_html(self, path):
        """Writes a page that shows the recording as a timeline, a flame graph and a table, in any browser and without
        a network.
        """
        from tessera.profiler._page import timeline_page

        recorder = self._events_for("exporting a page")
        _autograd.write_text(path, timeline_page(recorder._ready(), self.with_stack or self.with_modules))

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes a line "outer;inner;operator microseconds" for each event with a stack, for programs that draw flame
        graphs. Raises: AssertionError without `with_stack=True`, ValueError for an unknown metric.
        """
        return self._events_for("exporting stacks").export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape=False,
        group_by_stack_n=0,
        group_by_overload_name=False,
        include_python_functions=False,
    ):
        """Averages of events by name and, if asked for, sizes of arguments, stack and overload: an `EventList`."""
        return self._events_for("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def events(self):
        """The events, an `EventList`; empty while recording goes on."""
        recorder = self._events_for("accessing events")
        if self._running and not recorder._recordings:
            return _autograd.EventList()
        return recorder.function_events

    def add_metadata(self, key, value):
        """Adds a text to the trace file, at its top level."""
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key, value):
        """Adds a JSON value, given as text, to the trace file. Raises: ValueError if it is not JSON."""
        json.loads(value)
        self._metadata[key] = value

    def preset_metadata_json(self, key, value):
        """The same for all traces of this object. Raises: ValueError if it is not JSON."""
        json.loads(value)
        self._preset[key] = value

    def toggle_collection_dynamic(self, enable, activities):
        """Recording pauses (`enable=False`) or goes on. Raises: RuntimeError if nothing records."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def export_memory_timeline(self, path, device=None):
        """Writes how much memory tensors used over time, by what it was used for.

        Args:
            path: "....html": a page; "....raw.json.gz" (or ".json"): all changes, as [time in ns, action, bytes,
                category]; "....json" or "....json.gz": [times, bytes of each category at each of them].
            device: "cpu"; none other is recorded.

        Raises: ValueError without `record_shapes`, `profile_memory` and `with_stack`, or for another device.
        """
        if not (self.record_shapes and self.profile_memory and self.with_stack):
            raise ValueError("record_shapes=True, profile_memory=True, with_stack=True required for memory profiling.")
        if device not in (None, "cpu"):
            raise ValueError(f"export_memory_timeline: the memory of 'cpu' alone is recorded, got device={device!r}")
        from tessera.profiler import _memory

        _autograd.write_text(path, _memory.timeline(self._events_for("memory profiling")._ready(), str(path)))


class profile(_KinetoProfile):
    """Context manager that records what a program does, step by step if it says where steps end.

    >>> from tessera.profiler import profile, schedule
    >>> def ready(prof):
    ...     print("steps recorded, now at", prof.step_num)
    >>> with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=ready) as prof:
    ...     for batch in range(4):
    ...         y = tessera.ones(3).exp()
    ...         prof.step()
    steps recorded, now at 4

    Args:
        activities: a set of `ProfilerActivity`; default: all that there are here.
        schedule: a function from a step's number to a `ProfilerAction` (`schedule(...)` makes one); default: all is
            one recording.
        on_trace_ready: called with this object when a recording is complete.
        record_shapes: events have the sizes of arguments.
        profile_memory: events have the CPU memory that was taken less what was given back.
        with_stack: events have the functions of Python around them.
        with_flops: events have estimates of floating point operations, of products of matrices and convolutions.
        with_modules: events have the modules around them.
        experimental_config: `_ExperimentalConfig`, or None.
        execution_trace_observer: an `ExecutionTraceObserver`, which writes its file at the end of a recording.
        acc_events: `events()` are those of all recordings, not of the last one.
        use_cuda: deprecated: `activities` says it.
        custom_trace_id_callback: gives the trace's identity, a text.
        post_processing_timeout_s: no difference: nothing is worked out before somebody asks.

    Raises: TypeError for an activity that is none, AssertionError for none at all.
    """

    def __init__(
        self,
        *,
        activities=None,
        schedule=None,
        on_trace_ready=None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=None,
        execution_trace_observer=None,
        acc_events=False,
        use_cuda=None,
        custom_trace_id_callback=None,
        post_processing_timeout_s=None,
    ):
        chosen = _checked_activities(activities)
        if use_cuda is not None:
            import warnings

            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
            if use_cuda:
                chosen = _checked_activities({*chosen, ProfilerActivity.CUDA})
            elif not chosen - {ProfilerActivity.CUDA}:
                raise AssertionError("No valid profiler activities found")
        super().__init__(
            activities=chosen & supported_activities() or {ProfilerActivity.CPU},
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        if schedule is not None and not callable(schedule):
            raise TypeError(f"profile: schedule must be callable, not {type(schedule).__name__}")
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._step_event = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.stop()
        return False

    def start(self):
        """The first step begins."""
        self._change(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self):
        """The last step ends; what was recorded is ready."""
        self._end_step()
        self._change(self.current_action, None)

    def step(self):
        """Says that a step has ended and the next one begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        _autograd.KinetoStepTracker.increment_step(_STEPS)
        self._begin_step()

    def _begin_step(self):
        if self.record_steps:
            self._step_event = _autograd.record_function(f"{_STEPS}#{self.step_num}")
            self._step_event.__enter__()

    def _end_step(self):
        if self._step_event is not None:
            self._step_event.__exit__(None, None, None)
            self._step_event = None

    def _change(self, before, after):
        """From one action to the next (None: the end): what has to begin and end between them."""
        wants = after in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        complete = before == ProfilerAction.RECORD_AND_SAVE or (before == ProfilerAction.RECORD and after is None)
        if (self._running or complete) and (complete or not wants):
            if not complete:
                _warn_of_plan(before, after)
            self.stop_trace()
            if complete and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if after is not None and after != ProfilerAction.NONE and not self._running:
            self.prepare_trace()
        if wants and not self._running:
            self.start_trace()

    def set_custom_trace_id_callback(self, callback):
        """`callback()` gives the identity of the next traces, a text."""
        self.custom_trace_id_callback = callback
        if self.profiler is not None:
            self.profiler.custom_trace_id_callback = callback

    def get_trace_id(self):
        """The identity of the trace, a text; None before the first one."""
        return None if self.profiler is None else self.profiler.trace_id


def _device_properties():
    """What a trace tells of the devices: the names are those of its format."""
    import tessera

    found = []
    for number in range(tessera.cuda.device_count()):
        has = tessera.cuda.get_device_properties(number)
        found.append(
            {
                "id": number,
                "name": has.name,
                "totalGlobalMem": has.total_memory,
                "computeMajor": has.major,
                "computeMinor": has.minor,
                "numSms": has.multi_processor_count,
                "warpSize": has.warp_size,
            }
        )
    return found


def _warn_of_plan(before, after):
    import warnings

    warnings.warn(
        f"Incorrect schedule: {before.name} followed by {after.name}; what was recorded is dropped", stacklevel=4
    )


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A function for `on_trace_ready` that writes a trace into a folder, which TensorBoard's profiler plugin shows.

    Args:
        dir_name: the folder, made if it is not there.
        worker_name: the first part of the file's name; default: host and process.
        use_gzip: whether files are compressed.

    Raises: RuntimeError, when a trace is ready, if the folder cannot be made.
    """

    def write(prof):
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write
