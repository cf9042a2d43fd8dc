"""Functions of the top-level namespace that are written in Python, settings, the names of linalg and special, devices
that are not there.
"""

import itertools
import math

import numpy as np
import pytest
import tessera

T = tessera.tensor


def lists(tensors):
    return [t.tolist() for t in tensors]


def test_broadcast_shapes_and_tensors():
    assert tessera.broadcast_shapes((3, 1), (2,), 1) == (3, 2)
    assert tessera.broadcast_shapes() == ()
    with pytest.raises(RuntimeError, match="Shape mismatch"):
        tessera.broadcast_shapes((2,), (3,))
    with pytest.raises(RuntimeError, match="negative"):
        tessera.broadcast_shapes((-1,))
    x, y = tessera.broadcast_tensors(tessera.zeros(3, 1), tessera.ones(2))
    assert x.shape == y.shape == (3, 2)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid_is_numpys(indexing):
    a, b, c = np.arange(3), np.arange(2), np.arange(4)
    got = tessera.meshgrid(T(a), T(b), T(c), indexing=indexing)
    assert lists(got) == [g.tolist() for g in np.meshgrid(a, b, c, indexing=indexing)]
    with pytest.raises(RuntimeError, match="indexing"):
        tessera.meshgrid(T(a), indexing="yx")


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("again", [False, True])
def test_combinations_are_itertools(r, again):
    values = [3, 1, 4, 1]
    want = (itertools.combinations_with_replacement if again else itertools.combinations)(values, r)
    assert tessera.combinations(T(values), r, again).tolist() == [list(w) for w in want]
    with pytest.raises(RuntimeError):
        tessera.combinations(tessera.zeros(2, 2))


def test_block_diag_promotes_and_differentiates():
    x = T([[1.0, 2.0]], requires_grad=True)
    y = tessera.block_diag(x, T(3))
    assert y.tolist() == [[1, 2, 0], [0, 0, 3]] and y.dtype == tessera.float32
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1]]


@pytest.mark.parametrize("p", [0, 1, 2, 3, math.inf, -math.inf, "fro"])
def test_norm_is_numpys(p):
    a = np.array([3.0, -4.0, 0.0, 12.0])
    want = np.linalg.norm(a, 2 if p == "fro" else p)
    assert tessera.norm(T(a), p).item() == pytest.approx(want) == T(a).norm(p).item()


def test_norm_rejects_unknown_orders_and_integers():
    with pytest.raises(RuntimeError, match="fro"):
        tessera.norm(tessera.ones(2), "max")
    with pytest.raises(RuntimeError, match="floating point or complex"):
        tessera.norm(T([1, 2]))


@pytest.mark.parametrize("ord", [1, -1, math.inf, -math.inf, "fro"])
def test_matrix_norm_is_numpys(ord):
    a = np.arange(6.0).reshape(2, 3) - 2
    assert tessera.linalg.matrix_norm(T(a), ord).item() == pytest.approx(np.linalg.norm(a, ord))
    assert tessera.linalg.norm(T(a), ord, keepdim=True).shape == (1, 1)


def test_einsum_and_tensordot():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    assert tessera.einsum(T(a), [0, 1], T(b), [1, 2], [0, 2]).tolist() == (a @ b).tolist()
    assert tessera.tensordot(T(a), T(b), 1).tolist() == (a @ b).tolist()
    assert tessera.tensordot(T(a), T(b), ([1], [0])).tolist() == (a @ b).tolist()
    with pytest.raises(ValueError):
        tessera.einsum("ij")
    with pytest.raises(RuntimeError):
        tessera.tensordot(T(a), T(b), -1)


def test_unravel_index_is_numpys():
    where = np.array([[22, 41], [37, 0]])
    assert lists(tessera.unravel_index(T(where), (7, 6))) == [w.tolist() for w in np.unravel_index(where, (7, 6))]
    with pytest.raises(TypeError):
        tessera.unravel_index(T([1.0]), (2,))
    with pytest.raises(ValueError):
        tessera.unravel_index(T([1]), (2, -1))


def test_torch_function_sees_python_functions():
    seen = []

    class Watched(tessera.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = tessera.ones(2).as_subclass(Watched)
    assert type(tessera.norm(x)) is Watched and tessera.norm in seen
    assert all(type(part) is Watched for part in tessera.split(x, 1)) and tessera.split in seen
    assert type(tessera.einsum("i,i", x, x)) is Watched and tessera.einsum in seen


def test_nonzero_as_tuple_and_where_method():
    x = T([[0, 3], [5, 0]])
    assert lists(tessera.nonzero(x, as_tuple=True)) == [[0, 1], [1, 0]] == lists(x.nonzero(as_tuple=True))
    assert x.where(x > 3, -1).tolist() == [[-1, -1], [5, -1]]


def test_quantile_and_median_are_numpys():
    a = np.array([[3.0, 1.0, 2.0, 9.0], [5.0, 5.0, 0.0, 1.0]])
    for q in (0.0, 0.3, 0.5, 1.0):
        np.testing.assert_allclose(tessera.quantile(T(a), q, dim=1).numpy(), np.quantile(a, q, axis=1))
    assert tessera.median(T(a), 1).values.tolist() == np.sort(a)[:, 1].tolist()
    assert math.isnan(tessera.median(T([1.0, math.nan]))) and tessera.nanmedian(T([1.0, math.nan])).item() == 1
    assert tessera.kthvalue(T(a), 2, 0).values.tolist() == a.max(0).tolist()


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_gradients(reduce, include_self):
    from tessera.autograd import gradcheck

    base = T([1.0, 2.0, 3.0], dtype=tessera.float64, requires_grad=True)
    src = T([4.0, 0.5, 1.5, 7.0], dtype=tessera.float64, requires_grad=True)
    index = T([0, 0, 2, 2])
    assert gradcheck(lambda b, s: b.scatter_reduce(0, index, s, reduce, include_self=include_self), (base, src))


def test_determinism_and_precision_settings():
    tessera.use_deterministic_algorithms(True, warn_only=True)
    assert tessera.get_deterministic_debug_mode() == 1
    tessera.set_deterministic_debug_mode("default")
    assert not tessera.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError):
        tessera.set_deterministic_debug_mode(7)
    with pytest.raises(TypeError):
        tessera.set_deterministic_debug_mode(None)
    with pytest.warns(UserWarning):
        tessera.set_float32_matmul_precision("lowest")
    assert tessera.get_float32_matmul_precision() == "highest"


def test_absent_devices_answer():
    assert (
        tessera.cuda.is_available() is False
        and tessera.cuda.device_count() == 0
        and tessera.cuda.memory_allocated() == 0
    )
    with pytest.raises(RuntimeError):
        tessera.cuda.current_device()
    with pytest.raises(RuntimeError):
        tessera.cuda.Stream()
    assert (
        tessera.accelerator.current_accelerator(check_available=True) is None
        and tessera.get_device_module() is tessera.cpu
    )
    with pytest.raises(RuntimeError):
        tessera.backends.cudnn.benchmark = "yes"


def test_namespaces_hold_what_works():
    for name in dir(tessera.special):
        assert callable(getattr(tessera.special, name))
    for name in ("vector_norm", "vecdot", "multi_dot", "cross"):
        assert name in dir(tessera.linalg) and callable(getattr(tessera.linalg, name))
    with pytest.raises(AttributeError):
        tessera.linalg.nothing_of_the_kind


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_is_numpys(edge_order):
    a, x = np.random.default_rng(0).normal(size=(5, 4)), np.array([0.0, 1.0, 1.5, 4.0, 4.5])
    got = tessera.gradient(T(a), spacing=2.0, edge_order=edge_order)
    for g, want in zip(got, np.gradient(a, 2.0, edge_order=edge_order)):
        np.testing.assert_allclose(g.numpy(), want)
    got = tessera.gradient(T(a), spacing=[T(x)], dim=0, edge_order=edge_order)[0]
    np.testing.assert_allclose(got.numpy(), np.gradient(a, x, axis=0, edge_order=edge_order))
    with pytest.raises(RuntimeError):
        tessera.gradient(tessera.ones(edge_order), edge_order=edge_order)


@pytest.mark.parametrize("density", [False, True])
def test_histogramdd_is_numpys(density):
    points, weight = np.random.default_rng(1).normal(size=(40, 2)), np.arange(40.0)
    want, edges = np.histogramdd(points, bins=[3, 4], range=[(-1, 1), (-2, 2)], weights=weight, density=density)
    got = tessera.histogramdd(T(points), [3, 4], range=[-1.0, 1.0, -2.0, 2.0], weight=T(weight), density=density)
    np.testing.assert_allclose(got.hist.numpy(), want)
    for e, w in zip(got.bin_edges, edges):
        np.testing.assert_allclose(e.numpy(), w)


def test_cond_takes_one_branch():
    x = T([2.0], requires_grad=True)
    tessera.cond(T(True), lambda a: a * 3, lambda a: a * 5, (x,)).backward()
    assert x.grad.tolist() == [3]
    with pytest.raises(RuntimeError):
        tessera.cond("1", abs, abs, (x,))


def test_lists_of_tensors():
    xs = [T([4.0]), T([[9.0, 16.0]])]
    assert [y.tolist() for y in tessera._foreach_sqrt(xs)] == [[2], [[3, 4]]]
    tessera._foreach_neg_(xs)
    assert xs[0].tolist() == [-4]
    with pytest.raises(RuntimeError):
        tessera._foreach_abs([])


@pytest.mark.parametrize("kind", ["sum", "mean", "amax", "amin", "prod"])
@pytest.mark.parametrize("by", ["lengths", "offsets"])
def test_segments_need_not_cover_all(kind, by):
    """Without the check, elements before the first and behind the last piece are in none, and have no gradient."""
    data = np.arange(1.0, 9.0) / 4
    first, bounds = (0, [0, 1, 3, 3, 6]) if by == "lengths" else (2, [2, 3, 5, 5, 7])
    given = tessera.tensor(np.diff(bounds) if by == "lengths" else bounds)
    x = tessera.tensor(data, requires_grad=True)
    initial = {"amax": 0.0, "amin": 9.0}.get(kind, 2.0)
    got = tessera.segment_reduce(x, kind, unsafe=True, initial=initial, **{by: given})
    join = {"sum": np.sum, "mean": np.sum, "amax": np.max, "amin": np.min, "prod": np.prod}[kind]
    want = [join([initial, *data[a:b]]) for a, b in zip(bounds, bounds[1:])]
    if kind == "mean":
        want = [w / max(b - a, 1) for w, a, b in zip(want, bounds, bounds[1:])]
    np.testing.assert_allclose(got.detach().numpy(), want)
    got.sum().backward()
    assert not x.grad[:first].any() and not x.grad[bounds[-1] :].any() and x.grad[first : bounds[-1]].any()
    if by == "lengths":
        with pytest.raises(RuntimeError, match="it is 8"):
            tessera.segment_reduce(x, kind, lengths=given)
    else:
        with pytest.raises(RuntimeError, match="it is 6"):
            tessera.segment_reduce(x[:6], kind, offsets=given)
