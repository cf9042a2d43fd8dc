"""What the profiler gives: events, their averages, tables of them."""

import bisect
import collections
import itertools
import json
import re

from tessera.profiler._kinds import DeviceType
from tessera.profiler._table import build_table, format_memory, format_share, format_time

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"

_METRICS = ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]
_STACK_UNSAFE = str.maketrans(" ;\t\n", "____")

Kernel = collections.namedtuple("Kernel", ["name", "device", "duration"])


class Interval:
    """A span of time, from `start` to `end` in microseconds."""

    def __init__(self, start, end):
        self.start = start
        self.end = end

    def elapsed_us(self):
        """Its length."""
        return self.end - self.start

    def __repr__(self):
        return f"Interval({self.start}, {self.end})"


class StringTable(collections.defaultdict):
    """Names of traces: `table[mangled]` is the C++ name in words, any other name itself."""

    def __missing__(self, key):
        value = _demangled(key) if len(key) > 1 else key
        self[key] = value
        return value


def _demangled(name):
    """Nested names of functions (_ZN3fooE3bar...) without their arguments' types; others as they are."""
    found = re.match(r"_Z(N?)", name)
    if found is None:
        return name
    parts, at = [], found.end()
    while number := re.match(r"\d+", name[at:]):
        begin = at + number.end()
        at = begin + int(number.group())
        parts.append(name[begin:at])
    return "::".join(parts) + "()" if parts else name


class MemRecordsAcc:
    """Finds records of memory by time.

    Args:
        mem_records: pairs (record, used), where `record.start_ns()` is a time in nanoseconds.
    """

    def __init__(self, mem_records):
        keyed = sorted(
            ((entry[0].start_ns(), number, entry) for number, entry in enumerate(mem_records)), key=lambda e: e[:2]
        )
        self._records = [entry for _, _, entry in keyed]
        self._times = [time for time, _, _ in keyed]

    def in_interval(self, start_ns, end_ns):
        """The records from `start_ns` to `end_ns`, an iterator."""
        first = bisect.bisect_left(self._times, start_ns)
        return iter(self._records[first : bisect.bisect_right(self._times, end_ns)])


def _time_text(attribute, doc):
    return property(lambda self: format_time(getattr(self, attribute)), doc=doc)


class FormattedTimesMixin:
    """Times for one call, and all of them as text ("12.300us")."""

    cpu_time_str = _time_text("cpu_time", "Time on the CPU of one call, as text.")
    device_time_str = _time_text("device_time", "Time on the device of one call, as text.")
    cpu_time_total_str = _time_text("cpu_time_total", "Time on the CPU, as text.")
    device_time_total_str = _time_text("device_time_total", "Time on the device, as text.")
    self_cpu_time_total_str = _time_text("self_cpu_time_total", "Time without that of events inside, as text.")
    self_device_time_total_str = _time_text("self_device_time_total", "The same on the device, as text.")

    @property
    def cpu_time(self):
        """Microseconds of one call on the CPU."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self):
        """Microseconds of one call on the device."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cuda_time(self):
        """The older name of `device_time`."""
        return self.device_time


class FunctionEvent(FormattedTimesMixin):
    """One event: a call of an operator, a node of backward, an annotation, a function of Python.

    Args:
        id: its number in the recording.
        name: such as "aten::mm".
        thread: the thread's number.
        start_us, end_us: when, in microseconds since the recording began.
        overload_name: of the operator.
        fwd_thread: the thread of the operator that made the node.
        input_shapes: a list of sizes for each argument.
        stack: the functions of Python around it, innermost first.
        scope: the value of a `RecordScope`.
        use_device: the kind of device that is timed as well, or None.
        cpu_memory_usage, device_memory_usage: bytes taken less bytes given back.
        is_async: it may end on another thread.
        is_remote, node_id: of events of other processes.
        sequence_nr: links an operator to the node of backward that it made.
        device_type, device_index, device_resource_id: where it ran.
        is_legacy: of an older format.
        flops: floating point operations.
        trace_name: its name in traces.
        concrete_inputs, kwinputs: values of arguments that are numbers.
        is_user_annotation: of `record_function`.
        metadata_json: more about it, a text.
    """

    def __init__(
        self,
        id,
        name,
        thread,
        start_us,
        end_us,
        overload_name=None,
        fwd_thread=None,
        input_shapes=None,
        stack=None,
        scope=0,
        use_device=None,
        cpu_memory_usage=0,
        device_memory_usage=0,
        is_async=False,
        is_remote=False,
        sequence_nr=-1,
        node_id=-1,
        device_type=DeviceType.CPU,
        device_index=0,
        device_resource_id=None,
        is_legacy=False,
        flops=None,
        trace_name=None,
        concrete_inputs=None,
        kwinputs=None,
        is_user_annotation=False,
        metadata_json=None,
    ):
        given = dict(locals())
        for name_of_it in ("self", "start_us", "end_us", "__class__"):
            given.pop(name_of_it, None)
        self.__dict__.update(given)
        self.trace_name = name if trace_name is None else trace_name
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.time_range = Interval(start_us, end_us)
        self.count = 1
        self.kernels = []
        self.cpu_children = []
        self.cpu_parent = None
        self.is_python_function = False
        self.input_dtypes = self.structured_input_strides = None

    def append_kernel(self, name, device, duration):
        """Adds work of a device that this event began, `duration` microseconds."""
        if self.device_type != DeviceType.CPU:
            raise AssertionError(f"kernels belong to events of the CPU; this one is of {self.device_type.name}")
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child):
        """Adds an event inside of this one. Raises: AssertionError if one of them is not of the CPU."""
        _check_on_cpu(self, child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        """Says which event this one is inside of. Raises: AssertionError if one of them is not of the CPU."""
        _check_on_cpu(self, parent)
        self.cpu_parent = parent

    @property
    def key(self):
        """What averages go by: the name."""
        return self.name

    @property
    def cpu_time_total(self):
        """Microseconds on the CPU."""
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self):
        """Microseconds on the CPU, without those of events inside."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self):
        """Microseconds of the device's work that it began, with that of events inside."""
        if not self._is_timed_on_device():
            return 0
        on_device = self.device_type != DeviceType.CPU
        parts = [k.duration for k in self.kernels] + [child.device_time_total for child in self.cpu_children]
        return self.time_range.elapsed_us() if on_device else sum(parts)

    @property
    def self_device_time_total(self):
        """Microseconds of the device's work that it began itself."""
        if not self._is_timed_on_device():
            return 0
        inside = sum(child.device_time_total for child in self.cpu_children)
        return self.device_time_total - (inside if self.device_type == DeviceType.CPU else 0)

    def _is_timed_on_device(self):
        return bool(self.use_device) and not self.is_async

    @property
    def self_cpu_memory_usage(self):
        """Bytes of CPU memory taken less those given back, without those of events inside."""
        return self._self_memory("cpu_memory_usage")

    @property
    def self_device_memory_usage(self):
        """The same of the device."""
        return self._self_memory("device_memory_usage")

    def _self_memory(self, attribute):
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return getattr(self, attribute) - sum(getattr(child, attribute) for child in self.cpu_children)

    @property
    def cuda_time_total(self):
        """The older name of `device_time_total`."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self):
        """The older name of `self_device_time_total`."""
        return self.self_device_time_total

    @property
    def self_cuda_memory_usage(self):
        """The older name of `self_device_memory_usage`."""
        return self.self_device_memory_usage

    def __repr__(self):
        inside = [child.id for child in self.cpu_children]
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} cpu_children={inside} "
            f"{self.use_device}_time={self.device_time_str} thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} is_async={self.is_async} is_remote={self.is_remote} "
            f"seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


def _check_on_cpu(event, other):
    for e in (event, other):
        if not isinstance(e, FunctionEvent) or e.device_type != DeviceType.CPU:
            raise AssertionError(f"expected an event of the CPU, got {e!r}")


# What averages take from their first event, and what they add up.
_KEPT = (
    "key node_id is_async is_remote use_device input_shapes overload_name stack scope cpu_parent cpu_children "
    "device_type is_legacy is_user_annotation"
).split()
_SUMMED = (
    "cpu_time_total device_time_total self_cpu_time_total self_device_time_total cpu_memory_usage "
    "device_memory_usage self_cpu_memory_usage self_device_memory_usage count"
).split()


class FunctionEventAvg(FormattedTimesMixin):
    """Events of one kind together: sums over `count` calls, and times for one call."""

    def __init__(self):
        for name in _KEPT:
            setattr(self, name, None)
        for name in _SUMMED:
            setattr(self, name, 0)
        self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.device_type = DeviceType.CPU
        self.flops = 0

    def add(self, other):
        """Adds a `FunctionEvent`, or the averages of others of its kind. Returns self. Raises: AssertionError for
        another kind.
        """
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError(f"FunctionEventAvg.add: expected an event, got {type(other).__name__}")
        if self.key is None:
            for name in _KEPT:
                setattr(self, name, getattr(other, name))
        elif other.key != self.key:
            raise AssertionError(f"FunctionEventAvg.add: averages of {self.key!r} cannot take one of {other.key!r}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other):
        return self.add(other)

    @property
    def cuda_time_total(self):
        """The older name of `device_time_total`."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self):
        """The older name of `self_device_time_total`."""
        return self.self_device_time_total

    def __repr__(self):
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )


class EventList(list):
    """Events, or averages of them, with tables, sums and files."""

    def __init__(self, *args, **kwargs):
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)
        self._tree_built = False

    def _build_tree(self):
        """Finds out which event is inside of which, from their times; for lists that were made by hand."""
        on_cpu = [e for e in self if not e.is_async and e.device_type == DeviceType.CPU]
        on_cpu.sort(key=lambda e: (e.thread, e.time_range.start, -e.time_range.end))
        for _, events in itertools.groupby(on_cpu, key=lambda e: (e.thread, e.node_id)):
            around = []
            for event in events:
                while around and event.time_range.start >= around[-1].time_range.end:
                    around.pop()
                if around and event.time_range.end <= around[-1].time_range.end and event.cpu_parent is None:
                    around[-1].append_cpu_child(event)
                    event.set_cpu_parent(around[-1])
                around.append(event)
        self._tree_built = True

    def __str__(self):
        return self.table()

    @property
    def self_cpu_time_total(self):
        """Microseconds on the CPU of all events, each moment once."""
        return sum(e.self_cpu_time_total for e in self if not getattr(e, "is_python_function", False))

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
        time_unit=None,
    ):
        """The events as a table, a text.

        Args:
            sort_by: the attribute that rows are sorted by, largest first: "cpu_time", "cpu_time_total",
                "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "count", or one of those of
                devices. Default: the order of the list.
            row_limit: so many rows; -1: all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longer texts are cut; None: never.
            header: a title.
            top_level_events_only: leaves out events inside of others.
            time_unit: "s", "ms" or "us" for all times; default: what suits each.

        Raises: AttributeError for a `sort_by` that is no attribute, ValueError for an unknown unit.
        """
        return build_table(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            widths=(max_name_column_width, max_shapes_column_width, max_src_column_width),
            header=header,
            top_level_only=top_level_events_only,
            time_unit=time_unit,
            use_device=self._use_device,
            with_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    def key_averages(
        self,
        group_by_input_shapes=False,
        group_by_stack_n=0,
        group_by_overload_name=False,
        include_python_functions=False,
    ):
        """Averages of events that have their name in common (and what else is asked for): a new list.

        Args:
            group_by_input_shapes: the sizes of arguments as well.
            group_by_stack_n: the innermost so many entries of the stack as well.
            group_by_overload_name: the operator's overload as well.
            include_python_functions: functions of Python and modules, too.

        Raises: AssertionError on a list made by hand whose `_build_tree` was not called.
        """
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages")
        groups = {}
        for event in self:
            if getattr(event, "is_python_function", False) and not include_python_functions:
                continue
            stack = tuple((event.stack or ())[:group_by_stack_n])
            key = (
                event.key,
                event.node_id,
                event.device_type,
                event.is_legacy,
                event.is_user_annotation,
                str(event.input_shapes) if group_by_input_shapes else "",
                stack,
                event.overload_name if group_by_overload_name else "",
            )
            groups.setdefault(key, FunctionEventAvg()).add(event)
        for (*_, stack, overload), average in groups.items():
            average.stack = list(stack)
            average.overload_name = overload
            if not group_by_input_shapes:
                average.input_shapes = ""
        averages = EventList(
            groups.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        averages._tree_built = True
        return averages

    def total_average(self):
        """All events together, under the key "Total"."""
        total = FunctionEventAvg()
        for event in self:
            if getattr(event, "is_python_function", False):
                continue
            total.key = event.key
            total.add(event)
        total.key = "Total"
        total.stack, total.input_shapes = [], []
        return total

    def export_chrome_trace(self, path):
        """Writes a file that chrome://tracing and Perfetto show."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump([entry for event in self for entry in _trace_entries(event)], file)

    def supported_export_stacks_metrics(self):
        """What `export_stacks` takes as `metric`."""
        return list(_METRICS)

    def export_stacks(self, path, metric):
        """Writes a line "outer;inner;operator microseconds" for each event that has a stack, which programs for flame
        graphs read.

        Raises: ValueError for an unknown metric.
        """
        if metric not in _METRICS:
            raise ValueError(f"metric should be one of: {_METRICS}")
        attribute = metric if metric == _METRICS[0] else "self_device_time_total"
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, attribute))
                if event.stack and value > 0:
                    places = [*reversed(event.stack), event.name]
                    file.write(";".join(place.translate(_STACK_UNSAFE) for place in places) + f" {value}\n")


def _trace_entries(event):
    where = {"pid": "CPU functions", "tid": event.thread}
    yield {
        "ph": "X",
        "name": event.trace_name,
        "cat": "cpu_op",
        "ts": event.time_range.start,
        "dur": event.time_range.elapsed_us(),
        "args": {"Sequence number": event.sequence_nr, "Input Dims": event.input_shapes or []},
        **where,
    }
    for kernel in event.kernels:
        yield {
            "ph": "X",
            "name": kernel.name,
            "cat": "kernel",
            "ts": event.time_range.start,
            "dur": kernel.duration,
            "pid": "device functions",
            "tid": kernel.device,
        }


_format_time, _format_time_share, _format_memory = format_time, format_share, format_memory
