"""From what the extension recorded to events."""

import os
import sys

from tessera import _C
from tessera.autograd.profiler_util import MEMORY_EVENT_NAME, EventList, FunctionEvent
from tessera.profiler._flops import flops
from tessera.profiler._kinds import DeviceType

_recorder = _C._profiler
_HIDDEN = [__file__]  # files whose functions are the profiler's own
_added: list = []  # groups of rows of other processes, for the recording that goes on
_options: dict = {}  # of that
_replaced = None  # the function of sys.setprofile() whose place the recording of stacks takes
_SCOPES = {"node": 1, "annotation": 7}
_PYTHON = ("frame", "module")


def hide_functions_of(file):
    """Functions of this source file do not show in stacks."""
    _HIDDEN.append(file)


def _name_of_code(code):
    """ "package/file.py(12): function", without the folder that Python found the file in."""
    path = code.co_filename
    folders = [os.getcwd(), *(entry for entry in sys.path if entry)]
    inside = [folder for folder in folders if path.startswith(os.path.join(folder, ""))]
    if inside:
        path = os.path.relpath(path, max(inside, key=len))
    return f"{path}({code.co_firstlineno}): {code.co_name}"


class Recording:
    """What was recorded from a `start` to its `stop`; worked out when somebody asks.

    Args:
        capture: what the extension gave.
        config: the options: with_flops, profile_memory, with_stack, with_modules, overloads, metadata, use_device.
        added: groups of rows (`rows`) of what happened elsewhere.
    """

    def __init__(self, capture, config, added=()):
        self._capture = capture
        self._config = config
        self._added = added
        self._raw = self._events = None

    @property
    def raw(self):
        """The records as they are: a dict of "events", "memory", "device", "threads", "start_ns", "end_ns"."""
        if self._raw is None:
            self._raw = _recorder.events(self._capture, _name_of_code)
        return self._raw

    def chrome_trace(self, fields):
        """The text of a trace file; `fields`: further members as '"key": json'."""
        return _recorder.chrome_trace(self._capture, _name_of_code, fields, bool(self._config.get("call_stacks")))

    def events(self):
        """An `EventList` in the order of the beginnings."""
        if self._events is None:
            self._events = _events_of(self.raw, self._config)
            for group in self._added:
                self._events += _of_rows(group, self.raw["start_ns"])
        return self._events

    def rows(self, prefix, node):
        """The events as plain data, which another process may add to its own recording.

        Args:
            prefix: comes before their names.
            node: the number of this process.
        """
        events, start = self.events(), self.raw["start_ns"]
        places = {id(event): place for place, event in enumerate(events)}
        return [
            {
                "name": prefix + event.name,
                "begin": start + round(event.time_range.start * 1000),
                "end": start + round(event.time_range.end * 1000),
                "thread": event.thread,
                "shapes": event.input_shapes,
                "memory": event.cpu_memory_usage,
                "node": event.node_id if event.is_remote else node,
                "parent": places.get(id(event.cpu_parent)),
                "kind": "remote",
            }
            for event in events
        ]


def _events_of(raw, config):
    start = raw["start_ns"]
    records = raw["events"]
    events = [_event(number, record, raw, start, config) for number, record in enumerate(records)]
    for event, record in zip(events, records):
        parent = record[4]
        # Operators in operators, functions of Python in functions of Python: times of both kinds add up.
        while parent >= 0 and events[parent].is_python_function != event.is_python_function:
            parent = records[parent][4]
        if parent >= 0:
            events[parent].append_cpu_child(event)
            event.set_cpu_parent(events[parent])
        if config.get("with_stack") or config.get("with_modules"):
            _place(event, record[4], records, events)
    events += _of_devices(raw, events, config.get("use_device"))
    if config.get("profile_memory"):
        events += _memory_outside(raw, start)
    found = EventList(
        events,
        use_device=config.get("use_device"),
        profile_memory=config.get("profile_memory", False),
        with_flops=config.get("with_flops", False),
    )
    found._tree_built = True
    return found


def _event(number, record, raw, start, config):
    name, overload, kind, thread, _, begin, end, sequence, forward, _, inputs, memory, _ = record
    shapes, strides, dtypes, values = inputs if inputs is not None else ([], [], [], [])
    python = kind in _PYTHON
    step = kind == "annotation" and name.startswith("ProfilerStep#")
    event = FunctionEvent(
        id=number + 1,
        name="ProfilerStep*" if step else name,  # averages take all steps together
        trace_name=name,
        thread=thread + 1,
        start_us=(begin - start) / 1000,
        end_us=(end - start) / 1000,
        overload_name=overload if config.get("overloads") else "",
        fwd_thread=raw["events"][forward][3] + 1 if forward >= 0 else 0,
        input_shapes=shapes,
        stack=[],
        scope=_SCOPES.get(kind, 0),
        use_device=config.get("use_device"),
        cpu_memory_usage=memory if config.get("profile_memory") and not python else 0,
        sequence_nr=sequence,
        device_index=raw["threads"][thread][0],
        device_resource_id=raw["threads"][thread][0],
        flops=flops(name, shapes, values) if config.get("with_flops") else 0,
        concrete_inputs=values,
        kwinputs={},
        is_user_annotation=kind == "annotation",
    )
    event.is_python_function = python
    event.structured_input_shapes, event.structured_input_strides, event.input_dtypes = shapes, strides, dtypes
    event.module_hierarchy = ""
    event.forward_id = forward + 1 if forward >= 0 else 0
    if config.get("metadata"):
        import json

        event.metadata_json = json.dumps({"Input Dims": shapes, "Input type": dtypes, "Sequence number": sequence})
    return event


def _place(event, parent, records, events):
    """The functions and modules around an event; a node of backward has those of the operator that made it."""
    if event.forward_id and not event.is_python_function:
        made_by = events[event.forward_id - 1]
        event.stack, event.module_hierarchy = made_by.stack, made_by.module_hierarchy
        return
    stack, modules = [], []
    while parent >= 0:
        record = records[parent]
        if record[2] == "frame":
            stack.append(record[0])
        elif record[2] == "module":
            modules.append(record[0].removeprefix("nn.Module: "))
            stack.append(record[0])
        elif record[8] >= 0:  # inside of a node: its place
            stack += events[parent].stack
            event.module_hierarchy = events[parent].module_hierarchy
            break
        parent = record[4]
    event.stack = stack
    event.module_hierarchy = ".".join(reversed(modules)) or event.module_hierarchy


def _of_devices(raw, events, use_device):
    """Events of the devices' work, and of the calls that asked for it. An operator has the former as its kernels and
    the latter as events inside of it.
    """
    start, found = raw["start_ns"], []
    for name, kind, begin, end, owner, device, place, correlation, thread, _ in raw["device"]:
        called = kind == "call"
        event = FunctionEvent(
            id=correlation,
            name=name,
            thread=thread + 1 if called else place,
            start_us=(begin - start) / 1000,
            end_us=(end - start) / 1000,
            overload_name="",
            input_shapes=[],
            stack=[],
            use_device=use_device,
            device_type=DeviceType.CPU if called else DeviceType.CUDA,
            device_index=place if called else device,
            device_resource_id=place,
            flops=0,
        )
        event.forward_id, event.module_hierarchy = 0, ""
        found.append(event)
        while owner >= 0 and events[owner].is_python_function:
            owner = raw["events"][owner][4]
        if owner < 0:
            continue
        if called:
            events[owner].append_cpu_child(event)
            event.set_cpu_parent(events[owner])
        else:
            events[owner].append_kernel(name, device, (end - begin) / 1000)
    return found


def _memory_outside(raw, start):
    """Events "[memory]" for memory that was taken or given back outside of operators and annotations."""
    records, found = raw["events"], []
    for time, nbytes, _, _, owner, thread in raw["memory"]:
        while owner >= 0 and records[owner][2] in _PYTHON:
            owner = records[owner][4]
        if owner >= 0:
            continue
        at = (time - start) / 1000
        event = FunctionEvent(0, MEMORY_EVENT_NAME, thread + 1, at, at, "", 0, [], [], cpu_memory_usage=nbytes)
        event.forward_id, event.module_hierarchy = 0, ""
        found.append(event)
    return found


def _of_rows(rows, start):
    """Events of rows; one of the kind "call" is what another process does for this one."""
    events = [
        FunctionEvent(
            id=0,
            name=row["name"],
            thread=row["thread"],
            start_us=(row["begin"] - start) / 1000,
            end_us=(row["end"] - start) / 1000,
            overload_name="",
            fwd_thread=0,
            input_shapes=row["shapes"],
            stack=[],
            cpu_memory_usage=row["memory"],
            is_async=row["kind"] == "call",
            is_remote=row["kind"] == "remote",
            node_id=row["node"],
            flops=0,
        )
        for row in rows
    ]
    for event, row in zip(events, rows):
        event.forward_id, event.module_hierarchy = 0, ""
        if row["parent"] is not None:
            events[row["parent"]].append_cpu_child(event)
            event.set_cpu_parent(events[row["parent"]])
    return events


def additions():
    """(options, list for groups of rows of other processes) of the recording that goes on."""
    return _options, _added


def start(config):
    """Recording begins on this thread. Raises: RuntimeError if it has begun already."""
    global _added, _options, _replaced
    replaced = sys.getprofile()
    _recorder.start(
        bool(config.get("record_shapes") or config.get("with_flops")),
        bool(config.get("profile_memory")),
        bool(config.get("with_modules") or config.get("with_stack")),
        bool(config.get("use_cpu", True)),
        bool(config.get("all_threads")),
        config.get("use_device") == "cuda",
        bool(config.get("owners", True)),
        tuple(_HIDDEN) if config.get("with_stack") else None,
    )
    _replaced = replaced if config.get("with_stack") else None
    _added, _options = [], config


def stop(config):
    """Recording ends. Returns: a `Recording`. Raises: RuntimeError if nothing was started."""
    global _replaced
    capture = _recorder.stop()
    if _replaced is not None:
        sys.setprofile(_replaced)
        _replaced = None
    return Recording(capture, config, _added)


def disable():
    """Ends a recording that others left open, and returns it. Raises: RuntimeError if there is none."""
    return stop({})


begin, end, is_recording, set_enabled, set_emitter = (
    _recorder.begin,
    _recorder.end,
    _recorder.is_recording,
    _recorder.set_enabled,
    _recorder.set_emitter,
)
