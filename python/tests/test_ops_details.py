"""Details of operators that no table of cases covers: scalars of other kinds, out= of compositions."""

import pytest

import tessera as torch


def test_products_of_integers_drop_the_fractions_of_factors():
    a, b, start = torch.full((2, 2), 3), torch.ones(2, 2, dtype=torch.int64), torch.full((2, 2), 5)
    for add, left, right in ((torch.addmm, a, b), (torch.addbmm, a[None], b[None])):
        assert add(start, left, right, beta=0.6).tolist() == [[6, 6], [6, 6]]
        assert add(start, left, right, alpha=1.6, beta=1.6).tolist() == [[11, 11], [11, 11]]
    with pytest.raises(RuntimeError, match="complex"):
        torch.addmm(start, a, b, beta=1j)


def test_addbmm_in_place_lets_self_grow():
    left, right = torch.rand(2, 3, 4), torch.rand(2, 4, 5)
    for start in (torch.ones(1), torch.rand(5), torch.rand(3, 5)):
        want = torch.addbmm(start, left, right)
        assert start.addbmm_(left, right) is start
        assert torch.equal(start, want)


def test_out_of_factories_and_copies():
    out = torch.empty(0)
    assert torch.logspace(0, 3, 4, out=out) is out and out.tolist() == [1, 10, 100, 1000]
    assert torch.logspace(torch.tensor(4.3), 1.2, 4, base=5, dtype=torch.int64).tolist() == [625, 125, 25, 5]
    with pytest.raises(RuntimeError):
        torch.logspace(torch.ones(2), 3, 4)
    x = torch.arange(6.0)
    assert torch.diff(x * x, out=out).tolist() == [1, 3, 5, 7, 9]
    assert torch.narrow_copy(x, 0, 2, 3, out=out).tolist() == [2, 3, 4]
    with pytest.raises(RuntimeError, match="Double but got scalar type Float"):
        torch.polar(torch.ones(2, dtype=torch.float64), torch.ones(2))


@pytest.mark.parametrize("n", [100, 100_000])
def test_a_wrong_index_leaves_out_as_it_was(n):
    x, index, out = torch.arange(10.0), torch.zeros(n, dtype=torch.int64), torch.full((n,), -1.0)
    index[-1] = 99
    for call in (lambda: torch.gather(x, 0, index, out=out), lambda: torch.index_select(x, 0, index, out=out), lambda: torch.take(x, index, out=out)):
        with pytest.raises((RuntimeError, IndexError), match="99|out of range"):
            call()
        assert torch.equal(out, torch.full((n,), -1.0))
