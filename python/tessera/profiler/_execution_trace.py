"""Execution traces: the operators of a recording with their arguments, as a graph that other programs replay."""

import json
import os
import tempfile

from tessera.profiler import _recording

_recording.hide_functions_of(__file__)


class ExecutionTraceObserver:
    """Writes the operators that run, with their arguments, into a file.

    By itself, `register_callback(path)`, `start()`, the program, `stop()`; or as
    `profile(execution_trace_observer=...)`, which starts and ends it with each recording.

    >>> from tessera.profiler import ExecutionTraceObserver
    >>> ExecutionTraceObserver().is_registered
    False
    """

    def __init__(self):
        self._path = None
        self._running = False
        self._resources = False

    def __del__(self):
        self.unregister_callback()

    @staticmethod
    def build_execution_trace_obs_from_env():
        """An observer as the environment asks for it, or None: ENABLE_PYTORCH_EXECUTION_TRACE=1 registers it for a
        file in the folder for temporary files.
        """
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        handle, path = tempfile.mkstemp(suffix=".et.json")
        os.close(handle)
        observer = ExecutionTraceObserver()
        observer.register_callback(path)
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1":
            observer.set_extra_resource_collection(True)
        return observer

    @property
    def is_registered(self):
        """Whether it has a file to write."""
        return self._path is not None

    def is_running(self):
        """Whether it records now."""
        return self._running

    def register_callback(self, output_file_path):
        """Says which file is written. Returns self."""
        if self._path is None:
            self._path = os.fspath(output_file_path)
        return self

    def unregister_callback(self):
        """Ends the recording and forgets the file."""
        if self._running:
            self.stop()
        self._path = None

    def cleanup(self):
        """The same."""
        self.unregister_callback()

    def set_extra_resource_collection(self, val):
        """Whether a folder for further files is made beside the file."""
        self._resources = bool(val)
        if self._resources:
            self.get_resources_dir(can_create=True)

    def get_output_file_path(self):
        """The file, or None."""
        return self._path

    def get_resources_dir(self, can_create=False):
        """The folder for further files, or None if there is none."""
        if self._path is None:
            return None
        return self.get_resources_dir_for_et_path(self._path, create_dir=can_create)

    @staticmethod
    def get_resources_dir_for_et_path(trace_path, create_dir=False):
        """The folder that belongs to the trace `trace_path`, or None if there is none."""
        name, _ = os.path.splitext(os.path.basename(trace_path))
        folder = os.path.join(os.path.dirname(trace_path), f"{name}_resources")
        if os.path.isdir(folder):
            return folder
        if not create_dir:
            return None
        os.mkdir(folder)
        return folder

    def start(self):
        """Recording begins, if there is a file. Raises: RuntimeError if a profiler records already."""
        if self._path is not None and not self._running:
            _recording.start({"record_shapes": True})
            self._running = True

    def stop(self):
        """Recording ends, the file is written."""
        if self._running:
            self._running = False
            self._write(_recording.stop({"record_shapes": True, "overloads": True}))

    def _require_path(self):
        """For a profiler that will call `_write`. Raises: RuntimeError if there is no file."""
        if self._path is None:
            raise RuntimeError("ExecutionTraceObserver: register_callback(path) says which file it writes")

    def _write(self, recording):
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(execution_trace(recording.raw), file, indent=1)


def execution_trace(raw):
    """The graph of a recording: nodes with the node that they are inside of (`ctrl_deps`), values, sizes and types of
    arguments, and attributes.
    """
    root = {
        "id": 1,
        "name": "[pytorch|profiler|execution_trace|process]",
        "ctrl_deps": 1,
        "inputs": {"values": [], "shapes": [], "types": []},
        "outputs": {"values": [], "shapes": [], "types": []},
        "attrs": [],
    }
    nodes = [root]
    threads = {}
    for number in range(len(raw["threads"])):
        threads[number] = len(nodes) + 1
        nodes.append(dict(root, id=len(nodes) + 1, name="[pytorch|profiler|execution_trace|thread]", ctrl_deps=1))
    first = len(nodes) + 1
    for number, record in enumerate(raw["events"]):
        nodes.append(_node(first + number, first, record, threads))
    return {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": os.getpid(),
        "time": raw["start_ns"] // 1_000_000,
        "start_ts": raw["start_ns"] // 1000,
        "nodes": nodes,
        "finish_ts": raw["end_ns"] // 1000,
    }


def _node(number, first, record, threads):
    name, overload, kind, thread, parent, begin, end, sequence, forward, _, inputs, _, _ = record
    shapes, strides, types, values = inputs if inputs is not None else ([], [], [], [])
    attributes = [
        ("rf_id", "uint64", number),
        ("fw_parent", "uint64", first + forward if forward >= 0 else 0),
        ("seq_id", "int64", sequence),
        ("scope", "uint64", {"node": 1, "annotation": 7}.get(kind, 0)),
        ("tid", "uint64", thread + 1),
        ("fw_tid", "uint64", thread + 1 if forward >= 0 else 0),
        ("op_schema", "string", f"{name}.{overload}" if overload else name if kind == "operator" else ""),
        ("start_ns", "uint64", begin),
        ("end_ns", "uint64", end),
    ]
    return {
        "id": number,
        "name": name,
        "ctrl_deps": first + parent if parent >= 0 else threads[thread],
        "inputs": {"values": values, "shapes": shapes, "types": types, "strides": strides},
        "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
        "attrs": [{"name": key, "type": kind_of, "value": value} for key, kind_of, value in attributes],
    }
