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
    return {"id": {"testResult": {"label": label, "run": 1, "shard": 1}}, "testResult": {"status": status, "testActionOutput": outputs}}


def completed(label, **event):
    return {"id": {"targetCompleted": {"label": label}}, **event}


def configured(label):
    return {"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": "cc_test rule", "testSize": "MEDIUM"}}


def report(folder, events=None, pytest_xml=None, stages=()):
    if events is not None:
        (folder / "bazel.json").write_text("\n".join(json.dumps(e) for e in events))
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
    events = [result(tmp_path, "//a:a", "PASSED", ONE_GOOD), configured("//b:b"), completed("//b:b", aborted={"reason": "SKIPPED"})]
    assert report(tmp_path, events) == (0, "1 passed, 0 failed, 1 skipped")


def test_a_broken_stage_is_a_failure(tmp_path):
    assert report(tmp_path, [result(tmp_path, "//a:a", "PASSED", ONE_GOOD)], stages=["wheel"]) == (1, "1 passed, 1 failed")


def test_nothing_ran_is_no_success(tmp_path):
    assert report(tmp_path) == (1, "0 passed, 0 failed")
