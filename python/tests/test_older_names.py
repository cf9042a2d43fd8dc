"""Methods of Tensor that newer ones have replaced, methods of the legacy tensor classes, and what docstrings show."""

import pytest

import tessera as torch


def test_new_makes_what_its_arguments_say():
    t = torch.zeros(2, 3, dtype=torch.float64)
    assert t.new().shape == (0,) and t.new(2, 5).shape == t.new(torch.Size([2, 5])).shape == (2, 5)
    assert t.new([1, 2]).tolist() == t.new((1, 2)).tolist() == [1.0, 2.0]
    assert t.new(3).dtype is torch.float64 and torch.zeros(1, dtype=torch.int64).new([4]).dtype is torch.int64
    same = t.new(t)
    same[0, 0] = 7
    assert t[0, 0] == 7
    assert t.new(t.untyped_storage()).tolist() == t.flatten().tolist()


def test_new_refuses_what_it_does_not_know():
    t = torch.zeros(2)
    for wrong in (2.5, "a", torch.arange(3)):
        with pytest.raises(TypeError):
            t.new(wrong)
    with pytest.raises(RuntimeError, match="device type: meta"):
        t.new(2, device="meta")
    with pytest.raises(RuntimeError):
        t.new(-1)


def test_map2_takes_three_elements_at_a_time():
    t = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert t.map2_(torch.tensor([10.0, 20.0]), torch.full((2, 2), 0.5), lambda a, b, c: a + b * c) is t
    assert t.tolist() == [[6.0, 12.0], [8.0, 14.0]]
    with pytest.raises(RuntimeError, match="expected y"):
        t.map2_(t, torch.ones(2, 2, dtype=torch.int32), lambda a, b, c: a)
    with pytest.raises(RuntimeError, match="no gradient"):
        torch.ones(2, requires_grad=True).map2_(torch.ones(2), torch.ones(2), lambda a, b, c: a)


def test_resize_out_of_place_keeps_the_elements():
    t = torch.arange(6.0, requires_grad=True)
    with pytest.warns(UserWarning, match="non-inplace resize"):
        r = t.resize(2, 3)
    assert r.shape == (2, 3)
    r.sum().backward()
    assert t.grad.tolist() == [1.0] * 6
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="4x2"):
        t.resize((4, 2))
    with pytest.warns(UserWarning):
        assert t.resize_as(torch.zeros(3, 2)).shape == (3, 2)


def test_names_of_the_past():
    with pytest.warns(UserWarning, match="volatile"):
        assert torch.zeros(1).volatile is False
    for device in ("ipu", "mtia"):
        with pytest.raises(RuntimeError, match=device):
            getattr(torch.zeros(1), device)()


def test_legacy_classes_have_the_methods_of_their_instances():
    assert torch.FloatTensor.abs is torch.Tensor.abs and torch.LongTensor.add_ is torch.Tensor.add_
    assert torch.FloatTensor.abs(torch.tensor([-1.0])).item() == 1.0
    assert not hasattr(torch.FloatTensor, "no_such_method")


def test_every_public_method_and_attribute_says_what_it_is():
    names = [name for name in dir(torch.Tensor) if not name.startswith(("_", "is_"))]
    assert len(names) > 500
    assert [name for name in names if not (getattr(torch.Tensor, name).__doc__ or "").strip()] == []


def test_signatures_in_docstrings_are_what_users_write():
    assert torch.linalg.det.__doc__.startswith("linalg.det(A, *, out=None) -> Tensor")
    assert torch.amax.__doc__.startswith("amax(input, dim=(), keepdim=False, *, out=None) -> Tensor")
    assert torch.max_pool1d.__doc__.startswith("max_pool1d(input, kernel_size, stride=(), padding=0, dilation=1,")
    assert torch.permute.__doc__.startswith("permute(input, dims) -> Tensor")
    assert torch.Tensor.permute.__doc__.startswith("permute(*dims) -> Tensor")


def test_legacy_sparse_classes_make_coo_tensors():
    indices, values = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])
    made = torch.sparse.FloatTensor(indices, values, torch.Size([2, 3]))
    assert made.to_dense().tolist() == [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]
    assert torch.sparse.FloatTensor(indices, values).shape == (2, 2)
    assert torch.sparse.FloatTensor(indices, values.double()).dtype is torch.float64
    for empty in (torch.sparse.DoubleTensor(2, 3), torch.sparse.DoubleTensor(torch.Size([2, 3]))):
        assert empty.shape == (2, 3) and empty.dtype is torch.float64 and empty._nnz() == 0
    assert torch.sparse.LongTensor().shape == (0,)
    assert isinstance(made, torch.sparse.FloatTensor) and not isinstance(values, torch.sparse.FloatTensor)
    assert isinstance(values, torch.FloatTensor) and not isinstance(made, torch.FloatTensor)
    cls = torch.sparse.HalfTensor
    assert (cls.dtype, cls.layout, cls.is_sparse, cls.is_cuda) == (torch.float16, torch.sparse_coo, True, False)
    assert cls.__name__ == "HalfTensor" and cls.__module__.endswith(".sparse")
    with pytest.raises(TypeError, match="invalid combination"):
        torch.sparse.FloatTensor("a")
    with pytest.raises(RuntimeError, match="device type: meta"):
        torch.sparse.FloatTensor(1, device="meta")
