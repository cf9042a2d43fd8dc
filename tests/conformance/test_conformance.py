"""Each suite of recorded cases passes at least as many checks as its floor (see README.md)."""

import pytest
from conformance import suites

DATA = suites.data_folder()


@pytest.mark.skipif(DATA is None, reason="the recorded cases (../shared/conformance) are not here")
@pytest.mark.parametrize("name", list(suites.floors()))
def test_passes_at_least_the_floor(name, report_count):
    result = suites.run_suite(name, DATA)
    floor = suites.floors()[name]
    report_count("%s: %s (floor %d)" % (name, result, floor))
    assert result.passed + result.failed > 0, "the suite did not run:\n" + result.output[-3000:]
    assert result.passed >= floor, "%d of %s checks pass, the floor is %d:\n%s" % (result.passed, name, floor, result.output[-3000:])


def test_totals_reads_the_last_line():
    assert suites.totals("x\n3 passed, 1 failed\nlog\n12 passed, 4 failed\n") == (12, 4)
    assert suites.totals("killed") == (0, 0)
