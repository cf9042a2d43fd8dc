"""Adds up the results that tools/test left in a folder and prints them, the total as the last line. Exit code 1 where
anything failed or nothing ran.

bazel*.json (Bazel's build events) names the C++ tests and their gtest XML files, bazel*.status beside it is the exit
code of that Bazel, pytest*.xml is
pytest's, smoke*.log the output of python/tests/smoke.py, failed_stages has a line for each step that broke.
"""

import collections
import json
import pathlib
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

Counts = collections.namedtuple("Counts", "passed failed skipped")
NONE = Counts(0, 0, 0)
BAZEL_SUCCESS, BAZEL_TESTS_FAILED = 0, 3


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
    """The cases of one run of one test target. A target that failed without a failing case (a crash, a time-out) counts
    as one failure.
    """
    files = {f["name"]: f["uri"] for f in result.get("testActionOutput", []) if "uri" in f}
    counts = NONE
    if "test.xml" in files:
        try:
            counts = count_cases(urllib.parse.unquote(urllib.parse.urlparse(files["test.xml"]).path))
        except (OSError, ElementTree.ParseError):
            pass
    if result["status"] == "PASSED":
        return counts if any(counts) else Counts(1, 0, 0)
    return counts if counts.failed else add(counts, Counts(0, 1, 0))


class Events:
    """What the build events say: runs of tests, and labels of tests, of what did not build and of what was left out."""

    def __init__(self, path):
        self.runs, self.broken, self.skipped, self.tests = {}, set(), set(), set()
        self.complete = False
        for line in path.read_text().splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                break  # cut off in the middle of a line; complete stays False
            self.complete = self.complete or bool(event.get("lastMessage"))
            self.read(*next(iter(event["id"].items())), event)

    def read(self, kind, key, event):
        if kind == "testResult" and "testResult" in event:
            self.runs[key["label"], key.get("run", 1), key.get("shard", 1)] = event["testResult"]
        elif kind == "targetConfigured" and event.get("configured", {}).get("testSize"):
            self.tests.add(key["label"])
        elif kind == "targetCompleted" and not event.get("completed", {}).get("success"):
            reason = event.get("aborted", {}).get("reason")
            (self.skipped if reason == "SKIPPED" else self.broken).add(key["label"])
        elif (
            kind in ("pattern", "unconfiguredLabel", "configuredLabel")
            and "aborted" in event
            and event["aborted"].get("reason") != "SKIPPED"
        ):
            self.broken.add(key.get("label", str(key)))


def count_bazel(path):
    """(counts, what failed) of one run of Bazel: the events, checked against its exit code and against themselves."""
    events = Events(path)
    counts, failed = NONE, set(events.broken)
    for (label, _, _), result in events.runs.items():
        of_run = count_run(result)
        counts = add(counts, of_run)
        if of_run.failed:
            failed.add(label)
    ran = {label for label, _, _ in events.runs}
    unheard = events.tests - ran - events.skipped - events.broken
    counts = add(counts, Counts(0, len((events.broken | unheard) - ran), len((events.skipped & events.tests) - ran)))
    failed |= {label + " (no result)" for label in unheard}

    status_file = path.with_suffix(".status")
    status = status_file.read_text().strip() if status_file.exists() else "unknown"
    doubts = []
    if not events.complete:
        doubts.append("%s ends early" % path.name)
    # Failed tests explain 3. Every other code is a failure of its own unless something that did not build explains it.
    if status != str(BAZEL_SUCCESS) and not (status == str(BAZEL_TESTS_FAILED) and counts.failed) and not events.broken:
        doubts.append("bazel ended with %s" % status)
    return add(counts, Counts(0, len(doubts), 0)), sorted(failed) + ["%s: %s" % (path.stem, d) for d in doubts]


def count_smoke(path):
    """(counts, what failed) of the log: "FAILED NAME: ..." for each failed check, "... N of M checks passed" at the
    end.
    """
    text = path.read_text()
    end = re.findall(r"^Python .*: (\d+) of (\d+) checks passed$", text, re.M)
    if not end:
        return Counts(0, 1, 0), [path.stem + " did not finish"]
    passed, of = map(int, end[-1])
    return Counts(passed, of - passed, 0), [
        "%s: %s" % (path.stem, name) for name in re.findall(r"^FAILED ([^:]*):", text, re.M)
    ]


def sources(folder):
    """(title, counts, what failed) of everything in the folder."""
    for path in sorted(folder.glob("bazel*.json")):
        yield ("C++" + path.stem[len("bazel") :].replace("-", " "), *count_bazel(path))
    for path in sorted(folder.glob("pytest*.xml")):
        yield "Python" + path.stem[len("pytest") :].replace("-", " "), count_cases(path), []
    for path in sorted(folder.glob("smoke*.log")):
        yield (path.stem.replace("-", " ").capitalize(), *count_smoke(path))
    if (folder / "failed_stages").exists():
        stages = (folder / "failed_stages").read_text().splitlines()
        yield "Stages", Counts(0, len(stages), 0), ["stage: " + s for s in stages]


def main():
    total, failed = NONE, []
    for title, counts, names in sources(pathlib.Path(sys.argv[1])):
        total, failed = add(total, counts), failed + names
        print("%-24s %d passed, %d failed, %d skipped" % (title + ":", *counts))
    for name in failed:
        print("failed: " + name)
    print("%d passed, %d failed" % total[:2] + (", %d skipped" % total.skipped if total.skipped else ""))
    return 0 if total.failed == 0 and total.passed else 1


if __name__ == "__main__":
    sys.exit(main())
