"""Quantized tensors, and quantization in effect (fake_quantize)."""

import copy
import io
import pickle

import numpy as np
import pytest
import tessera
from tessera.nn import functional as F

X = tessera.linspace(-2, 2, 48).reshape(2, 3, 2, 4)


def per_tensor(x=X, scale=0.05, zero_point=12, dtype=tessera.quint8):
    return tessera.quantize_per_tensor(x, scale, zero_point, dtype)


def per_channel(x=X, axis=1, dtype=tessera.qint8):
    scales, zero_points = tessera.tensor([0.01, 0.05, 0.1]), tessera.tensor([3, 4, 5])
    return tessera.quantize_per_channel(x, scales, zero_points, axis, dtype)


@pytest.mark.parametrize(
    "dtype, low, high",
    [(tessera.quint8, 0, 255), (tessera.qint8, -128, 127), (tessera.qint32, -(2**31), 2**31 - 1)],
)
def test_integers_are_rounded_to_even_and_saturated(dtype, low, high):
    x = tessera.tensor([-1e4, -0.5, 0.0, 0.5, 1.5, 2.5, 1e4, 1e12])
    q = tessera.quantize_per_tensor(x, 1.0, 3, dtype)
    assert q.int_repr().tolist() == np.clip(np.round(x.double().numpy()) + 3, low, high).tolist()
    assert q.is_quantized and q.dtype == dtype and q.qscheme() is tessera.per_tensor_affine
    assert q.dequantize().tolist() == (q.int_repr().double() - 3).float().tolist()


def test_channels_have_their_own_parameters():
    q = per_channel()
    assert q.q_per_channel_axis() == 1 and q.q_per_channel_zero_points().tolist() == [3, 4, 5]
    assert q.q_per_channel_scales().dtype == tessera.float64
    for c, (scale, zero_point) in enumerate([(0.01, 3), (0.05, 4), (0.1, 5)]):
        alone = tessera.quantize_per_tensor(X[:, c].contiguous(), scale, zero_point, tessera.qint8)
        assert tessera.equal(q.int_repr()[:, c], alone.int_repr())
    assert tessera.equal(q.permute(0, 2, 3, 1).int_repr(), q.int_repr().permute(0, 2, 3, 1))
    assert q.permute(0, 2, 3, 1).q_per_channel_axis() == 3 and q.unsqueeze(0).q_per_channel_axis() == 2
    with pytest.raises(NotImplementedError, match="per-channel"):
        q.view(6, 8)


def test_lists_and_dynamic_ranges():
    a, b = tessera.quantize_per_tensor([X, X * 2], tessera.tensor([0.1, 0.2]), tessera.tensor([0, 5]), tessera.qint8)
    assert b.q_zero_point() == 5 and tessera.allclose(a.dequantize() * 2, b.dequantize(), atol=0.3)
    q = tessera.quantize_per_tensor_dynamic(X, tessera.quint8, False)
    assert abs(q.q_scale() - 4 / 255) < 1e-6 and (q.dequantize() - X).abs().max() <= q.q_scale() / 2 + 1e-6
    assert tessera.quantize_per_tensor_dynamic(X, tessera.qint8, True).int_repr().abs().max() <= 64


def test_errors_say_what_was_expected():
    for make in (
        lambda: per_tensor(X.long()),
        lambda: per_tensor(zero_point=300),
        lambda: per_tensor(dtype=tessera.float32),
        lambda: X.q_scale(),
        lambda: X.int_repr(),
        lambda: per_tensor().q_per_channel_axis(),
        lambda: per_channel().q_scale(),
        lambda: per_channel(axis=5),
        lambda: per_channel(axis=0),
    ):
        with pytest.raises(RuntimeError, match="expected|only works|is for|out of range"):
            make()
    for call in (lambda: per_tensor() + 1, lambda: per_tensor() @ per_tensor(), lambda: per_tensor().exp()):
        with pytest.raises(NotImplementedError, match="QuantizedCPU"):
            call()
    assert X.dequantize() is X and tessera.dequantize((X, X))[1] is X


def test_views_share_memory_and_keep_parameters():
    q = per_tensor()
    for view in (q.view(6, 8), q[0], q.transpose(0, 3), q.flatten(1), q.unsqueeze(0), q.mT, q.split(1)[1], q[..., 1:]):
        assert view.is_quantized and view.q_scale() == 0.05 and view.q_zero_point() == 12
    q[0, 0] = 1.0
    row = q.view(6, 8)[0]
    assert row.int_repr().tolist() == [32] * 8
    row.fill_(0.0)
    assert q.int_repr()[0, 0].flatten().tolist() == [12] * 8
    q.copy_(X)
    assert tessera.equal(q, per_tensor()) and not tessera.equal(q, per_tensor(scale=0.06))
    assert (q == per_tensor()).all()


def test_functions_of_numbers_keep_parameters():
    q, n = per_tensor(), per_tensor().dequantize()
    for f in (
        lambda t: F.max_pool2d(t, 2),
        tessera.relu,
        lambda t: F.hardtanh(t, -0.5, 0.5),
        lambda t: F.interpolate(t, scale_factor=2.0),
        lambda t: tessera.cat([t, t], 1),
        lambda t: t.max(),
    ):
        got, expected = f(q), f(n)
        assert got.q_scale() == 0.05 and tessera.allclose(got.dequantize(), expected, atol=0.026)
    assert tessera.allclose(tessera.sigmoid(q).dequantize(), n.sigmoid(), atol=1 / 500)
    assert tessera.allclose(tessera.tanh(q).dequantize(), n.tanh(), atol=1 / 250)


def test_text_pickles_and_copies():
    q, c = per_tensor(X[0, 0]), per_channel()
    text = " ".join(repr(q).split())
    assert text.startswith("tensor([[") and text.endswith(
        "size=(2, 4), dtype=tessera.quint8, quantization_scheme=tessera.per_tensor_affine, scale=0.05, zero_point=12)"
    )
    assert "axis=1" in repr(c)
    file = io.BytesIO()
    tessera.save({"q": q, "c": c}, file)
    file.seek(0)
    loaded = tessera.load(file)
    again = pickle.loads(pickle.dumps(c))
    for a, b in ((loaded["q"], q), (loaded["c"], c), (again, c), (copy.deepcopy(c), c)):
        assert tessera.equal(a, b) and a.dtype == b.dtype
    assert pickle.loads(pickle.dumps(tessera.per_channel_affine)) is tessera.per_channel_affine


def test_batch_norm_and_pools_by_name():
    q = per_tensor()
    r = tessera.quantized_batch_norm(
        q, tessera.ones(3), tessera.zeros(3), tessera.zeros(3), tessera.ones(3) * 4, 0.0, 0.02, 100
    )
    assert r.q_zero_point() == 100 and tessera.allclose(r.dequantize(), q.dequantize() / 2, atol=0.011)
    assert tessera.equal(tessera.quantized_max_pool2d(q, [2, 2], [2, 2]), F.max_pool2d(q, 2))
    assert tessera.equal(tessera.quantized_max_pool1d(q[0], [2], [1]), F.max_pool1d(q[0], 2, 1))


def test_quantization_in_effect_passes_gradients_inside_of_the_bounds():
    x = (X * 4).requires_grad_()
    y = tessera.fake_quantize_per_tensor_affine(x, 0.05, 3, -100, 100)
    levels = np.round(x.detach().numpy() * np.float32(1 / np.float32(0.05))) + 3
    assert np.allclose(y.detach().numpy(), (np.clip(levels, -100, 100) - 3) * 0.05, atol=1e-6)
    y.sum().backward()
    assert x.grad.flatten().tolist() == ((levels >= -100) & (levels <= 100)).astype(float).flatten().tolist()
    t = tessera.fake_quantize_per_tensor_affine(
        x, tessera.tensor(0.05), tessera.tensor(3, dtype=tessera.int32), -100, 100
    )
    assert tessera.equal(t, y)
    with pytest.raises(RuntimeError, match="zero_point"):
        tessera.fake_quantize_per_tensor_affine(x, 0.05, 300, 0, 255)


def test_quantization_in_effect_by_channels():
    scales, zero_points = tessera.tensor([0.1, 0.2, 0.3]), tessera.tensor([0, 5, 9], dtype=tessera.int32)
    y = tessera.fake_quantize_per_channel_affine(X, scales, zero_points, 1, 0, 31)
    for c in range(3):
        alone = tessera.fake_quantize_per_tensor_affine(X[:, c], float(scales[c]), int(zero_points[c]), 0, 31)
        assert tessera.equal(y[:, c], alone)
    with pytest.raises(RuntimeError, match="zero_point of int32"):
        tessera.fake_quantize_per_channel_affine(X, scales, zero_points.long(), 1, 0, 31)


def test_random_operators_say_that_they_are():
    aten, seeded = tessera.ops.aten, tessera.Tag.nondeterministic_seeded
    for op in (
        aten.bernoulli.default,
        aten.dropout.default,
        aten.rand.default,
        aten.normal_.default,
        aten.rrelu.default,
    ):
        assert seeded in op.tags
    assert seeded not in aten.relu.default.tags and seeded not in aten.native_dropout_backward.default.tags


def test_operators_on_meta_have_the_shapes_and_dtypes_of_the_cpu():
    aten = tessera.ops.aten
    x, mask = tessera.ones(2, 3), tessera.ones(2, 3, dtype=tessera.bool)
    sums, factor = tessera.ones(2, 3, dtype=tessera.int32), tessera.ones(3)
    calls = {
        "_quantize_affine": (x, [0.5, 1.0, 2.0], [0, 1, 2], 1, 0, 255, tessera.uint8),
        "_dequantize_affine": (sums, [0.5], [1], -1),
        "_fake_quantize_affine": (x, [0.5], [1], -1, 0, 255),
        "_fake_quantize_gradient": (x, mask),
        "_quantized_convolution": (
            tessera.ones(2, 4, 3, dtype=tessera.uint8),
            0,
            tessera.ones(3, 2, 3).char(),
            [1],
            [1],
            [1],
            1,
            None,
            factor,
            None,
            0,
            0,
            255,
            tessera.uint8,
        ),
        "_requantize_sums": (sums, None, factor, None, 0, 0, 255, tessera.uint8),
        "_dynamic_product": (x, tessera.ones(4, 3).char(), sums.flatten()[:4], tessera.ones(1), None, True),
    }
    for name, arguments in calls.items():
        there = [a.to("meta") if isinstance(a, tessera.Tensor) else a for a in arguments]
        here, meta = getattr(aten, name)(*arguments), getattr(aten, name)(*there)
        for a, b in zip(here, meta, strict=True) if isinstance(here, tuple) else [(here, meta)]:
            assert b.is_meta and (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride()), name


def test_operands_of_several_devices_are_refused():
    grad, mask = tessera.ones(4), tessera.ones(4, dtype=tessera.bool, device="meta")
    with pytest.raises(RuntimeError, match="two devices, cpu and meta"):
        tessera.ops.aten._fake_quantize_gradient(grad, mask)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_a_dynamic_product_is_that_of_rounded_numbers(rows, reduce_range):
    x = tessera.linspace(-1.7, 2.9, rows * 70).reshape(rows, 70).cos() * 3 - 1
    weight = tessera.quantize_per_channel(
        tessera.linspace(-2, 2, 5 * 70).sin().reshape(5, 70), tessera.rand(5) + 0.01, tessera.zeros(5), 0, tessera.qint8
    )
    bias = tessera.arange(5.0)
    packed = tessera.ops.quantized.linear_prepack(weight, bias)
    found = tessera.ops.quantized.linear_dynamic(x, packed, reduce_range)
    rounded = tessera.quantize_per_tensor_dynamic(x, tessera.quint8, reduce_range).dequantize()
    wanted = tessera.nn.functional.linear(rounded.double(), weight.dequantize().double(), bias.double())
    tessera.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    assert tessera.ops.quantized.linear_dynamic(x[:0], packed).shape == (0, 5)
    with pytest.raises(RuntimeError, match="expected finite numbers"):
        tessera.ops.quantized.linear_dynamic(x * float("inf"), packed)
