"""Names of the top-level namespace that backends and tools use: their values against compositions of others."""

import gc
import subprocess
import sys
import types

import pytest
import tessera
import tessera.nn.functional as F
from tessera.multiprocessing.reductions import StorageWeakRef


def test_weak_references_of_storages():
    t = tessera.ones(3)
    first, typed = (
        StorageWeakRef(t.untyped_storage()),
        StorageWeakRef(tessera.storage._typed(t.untyped_storage(), t.dtype)),
    )
    assert first == typed and hash(first) == hash(typed) and not first.expired()
    view = t[1:]
    del t
    gc.collect()
    assert not first.expired() and first == StorageWeakRef(view.untyped_storage())
    del view
    gc.collect()
    assert first.expired() and typed.expired()
    others = [tessera.ones(3) for _ in range(20)]  # one of them has the address of before
    assert all(StorageWeakRef(o.untyped_storage()) != first for o in others)
    taken = StorageWeakRef.from_weakref(others[0].untyped_storage()._weak_ref())
    assert taken == StorageWeakRef(others[0].untyped_storage())
    with pytest.raises(ValueError, match="no weak reference"):
        tessera.UntypedStorage._expired(0)


def test_results_of_out_forms_have_types_of_their_own():
    x = tessera.arange(6.0).view(2, 3)
    plain, out = tessera.max(x, 1), tessera.max(x, 1, out=(tessera.empty(0), tessera.empty(0, dtype=tessera.int64)))
    assert type(plain) is tessera.return_types.max and type(out) is tessera.return_types.max_out
    assert out.values.tolist() == plain.values.tolist() and out.indices.tolist() == [2, 2]
    known = tessera.return_types.all_return_types
    assert type(plain) in known and type(out) in known and tessera.return_types.linalg_svd_out in known
    leaves, spec = tessera.utils._pytree.tree_flatten(out)
    assert type(tessera.utils._pytree.tree_unflatten(leaves, spec)) is type(out)
    tessera.return_types.pytree_register_structseq(type(out))
    with pytest.raises(TypeError):
        tessera.return_types.pytree_register_structseq(tuple)


RENAMED = """
import tessera as t
t.utils.rename_privateuse1_backend("npu")
assert str(t.device("npu:1")) == "npu:1" and t.device("privateuseone:1") == t.device("npu:1")
assert t._C._get_privateuse1_backend_name() == "npu"
t.utils.rename_privateuse1_backend("npu")
t.utils.generate_methods_for_privateuse1_backend(for_storage=True)
x = t.ones(2)
assert not x.is_npu and not x.untyped_storage().is_npu and x.to("meta").is_npu is False
for call, text in [
    (lambda: t.utils.rename_privateuse1_backend("other"), "already been set"),
    (lambda: x.npu(), "no library for device npu"),
    (lambda: x.npu("cuda:0"), "must be npu device"),
    (lambda: t.nn.Linear(1, 1).npu(), "no library for device npu"),
    (t.utils.generate_methods_for_privateuse1_backend, "has it already"),
]:
    try:
        call()
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
"""


def test_a_backend_of_its_own_name():
    subprocess.run([sys.executable, "-c", RENAMED], check=True)
    with pytest.raises(RuntimeError, match="another device's"):
        tessera.utils.rename_privateuse1_backend("cuda")
    with pytest.raises(RuntimeError, match="identifier"):
        tessera.utils.rename_privateuse1_backend("2x")


def test_parts_of_synchronised_batch_norm():
    tessera.manual_seed(0)
    halves = [tessera.randn(3, 4, 5, dtype=tessera.float64) + i for i in range(2)]
    whole = tessera.cat(halves).requires_grad_()
    weight, bias = tessera.rand(4, dtype=tessera.float64, requires_grad=True), tessera.rand(4, dtype=tessera.float64)
    running = [tessera.zeros(4, dtype=tessera.float64), tessera.ones(4, dtype=tessera.float64)]
    expected_running = [r.clone() for r in running]
    expected = F.batch_norm(whole, *expected_running, weight, bias, training=True, momentum=0.3, eps=1e-3)
    grad = tessera.randn(expected.shape, dtype=tessera.float64)
    grad_input, grad_weight = tessera.autograd.grad(expected, (whole, weight), grad)
    stats = [tessera.batch_norm_stats(half, 1e-3) for half in halves]
    counts = tessera.tensor([15.0, 15.0], dtype=tessera.float64)
    means, invstds = (tessera.stack(s) for s in zip(*stats))
    mean, invstd = tessera.batch_norm_gather_stats_with_counts(whole, means, invstds, *running, 0.3, 1e-3, counts)
    result = tessera.batch_norm_elemt(whole, weight, bias, mean, invstd, 1e-3)
    tessera.testing.assert_close(result, expected)
    tessera.testing.assert_close(running, expected_running)
    same = tessera.batch_norm_gather_stats(whole, means, invstds, None, None, 0.3, 1e-3, 15)
    tessera.testing.assert_close(same, (mean, invstd))
    sums = tessera.batch_norm_backward_reduce(grad, whole, mean, invstd, weight, True, True, False)
    tessera.testing.assert_close(sums[2], grad_weight)
    assert sums[3].numel() == 0
    back = tessera.batch_norm_backward_elemt(grad, whole, mean, invstd, weight, sums[0], sums[1], counts.int())
    tessera.testing.assert_close(back, grad_input)
    moving = [tessera.zeros(4, dtype=tessera.float64), tessera.ones(4, dtype=tessera.float64)]
    tessera.batch_norm_update_stats(whole, *moving, 0.3)
    tessera.testing.assert_close(moving, expected_running)


def test_a_legacy_norm_keeps_the_first_channel():
    x = tessera.arange(1.0, 7.0).view(1, 6, 1, 1)
    y = tessera.nn.CrossMapLRN2d(3, alpha=3.0, beta=1.0, k=0.5)(x).flatten().tolist()
    squares = [v * v for v in range(1, 7)]
    sums = [sum(squares[max(0, c - 1) : c + 2]) + (squares[0] if c >= 2 else 0) for c in range(6)]
    assert y == pytest.approx([(c + 1) / (0.5 + s) for c, s in enumerate(sums)])
    with pytest.raises(ValueError, match="Expected input to be 4D"):
        tessera.nn.CrossMapLRN2d(3)(tessera.ones(2, 3))


def test_small_names():
    assert isinstance(tessera.ops, types.ModuleType) and isinstance(tessera.ops.aten, types.ModuleType)
    for name in ("stft", "istft", "align_tensors"):
        assert getattr(tessera.functional, name) is getattr(tessera, name)
    key = tessera.DispatchKey.CPU
    both = tessera.DispatchKeySet(key).add(tessera.DispatchKey.CUDA)
    assert both.has(key) and not both.remove(key).has(key)
    assert tessera.DispatchKeySet.from_raw_repr(both.raw_repr()) == both
    assert isinstance(tessera.FloatStorage(2), tessera.FloatStorage)
    assert not isinstance(tessera.FloatStorage(2), tessera.cuda.FloatStorage)
    assert tessera.cuda.FloatStorage.dtype is tessera.float32
    theta = tessera.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    assert tessera.equal(
        tessera.affine_grid_generator(theta, [1, 1, 2, 3], False),
        F.affine_grid(theta, [1, 1, 2, 3], align_corners=False),
    )
    logs = tessera.randn(5, 1, 3).log_softmax(2)
    lengths = [tessera.tensor([[1, 2]]), tessera.tensor([5]), tessera.tensor([2])]
    assert tessera.equal(tessera.ctc_loss(logs, *lengths, 0, 2), F.ctc_loss(logs, *lengths, reduction="sum"))
    tessera.sym_constrain_range(3, min=0, max=4)
    for low, high in ((4, 9), (9, 4)):
        with pytest.raises(RuntimeError):
            tessera.sym_constrain_range_for_size(3, min=low, max=high)

    class Counted:
        made = 3

        @tessera.classproperty
        def twice(cls):
            return 2 * cls.made

    assert Counted.twice == Counted().twice == 6


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: tessera.zeros(2, dtype=tessera.cfloat).float(), "discards the imaginary part"),
        (lambda: tessera.zeros(2).copy_(tessera.ones(2, dtype=tessera.cdouble)), "discards the imaginary part"),
        (lambda: tessera.cross(tessera.ones(3), tessera.ones(3)), "without specifying the dim arg"),
        (lambda: tessera.set_default_tensor_type("torch.FloatTensor"), "is deprecated as of PyTorch 2.1"),
    ],
)
def test_what_is_warned_of(call, text):
    before = tessera.is_warn_always_enabled()
    tessera.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match=text):
            call()
    finally:
        tessera.set_warn_always(before)


def test_complex_numbers_become_bools_without_a_word(recwarn):
    tessera.set_warn_always(True)
    try:
        assert tessera.ones(2, dtype=tessera.cfloat).bool().all() and not recwarn.list
    finally:
        tessera.set_warn_always(False)
