"""tools/test_report.py counts what ran, and never calls a broken run a good one."""

import json
import pathlib
import subprocess
import sys

REPORT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "test_report.py"

GTEST = """<testsuites><testsuite name="A">
<testcase name="good" status="run" result="completed"/>
<testcase name="bad" status="run"><failure message="no"/></testcase>
<testcase name="skipped" status="run" result="skipped"><skipped message="no GPU"/></testcase>
<testcase name="DISABLED_x" status="notrun"/>
</testsuite></testsuites>"""
ONE_GOOD = '<testsuites><testsuite name="A"><testcase name="good" status="run"/></testsuite></testsuites>'


def result(folder, label, status, xml=None):
    outputs = []
    if xml is not None:
        path = folder / (label.strip("/:").replace(":", "_") + ".xml")
        path.write_text(xml)
        outputs = [{"name": "test.log", "uri": "bytestream://x"}, {"name": "test.xml", "uri": path.as_uri()}]
    return {
        "id": {"testResult": {"label": label, "run": 1, "shard": 1}},
        "testResult": {"status": status, "testActionOutput": outputs},
    }


def completed(label, **event):
    return {"id": {"targetCompleted": {"label": label}}, **event}


def configured(label):
    return {
        "id": {"targetConfigured": {"label": label}},
        "configured": {"targetKind": "cc_test rule", "testSize": "MEDIUM"},
    }


LAST = {"id": {"buildFinished": {}}, "lastMessage": True}


def report(folder, events=None, pytest_xml=None, stages=(), status=None, last=True):
    """status: what Bazel ended with; by default what it would end with after these events."""
    if events is not None:
        (folder / "bazel.json").write_text("\n".join(json.dumps(e) for e in [*events, *([LAST] if last else [])]))
        if status is None:
            broken = any(
                "targetCompleted" in e["id"] and "completed" in e and not e["completed"].get("success") for e in events
            )
            failed = any(e.get("testResult", {}).get("status", "PASSED") != "PASSED" for e in events)
            status = 1 if broken else 3 if failed else 0
        (folder / "bazel.status").write_text("%s\n" % status)
    if pytest_xml is not None:
        (folder / "pytest.xml").write_text(pytest_xml)
    if stages:
        (folder / "failed_stages").write_text("\n".join(stages) + "\n")
    process = subprocess.run([sys.executable, str(REPORT), str(folder)], capture_output=True, text=True)
    return process.returncode, process.stdout.splitlines()[-1]


def test_adds_cases_of_both_runners(tmp_path):
    events = [result(tmp_path, "//a:a", "FAILED", GTEST), completed("//a:a", completed={"success": True})]
    assert report(tmp_path, events, ONE_GOOD) == (1, "2 passed, 1 failed, 2 skipped")


def test_all_good(tmp_path):
    assert report(tmp_path, [result(tmp_path, "//a:a", "PASSED", ONE_GOOD)], ONE_GOOD) == (0, "2 passed, 0 failed")


def test_a_crash_without_failing_case_is_a_failure(tmp_path):
    assert report(tmp_path, [result(tmp_path, "//a:a", "FAILED", ONE_GOOD)]) == (1, "1 passed, 1 failed")
    assert report(tmp_path, [result(tmp_path, "//a:a", "TIMEOUT")]) == (1, "0 passed, 1 failed")


def test_a_target_that_does_not_build_is_a_failure(tmp_path):
    events = [result(tmp_path, "//a:a", "PASSED", ONE_GOOD), completed("//b:b", completed={})]
    assert report(tmp_path, events) == (1, "1 passed, 1 failed")


def test_an_incompatible_test_is_skipped(tmp_path):
    events = [
        result(tmp_path, "//a:a", "PASSED", ONE_GOOD),
        configured("//b:b"),
        completed("//b:b", aborted={"reason": "SKIPPED"}),
    ]
    assert report(tmp_path, events) == (0, "1 passed, 0 failed, 1 skipped")


def test_a_broken_stage_is_a_failure(tmp_path):
    assert report(tmp_path, [result(tmp_path, "//a:a", "PASSED", ONE_GOOD)], stages=["wheel"]) == (
        1,
        "1 passed, 1 failed",
    )


def test_nothing_ran_is_no_success(tmp_path):
    assert report(tmp_path) == (1, "0 passed, 0 failed")


def test_a_configured_test_without_a_result_is_a_failure(tmp_path):
    events = [configured("//a:a"), configured("//b:b"), result(tmp_path, "//a:a", "PASSED", ONE_GOOD)]
    assert report(tmp_path, events) == (1, "1 passed, 1 failed")


def test_events_that_end_early_are_a_failure(tmp_path):
    events = [configured("//a:a"), result(tmp_path, "//a:a", "PASSED", ONE_GOOD)]
    assert report(tmp_path, events, last=False) == (1, "1 passed, 1 failed")
    with (tmp_path / "bazel.json").open("a") as f:
        f.write('\n{"id": {"testRes')
    assert subprocess.run([sys.executable, str(REPORT), str(tmp_path)], capture_output=True).returncode == 1


def test_the_exit_code_of_bazel_counts(tmp_path):
    events = [configured("//a:a"), result(tmp_path, "//a:a", "PASSED", ONE_GOOD)]
    assert report(tmp_path, events, status=0) == (0, "1 passed, 0 failed")
    for status in (1, 2, 3, 8, 37, 137, "unknown"):
        assert report(tmp_path, events, status=status) == (1, "1 passed, 1 failed"), status
    (tmp_path / "bazel.status").unlink()
    assert subprocess.run([sys.executable, str(REPORT), str(tmp_path)], capture_output=True).returncode == 1


def test_several_runs_and_checks_that_are_no_pytest_are_added(tmp_path):
    assert report(tmp_path, [result(tmp_path, "//a:a", "PASSED", ONE_GOOD)], ONE_GOOD)[0] == 0
    for name in ("bazel.json", "bazel.status"):
        (tmp_path / name.replace(".", "-sse4.")).write_text((tmp_path / name).read_text())
    (tmp_path / "pytest-3.13.xml").write_text(GTEST)
    (tmp_path / "smoke-3.11.log").write_text("FAILED digits: no\nPython 3.11.2: 1 of 2 checks passed\n")
    process = subprocess.run([sys.executable, str(REPORT), str(tmp_path)], capture_output=True, text=True)
    assert process.stdout.splitlines()[-1] == "5 passed, 2 failed, 2 skipped"
    assert "failed: smoke-3.11: digits" in process.stdout
    (tmp_path / "smoke-3.11.log").write_text("Fatal error\n")
    process = subprocess.run([sys.executable, str(REPORT), str(tmp_path)], capture_output=True, text=True)
    assert process.stdout.splitlines()[-1] == "4 passed, 2 failed, 2 skipped"
