"""Every recorded operator: what is known of fake results is what real results have; and so with symbols for the sizes.

The recorded inputs are those of ../shared/conformance/golden; where that folder is, the comparison has to run.
"""

import importlib.util
import pathlib
import warnings

import pytest
from tessera._subclasses.fake_tensor import FakeTensorMode

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT.parent / "shared" / "conformance" / "golden"


@pytest.fixture(scope="module")
def tool():
    if not GOLDEN.exists():
        pytest.skip("the recorded inputs (../shared/conformance/golden) are not here")
    spec = importlib.util.spec_from_file_location("fake_replay", ROOT / "tests" / "conformance" / "fake_replay.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_fake_results_are_known_as_real_ones(tool):
    cases, wrong = tool.compare(tool.load_replay(GOLDEN), GOLDEN, FakeTensorMode, 3)
    count = sum(map(len, wrong.values()))
    assert cases > 5000 and count < cases / 100
    assert set(wrong) <= set(tool.KNOWN), {name: texts[0] for name, texts in wrong.items() if name not in tool.KNOWN}


def test_so_are_those_of_symbolic_sizes(tool):
    cases, wrong = tool.compare(tool.load_replay(GOLDEN), GOLDEN, tool.symbolic_mode, 1000, files=3)
    count = sum(map(len, wrong.values()))
    assert cases > 200 and count < cases / 100, {name: texts[0] for name, texts in wrong.items()}
