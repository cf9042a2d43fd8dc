"""quasirandom.SobolEngine: the table against SciPy's, points against SciPy's and against recorded ones."""

import pathlib

import numpy
import pytest
import scipy.stats
import tessera
from tessera import _sobol
from tessera.quasirandom import SobolEngine


def test_the_table_is_scipys():
    table = numpy.load(pathlib.Path(scipy.stats.__file__).parent / "_sobol_direction_numbers.npz")
    records = _sobol._records(_sobol.DIMENSIONS - 1)
    assert len(records) == 21200
    assert [polynomial for polynomial, _ in records] == table["poly"][1:].tolist()
    for (_, odd), wanted in zip(records, table["vinit"][1:].tolist()):
        assert odd == wanted[: len(odd)] and not any(wanted[len(odd) :])


@pytest.mark.parametrize("dimension", [1, 2, 7, 40, 3000])
def test_points_are_scipys(dimension):
    engine = SobolEngine(dimension)
    wanted = scipy.stats.qmc.Sobol(dimension, scramble=False, bits=30).random(64)
    assert numpy.array_equal(engine.draw(64, dtype=tessera.float64).numpy(), wanted)


def test_points_do_not_depend_on_how_they_are_drawn():
    whole = SobolEngine(5).draw(3000)
    engine = SobolEngine(5)
    parts = tessera.cat([engine.draw(n) for n in (1, 0, 2, 1020, 5, 1500, 472)])
    assert tessera.equal(whole, parts)
    assert tessera.equal(SobolEngine(5).fast_forward(2047).draw(3), whole[2047:2050])
    assert engine.num_generated == 3000 and engine.reset() is engine and tessera.equal(engine.draw(8), whole[:8])


def test_scrambled_points_are_those_of_their_seed():
    """As recorded of PyTorch with this seed."""
    engine = SobolEngine(3, scramble=True, seed=7)
    assert engine.shift.tolist() == [214182645, 183537049, 804615878]
    wanted = [[545853173, 438452617], [662285411, 1065302244], [816589273, 758585655]]
    assert engine.sobolstate[:, :2].tolist() == wanted
    first = engine.draw(3)
    assert tessera.equal(first[0].double(), (engine.shift.double() / 2**30).float().double())
    assert tessera.equal(first, SobolEngine(3, scramble=True, seed=7).draw(3))
    assert not tessera.equal(first, SobolEngine(3, scramble=True, seed=8).draw(3))


def test_scrambling_keeps_the_balance():
    points = SobolEngine(6, scramble=True, seed=1).draw_base2(8, dtype=tessera.float64)
    assert bool(((points >= 0) & (points < 1)).all())
    cells = (points * 256).long().sort(0).values
    assert tessera.equal(cells, tessera.arange(256).unsqueeze(1).expand(256, 6))


def test_arguments():
    out = tessera.empty(0, dtype=tessera.float64)
    drawn = SobolEngine(2).draw(4, out=out)
    assert drawn is out and out.tolist() == [[0, 0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    assert SobolEngine(2).draw().dtype == tessera.float32 and SobolEngine(2).draw(0).shape == (0, 2)
    assert repr(SobolEngine(2, True, 3)) == "SobolEngine(dimension=2, scramble=True, seed=3)"
    for wrong in (0, 21202, -1):
        with pytest.raises(ValueError, match=r"\[1, 21201\]"):
            SobolEngine(wrong)
    with pytest.raises(TypeError):
        SobolEngine(2.5)
    engine = SobolEngine(2)
    with pytest.raises(ValueError, match="non-negative"):
        engine.draw(-1)
    with pytest.raises(TypeError, match="float32 or float64"):
        engine.draw(1, dtype=tessera.int32)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)
    assert engine.num_generated == 3
    with pytest.raises(ValueError, match=r"2\*\*30 points"):
        engine.fast_forward(2**30)
