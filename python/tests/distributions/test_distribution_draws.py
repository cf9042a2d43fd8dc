"""Draws are those of PyTorch for the same seed: draws.json holds numbers that PyTorch 2.11 drew, and the generator's
next number.
"""

import json
import pathlib

import pytest
import tessera
import tessera.distributions as D

DRAWS = json.loads(pathlib.Path(__file__).with_name("draws.json").read_text())
NAMES = {"D": D, "T": tessera.tensor}


def test_all_families_are_there():
    seen = {case["name"].split()[0] for case in DRAWS}
    families = {n for n in D.__all__ if isinstance(getattr(D, n), type) and issubclass(getattr(D, n), D.Distribution)}
    assert families - seen == {"Distribution", "ExponentialFamily"}


@pytest.mark.parametrize("case", DRAWS, ids=lambda c: f"{c['name']}-{c['how']}-{len(c['shape'])}")
def test_the_same_numbers(case):
    d = eval(case["expr"], NAMES)
    tessera.manual_seed(case["seed"])
    drawn = getattr(d, case["how"])(tuple(case["shape"]))
    following = tessera.rand(1).item()
    assert list(drawn.shape) == case["result"] and following == pytest.approx(case["next"], rel=1e-6)
    assert drawn.double().reshape(-1)[:6].tolist() == pytest.approx(case["numbers"], rel=2e-5, abs=1e-6)


def test_sample_n_warns_and_draws():
    with pytest.warns(FutureWarning, match="sample_n"):
        assert D.Exponential(1.0).sample_n(3).shape == (3,)


def test_wishart_draws_by_bartlett():
    """A chi-squared number for each diagonal element, then normal numbers below, row by row."""
    tessera.manual_seed(3)
    chi = (2 * tessera._standard_gamma(0.5 * (5 - tessera.arange(3.0)))).sqrt()
    normal = tessera.randn(3)
    factor = tessera.diag(chi)
    factor[[1, 2, 2], [0, 0, 1]] = normal
    tessera.manual_seed(3)
    tessera.testing.assert_close(D.Wishart(5.0, tessera.eye(3)).rsample((), 0), factor @ factor.T)
    tessera.manual_seed(3)
    tessera.testing.assert_close(D.Wishart(5.0, tessera.eye(3))._bartlett_sampling(), factor @ factor.T)
