"""What memory was used for, and when: from recordings of the profiler and from snapshots of devices."""

import json

from tessera.profiler._page import fill

_CATEGORIES = ("unknown", "activation", "gradient", "optimizer state", "temporary", "input")
_UNKNOWN, _ACTIVATION, _GRADIENT, _OPTIMIZER, _TEMPORARY, _INPUT = range(len(_CATEGORIES))


def _around(records, number):
    while number >= 0:
        yield number
        number = records[number][4]


def _category(raw, owner, freed):
    """What a block that was taken in the event `owner` and given back at `freed` (None: not yet) was for."""
    records = raw["events"]
    if owner < 0:
        return _INPUT
    for number in _around(records, owner):
        name, _, kind = records[number][:3]
        if kind in ("node", "evaluate"):
            return _GRADIENT if freed is None or freed > records[number][6] else _TEMPORARY
        if kind == "annotation" and name.startswith("Optimizer.step#"):
            return _OPTIMIZER if freed is None or freed > records[number][6] else _TEMPORARY
    outer = [n for n in _around(records, owner) if records[n][2] == "operator"]
    if not outer:
        return _UNKNOWN
    return _ACTIVATION if freed is None or freed > records[outer[-1]][6] else _TEMPORARY


def blocks_of(raw):
    """Blocks of a recording: [taken, returned, bytes, category, address, names around], times in ns since 1970 or
    None.
    """
    records, open_, found = raw["events"], {}, []
    for time, nbytes, _, address, owner, _ in raw["memory"]:
        if nbytes > 0:
            names = [records[number][0] for number in _around(records, owner)]
            block = [time, None, nbytes, owner, hex(address), names]
            open_[address] = block
            found.append(block)
        elif address in open_:
            open_.pop(address)[1] = time
        else:
            found.append([None, time, -nbytes, -1, hex(address), []])
    for block in found:
        block[3] = _category(raw, block[3], block[1]) if block[0] is not None else _UNKNOWN
    return found


def timeline(recording, path):
    """The text of a file of `export_memory_timeline`, by the end of its name."""
    raw = recording.raw
    blocks = blocks_of(raw)
    if path.endswith(".html"):
        start = raw["start_ns"]
        for block in blocks:  # microseconds, which the numbers of a page hold exactly
            block[:2] = [None if time is None else (time - start) / 1000 for time in block[:2]]
        device = {"name": "cpu", "from": 0, "to": (raw["end_ns"] - start) / 1000, "blocks": blocks}
        return fill("memory.html", {"categories": _CATEGORIES, "devices": [device]})
    changes = []
    for taken, returned, nbytes, category, *_ in blocks:
        changes.append((raw["start_ns"] if taken is None else taken, taken, 1, nbytes, category))
        if returned is not None:
            changes.append((returned, taken, -1, nbytes, category))
    changes.sort(key=lambda change: (change[0], change[2]))
    if ".raw.json" in path:
        action = lambda taken, sign: (
            "PREEXISTING" if sign > 0 and taken is None else "CREATE" if sign > 0 else "DESTROY"
        )
        return json.dumps([[t, action(taken, sign), n, _CATEGORIES[c].upper()] for t, taken, sign, n, c in changes])
    times, sizes, now = [], [], [0] * len(_CATEGORIES)
    for time, _, sign, nbytes, category in changes:
        now[category] += sign * nbytes
        times.append(time)
        sizes.append(list(now))
    return json.dumps([times, sizes])


def snapshot_page(snapshot):
    """A page of the blocks in a snapshot of a device's allocator (`cuda.memory._snapshot()`): over time where its
    history was recorded, else those that there are.
    """
    devices = []
    for number, trace in enumerate(snapshot.get("device_traces") or []):
        if trace:
            devices.append(_traced(f"device {number}", trace))
    if not devices:
        devices = _present(snapshot.get("segments") or [])
    return fill("memory.html", {"categories": _CATEGORIES, "devices": devices})


def _places(frames):
    return [f"{f['filename']}:{f['line']} {f['name']}" for f in frames or ()]


def _traced(name, trace):
    open_, found = {}, []
    for time, entry in enumerate(trace):
        address = entry.get("addr")
        if entry["action"] == "alloc":
            open_[address] = [time, None, entry["size"], _UNKNOWN, hex(address), _places(entry.get("frames"))]
            found.append(open_[address])
        elif entry["action"] == "free_completed" and address in open_:
            open_.pop(address)[1] = time
        elif entry["action"] == "free_completed":
            found.append([None, time, entry["size"], _UNKNOWN, hex(address), []])
    return {"name": name, "from": 0, "to": len(trace), "blocks": found}


def _present(segments):
    devices = {}
    for segment in segments:
        device = devices.setdefault(segment.get("device", 0), [])
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                address = hex(block.get("address", 0))
                device.append([None, None, block["size"], _UNKNOWN, address, _places(block.get("frames"))])
    return [{"name": f"device {n}", "from": 0, "to": 1, "blocks": b} for n, b in sorted(devices.items())] or [
        {"name": "no device", "from": 0, "to": 1, "blocks": []}
    ]
