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
    assert result.passed >= floor, "%d of %s checks pass, the floor is %d:\n%s" % (
        result.passed,
        name,
        floor,
        result.output[-3000:],
    )


def test_totals_reads_the_last_line():
    assert suites.totals("x\n3 passed, 1 failed\nlog\n12 passed, 4 failed\n") == (12, 4)
    assert suites.totals("killed") == (0, 0)


def test_what_exists_and_fails_counts_as_failed():
    assert suites.public_names("lambda x, other: torch.resize_as_(x.clone(), other).mT") == {
        "torch.resize_as_",
        "torch.Tensor.clone",
        "torch.Tensor.mT",
    }
    assert suites.public_names("torch.nn.init.orthogonal_(torch.empty(S))") == {
        "torch.nn.init.orthogonal_",
        "torch.empty",
    }
    expressions = [
        "torch.nn.Linear",
        "torch.nn.init.orthogonal_(torch.empty(S))",
        "lambda x: x.mT",
        "torch.no_such_name",
        "lambda x: x.no_such_method()",
    ]
    assert suites.expressions_that_exist(expressions) == set(expressions[:3])


def test_groups_are_read_by_name():
    assert suites.failed_groups("groups with failures: opt/Muon 2/90, nn.Linear/0 50/50\n") == {
        "opt/Muon": (2, 90),
        "nn.Linear/0": (50, 50),
    }
    assert suites.failed_groups("all fine\n") == {}
