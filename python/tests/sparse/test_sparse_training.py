"""Sparse gradients on their way through layers, optimizers, files and processes."""

import copy
import io
import pickle

import pytest
import tessera
from tessera.nn import functional as F


def table():
    g = tessera.Generator().manual_seed(0)
    return tessera.randn(7, 3, generator=g).requires_grad_()


@pytest.mark.parametrize(
    "call",
    [
        lambda w, i, sparse: F.embedding(i, w, sparse=sparse),
        lambda w, i, sparse: F.embedding(i, w, padding_idx=2, sparse=sparse),
        lambda w, i, sparse: F.embedding_bag(i.reshape(2, 3), w, mode="sum", sparse=sparse),
        lambda w, i, sparse: F.embedding_bag(i, w, tessera.tensor([0, 4]), mode="mean", sparse=sparse),
        lambda w, i, sparse: F.embedding_bag(
            i, w, tessera.tensor([0, 1]), mode="sum", sparse=sparse, per_sample_weights=tessera.arange(6.0)
        ),
        lambda w, i, sparse: tessera.gather(w, 0, i.reshape(2, 3), sparse_grad=sparse),
    ],
)
def test_gradients_that_are_asked_for_are_sparse_and_right(call):
    i = tessera.tensor([0, 2, 2, 6, 1, 0])
    dense, sparse = table(), table()
    call(dense, i, False).pow(2).sum().backward()
    call(sparse, i, True).pow(2).sum().backward()
    assert sparse.grad.is_sparse and not dense.grad.is_sparse
    tessera.testing.assert_close(sparse.grad.to_dense(), dense.grad)
    call(sparse, i, True).pow(2).sum().backward()  # and once more
    tessera.testing.assert_close(sparse.grad.to_dense(), 2 * dense.grad)


def test_dense_and_sparse_gradients_of_one_leaf():
    w, i = table(), tessera.tensor([1, 1])
    (F.embedding(i, w, sparse=True).sum() + w.sum()).backward()
    want = tessera.ones(7, 3)
    want[1] += 2
    assert w.grad.to_dense().tolist() == want.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: tessera.optim.SGD(p, lr=0.1),
        lambda p: tessera.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: tessera.optim.Adagrad(p, lr=0.1),
    ],
)
def test_optimizers_step_alike_where_gradients_are_sparse(make):
    i = tessera.tensor([0, 2, 2, 6, 1, 0])
    results = []
    for sparse in (False, True):
        w = table()
        optimizer = make([w])
        for _ in range(3):
            optimizer.zero_grad()
            F.embedding(i, w, sparse=sparse).pow(2).sum().backward()
            optimizer.step()
        results.append(w.detach())
    tessera.testing.assert_close(*results)


def test_sparse_adam_steps_the_rows_that_are_there():
    w, i = table(), tessera.tensor([0, 2, 2])
    before, optimizer = w.detach().clone(), tessera.optim.SparseAdam([w], lr=0.1)
    F.embedding(i, w, sparse=True).sum().backward()
    optimizer.step()
    assert tessera.equal(w[[1, 3, 4, 5, 6]], before[[1, 3, 4, 5, 6]])
    tessera.testing.assert_close(w[[0, 2]], before[[0, 2]] - 0.1)  # the first step of Adam is the rate
    with pytest.raises(RuntimeError, match="dense gradients"):
        w.grad = tessera.ones(7, 3)
        optimizer.step()
    other = tessera.optim.Adam([w])
    w.grad = tessera.ones(7, 3).to_sparse()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        other.step()


def kinds():
    d = tessera.tensor([[0.0, 1.0], [2.0, 0.0]])
    yield tessera.sparse_coo_tensor([[1, 1], [0, 0]], [1.0, 2.0], (2, 2))
    yield d.to_sparse()
    for name in ("csr", "csc"):
        yield d.to_sparse(layout=getattr(tessera, f"sparse_{name}"))
    for name in ("bsr", "bsc"):
        yield d.to_sparse(layout=getattr(tessera, f"sparse_{name}"), blocksize=(1, 2))


@pytest.mark.parametrize("index", range(6))
def test_files_pickles_and_copies(index):
    t = list(kinds())[index]
    buffer = io.BytesIO()
    tessera.save({"t": t, "again": t}, buffer)
    buffer.seek(0)
    for r in (tessera.load(buffer)["t"], pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t), t.clone()):
        assert r.layout == t.layout and r.shape == t.shape and r.dtype == t.dtype and r._nnz() == t._nnz()
        assert r.to_dense().equal(t.to_dense())
        if t.is_sparse:
            assert r.is_coalesced() == t.is_coalesced()
        assert r.requires_grad is False
    leaf = t.detach().requires_grad_()
    assert copy.deepcopy(leaf).requires_grad


def test_files_with_wrong_indices_are_refused():
    t = tessera.sparse_coo_tensor([[9]], [1.0], (10,))
    data = bytearray(pickle.dumps(t))
    function, (layout, members) = t.__reduce_ex__(2)[:2]
    with pytest.raises(RuntimeError, match="size is inconsistent"):
        function(layout, (members[0], members[1], tessera.Size([3]), members[3]))
    assert pickle.loads(bytes(data)).to_dense()[9] == 1


class Rows(tessera.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return tessera.sparse_coo_tensor([[i]], [float(i)], (4,))


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loaders_bring_sparse_tensors(workers):
    loader = tessera.utils.data.DataLoader(Rows(), batch_size=2, num_workers=workers)
    got = [b.to_dense().tolist() for b in loader]
    assert got == [[[0, 0, 0, 0], [0, 1, 0, 0]], [[0, 0, 2, 0], [0, 0, 0, 3]]]


def test_shared_memory():
    t = tessera.ones(2, 2).to_sparse()
    assert not t.is_shared()
    t.share_memory_()
    assert t.is_shared() and t.indices().is_shared()


def test_clipping_reads_sparse_gradients():
    w = table()
    F.embedding(tessera.tensor([0, 0]), w, sparse=True).sum().backward()
    assert tessera.nn.utils.clip_grad_norm_([w], 1.0, foreach=False) > 1
    assert abs(w.grad.to_dense().norm().item() - 1) < 1e-5
