"""Pages that show a recording: one file each, which a browser opens without a network."""

import json
import pathlib

_FOLDER = pathlib.Path(__file__).parent


def fill(template, data):
    """The page `template` of this folder with its data in it."""
    # "</" could end the script that holds the data.
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return (_FOLDER / template).read_text(encoding="utf-8").replace("/*RECORDING*/", text, 1)


def _depths(records):
    """How deep each record lies in those of its thread."""
    depths = []
    for record in records:
        depths.append(depths[record[4]] + 1 if record[4] >= 0 else 0)
    return depths


def _add_devices(raw, depths, names, threads):
    """Rows of streams, and on the threads the calls that asked for their work."""
    start, rows = raw["start_ns"], {}
    for name, kind, begin, end, owner, device, place, _, thread, nbytes in raw["device"]:
        number = names.setdefault(name, len(names))
        entry = [number, 0, (begin - start) / 1000, (end - start) / 1000, {"bytes": nbytes} if nbytes else {}]
        if kind == "call":
            if thread >= 0:
                entry[1] = depths[owner] + 1 if owner >= 0 else 0
                threads[thread]["events"].append(entry)
                threads[thread]["depth"] = max(threads[thread]["depth"], entry[1])
            continue
        row = rows.setdefault(
            (device, place), {"name": f"GPU {device} stream {place}", "events": [], "depth": 0, "device": True}
        )
        row["events"].append(entry)
    for row in threads:
        row["events"].sort(key=lambda entry: (entry[2], entry[1]))
    threads.extend(rows[key] for key in sorted(rows))


def timeline_data(recording, with_places):
    """What timeline.html shows: names, and for each thread or stream its events [name, depth, start, end, more], in
    microseconds.
    """
    raw, events = recording.raw, recording.events()
    records, start = raw["events"], raw["start_ns"]
    names, threads = (
        {},
        [{"name": f"thread {number} ({name})", "events": [], "depth": 0} for number, name in raw["threads"]],
    )
    depths = _depths(records)
    for record, event, depth in zip(records, events, depths):
        name, _, _, thread, _, begin, end, _, forward, _, _, memory, self_memory = record
        more = {}
        if event.input_shapes:
            more["shapes"] = event.input_shapes
        if memory:
            more["memory"] = self_memory
        if event.flops:
            more["flops"] = event.flops
        if event.kernels:
            more["device"] = sum(kernel.duration for kernel in event.kernels)
        if forward >= 0:
            more["forward"] = records[forward][0]
        if with_places and event.stack:
            more["stack"] = event.stack
        if with_places and event.module_hierarchy:
            more["modules"] = event.module_hierarchy
        row = threads[thread]
        row["depth"] = max(row["depth"], depth)
        number = names.setdefault(name, len(names))
        row["events"].append([number, depth, (begin - start) / 1000, (end - start) / 1000, more])
    if raw["device"]:
        _add_devices(raw, depths, names, threads)
    return {
        "length": (raw["end_ns"] - start) / 1000,
        "count": sum(len(row["events"]) for row in threads),
        "names": list(names),
        "threads": threads,
    }


def trace_page(path):
    """The text of a page that shows a trace file of the Chrome format (of this package's profiler or of others, maybe
    compressed with gzip).

    Raises: ValueError for a file that holds no such trace.
    """
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        import gzip

        data = gzip.decompress(data)
    try:
        trace = json.loads(data)
    except ValueError as error:
        raise ValueError(f"{path}: this is no JSON, so no trace: {error}") from None
    if not isinstance(trace, list) and not (isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list)):
        raise ValueError(f'{path}: expected a list of events, or an object with "traceEvents", in the trace file')
    if isinstance(trace, list):
        trace = {"traceEvents": trace}
    trace.setdefault("traceName", pathlib.Path(path).name)
    return fill("timeline.html", trace)


def timeline_page(recording, with_places):
    """The text of the page."""
    return fill("timeline.html", timeline_data(recording, with_places))
