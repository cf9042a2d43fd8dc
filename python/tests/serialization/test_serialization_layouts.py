"""Sparse and nested tensors in files: those of PyTorch 2.11 (`serialization/testdata/layouts.pt`) and our own."""

import io
import pathlib

import pytest
import tessera

WRITTEN = pathlib.Path(__file__).parents[3] / "serialization" / "testdata" / "layouts.pt"
Q = tessera.tensor([[0.0, 2, 0, 1], [3, 0, -4, 0], [0, 0, 0, 0], [1.5, 0, 0, -1]])
A, B = tessera.arange(6.0).reshape(2, 3), tessera.arange(12.0).reshape(4, 3)


def expected():
    """What the file holds, by name."""
    nested, one = tessera.nested, tessera.tensor([0, 1, 2], dtype=tessera.int32)
    holes = nested.nested_tensor_from_jagged(
        tessera.arange(30.0).reshape(10, 3), tessera.tensor([0, 3, 7, 10]), lengths=tessera.tensor([2, 3, 3])
    )
    return {
        "coo": Q.to_sparse(),
        "twice": tessera.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4, 5], (2, 3)),
        "hybrid": tessera.sparse_coo_tensor([[0, 1]], [[1.0, 2], [3, 4]], (2, 2)),
        "csr": Q.to_sparse_csr(),
        "csc": Q.to_sparse_csc(),
        "bsr": Q.to_sparse_bsr((2, 2)),
        "bsc": Q.to_sparse_bsc((2, 1)),
        "batch": tessera.stack([Q, 2 * Q]).to_sparse_csr(),
        "half": Q.half().to_sparse_csc(),
        "int32": tessera.sparse_csr_tensor(one, one[[1, 0]], tessera.ones(2)),
        "learned": tessera.nn.Parameter(Q.to_sparse_csr()),
        "strided": nested.nested_tensor([A, B]),
        "jagged": nested.nested_tensor([A, B], layout=tessera.jagged, requires_grad=True),
        "holes": holes,
        "turned": nested.nested_tensor([A, B], layout=tessera.jagged).transpose(1, 2),
    }


def members(t):
    if t.is_nested:
        return t.unbind()
    if t.layout is tessera.sparse_coo:
        return t._indices(), t._values()
    rows = t.layout in (tessera.sparse_csr, tessera.sparse_bsr)
    return *((t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())), t.values()


def check(got, want):
    assert list(got) == list(want)
    for name, b in want.items():
        a = got[name]
        assert (type(a), a.layout, a.dtype, a.requires_grad) == (type(b), b.layout, b.dtype, b.requires_grad), name
        assert a.is_nested or a.shape == b.shape
        assert a.layout is not tessera.sparse_coo or a.is_coalesced() == b.is_coalesced(), name
        for x, y in zip(members(a), members(b), strict=True):
            assert x.dtype == y.dtype and x.detach().equal(y.detach()), name


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_file_of_pytorch(weights_only):
    check(tessera.load(WRITTEN, weights_only=weights_only), expected())


@pytest.mark.parametrize("weights_only", [True, False])
def test_there_and_back(weights_only):
    file = io.BytesIO()
    tessera.save(expected(), file)
    file.seek(0)
    check(tessera.load(file, weights_only=weights_only), expected())
