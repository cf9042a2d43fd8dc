"""Prints the count of each conformance suite at the end of a test run."""

import pytest

_COUNTS = []


@pytest.fixture
def report_count():
    return _COUNTS.append


def pytest_terminal_summary(terminalreporter):
    if _COUNTS:
        terminalreporter.section("conformance")
        for line in _COUNTS:
            terminalreporter.line(line)
