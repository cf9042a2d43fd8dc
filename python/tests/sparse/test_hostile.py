"""Members that lie: whatever numbers the indices hold, an operator raises or answers, and reads no other memory.

Run with more calls (TESSERA_HOSTILE_CALLS=50000) on an extension with the address sanitizer.
"""

import os

import numpy
import pytest
import tessera

CALLS = int(os.environ.get("TESSERA_HOSTILE_CALLS", "3000"))
NASTY = [-1, -7, 2**31, 2**62, -(2**63), 99, 5, 4]

OPERATORS = {
    "coalesce": lambda t, d: t.coalesce(),
    "to_dense": lambda t, d: t.to_dense(),
    "csr": lambda t, d: t.to_sparse_csr(),
    "csc": lambda t, d: t.to_sparse_csc(),
    "bsr": lambda t, d: t.to_sparse_bsr((2, 2)),
    "coo": lambda t, d: t.to_sparse_coo(),
    "mm": lambda t, d: t @ d,
    "left": lambda t, d: d @ t,
    "square": lambda t, d: tessera.sparse.mm(t, t),
    "mv": lambda t, d: tessera.mv(t, d[0]),
    "sampled": lambda t, d: tessera.sparse.sampled_addmm(t, d, d),
    "reduce": lambda t, d: tessera.sparse.mm(t, d, "amax"),
    "times": lambda t, d: t * d,
    "squared": lambda t, d: t * t,
    "sum": lambda t, d: t + t,
    "dense": lambda t, d: d + t,
    "mask": lambda t, d: d.sparse_mask(t),
    "masked": lambda t, d: t.sparse_mask(t),
    "sums": lambda t, d: t.sum(0, keepdim=True),
    "softmax": lambda t, d: tessera.sparse.softmax(t, 1),
    "select": lambda t, d: t[1],
    "choose": lambda t, d: tessera.index_select(t, 0, tessera.tensor([1, 0, 3])),
    "narrow": lambda t, d: t.narrow_copy(0, 1, 2),
    "transpose": lambda t, d: t.transpose(0, 1).to_dense(),
    "cat": lambda t, d: tessera.cat([t, t]).to_dense(),
    "sin": lambda t, d: t.sin(),
    "hspmm": lambda t, d: tessera.hspmm(t, d),
    "sspaddmm": lambda t, d: tessera.sspaddmm(t, t, d),
    "index_add": lambda t, d: d.clone().add_(t),
    "print": lambda t, d: repr(t),
    "equal": lambda t, d: tessera.equal(t, t),
    "gradient": lambda t, d: (t.requires_grad_() @ d).sum().backward(),
}


def numbers(rng, n, right):
    """Mostly right, sometimes not."""
    return [int(rng.choice(NASTY)) if rng.random() < 0.3 else int(rng.integers(0, right + 1)) for _ in range(n)]


def hostile(rng):
    nnz = int(rng.integers(0, 7))
    values = tessera.from_numpy(rng.standard_normal(nnz))
    kind = rng.integers(0, 4)
    if kind == 0:
        places = tessera.tensor([numbers(rng, nnz, 3), numbers(rng, nnz, 3)], dtype=tessera.int64)
        flag = bool(rng.integers(0, 2))
        return tessera.sparse_coo_tensor(places.reshape(2, nnz), values, (4, 4), is_coalesced=flag)
    lines = 2 if kind == 3 else 4
    pointers = sorted(numbers(rng, lines + 1, nnz)) if rng.random() < 0.5 else numbers(rng, lines + 1, nnz)
    if rng.random() < 0.5:
        pointers[0], pointers[-1] = 0, nnz
    members = tessera.tensor(pointers), tessera.tensor(numbers(rng, nnz, lines - 1), dtype=tessera.int64)
    if kind == 3:
        return tessera.sparse_bsr_tensor(*members, values.reshape(-1, 1, 1).expand(nnz, 2, 2), (4, 4))
    make = tessera.sparse_csr_tensor if kind == 1 else tessera.sparse_csc_tensor
    return make(*members, values, (4, 4))


def test_random_calls_with_lying_members():
    rng = numpy.random.default_rng(int(os.environ.get("TESSERA_HOSTILE_SEED", "0")))
    dense = tessera.from_numpy(rng.standard_normal((4, 4)))
    ended = {True: 0, False: 0}
    names = list(OPERATORS)
    for _ in range(CALLS):
        name = names[rng.integers(0, len(names))]
        t = hostile(rng)
        try:
            OPERATORS[name](t, dense)
            ended[True] += 1
        except (RuntimeError, IndexError):
            ended[False] += 1
    assert min(ended.values()) > CALLS // 20, ended


@pytest.mark.parametrize("name", ["coalesce", "to_dense", "csr", "mm", "left", "times", "mask", "index_add"])
def test_an_index_outside_is_an_error(name):
    t = tessera.sparse_coo_tensor([[0, 9], [0, 0]], [1.0, 2.0], (4, 4)).double()
    with pytest.raises((IndexError, RuntimeError)):
        OPERATORS[name](t, tessera.ones(4, 4, dtype=tessera.float64))


@pytest.mark.parametrize("dtype", [tessera.float32, tessera.float64, tessera.complex64])
@pytest.mark.parametrize("width", [1, 5, 16, 40, 130, 1100])
def test_a_column_outside_of_a_product_is_an_error(width, dtype):
    rows, wide = 300, 700  # rows enough for panels of columns
    pointers, columns = tessera.arange(rows + 1) * 20, tessera.arange(rows * 20) % wide
    values = (tessera.arange(rows * 20) % 7 - 3).to(dtype)
    dense = (tessera.arange(wide * width) % 11 - 5).reshape(wide, width).to(dtype)
    matrix = tessera.sparse_csr_tensor(pointers, columns, values, (rows, wide))
    assert tessera.equal(matrix @ dense, matrix.to_dense() @ dense)
    for wrong in (-1, wide, 2**31, 2**62, -(2**63)):
        for place in (0, 2999, 5999):
            lying = columns.clone()
            lying[place] = wrong
            with pytest.raises((IndexError, RuntimeError), match=r"700|index"):
                tessera.sparse_csr_tensor(pointers, lying, values, (rows, wide), check_invariants=False) @ dense


def test_products_over_no_columns():
    empty = tessera.sparse_csr_tensor([0, 0, 0], tessera.zeros(0, dtype=tessera.int64), tessera.zeros(0), (2, 0))
    assert (empty @ tessera.ones(0, 20)).tolist() == [[0.0] * 20] * 2
