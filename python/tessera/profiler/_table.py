"""Averages as a table of text."""

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}
_BYTES = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
_FLOPS = ("", "K", "M", "G", "T", "P")
_GAP = "  "


def format_time(microseconds, unit=None):
    """ "12.300us", "2.345ms", "1.235s"; in `unit` if it is given. Raises: ValueError for an unknown unit."""
    if unit is None:
        unit = next((u for u in ("s", "ms") if microseconds >= _UNITS[u]), "us")
    if unit not in _UNITS:
        raise ValueError(f"time_unit: expected one of {sorted(_UNITS)}, got {unit!r}")
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def format_memory(nbytes):
    """ "3 B", "2.00 KB", "-5.00 MB"."""
    for name, size in _BYTES:
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {name}"
    return f"{nbytes} B"


def format_share(part, whole):
    """ "33.33%"; of nothing "NaN"."""
    return f"{100.0 * part / whole:.2f}%" if whole else "NaN"


def _cut(text, width):
    return text if width is None or len(text) <= width else text[: width - 3] + "..."


def _sort_attribute(name):
    for device in ("cuda", "xpu", "privateuse1"):
        name = name.replace(device, "device")
    return name


def _sorted(events, sort_by):
    attribute = _sort_attribute(sort_by)
    for event in events:
        if not hasattr(event, attribute):
            known = "cpu_time, cpu_time_total, self_cpu_time_total, cpu_memory_usage, self_cpu_memory_usage, count"
            raise AttributeError(f"table(): events have no attribute {sort_by!r} to sort by; there are {known}, flops")
    return sorted(events, key=lambda e: getattr(e, attribute), reverse=True)


def _device_total(events):
    """Microseconds of devices' work: its own events', where there are any, since operators have their times again."""
    on_device = [e for e in events if e.device_type.name != "CPU"]
    return sum(e.self_device_time_total for e in on_device or events)


def _columns(events, total, device_total, widths, time, use_device, with_memory, with_flops):
    """(title, texts, left-aligned) of each column."""
    name_width, shapes_width, source_width = widths

    def column(title, text):
        return title, [text(e) for e in events]

    yield column("Name", lambda e: _cut(str(e.key), name_width))
    if any(e.overload_name for e in events):
        yield column("Overload Name", lambda e: _cut(e.overload_name or "", name_width))
    yield column("Self CPU %", lambda e: format_share(e.self_cpu_time_total, total))
    yield column("Self CPU", lambda e: time(e.self_cpu_time_total))
    yield column("CPU total %", lambda e: "0.00%" if e.is_async else format_share(e.cpu_time_total, total))
    yield column("CPU total", lambda e: time(e.cpu_time_total))
    yield column("CPU time avg", lambda e: time(e.cpu_time))
    if use_device:
        device = use_device.upper()
        yield column(f"Self {device}", lambda e: time(e.self_device_time_total))
        yield column(f"Self {device} %", lambda e: format_share(e.self_device_time_total, device_total))
        yield column(f"{device} total", lambda e: time(e.device_time_total))
        yield column(f"{device} time avg", lambda e: time(e.device_time))
    if with_memory:
        yield column("CPU Mem", lambda e: format_memory(e.cpu_memory_usage))
        yield column("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage))
        if use_device:
            yield column(f"{use_device.upper()} Mem", lambda e: format_memory(e.device_memory_usage))
            yield column(f"Self {use_device.upper()} Mem", lambda e: format_memory(e.self_device_memory_usage))
    yield column("# of Calls", lambda e: str(e.count))
    if any(e.node_id not in (None, -1) for e in events):
        yield column("Node ID", lambda e: str(e.node_id))
    if any(e.input_shapes for e in events):
        shapes = lambda e: "" if e.input_shapes == "" else str(e.input_shapes or [])
        yield column("Input Shapes", lambda e: _cut(shapes(e), shapes_width))
    if any(e.stack for e in events):
        yield column("Source Location", lambda e: _cut(e.stack[0] if e.stack else "", source_width))
    if with_flops:
        power = 0
        least = min((e.flops for e in events if e.flops), default=0)
        while least >= 1000 and power < len(_FLOPS) - 1:
            least /= 1000
            power += 1
        yield column(f"Total {_FLOPS[power]}FLOPs", lambda e: f"{e.flops / 1000**power:.3f}" if e.flops else "--")


def build_table(
    events, *, sort_by, row_limit, widths, header, top_level_only, time_unit, use_device, with_memory, with_flops
):
    """The text of `EventList.table`."""
    if not events:
        return ""
    if time_unit is not None:
        format_time(0, time_unit)  # an unknown one is refused before anything else
    shown = list(events) if sort_by is None else _sorted(events, sort_by)
    total = sum(e.self_cpu_time_total for e in events if not getattr(e, "is_python_function", False))
    if top_level_only:
        shown = [e for e in shown if e.cpu_parent is None]
    shown = shown[:row_limit] if row_limit >= 0 else shown
    time = lambda us: format_time(us, time_unit)
    device_total = _device_total(events) if use_device else 0
    columns = list(_columns(shown, total, device_total, widths, time, use_device, with_memory, with_flops))
    sizes = [
        max(len(text) for text in [title, *texts, " " * (0 if i == 0 else 12)])
        for i, (title, texts) in enumerate(columns)
    ]
    rule = _GAP.join("-" * size for size in sizes) + _GAP
    rows = [[title for title, _ in columns], *zip(*(texts for _, texts in columns))]
    lines = [_GAP.join(text.rjust(size) for text, size in zip(row, sizes)) + _GAP for row in rows]
    out = []
    if header is not None:
        out += ["=" * len(rule), header]
    if top_level_only:
        out += ["=" * len(rule), "This report only display top-level ops statistics"]
    out += [rule, lines[0], rule, *lines[1:], rule, f"Self CPU time total: {time(total)}"]
    if use_device:
        out.append(f"Self {use_device.upper()} time total: {time(device_total)}")
    return "\n".join(out) + "\n"
