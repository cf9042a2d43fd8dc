"""Pages that show a snapshot of a device's allocator, and the command line that writes them:

python -m tessera.cuda._memory_viz trace_plot snapshot.pickle -o page.html
"""

import argparse
import pickle
import sys

from tessera.profiler._memory import snapshot_page

__all__ = ["segment_plot", "trace_plot"]


def trace_plot(data, device=None, plot_segments=False):
    """A page (text) of the blocks of `cuda.memory._snapshot()` over time.

    Args:
        data: the snapshot, whose history `cuda.memory._record_memory_history()` began.
        device: the number of one device; default: all.
        plot_segments: the segments that the allocator holds instead of its blocks.

    Raises: ValueError if the snapshot has no such device.
    """
    traces = data.get("device_traces") or []
    if device is not None:
        if not 0 <= device < len(traces):
            raise ValueError(f"trace_plot: the snapshot has {len(traces)} devices, and no device {device}")
        traces = [trace if number == device else [] for number, trace in enumerate(traces)]
    return snapshot_page({"device_traces": [_of_segments(t) if plot_segments else t for t in traces]})


def _of_segments(trace):
    """Segments as if they were blocks."""
    actions = {"segment_alloc": "alloc", "segment_free": "free_completed"}
    return [dict(entry, action=actions[entry["action"]]) for entry in trace if entry["action"] in actions]


def segment_plot(data, device=None):
    """A page (text) of the blocks that there are in a snapshot; `device`: the number of one device, default: all."""
    segments = [s for s in data.get("segments") or [] if device is None or s.get("device", 0) == device]
    return snapshot_page({"segments": segments})


def main(arguments):
    """Writes the page that the command line asks for."""
    parser = argparse.ArgumentParser(description="Pages of snapshots of a device's memory")
    parser.add_argument("command", choices=["trace_plot", "segment_plot"])
    parser.add_argument("input", help="a pickled snapshot")
    parser.add_argument("-o", "--output", default="output.html", help="the page (default: output.html)")
    parser.add_argument("-d", "--device", type=int, help="one device alone")
    parser.add_argument("-s", "--segments", action="store_true", help="trace_plot: segments instead of blocks")
    chosen = parser.parse_args(arguments)
    with open(chosen.input, "rb") as file:
        data = pickle.load(file)
    if chosen.command == "trace_plot":
        page = trace_plot(data, chosen.device, chosen.segments)
    else:
        page = segment_plot(data, chosen.device)
    with open(chosen.output, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main(sys.argv[1:])
