"""Regions in which operators choose their dtypes; policies per operator are in test_policies.py."""

import copy
import threading
import warnings

import pytest

import tessera
from tessera import nn
from tessera.nn import functional as F

BF16, F16, F32 = tessera.bfloat16, tessera.float16, tessera.float32


def region(**options):
    return tessera.autocast("cpu", **options)


def square(dtype=F32):
    return tessera.ones(4, 4, dtype=dtype)


def test_one_object_enters_again_and_again():
    r = region()
    with r:
        with r:
            assert (square() @ square()).dtype == BF16
        assert tessera.is_autocast_enabled("cpu")
    with r:
        assert tessera.is_autocast_enabled("cpu")
    assert not tessera.is_autocast_enabled("cpu")


def test_a_decorated_function_in_many_threads():
    """One object's list of states was pushed and popped by all threads."""
    inside, go = threading.Barrier(3), []

    @region(dtype=F16)
    def f():
        inside.wait()
        go.append((square() @ square()).dtype)
        inside.wait()

    after = []

    def run():
        f()
        after.append((tessera.is_autocast_enabled("cpu"), tessera.get_autocast_dtype("cpu")))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert go == [F16] * 3 and after == [(False, BF16)] * 3


def test_a_decorated_generator_runs_in_the_region_and_its_caller_does_not():
    @region()
    def numbers():
        yield (square() @ square()).dtype
        yield (square() @ square()).dtype

    found = []
    for dtype in numbers():
        found.append((dtype, tessera.is_autocast_enabled("cpu")))
    assert found == [(BF16, False)] * 2


def test_nested_regions_of_two_dtypes_take_weights_in_their_own():
    """The copies of weights are kept by dtype."""
    w = nn.Parameter(square())
    with region(dtype=F16):
        assert (square() @ w).dtype == F16
        with region(dtype=BF16):
            assert (square() @ w).dtype == BF16
        assert (square() @ w).dtype == F16


def test_weights_are_cast_once_in_the_outermost_region():
    w = nn.Parameter(square())

    def node():
        return (square() @ w).grad_fn.next_functions[1][0]

    with region():
        with region():
            first = node()
        assert node() is first
        tessera.clear_autocast_cache()
        assert node() is not first
        kept = node()
    with region():
        assert node() is not kept
    with region(cache_enabled=False):
        assert node() is not node()


def test_a_copy_without_history_is_not_taken_where_gradients_are_wanted():
    w = nn.Parameter(square())
    with region():
        with tessera.no_grad():
            square() @ w
        (square() @ w).float().sum().backward()
    assert w.grad.dtype == F32 and (w.grad == 4).all()


def test_a_weight_that_changed_is_cast_again():
    w = nn.Parameter(square())
    optimizer = tessera.optim.SGD([w], lr=1.0)
    with region():
        for _ in range(2):
            optimizer.zero_grad()
            (square() @ w).float().sum().backward()
            optimizer.step()
        assert (square() @ w).float()[0, 0].item() == 4 * (1 - 2 * 4)


def test_gradients_of_a_layer():
    layer = nn.Linear(4, 3)
    x = tessera.randn(5, 4, requires_grad=True)
    with region():
        y = layer(x)
    assert y.dtype == BF16
    y.float().sum().backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == x.grad.dtype == F32
    exact = x.detach().to(BF16).float().sum(0)
    assert tessera.allclose(layer.weight.grad[0], exact, rtol=2e-2, atol=2e-2)


def test_explicit_dtypes_and_results_are_respected():
    half = square(BF16)
    with region():
        assert half.prod(dim=0, dtype=tessera.float64).dtype == tessera.float64
        out = tessera.empty(4, 4)
        x = square() * (1 + 2**-12)
        tessera.mm(x, square(), out=out)
        assert out[0, 0].item() == 4 * (1 + 2**-12)
        assert tessera.zeros(4, 4).addmm_(x, square())[0, 0].item() == 4 * (1 + 2**-12)
        assert tessera.zeros(1, 4, 4).baddbmm_(x[None], square()[None])[0, 0, 0].item() == 4 * (1 + 2**-12)


def test_subclasses_and_modes_see_the_casts():
    """Autocast is above dispatch modes: they see the operator with cast arguments."""
    from tessera.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is tessera.ops.aten.mm.default:
                seen.append([a.dtype for a in args])
            return func(*args, **(kwargs or {}))

    with region(), Log():
        square() @ square()
    assert seen == [[BF16, BF16]]


class Square(tessera.autograd.Function):
    states = []

    @staticmethod
    @tessera.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        Square.states.append((tessera.is_autocast_enabled("cpu"), tessera.get_autocast_dtype("cpu")))
        return x @ x

    @staticmethod
    @tessera.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        Square.states.append((tessera.is_autocast_enabled("cpu"), tessera.get_autocast_dtype("cpu")))
        return grad @ x.T + x.T @ grad


def test_backward_of_a_function_runs_as_its_forward():
    Square.states.clear()
    x = square().requires_grad_()
    with region(dtype=F16):
        y = Square.apply(x)
    with region():
        y.sum().backward()
    assert y.dtype == F16 and x.grad.dtype == F32 and Square.states == [(True, F16)] * 2
    Square.states.clear()
    Square.apply(x).sum().backward()
    assert [enabled for enabled, _ in Square.states] == [False, False]


def test_custom_fwd_casts_at_any_depth():
    from tessera.amp.autocast_mode import _cast

    half, double = square(F16), square(tessera.float64)
    got = _cast(([half, {"a": half}], double, "text", 3), "cpu", F32)
    assert got[0][0].dtype == got[0][1]["a"].dtype == F32 and got[1] is double and got[2:] == ("text", 3)
    assert _cast(half, "cuda", F32) is half


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_as_it_ran(reentrant):
    layer, seen = nn.Linear(4, 4), []

    def part(x):
        seen.append((tessera.is_autocast_enabled("cpu"), tessera.get_autocast_dtype("cpu")))
        return layer(x)

    x = square().requires_grad_()
    with region(dtype=F16):
        y = tessera.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant)
    y.float().sum().backward()
    assert y.dtype == F16 and seen == [(True, F16)] * 2 and layer.weight.grad.dtype == F32
    seen.clear()
    y = tessera.utils.checkpoint.checkpoint(part, x, use_reentrant=reentrant)
    with region():
        y.sum().backward()
    assert [enabled for enabled, _ in seen] == [False, False]


def test_replicas_compute_as_their_caller():
    from tessera.nn.parallel import parallel_apply

    with region(dtype=F16):
        found = parallel_apply([nn.Linear(4, 4)] * 3, [square()] * 3)
    assert [y.dtype for y in found] == [F16] * 3
    assert [y.dtype for y in parallel_apply([nn.Linear(4, 4)] * 2, [square()] * 2)] == [F32] * 2


def test_transforms_of_functions():
    w, x = square(), tessera.randn(3, 4)

    def loss(w, x):
        return (x @ w).float().sum()

    with region():
        gradient = tessera.func.grad(loss)(w, x)
        assert tessera.vmap(lambda row: row @ w)(x).dtype == BF16
        each = tessera.vmap(tessera.func.grad(loss), (None, 0))(w, x)
        _, tangent = tessera.func.jvp(lambda w: x @ w, (w,), (w,))
    assert gradient.dtype == each.dtype == F32 and tangent.dtype == BF16
    assert tessera.allclose(each.sum(0), gradient, rtol=1e-2, atol=1e-2)
    assert tessera.allclose(gradient[:, 0], x.to(BF16).float().sum(0), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers(kind):
    layer = kind(4, 3, num_layers=2)
    x = tessera.randn(5, 2, 4)
    expected = layer(x)[0]
    with region():
        y, h = layer(x)
        assert layer(x.to(BF16))[0].dtype == BF16
    assert y.dtype == h[0].dtype == (F32 if kind is nn.GRU else BF16)
    assert tessera.allclose(y.float(), expected, atol=3e-2)
    y.float().sum().backward()
    assert {p.grad.dtype for p in layer.parameters()} == {F32}


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_a_network_learns(dtype):
    tessera.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
    )
    optimizer = tessera.optim.Adam(net.parameters(), lr=1e-2)
    x, target = tessera.randn(16, 1, 8, 8), tessera.arange(16) % 4
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with region(dtype=dtype):
            loss = F.cross_entropy(net(x), target)
        assert loss.dtype == F32
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_attention_and_transformers():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x = tessera.randn(2, 3, 8)
    with region():
        y = layer(x)
    y.float().sum().backward()
    layer.eval()
    expected = layer(x)
    with region(), tessera.no_grad():
        assert tessera.allclose(layer(x).float(), expected, atol=0.1)
    assert {p.grad.dtype for p in layer.parameters()} == {F32}


def test_complex_and_integers_stay():
    z = tessera.ones(2, 2, dtype=tessera.complex64)
    with region():
        assert (z @ z).dtype == tessera.complex64 and tessera.cat([z, z]).dtype == tessera.complex64
        assert tessera.mm(z.real, z.real).dtype == BF16


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match="name of a type of device.*got 3"):
        tessera.autocast(3)
    with pytest.raises(RuntimeError, match="'meta' have no autocast"):
        tessera.autocast("meta")
    with pytest.raises(TypeError, match="enabled"):
        tessera.autocast("cpu", enabled=1)
    with pytest.raises(TypeError, match="cache_enabled"):
        tessera.autocast("cpu", cache_enabled=1)
    with pytest.raises(TypeError, match="dtype"):
        tessera.autocast("cpu", dtype=3)
    with pytest.raises(ValueError):
        tessera.amp.custom_fwd(device_type=3)
    with pytest.raises(RuntimeError):
        tessera.amp.is_autocast_available("nothing")
    assert not tessera.amp.is_autocast_available("meta")
    assert not tessera.is_autocast_enabled("cpu")


def test_what_a_device_does_not_compute_in_turns_the_region_off():
    with pytest.warns(UserWarning, match="autocast is off.*float64"):
        r = region(dtype=tessera.float64)
    with r:
        assert not tessera.is_autocast_enabled("cpu") and (square() @ square()).dtype == F32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        region(dtype=tessera.float64, enabled=False)
    if not tessera.cuda.is_available():
        with pytest.warns(UserWarning, match="there is no CUDA device"):
            tessera.autocast("cuda")


def test_functions_of_the_state():
    assert tessera.is_autocast_enabled() is False and tessera.get_autocast_dtype("cuda") == F16
    try:
        tessera.set_autocast_enabled("cpu", True)
        tessera.set_autocast_dtype("cpu", F16)
        assert (square() @ square()).dtype == F16
        assert tessera.autocast_increment_nesting() == 1 and tessera.autocast_decrement_nesting() == 0
        tessera.set_autocast_cache_enabled(False)
        assert not tessera.is_autocast_cache_enabled()
    finally:
        tessera.set_autocast_enabled("cpu", False)
        tessera.set_autocast_dtype("cpu", BF16)
        tessera.set_autocast_cache_enabled(True)
    with pytest.raises(TypeError, match="enabled"):
        tessera.set_autocast_enabled("cpu", 1)
    with pytest.raises(TypeError, match="dtype"):
        tessera.set_autocast_dtype("cpu", 3)


@pytest.mark.parametrize("kind", ["cpu", "xla", "ipu"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_functions_of_the_state(kind):
    enabled, dtype = f"autocast_{kind}_enabled", f"autocast_{kind}_dtype"
    first = getattr(tessera, "get_" + dtype)()
    getattr(tessera, "set_" + enabled)(True)
    getattr(tessera, "set_" + dtype)(F16)
    try:
        assert getattr(tessera, "is_" + enabled)() and tessera.is_autocast_enabled(kind)
        assert getattr(tessera, "get_" + dtype)() == F16
    finally:
        getattr(tessera, "set_" + enabled)(False)
        getattr(tessera, "set_" + dtype)(first)
    assert not getattr(tessera, "is_" + enabled)()


def test_kernels_of_autocast_for_operators_of_ones_own():
    seen = []

    @tessera.library.custom_op("amp_tests::weighted", mutates_args=())
    def weighted(xs: list[tessera.Tensor], w: tessera.Tensor, n: int) -> tessera.Tensor:
        seen.append(([x.dtype for x in xs], w.dtype, tessera.is_autocast_enabled("cpu")))
        return xs[0] * w * n

    weighted.register_autocast("cpu", BF16)
    arguments = [square(), square(tessera.float64)], square(F16), 2
    weighted(*arguments)
    with region(dtype=F16):
        assert weighted(*arguments).dtype == BF16
    with region(enabled=False):
        weighted(*arguments)
    plain = ([F32, tessera.float64], F16, False)
    assert seen == [plain, ([BF16, tessera.float64], BF16, False), plain]


def test_a_function_with_a_context_set_up_apart():
    class Double(tessera.autograd.Function):
        @staticmethod
        @tessera.amp.custom_fwd(device_type="cpu", cast_inputs=F32)
        def forward(x):
            seen.append((x.dtype, tessera.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        @tessera.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad * 2

    seen = []
    x = square(BF16).requires_grad_()
    with region():
        y = Double.apply(x)
    y.sum().backward()
    assert seen == [(F32, False)] and y.dtype == F32 and x.grad.dtype == BF16 and (x.grad == 2).all()


def test_a_network_with_a_region_as_attribute_is_copied():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.region = region(dtype=F16)

        def forward(self, x):
            with self.region:
                return x @ x

    assert copy.deepcopy(Net())(square()).dtype == F16
