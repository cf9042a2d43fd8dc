"""The enumerations of the profiler, and options that concern few."""

import enum

import tessera


class ProfilerActivity(enum.Enum):
    """What is recorded: the CPU's operators, or the work of a kind of device."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(enum.Enum):
    """Kinds of devices, as events name them."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20


class RecordScope(enum.Enum):
    """What kind of thing an event is."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


_NEEDS_DEVICE = (
    "performance_events",
    "enable_cuda_sync_events",
    "adjust_profiler_step",
    "adjust_timestamps",
    "custom_profiler_config",
)


class _ExperimentalConfig:
    """Options beyond those of `profile`.

    Args:
        verbose: entries of the trace have their "Call stack" (with `with_stack`).
        profile_all_threads: other threads than the one that starts are recorded as well.
        capture_overload_names: events know which overload of the operator ran (`overload_name`).
        record_python_gc_info: collections of Python's garbage are events "Python GC, generation 0".
        expose_kineto_event_metadata: events have `metadata_json`.
        trace_only: no events in Python, only the trace.
        disable_external_correlation: operators do not tell CUPTI of themselves, which costs them some tenths of a
            microsecond; a device's work is given to operators by the time of the call that asked for it.
        performance_events, enable_cuda_sync_events, adjust_profiler_step, custom_profiler_config, adjust_timestamps:
            further options of the tracing of devices.

    Raises: NotImplementedError for one of these further options, which this version does not have.
    """

    def __init__(
        self,
        verbose=False,
        performance_events=(),
        enable_cuda_sync_events=False,
        adjust_profiler_step=False,
        disable_external_correlation=False,
        profile_all_threads=False,
        capture_overload_names=False,
        record_python_gc_info=False,
        expose_kineto_event_metadata=False,
        custom_profiler_config="",
        adjust_timestamps=False,
        trace_only=False,
    ):
        given = {
            "performance_events": performance_events,
            "enable_cuda_sync_events": enable_cuda_sync_events,
            "disable_external_correlation": disable_external_correlation,
            "adjust_profiler_step": adjust_profiler_step,
            "adjust_timestamps": adjust_timestamps,
            "custom_profiler_config": custom_profiler_config,
        }
        for name in _NEEDS_DEVICE:
            if given[name]:
                raise NotImplementedError(
                    f"_ExperimentalConfig: {name}={given[name]!r} is an option of the tracing of devices that this "
                    "version does not have; leave it out"
                )
            setattr(self, name, given[name])
        self.disable_external_correlation = disable_external_correlation
        self.verbose = verbose
        self.profile_all_threads = profile_all_threads
        self.capture_overload_names = capture_overload_names
        self.record_python_gc_info = record_python_gc_info
        self.expose_kineto_event_metadata = expose_kineto_event_metadata
        self.trace_only = trace_only


def supported_activities():
    """The set of activities that can be recorded here: `ProfilerActivity.CPU`, and `ProfilerActivity.CUDA` where there
    is a CUDA device.
    """
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if tessera.cuda.is_available() else [])}


def kineto_available():
    """True: traces can be written."""
    return True


def _is_recording():
    return tessera._C._profiler.is_recording()
