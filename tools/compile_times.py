"""Prints the ten slowest translation units and the totals of a Bazel profile (bazel build --profile=FILE)."""

import collections
import gzip
import json
import sys


def main():
    with gzip.open(sys.argv[1], "rt") as f:
        events = json.load(f)["traceEvents"]
    spans = [
        (e["name"], e["dur"] / 1e6, e.get("ts", 0) / 1e6)
        for e in events
        if e.get("ph") == "X" and e.get("cat") == "action processing"
    ]
    kinds = collections.Counter()
    for name, seconds, _ in spans:
        kinds[name.split()[0]] += seconds
    print("ten slowest translation units (seconds):")
    compiled = sorted((s for s in spans if s[0].startswith("Compiling ")), key=lambda s: -s[1])
    for name, seconds, _ in compiled[:10]:
        print("%7.1f  %s" % (seconds, name[len("Compiling ") :]))
    print("work by kind (seconds): " + ", ".join("%s %.0f" % item for item in kinds.most_common(5)))
    if spans:
        print(
            "%d translation units; first action to last: %.0f s"
            % (len(compiled), max(t + d for _, d, t in spans) - min(t for _, _, t in spans))
        )


if __name__ == "__main__":
    main()
