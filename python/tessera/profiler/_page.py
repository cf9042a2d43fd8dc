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


def timeline_data(recording, with_places):
    """What timeline.html shows: names, and for each thread its events [name, depth, start, end, more], in
    microseconds.
    """
    raw, events = recording.raw, recording.events()
    records, start = raw["events"], raw["start_ns"]
    names, threads = (
        {},
        [{"name": f"thread {number} ({name})", "events": [], "depth": 0} for number, name in raw["threads"]],
    )
    for record, event, depth in zip(records, events, _depths(records)):
        name, _, _, thread, _, begin, end, _, forward, _, _, memory, self_memory = record
        more = {}
        if event.input_shapes:
            more["shapes"] = event.input_shapes
        if memory:
            more["memory"] = self_memory
        if event.flops:
            more["flops"] = event.flops
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
    return {
        "length": (raw["end_ns"] - start) / 1000,
        "count": len(records),
        "names": list(names),
        "threads": threads,
    }


def timeline_page(recording, with_places):
    """The text of the page."""
    return fill("timeline.html", timeline_data(recording, with_places))
