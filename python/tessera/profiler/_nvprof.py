"""Files of nvprof: annotations and the kernels that were launched in them."""

import pathlib
import sqlite3

from tessera.autograd.profiler_util import FunctionEvent, StringTable
from tessera.profiler._kinds import DeviceType

_LAUNCH = 211  # the callback id of cudaLaunchKernel in nvprof's tables


class EnforceUnique:
    """Sees each key once: `see(*key)` raises RuntimeError for one that was seen before."""

    def __init__(self):
        self._seen = set()

    def see(self, *key):
        """Notes the key. Raises: RuntimeError if it was noted before."""
        if key in self._seen:
            raise RuntimeError("duplicate key: " + str(key))
        self._seen.add(key)


def parse_nvprof_trace(path):
    """The annotations in a file of nvprof (an SQLite database), a list of `FunctionEvent` with their kernels.

    Raises: FileNotFoundError, and sqlite3.DatabaseError for another kind of file.
    """
    if not pathlib.Path(path).is_file():
        raise FileNotFoundError(f"parse_nvprof_trace: there is no file {str(path)!r}")
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        return _read(connection)
    finally:
        connection.close()


def _read(connection):
    names = StringTable()
    texts = {row["id"]: names[row["value"]] for row in connection.execute("SELECT _id_ AS id, value FROM StringTable")}
    once, events, by_id = EnforceUnique(), [], {}
    begun = {}
    markers = "SELECT id, name, timestamp FROM CUPTI_ACTIVITY_KIND_MARKER ORDER BY timestamp"
    for row in connection.execute(markers):
        if row["name"] != 0:
            begun[row["id"]] = row  # a range's end has no name
            continue
        begin = begun.pop(row["id"], None)
        if begin is None:
            continue
        once.see(row["id"])
        event = FunctionEvent(
            id=row["id"],
            node_id=0,
            name=texts[begin["name"]],
            thread=0,
            start_us=begin["timestamp"] / 1000,
            end_us=row["timestamp"] / 1000,
            input_shapes=[],
            stack=[],
            use_device="cuda",
        )
        events.append(event)
        by_id[event.id] = event
    launches = f"""
        SELECT marker.id AS marker_id, kernel.name AS kernel, kernel.start AS begin, kernel.end AS finish,
               runtime._id_ AS runtime_id
        FROM CUPTI_ACTIVITY_KIND_MARKER AS marker
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS runtime ON marker.timestamp < runtime.start
        JOIN CUPTI_ACTIVITY_KIND_MARKER AS last
          ON last.id = marker.id AND last.name = 0 AND runtime.end < last.timestamp
        JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel ON kernel.correlationId = runtime.correlationId
        WHERE marker.name != 0 AND runtime.cbid = {_LAUNCH}"""
    for row in connection.execute(launches):
        once.see(row["marker_id"], row["runtime_id"])
        if row["marker_id"] in by_id:
            by_id[row["marker_id"]].append_kernel(texts[row["kernel"]], 0, (row["finish"] - row["begin"]) / 1000)
    events.sort(key=lambda event: event.time_range.start)
    assert all(event.device_type == DeviceType.CPU for event in events)
    return events
