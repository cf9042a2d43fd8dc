"""Fake tensors: metadata without data, on a device."""

import copy
import pickle

import numpy as np
import pytest
import tessera
from tessera import nn
from tessera._guards import TracingContext, active_fake_mode, detect_fake_mode, tracing
from tessera._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    is_fake,
    maybe_get_fake_mode,
    unset_fake_temporarily,
)
from tessera._subclasses.meta_utils import MetaConverter
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.utils._python_dispatch import TorchDispatchMode


@pytest.fixture
def mode():
    return FakeTensorMode()


def test_a_fake_tensor_says_where_it_is_and_has_no_data(mode):
    x = mode.from_tensor(tessera.randn(2, 3))
    assert type(x) is FakeTensor and x.fake_mode is mode
    assert x.device == x.fake_device == tessera.device("cpu") and x.is_cpu and not x.is_meta
    assert x.untyped_storage().device.type == "meta"
    assert repr(x) == "FakeTensor(..., size=(2, 3))"
    for read in (lambda: x.numpy(), lambda: x.data_ptr(), lambda: x.tolist(), lambda: pickle.dumps(x)):
        with pytest.raises(RuntimeError):
            read()


def test_factories_are_fake_on_any_device_without_its_library(mode):
    with mode:
        x = tessera.empty(2, 3, device="cuda")
        y = tessera.rand(3, dtype=tessera.float64)
        z = x.to("cpu")
        w = y.cuda()
    assert [str(t.device) for t in (x, y, z, w)] == ["cuda:0", "cpu", "cpu", "cuda:0"]
    assert repr(x @ x.mT) == "FakeTensor(..., device='cuda:0', size=(2, 2))"
    assert repr(y) == "FakeTensor(..., size=(3,), dtype=torch.float64)".replace("torch", tessera._display_name)


def test_operands_have_one_device_but_numbers_go_with_any(mode):
    with mode:
        here, there, number = tessera.ones(3), tessera.ones(3, device="cuda"), tessera.ones(())
    assert (there + number).device.type == (number * there).device.type == "cuda"
    assert there[mode.from_tensor(tessera.tensor([0, 1]))].device.type == "cuda"
    with pytest.raises(FakeTensorDeviceMismatchError, match="found at least two devices"):
        here + there


def test_real_tensors_are_refused_or_converted(mode):
    x, real = mode.from_tensor(tessera.ones(2)), tessera.ones(2)
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first.*aten.add.Tensor"):
        x + real
    lenient = FakeTensorMode(allow_non_fake_inputs=True)
    assert type(lenient.from_tensor(tessera.ones(2)) + real) is FakeTensor
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        x + lenient.from_tensor(real)


def test_conversion_keeps_views_storages_and_identity(mode):
    base = tessera.randn(4, 4)
    fake = mode.from_tensor(base[1:])
    assert mode.from_tensor(base) is fake._base and fake.storage_offset() == 4
    twin = mode.from_tensor(base.detach())
    assert twin.untyped_storage()._cdata == fake.untyped_storage()._cdata
    assert mode.from_tensor(base) is mode.from_tensor(base)


def test_conversion_keeps_gradients_parameters_and_subclasses(mode):
    leaf = tessera.randn(3, requires_grad=True)
    leaf.grad = tessera.ones(3)
    fake = mode.from_tensor(leaf)
    assert fake.is_leaf and fake.requires_grad and type(fake.grad) is FakeTensor
    assert not mode.from_tensor(leaf * 2).is_leaf and mode.from_tensor(leaf * 2).requires_grad
    parameter = mode.from_tensor(nn.Parameter(tessera.ones(2)))
    assert isinstance(parameter, nn.Parameter)
    assert repr(parameter) == "Parameter(FakeTensor(..., size=(2,), requires_grad=True))"


class Pair(tessera.Tensor):
    """A wrapper of two tensors."""

    @staticmethod
    def __new__(cls, a, b):
        return tessera.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Pair(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        out = [func(*[getattr(a, n) if isinstance(a, Pair) else a for a in args], **(kwargs or {})) for n in "ab"]
        return Pair(*out)


def test_wrapper_subclasses_have_fake_insides(mode):
    fake = mode.from_tensor(Pair(tessera.ones(2), tessera.zeros(2)))
    assert type(fake) is Pair and is_fake(fake) and maybe_get_fake_mode(fake) is mode
    with mode:
        out = fake + 1
    assert type(out) is Pair and type(out.a) is FakeTensor and out.shape == (2,)


def test_a_module_runs_forward_and_backward(mode):
    with mode:
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
        out = nn.functional.dropout(model(tessera.randn(2, 3, 8, 8)), 0.5)
        out.sum().backward()
        tessera.optim.SGD(model.parameters(), lr=0.1).step()
    assert out.shape == (2, 5) and type(model[0].weight.grad) is FakeTensor
    assert all(type(p) is FakeTensor and isinstance(p, nn.Parameter) for p in model.parameters())


def test_what_depends_on_values_raises(mode):
    x = mode.from_tensor(tessera.ones(3))
    for call in (lambda: x.sum().item(), lambda: bool(x.sum() > 1), lambda: tessera.equal(x, x), lambda: x.tolist()):
        with pytest.raises(DataDependentOutputException) as caught:
            call()
        assert caught.value.func.namespace == "aten"
    for call in (lambda: x.nonzero(), lambda: x.unique(), lambda: x[x > 0], lambda: tessera.masked_select(x, x > 0)):
        with pytest.raises(DynamicOutputShapeException):
            call()
    with pytest.raises(DynamicOutputShapeException):
        tessera.bincount(mode.from_tensor(tessera.tensor([1, 2])))


def test_constants_are_known_until_they_are_written_to(mode):
    with mode:
        five = tessera.tensor(5)
        moved = five + 1
        listed = tessera.tensor([1, 2, 3])
        drawn = moved * tessera.rand(())
    assert five.item() == 5 and moved.constant == 6 and int(moved) == 6
    assert listed.tolist() == [1, 2, 3] and drawn.constant is None
    five.add_(2)
    assert five.item() == 7
    moved.copy_(drawn)
    assert moved.constant is None
    with pytest.raises(DataDependentOutputException):
        moved.item()


def test_a_write_through_an_alias_forgets_the_constant(mode):
    with mode:
        five, other = tessera.tensor([5]), tessera.rand(1).long()
    alias = five.view(1)
    alias.copy_(other)
    assert five.constant is None


def test_arrays_become_fake(mode):
    with mode:
        x = tessera.as_tensor(np.ones(3))
    assert type(x) is FakeTensor and x.dtype == tessera.float64


def test_views_and_writes_keep_their_relations(mode):
    x = mode.from_tensor(tessera.zeros(2, 3))
    row = x[0]
    version = x._version
    assert row.add_(1) is row and x._version == version + 1 and row._base is x
    assert x.t_().shape == (3, 2) and x.conj() is x


def test_autograd_and_conjugates(mode):
    x = mode.from_tensor(tessera.randn(3, dtype=tessera.complex64))
    assert x.conj().is_conj() and not x.conj().resolve_conj().is_conj()
    y = mode.from_tensor(tessera.randn(3, requires_grad=True))
    (grad,) = tessera.autograd.grad((y * y).sum(), y)
    assert type(grad) is FakeTensor and grad.shape == (3,)


def test_deep_copies_stay_in_their_mode(mode):
    x = mode.from_tensor(tessera.ones(2, requires_grad=True))
    made = copy.deepcopy({"a": x, "b": x})
    assert made["a"] is made["b"] is not x and made["a"].fake_mode is mode and made["a"].requires_grad
    with FakeCopyMode(mode):
        module = copy.deepcopy(nn.Linear(2, 3))
    assert type(module.weight) is FakeTensor and isinstance(module.weight, nn.Parameter)


def test_modes_of_users_see_fake_tensors_first(mode):
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), [type(a) for a in args]))
            return func(*args, **(kwargs or {}))

    with mode, Watch():
        out = tessera.ones(2) + 1
    assert seen == [("aten.ones.default", [list]), ("aten.add.Tensor", [FakeTensor, int])] and type(out) is FakeTensor


def test_a_mode_may_be_subclassed():
    class Counting(FakeTensorMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Counting.calls += 1
            return super().__torch_dispatch__(func, types, args, kwargs)

    with Counting() as counting:
        out = tessera.ones(2) + 1
    assert type(out) is FakeTensor and out.fake_mode is counting and Counting.calls == 2
    assert type(out * 2) is FakeTensor and Counting.calls == 3


def test_modes_are_found(mode):
    x = mode.from_tensor(tessera.ones(1))
    assert detect_fake_mode([1, {"a": x}]) is mode and detect_fake_mode() is None and active_fake_mode() is None
    with mode:
        assert detect_fake_mode() is mode and active_fake_mode() is mode
        with unset_fake_temporarily() as off:
            assert off is mode and type(tessera.ones(1)) is tessera.Tensor
        with pytest.raises(AssertionError, match="doesn't match"):
            detect_fake_mode([FakeTensorMode().from_tensor(tessera.ones(1))])
    with tracing(TracingContext(mode)):
        assert detect_fake_mode() is mode
    with pytest.raises(RuntimeError):
        TracingContext.get()


def test_a_custom_operator_runs_its_fake_implementation(mode):
    @tessera.library.custom_op("fake_tests::twice", mutates_args=())
    def twice(x: tessera.Tensor) -> tessera.Tensor:
        return tessera.from_numpy(x.numpy() * 2)

    @twice.register_fake
    def _(x):
        seen.append(type(x))
        return tessera.empty_like(x)

    seen = []
    with mode:
        out = twice(tessera.ones(3, device="cuda"))
    assert seen == [FakeTensor] and type(out) is FakeTensor and str(out.device) == "cuda:0"


def test_meta_converter_keeps_views():
    convert = MetaConverter()
    x = tessera.ones(4, requires_grad=True)
    a, b = convert(x), convert(x.detach()[1:])
    assert a.is_meta and a.requires_grad and b.storage_offset() == 1
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata and convert(x) is a and convert("x") == "x"


def test_a_module_without_data_goes_nowhere_but_by_to_empty():
    with tessera.device("meta"):
        module = nn.Linear(2, 3)
    with pytest.raises(NotImplementedError, match="to_empty"):
        module.to("cpu")
    assert module.to("meta") is module and module.to_empty(device="cpu").weight.is_cpu


def test_bad_arguments_are_refused(mode):
    with pytest.raises(AssertionError, match="meta device"):
        FakeTensor(mode, tessera.ones(2), "cpu")
    with pytest.raises(TypeError, match="FakeTensorMode"):
        tessera._C._make_fake(None, tessera.ones(2), None, None)


def test_make_fx_on_fake_tensors_computes_nothing():
    def f(x, w):
        return (x @ w + tessera.tensor([1.0, 2.0])).relu().sum()

    graph = make_fx(f, tracing_mode="fake")(tessera.randn(3, 4), tessera.randn(4, 2))
    assert [str(n.target) for n in graph.graph.nodes if n.op == "call_function"] == [
        "aten.mm.default", "aten.add.Tensor", "aten.relu.default", "aten.sum.default",
    ]  # fmt: skip
    assert all(type(n.meta["val"]) is FakeTensor for n in graph.graph.nodes if n.op == "call_function")
    x, w = tessera.randn(5, 4), tessera.randn(4, 2)
    assert tessera.equal(graph(x, w), f(x, w))
    by_values = make_fx(lambda x: (x * x.sum().item(), x.nonzero()), tracing_mode="fake")(tessera.randn(3))
    x = tessera.tensor([0.0, 2.0, 3.0])
    assert by_values(x)[0].tolist() == [0, 10, 15] and by_values(x)[1].tolist() == [[1], [2]]
    whole = make_fx(lambda x: tessera.zeros(tessera.sym_int(x.sum().item())), tracing_mode="fake")(x)
    assert whole(tessera.tensor([1.25, 2.5])).shape == (3,) and whole.shape_env is not None
    assert make_fx(lambda x: x + 1)(x).shape_env is None


def test_make_fx_takes_real_tensors_where_that_is_allowed():
    w = tessera.randn(3)
    with pytest.raises(AssertionError, match="Please convert"):
        make_fx(lambda x: x * w, tracing_mode="fake")(tessera.randn(3))
    graph = make_fx(lambda x: x * w, tracing_mode="fake", _allow_non_fake_inputs=True)(tessera.randn(3))
    x = tessera.randn(3)
    assert tessera.equal(graph(x), x * w)


COUNTS = [
    lambda x, n: tessera.bincount(n),
    lambda x, n: tessera.bincount(n, minlength=7),
    lambda x, n: tessera.repeat_interleave(x, n),
    lambda x, n: tessera.repeat_interleave(x, n[:1]),
    lambda x, n: x.masked_fill(n > 1, x[0]),
    lambda x, n: x.index_fill(0, tessera.tensor([1]), x[0]),
    lambda x, n: tessera.nn.functional.multi_margin_loss(x.expand(3, 3), n - 1),
]


@pytest.mark.parametrize("index", range(len(COUNTS)))
def test_graphs_hold_no_numbers_of_the_run_that_was_recorded(index):
    f = COUNTS[index]
    graph = make_fx(f)(tessera.tensor([1.0, 2.0, 3.0]), tessera.tensor([1, 2, 3]))
    other = tessera.tensor([5.0, 1.0, 2.0]), tessera.tensor([2, 3, 1])
    tessera.testing.assert_close(graph(*other), f(*other))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tessera.full((2,), x),
        lambda x: tessera.arange(x),
        lambda x: tessera.linspace(x, x, 3),
        lambda x: tessera.add(x, x, alpha=x),
        lambda x: tessera.nn.functional.ctc_loss(tessera.ones(4, 1, 3), tessera.ones(1, 2).long(), x[None], x[None]),
    ],
)
def test_numbers_that_a_graph_would_hold_are_refused(f):
    assert f(tessera.tensor(2)) is not None
    with pytest.raises(RuntimeError, match="value out of a tracing tensor"):
        make_fx(f)(tessera.tensor(2))
