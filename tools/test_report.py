"""Adds up the results that tools/test left in a folder and prints them, the total as the last line. Exit code 1 where anything failed or nothing ran.

bazel.json (Bazel's build events) names the C++ tests and their gtest XML files, pytest.xml is pytest's, failed_stages has a line for each step that broke.
"""

import collections
import json
import pathlib
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

Counts = collections.namedtuple("Counts", "passed failed skipped")


def add(a, b):
    return Counts(*(x + y for x, y in zip(a, b)))


def count_cases(path):
    """The test cases of a JUnit-like XML file (gtest's and pytest's agree on what is used here)."""
    counts = collections.Counter()
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    return Counts(counts["passed"], counts["failed"], counts["skipped"])


def count_run(result):
    """The cases of one run of one test target. A target that failed without a failing case (a crash, a time-out) counts as one failure."""
    files = {f["name"]: f["uri"] for f in result.get("testActionOutput", []) if "uri" in f}
    counts = Counts(0, 0, 0)
    if "test.xml" in files:
        try:
            counts = count_cases(urllib.parse.unquote(urllib.parse.urlparse(files["test.xml"]).path))
        except (OSError, ElementTree.ParseError):
            pass
    if result["status"] == "PASSED":
        return counts if any(counts) else Counts(1, 0, 0)
    return counts if counts.failed else add(counts, Counts(0, 1, 0))


def count_bazel(path):
    """(counts, labels that failed) from the build events."""
    runs, broken, skipped, tests = {}, set(), set(), set()
    for line in path.read_text().splitlines():
        event = json.loads(line)
        kind, key = next(iter(event["id"].items()))
        if kind == "testResult" and "testResult" in event:
            runs[key["label"], key.get("run", 1), key.get("shard", 1)] = event["testResult"]
        elif kind == "targetConfigured" and event.get("configured", {}).get("testSize"):
            tests.add(key["label"])
        elif kind == "targetCompleted" and not event.get("completed", {}).get("success"):
            reason = event.get("aborted", {}).get("reason")
            (skipped if reason == "SKIPPED" else broken).add(key["label"])
        elif kind in ("pattern", "unconfiguredLabel", "configuredLabel") and "aborted" in event and event["aborted"].get("reason") != "SKIPPED":
            broken.add(key.get("label", str(key)))
    counts, failed = Counts(0, 0, 0), set(broken)
    for (label, _, _), result in runs.items():
        of_run = count_run(result)
        counts = add(counts, of_run)
        if of_run.failed:
            failed.add(label)
    ran = {label for label, _, _ in runs}
    counts = add(counts, Counts(0, len(broken - ran), len((skipped & tests) - ran)))
    return counts, sorted(failed)


def main():
    folder = pathlib.Path(sys.argv[1])
    total, failed = Counts(0, 0, 0), []
    if (folder / "bazel.json").exists():
        counts, labels = count_bazel(folder / "bazel.json")
        total, failed = add(total, counts), failed + labels
        print("C++:    %d passed, %d failed, %d skipped" % counts)
    if (folder / "pytest.xml").exists():
        counts = count_cases(folder / "pytest.xml")
        total = add(total, counts)
        print("Python: %d passed, %d failed, %d skipped" % counts)
    if (folder / "failed_stages").exists():
        stages = (folder / "failed_stages").read_text().splitlines()
        total, failed = add(total, Counts(0, len(stages), 0)), failed + ["stage: " + s for s in stages]
    for name in failed:
        print("failed: " + name)
    print("%d passed, %d failed" % total[:2] + (", %d skipped" % total.skipped if total.skipped else ""))
    return 0 if total.failed == 0 and total.passed else 1


if __name__ == "__main__":
    sys.exit(main())
