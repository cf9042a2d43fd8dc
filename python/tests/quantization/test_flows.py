"""Models from floats to integers: module by module, as graphs, in training. Integers are compared with NumPy's."""

import copy
import importlib
import io
import pickle

import numpy as np
import pytest
import tessera as torch
from tessera import nn
from tessera.ao import quantization as Q
from tessera.ao.quantization import quantize_fx as QF

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = Q.QuantStub(), Q.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(4, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8), nn.ReLU()
        self.fc = nn.Linear(8 * 36, 5)

    def forward(self, x):
        return self.dequant(self.fc(self.relu(self.bn(self.conv(self.quant(x)))).flatten(1)))


def integers(sums, bias, in_scale, weight_scale, out_scale, zero_point, lowest=0):
    by = (weight_scale * in_scale).astype(np.float32)
    numbers = sums.astype(np.float32) + bias / by
    return np.clip(np.round(numbers * (by / np.float32(out_scale))) + zero_point, lowest, 255)


WANT = [0.0156160071, 16, 0.0309878942, 48]


@pytest.mark.parametrize("zero_point", [0, 7, 255])
def test_linear_has_the_integers_of_the_exact_sums(zero_point):
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (9, 70)), rng.integers(-128, 128, (33, 70))
    qx = torch._make_per_tensor_quantized_tensor(torch.tensor(x, dtype=torch.uint8), 0.02, zero_point)
    scales = rng.uniform(0.001, 0.01, 33)
    qw = torch._make_per_channel_quantized_tensor(
        torch.tensor(w, dtype=torch.int8), torch.tensor(scales), torch.zeros(33, dtype=torch.int64), 0
    )
    bias = rng.standard_normal(33).astype(np.float32)
    packed = torch.ops.quantized.linear_prepack(qw, torch.tensor(bias))
    for name, lowest in (("linear", 0), ("linear_relu", 11)):
        got = getattr(torch.ops.quantized, name)(qx, packed, 0.5, 11)
        want = integers((x - zero_point) @ w.T, bias, np.float32(0.02), scales.astype(np.float32), 0.5, 11, lowest)
        assert (got.int_repr().numpy() == want).mean() > 0.999 and abs(got.int_repr().numpy() - want).max() <= 1
        assert got.q_scale() == 0.5 and got.q_zero_point() == 11


@pytest.mark.parametrize("dims, groups, stride, padding, dilation", [(1, 1, 2, 1, 1), (2, 2, 1, 2, 2), (3, 1, 1, 0, 1)])
def test_conv_is_the_float_one_on_integers(dims, groups, stride, padding, dilation):
    torch.manual_seed(0)
    shape = (9, 8, 7)[:dims]
    x = torch.randint(0, 256, (2, 4, *shape), dtype=torch.uint8)
    w = torch.randint(-128, 128, (6, 4 // groups, *(3,) * dims), dtype=torch.int8)
    qx = torch._make_per_tensor_quantized_tensor(x, 0.01, 100)
    qw = torch._make_per_tensor_quantized_tensor(w, 0.02, 0)
    sizes = [[v] * dims for v in (stride, padding, dilation)]
    packed = getattr(torch.ops.quantized, f"conv{dims}d_prepack")(qw, None, *sizes, groups)
    got = getattr(torch.ops.quantized, f"conv{dims}d")(qx, packed, 1.0, 50)
    conv = getattr(nn.functional, f"conv{dims}d")
    sums = conv(x.double() - 100, w.double(), None, *sizes, groups)
    want = (sums * 0.0002).round().add(50).clamp(0, 255)
    assert got.shape == want.shape and (got.int_repr().double() - want).abs().max() <= 1
    assert (got.int_repr() == want).double().mean() > 0.999


def test_static_flow_saves_and_loads_and_stays_close():
    torch.manual_seed(0)
    m, x = Net().eval(), torch.randn(8, 4, 6, 6)

    def quantized(data):
        fused = Q.fuse_modules(m, ["conv", "bn", "relu"])
        fused.qconfig = Q.get_default_qconfig("x86")
        watched = Q.prepare(fused)
        watched(data)
        return Q.convert(watched)

    q = quantized(x)
    assert type(q.conv) is torch.ao.nn.intrinsic.quantized.ConvReLU2d and not hasattr(q.fc, "qconfig")
    assert (q(x) - m(x)).abs().max() < 0.1 * m(x).abs().max()
    other = quantized(x * 3)
    assert not torch.equal(other(x), q(x))
    buffer = io.BytesIO()
    torch.save(q.state_dict(), buffer)
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, weights_only=False))
    assert torch.equal(other(x), q(x)) and torch.equal(copy.deepcopy(q)(x), q(x))


@pytest.mark.parametrize("version", [0, 1])
def test_training_rounds_weights_and_converts(version):
    torch.manual_seed(0)
    m = Net().train()
    m.qconfig = Q.get_default_qat_qconfig("fbgemm", version)
    p = Q.prepare_qat(Q.fuse_modules_qat(m, ["conv", "bn", "relu"]))
    optimizer, x = torch.optim.SGD(p.parameters(), lr=0.01), torch.randn(16, 4, 6, 6)
    target, losses = torch.randn(16, 5), []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (p(x) - target).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.8 * losses[0]
    p.eval()
    q = Q.convert(p)
    assert type(q.conv) is torch.ao.nn.intrinsic.quantized.ConvReLU2d
    assert (q(x) - p(x)).abs().max() < 0.1


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dynamic_recurrent_layers(kind):
    torch.manual_seed(0)
    m = nn.Sequential(getattr(nn, kind)(6, 5, 2, bidirectional=True))
    q = Q.quantize_dynamic(m)
    x = torch.randn(7, 3, 6)
    assert (q(x)[0] - m(x)[0]).abs().max() < 0.05
    packed = nn.utils.rnn.pack_padded_sequence(x, [7, 5, 2])
    got, _ = nn.utils.rnn.pad_packed_sequence(q[0](packed)[0])
    want, _ = nn.utils.rnn.pad_packed_sequence(m[0](packed)[0])
    assert (got - want).abs().max() < 0.05
    other = Q.quantize_dynamic(nn.Sequential(getattr(nn, kind)(6, 5, 2, bidirectional=True)))
    other.load_state_dict(q.state_dict())
    assert torch.equal(other(x)[0], q(x)[0])


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.pool = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        y = nn.functional.relu(self.bn(self.conv(x)))
        y = torch.cat([y, y + y]).flatten(2).reshape(y.shape[0] * 2, 4, 6, 6)
        return torch.sigmoid(self.fc(self.pool(y).flatten(1)))


def test_graph_flow_runs_on_integers():
    torch.manual_seed(0)
    m, x = Branches().eval(), torch.randn(4, 3, 6, 6)
    p = QF.prepare_fx(m, Q.get_default_qconfig_mapping("x86"), (x,))
    assert "activation_post_process_0" in dict(p.named_modules())
    assert torch.allclose(p(x), m(x), atol=1e-5)
    q = QF.convert_fx(p)
    assert type(q.conv) is torch.ao.nn.intrinsic.quantized.ConvReLU2d
    assert type(q.fc) is torch.ao.nn.quantized.Linear
    assert (q(x) - m(x)).abs().max() < 0.03
    reference = QF.convert_to_reference_fx(p)
    assert type(reference.fc) is torch.ao.nn.quantized.reference.Linear
    assert (reference(x) - q(x)).abs().max() < 0.02


def test_a_mapping_leaves_modules_alone_by_name():
    m = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)).eval()
    mapping = Q.get_default_qconfig_mapping("x86").set_module_name("1", None)
    p = QF.prepare_fx(m, mapping, (torch.randn(2, 4),))
    p(torch.randn(8, 4))
    q = QF.convert_fx(p)
    assert type(q.get_submodule("0")) is torch.ao.nn.quantized.Linear
    assert type(q.get_submodule("1")) is nn.Linear
    assert Q.QConfigMapping.from_dict(mapping.to_dict()).module_name_qconfigs == mapping.module_name_qconfigs


def test_graph_training():
    torch.manual_seed(0)
    m, x = Branches().train(), torch.randn(4, 3, 6, 6)
    p = QF.prepare_qat_fx(m, Q.get_default_qat_qconfig_mapping("x86"), (x,))
    p(x).sum().backward()
    assert all(w.grad is not None for w in p.parameters())
    assert QF.convert_fx(p.eval())(x).shape == (8, 3)


def test_histogram_gives_up_what_costs_least():
    """Numbers from the library whose documents this follows."""
    x = (torch.arange(2000.0) / 2000) ** 8 * 4 - 0.25
    h = Q.HistogramObserver()
    found = []
    for data in (x, x * 2 - 1):
        h(data)
        found += [float(v) for v in h.calculate_qparams()]
    assert found == pytest.approx(WANT, rel=1e-5)
    assert float(h.histogram.sum()) == pytest.approx(4000)


def test_errors_say_what_is_expected():
    with pytest.raises(ValueError, match="observer class"):
        Q.QConfig(Q.MinMaxObserver(), Q.MinMaxObserver)
    with pytest.raises(AssertionError, match="nope"):
        Q.get_default_qconfig("nope")
    with pytest.raises(AssertionError, match="training mode"):
        Q.prepare_qat(Net().eval())
    with pytest.raises(NotImplementedError, match="per_tensor"):
        Q.MinMaxObserver(qscheme=torch.per_channel_affine)
    with pytest.raises(AssertionError, match="did not find fuser"):
        Q.fuse_modules(nn.Sequential(nn.ReLU(), nn.Conv1d(1, 1, 1)).eval(), ["0", "1"])


def test_functions_that_are_named_like_their_modules():
    for package in ("tessera.ao.quantization", "tessera.quantization"):
        for name in ("fuse_modules", "quantize"):
            importlib.import_module(f"{package}.{name}")
    from tessera.ao.quantization.fuse_modules import fuse_known_modules

    conv, relu = fuse_known_modules([nn.Conv2d(1, 1, 1), nn.ReLU()], False)
    assert type(conv) is nn.intrinsic.ConvReLU2d and type(relu) is nn.Identity
    for space in (torch.ao.quantization, torch.quantization):
        made = space.fuse_modules(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), ["0", "1"])
        assert type(made[0]) is nn.intrinsic.LinearReLU
        net = space.QuantWrapper(nn.Sequential(nn.Linear(2, 2)))
        net.qconfig = space.default_qconfig
        made = space.quantize(net, lambda model, x: model(x), [torch.rand(4, 2)])
        assert type(made.module[0]) is nn.quantized.Linear


def test_default_factories_are_pickled_by_name():
    for factory in (Q.default_observer, Q.default_weight_fake_quant, Q.default_affine_fixed_qparams_fake_quant):
        assert pickle.loads(pickle.dumps(factory)) is copy.deepcopy(factory) is copy.copy(factory) is factory
    own = Q.default_observer.with_args(quant_max=63)
    twin = pickle.loads(pickle.dumps(own))
    assert twin == own and twin is not own and twin().quant_max == 63
    assert copy.deepcopy(own) == own and twin != Q.default_observer


def test_embeddings_refuse_what_they_do_not_do():
    bag = nn.quantized.EmbeddingBag(4, 16)
    packed, rows = bag._packed_params._packed_weight, torch.tensor([0, 3])
    assert torch.ops.quantized.embedding_byte(packed, rows).shape == (2, 16)
    with pytest.raises(NotImplementedError, match="scale_grad_by_freq=False"):
        torch.ops.quantized.embedding_bag_byte(packed, rows, torch.tensor([0]), True)
    with pytest.raises(NotImplementedError, match="pruned_weights=False"):
        torch.ops.quantized.embedding_byte(packed, rows, True)


@pytest.mark.parametrize("kind", [nn.quantized.Embedding, nn.quantized.EmbeddingBag])
def test_embeddings_of_integers_bring_rows_to_no_norm(kind):
    with pytest.raises(NotImplementedError, match="max_norm=None, but got 0.5"):
        kind(4, 16, max_norm=0.5)
    assert not {"padding_idx", "max_norm", "sparse"} & vars(kind(4, 16, scale_grad_by_freq=True, sparse=True)).keys()


def test_recurrent_layers_refuse_what_they_do_not_compute():
    layer = nn.LSTM(4, 8, proj_size=3)
    layer.qconfig = Q.default_dynamic_qconfig
    for kind in (nn.quantized.dynamic.LSTM, nn.quantizable.LSTM):
        with pytest.raises(NotImplementedError, match="proj_size=0, but got 3"):
            kind.from_float(layer)
    with pytest.warns(UserWarning, match="drops nothing"):
        nn.quantizable.LSTM(4, 8, 2, dropout=0.5)


def test_reset_bn_parameters_resets_the_bias_of_a_convolution():
    made = nn.intrinsic.qat.ConvBn2d(4, 32, 2, bias=True, qconfig=Q.get_default_qat_qconfig("fbgemm"))
    nn.init.constant_(made.bias, 7.0)
    made.reset_bn_parameters()
    assert 0.125 < made.bias.abs().max() <= 0.25 and made.bn.bias.eq(0).all()


@pytest.mark.parametrize("how", ["name", "class"])
def test_standalone_modules_are_quantized_as_wholes_of_their_own(how):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.b(self.a(x))

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), Pair()).eval(), torch.rand(8, 4)
    mapping, custom = Q.QConfigMapping().set_global(Q.default_qconfig), QF.PrepareCustomConfig()
    if how == "name":
        custom.set_standalone_module_name("1", mapping, (x,), None, None)
    else:
        custom.set_standalone_module_class(Pair, None, (x,), None, None)
    ready = QF.prepare_fx(model, mapping, (x,), prepare_custom_config=custom)
    alone = QF.prepare_fx(getattr(model, "1"), mapping, (x,))
    alone(model[0](x)), ready(x)
    made = QF.convert_fx(ready)
    inner, alone = getattr(made, "1"), QF.convert_fx(alone)
    assert type(inner.a) is type(inner.b) is nn.quantized.Linear
    assert torch.equal(inner(x), alone(x)) and inner(x).dtype == torch.float32
    custom.set_standalone_module_name(
        "1", mapping, (x,), QF.PrepareCustomConfig().set_input_quantized_indexes([0]), None
    )
    with pytest.raises(NotImplementedError, match="takes and gives floats"):
        QF.prepare_fx(model, mapping, (x,), prepare_custom_config=custom)


def test_averages_of_calls_are_not_dynamic():
    for made in (Q.MovingAverageMinMaxObserver, Q.FakeQuantize, Q.MovingAveragePerChannelMinMaxObserver):
        with pytest.raises(NotImplementedError, match="MovingAverage.*dynamic"):
            made(is_dynamic=True)
    watch = Q.MovingAverageMinMaxObserver(is_dynamic=True, averaging_constant=1)
    for value in (9.0, 2.0):
        watch(torch.tensor([-1.0, value]))
    assert watch.max_val == 2.0 and watch.is_dynamic


def test_there_is_one_backend():
    model, mapping = nn.Sequential(nn.Linear(2, 2)).eval(), Q.get_default_qconfig_mapping()
    ready = QF.prepare_fx(model, mapping, (torch.ones(1, 2),))
    for call in (
        lambda: QF.prepare_fx(model, mapping, (torch.ones(1, 2),), backend_config=object()),
        lambda: QF.fuse_fx(model, backend_config=object()),
        lambda: QF.convert_fx(ready, backend_config=object()),
    ):
        with pytest.raises(NotImplementedError, match="one backend"):
            call()


def test_convolutions_pad_both_sides_alike():
    assert nn.quantized.Conv2d(1, 1, (3, 1), padding="same").padding == (1, 0)
    with pytest.raises(NotImplementedError, match="odd"):
        nn.quantized.Conv2d(1, 1, 2, padding="same")
    nn.quantized.Conv2d(1, 1, 2, dilation=2, padding="same")


def test_dynamic_recurrent_layers_warn_that_scales_are_found_anew():
    for layer in (nn.LSTM(2, 3), nn.GRUCell(2, 3)):
        layer.qconfig = Q.default_dynamic_qconfig
        with pytest.warns(UserWarning, match="anew"):
            Q.get_default_dynamic_quant_module_mappings()[type(layer)].from_float(layer, True)


@pytest.mark.parametrize(
    "bounds, integers, scale, zero_point",
    [
        ((-2.178789, 1.540996), (-128, 127), 0.01702179, 0),
        ((-1.0, 1.27), (-128, 127), 0.01, 0),  # not 1.27 / 127.5
        ((-2.178789, 1.540996), (0, 127), 0.03404358, 64),
        ((-2.178789, 1.540996), (-127, 127), 0.01708881, 0),
        ((0.5317195, 0.7698336), (-128, 127), 0.003018955, -128),
        ((-1.197067, -0.4782525), (0, 255), 0.004694379, 255),
        ((0.0, 0.0), (-128, 127), 0.1, 127),
        ((-4.8e-10, 9.4e-10), (0, 255), 6.1e-5, 128),
    ],
)
def test_scales_of_fused_observers_use_all_integers(bounds, integers, scale, zero_point):
    low, high = integers
    kind = torch.quint8 if low == 0 else torch.qint8
    fused = Q.FusedMovingAvgObsFakeQuantize(
        quant_min=low, quant_max=high, dtype=kind, qscheme=torch.per_tensor_symmetric
    )
    x = torch.tensor(bounds)
    result = fused(x)
    torch.testing.assert_close(fused.scale, torch.tensor([scale]), rtol=1e-6, atol=0.0)
    assert fused.zero_point.tolist() == [zero_point]
    assert torch.equal(result, torch.fake_quantize_per_tensor_affine(x, fused.scale, fused.zero_point, low, high))
    fused.disable_fake_quant()
    before = fused.scale.clone()
    assert fused(x * 10) is not None and torch.equal(fused.scale, before)
