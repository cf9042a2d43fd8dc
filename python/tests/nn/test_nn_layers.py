"""Layers and functional forms against plain reference computations."""

import copy
import math

import pytest

import tessera
import tessera.nn.functional as F
from tessera import nn


def close(a, b, tol=1e-5):
    assert a.shape == b.shape and (a - b).abs().max().item() <= tol


def test_linear_is_matmul_plus_bias():
    m = nn.Linear(3, 2)
    x = tessera.randn(4, 3)
    close(m(x), x @ m.weight.t() + m.bias)


def test_conv2d_against_loops():
    x, w, b = tessera.randn(2, 4, 6, 5), tessera.randn(6, 2, 3, 2), tessera.randn(6)
    out = F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
    padded = F.pad(x, (0, 0, 1, 1))
    want = tessera.zeros(2, 6, 3, 3)
    for o in range(6):
        g = o // 3
        for i in range(3):
            for j in range(3):
                window = padded[:, 2 * g : 2 * g + 2, 2 * i : 2 * i + 3, j : j + 3 : 2]
                want[:, o, i, j] = (window * w[o]).sum((1, 2, 3)) + b[o]
    close(out, want, 1e-4)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_conv_string_padding(padding):
    m = nn.Conv1d(2, 3, 3, padding=padding)
    assert m(tessera.randn(1, 2, 7)).shape == (1, 3, 7 if padding == "same" else 5)


def test_conv_errors():
    with pytest.raises(ValueError):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError):
        nn.Conv2d(2, 4, 3, padding="same", stride=2)
    with pytest.raises(RuntimeError):
        nn.Conv2d(2, 4, 3)(tessera.randn(1, 3, 8, 8))


def test_batch_norm_statistics():
    m = nn.BatchNorm2d(3)
    x = tessera.randn(4, 3, 5, 5) * 2 + 1
    y = m(x)
    close(y.mean((0, 2, 3)), tessera.zeros(3), 1e-5)
    close(m.running_var, 0.9 + 0.1 * x.var((0, 2, 3)), 1e-5)
    assert m.num_batches_tracked.item() == 1
    with pytest.raises(ValueError):
        nn.BatchNorm1d(3)(tessera.randn(1, 3))
    with pytest.raises(ValueError):
        m(tessera.randn(2, 3))


def test_layer_and_group_norm():
    x = tessera.randn(3, 4, 5)
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    close(nn.LayerNorm(5)(x), (x - mean) / (var + 1e-5).sqrt(), 1e-5)
    g = x.reshape(3, 2, 10)
    want = (g - g.mean(-1, keepdim=True)) / (g.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    close(nn.GroupNorm(2, 4)(x), want.reshape(3, 4, 5), 1e-5)
    with pytest.raises(ValueError):
        nn.GroupNorm(3, 4)


def test_pools():
    x = tessera.arange(16.0).reshape(1, 1, 4, 4)
    out, at = F.max_pool2d(x, 2, return_indices=True)
    assert out.flatten().tolist() == [5, 7, 13, 15] and at.flatten().tolist() == [5, 7, 13, 15]
    assert F.max_unpool2d(out, at, 2).sum().item() == 40
    assert F.avg_pool2d(x, 2).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert nn.AdaptiveAvgPool2d((1, None))(x).flatten().tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize(
    "name,args,x,want",
    [
        ("relu", (), [-1.0, 2.0], [0.0, 2.0]),
        ("relu6", (), [-1.0, 7.0], [0.0, 6.0]),
        ("leaky_relu", (0.1,), [-1.0, 2.0], [-0.1, 2.0]),
        ("hardtanh", (), [-2.0, 0.5], [-1.0, 0.5]),
        ("threshold", (1.0, 9.0), [0.5, 2.0], [9.0, 2.0]),
        ("hardsigmoid", (), [0.0, 4.0], [0.5, 1.0]),
        ("elu", (), [-1.0, 2.0], [math.expm1(-1), 2.0]),
        ("softsign", (), [1.0, -3.0], [0.5, -0.75]),
        ("hardshrink", (), [0.4, 2.0], [0.0, 2.0]),
        ("softshrink", (), [0.4, 2.0], [0.0, 1.5]),
        ("silu", (), [0.0, 100.0], [0.0, 100.0]),
        ("softplus", (), [0.0, 50.0], [math.log(2), 50.0]),
    ],
)
def test_activations(name, args, x, want):
    close(getattr(F, name)(tessera.tensor(x), *args), tessera.tensor(want))


def test_inplace_activation_writes_into_its_input():
    x = tessera.tensor([-1.0, 1.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0.0, 1.0]


def test_dropout_scales_and_is_identity_in_eval():
    x = tessera.ones(1000)
    y = nn.Dropout(0.25)(x)
    kept = y[y != 0]
    assert 600 < kept.numel() < 900 and (kept - 1 / 0.75).abs().max() < 1e-6
    m = nn.Dropout(0.25).eval()
    assert m(x) is x
    with pytest.raises(ValueError):
        nn.Dropout(1.5)


def test_embedding_padding_row():
    m = nn.Embedding(5, 3, padding_idx=0)
    out = m(tessera.tensor([[0, 2], [4, 0]]))
    assert out.shape == (2, 2, 3) and (out[0, 0] == 0).all()
    out.sum().backward()
    assert (m.weight.grad[0] == 0).all() and (m.weight.grad[2] == 1).all()
    with pytest.raises(IndexError):
        m(tessera.tensor([5]))


@pytest.mark.parametrize("trained", [True, False])
def test_rows_of_an_embedding_are_written_in_place(trained):
    table = tessera.tensor([[1.0, -2.0], [3.0, -4.0]], requires_grad=trained)
    rows = F.embedding(tessera.tensor([[1, 0]]), table)
    assert not rows._is_view() and rows.shape == (1, 2, 2)
    if trained:
        F.relu(rows, inplace=True).sum().backward()
        assert table.grad.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    else:
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            rows.requires_grad_().mul_(2)


def test_embedding_bag_modes():
    w = tessera.arange(6.0).reshape(3, 2)
    i, o = tessera.tensor([0, 1, 2, 2]), tessera.tensor([0, 2])
    assert F.embedding_bag(i, w, o, mode="sum").tolist() == [[2.0, 4.0], [8.0, 10.0]]
    assert F.embedding_bag(i, w, o, mode="mean").tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert F.embedding_bag(i, w, o, mode="max").tolist() == [[2.0, 3.0], [4.0, 5.0]]
    with pytest.raises(ValueError):
        F.embedding_bag(i, w)


def test_cross_entropy_and_nll():
    x, t = tessera.randn(4, 3), tessera.tensor([0, 2, 1, 2])
    rows = x.log_softmax(1)
    want = -tessera.stack([rows[i, int(t[i])] for i in range(4)])
    close(F.cross_entropy(x, t, reduction="none"), want)
    close(F.nll_loss(rows, t), want.mean())
    with pytest.raises(ValueError):
        F.cross_entropy(x, t, reduction="max")


def test_losses():
    a, b = tessera.tensor([1.0, 2.0, 4.0]), tessera.tensor([1.0, 0.0, 3.5])
    close(F.mse_loss(a, b), tessera.tensor((4 + 0.25) / 3))
    close(F.l1_loss(a, b, reduction="sum"), tessera.tensor(2.5))
    close(F.smooth_l1_loss(a, b, reduction="none"), tessera.tensor([0.0, 1.5, 0.125]))
    p = tessera.tensor([0.25, 0.5, 0.75])
    y = tessera.tensor([0.0, 1.0, 1.0])
    want = tessera.tensor([-math.log(0.75), -math.log(0.5), -math.log(0.75)])
    close(F.binary_cross_entropy(p, y, reduction="none"), want)
    close(F.binary_cross_entropy_with_logits((p / (1 - p)).log(), y, reduction="none"), want)
    with pytest.raises(ValueError):
        F.binary_cross_entropy(p, y[:2])
    with pytest.raises(ValueError):
        F.triplet_margin_loss(a, b, b, margin=-1.0)


def test_binary_cross_entropy_of_a_target_without_dimensions_of_size_one():
    # The operator itself; functional.binary_cross_entropy refuses it.
    x, t = (tessera.rand(4, 1, dtype=tessera.float64, requires_grad=True) for _ in range(2))
    flat = t.detach().flatten().requires_grad_()
    for reduction, name in enumerate(("none", "mean", "sum")):
        ours = tessera.ops.aten.binary_cross_entropy(x, flat, None, reduction)
        plain = F.binary_cross_entropy(x, t, reduction=name)
        assert tessera.equal(ours, plain)
        found, expected = (tessera.autograd.grad(y.sum(), z) for y, z in ((ours, (x, flat)), (plain, (x, t))))
        assert tessera.equal(found[0], expected[0]) and tessera.equal(found[1], expected[1].flatten())
    with pytest.raises(ValueError):
        F.binary_cross_entropy(x, flat)


def test_ctc_loss_counts_alignments():
    # two steps, uniform over blank and two labels: the label 1 has the alignments (1,1), (1,0), (0,1)
    lp = tessera.full((2, 1, 3), 1 / 3).log()
    loss = F.ctc_loss(lp, tessera.tensor([[1]]), [2], [1], reduction="sum")
    close(loss, tessera.tensor(-math.log(3 / 9)))
    assert F.ctc_loss(lp, tessera.tensor([[1, 1]]), [2], [2], reduction="sum").item() == math.inf


def test_attention_masks():
    q = tessera.randn(1, 2, 3, 4)
    k, v = tessera.randn(1, 2, 3, 4), tessera.randn(1, 2, 3, 4)
    scores = (q @ k.transpose(-1, -2)) / 2.0
    scores = scores.masked_fill(tessera.ones(3, 3, dtype=tessera.bool).triu(1), float("-inf"))
    close(F.scaled_dot_product_attention(q, k, v, is_causal=True), scores.softmax(-1) @ v)


def test_multihead_attention_shapes():
    m = nn.MultiheadAttention(8, 2, batch_first=True)
    out, w = m(tessera.randn(3, 5, 8), tessera.randn(3, 6, 8), tessera.randn(3, 6, 8))
    assert out.shape == (3, 5, 8) and w.shape == (3, 5, 6)
    close(w.sum(-1), tessera.ones(3, 5))


@pytest.mark.parametrize("kind,gates", [("RNN", 1), ("LSTM", 4), ("GRU", 3)])
def test_rnn_layer_equals_cell(kind, gates):
    layer, cell = getattr(nn, kind)(3, 4), getattr(nn, kind + "Cell")(3, 4)
    with tessera.no_grad():
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(cell, name).copy_(getattr(layer, name + "_l0"))
    assert layer.weight_ih_l0.shape == (4 * gates, 3)
    x = tessera.randn(5, 2, 3)
    out, _ = layer(x)
    h = None
    for t in range(5):
        h = cell(x[t], h)
        close(out[t], h[0] if kind == "LSTM" else h)


def test_packed_sequences_run_as_if_alone():
    from tessera.nn.utils.rnn import pack_sequence, unpack_sequence

    layer = nn.GRU(2, 3, bidirectional=True)
    seqs = [tessera.randn(n, 2) for n in (2, 4, 1)]
    out, last = layer(pack_sequence(seqs, enforce_sorted=False))
    for i, (s, o) in enumerate(zip(seqs, unpack_sequence(out))):
        alone, h = layer(s)
        close(o, alone)
        close(last[:, i], h)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_interpolate_area_is_the_mean_of_each_part(dims):
    x = tessera.arange(2.0 * 6**dims).view(1, 2, *[6] * dims)
    want = x
    for dim in range(2, 2 + dims):
        want = want.unflatten(dim, (3, 2)).mean(dim + 1)
    close(F.interpolate(x, size=[3] * dims, mode="area"), want)
    close(F.interpolate(x, scale_factor=0.5, mode="area"), want)


def test_pixel_shuffle_roundtrip_and_interpolate():
    x = tessera.randn(1, 8, 2, 3)
    close(F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), x)
    y = tessera.tensor([[[1.0, 2.0]]])
    assert F.interpolate(y, scale_factor=2).flatten().tolist() == [1, 1, 2, 2]
    close(F.interpolate(y, size=4, mode="linear").flatten(), tessera.tensor([1.0, 1.25, 1.75, 2.0]))


@pytest.mark.parametrize(
    "mode, shape",
    [
        ("nearest", (2, 3, 7)),
        ("nearest-exact", (2, 3, 7, 9)),
        ("linear", (2, 3, 21)),
        ("bilinear", (2, 3, 17, 33)),
        ("bicubic", (1, 4, 20, 21)),
        ("trilinear", (2, 2, 5, 6, 7)),
    ],
)
def test_resizing_kernels_follow_the_composed_form(mode, shape):
    number = {"nearest": 0, "nearest-exact": 1, "bicubic": 3}.get(mode, 2)

    def composed(x, size=None, scale_factor=None):
        compute = tessera.float64 if x.dtype is tessera.float64 else tessera.float32
        y = x.to(compute)
        for dim in range(x.dim() - 1, 1, -1):
            n = x.shape[dim]
            out = size[dim - 2] if size else math.floor(n * scale_factor)
            step = 0.0 if size else 1 / scale_factor
            places, weights = tessera._C._nn._resample_taps(n, out, step, number, bool(align), dtype=compute)
            weights = weights.reshape(-1, out, *[1] * (x.dim() - 1 - dim))
            y = sum(y.index_select(dim, p) * w for p, w in zip(places, weights))
        return y.to(x.dtype)

    for dtype, tolerance in ((tessera.float64, 1e-11), (tessera.float32, 1e-4), (tessera.bfloat16, 0.25)):
        for how in (
            {"scale_factor": 2},
            {"scale_factor": 0.6},
            {"size": (11, 40, 3)[: len(shape) - 2]},
            {"size": shape[2:]},
        ):
            for align in (None,) if "nearest" in mode else (False, True):
                results = []
                for resized in (lambda x: F.interpolate(x, mode=mode, align_corners=align, **how), composed):
                    generator = tessera.Generator().manual_seed(1)
                    x = tessera.randn(shape, dtype=tessera.float64, generator=generator).to(dtype).requires_grad_()
                    y = resized(x) if resized is not composed else composed(x, **how)
                    y.backward(tessera.ones_like(y) * 0.5)
                    results.append((y, x.grad))
                for a, b in zip(*results):
                    assert a.shape == b.shape and a.dtype == b.dtype
                    assert (a - b).abs().max().item() <= tolerance


def test_resizing_of_integers_needs_no_kernel():
    x = tessera.arange(24).reshape(1, 2, 3, 4)
    for mode in ("nearest", "nearest-exact"):
        wanted = F.interpolate(x.double(), scale_factor=(2, 0.5), mode=mode)
        assert F.interpolate(x, scale_factor=(2, 0.5), mode=mode).tolist() == wanted.tolist()
    bytes_ = (x * 10).to(tessera.uint8)
    wanted = bytes_.double()
    for factors in ((1, 2), (2, 1)):  # rounded after each dimension, the last one first
        wanted = (F.interpolate(wanted, scale_factor=factors, mode="bilinear") + 0.5).floor()
    assert F.interpolate(bytes_, scale_factor=2, mode="bilinear").tolist() == wanted.tolist()
    assert F.interpolate(bytes_, size=(3, 4), mode="bilinear").tolist() == bytes_.tolist()
    with pytest.raises(NotImplementedError, match="floating point"):
        F.interpolate(x, scale_factor=2, mode="bilinear")


@pytest.mark.parametrize(
    "name",
    [
        "upsample_nearest2d",
        "_upsample_nearest_exact2d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
    ],
)
def test_operators_of_resizing(name):
    packet, x = getattr(tessera.ops.aten, name), tessera.randn(1, 2, 4, 5, dtype=tessera.float64)
    corners = () if "nearest" in name else (True,)
    mode = "nearest-exact" if "exact" in name else name.partition("upsample_")[2].partition("2d")[0]
    given = {"mode": mode, "antialias": name.endswith("_aa"), "align_corners": corners[0] if corners else None}
    by_size = F.interpolate(x, size=(6, 3), **given)
    assert tessera.equal(packet(x, [6, 3], *corners), by_size)
    assert tessera.equal(packet.vec(x, [6, 3], *corners, None), by_size)
    by_scale = F.interpolate(x, scale_factor=(1.5, 0.5), **given)
    assert tessera.equal(packet.vec(x, None, *corners, [1.5, 0.5]), by_scale)
    assert tessera.equal(packet(x, [6, 2], *corners, 1.5, 0.5), by_scale)
    assert tessera.autograd.gradcheck(lambda y: packet(y, [6, 3], *corners), x.requires_grad_())
    assert packet(x.to("meta"), [6, 3], *corners).shape == (1, 2, 6, 3)
    with pytest.raises(RuntimeError, match="exactly one"):
        packet.vec(x, [6, 3], *corners, [1.0, 1.0])
    with pytest.raises(RuntimeError, match="output_size equals to 2"):
        packet.default(x, [6, 3, 2], *corners)


def test_resizing_bytes_rounds_and_other_integers_are_refused():
    x = (tessera.arange(2 * 3 * 5 * 7) * 37 % 60 + 90).to(tessera.uint8).reshape(2, 3, 5, 7)
    for mode in ("bilinear", "bicubic"):
        for antialias in (False, True):
            for size in ((9, 4), (3, 13), (5, 7)):
                y = F.interpolate(x, size=size, mode=mode, antialias=antialias)
                exact = F.interpolate(x.double(), size=size, mode=mode, antialias=antialias)
                assert y.dtype == tessera.uint8 and (y.double() - exact).abs().max().item() <= (
                    1.01 if mode == "bilinear" else 2.01
                )
        with pytest.raises(NotImplementedError):
            F.interpolate(x.to(tessera.int32), size=(3, 3), mode=mode)
    assert F.interpolate(x.to(tessera.int64), scale_factor=2).equal(
        x.to(tessera.int64).repeat_interleave(2, -1).repeat_interleave(2, -2)
    )


def test_circular_pad_and_bad_pads():
    x = tessera.arange(4.0).reshape(1, 1, 4)
    assert F.pad(x, (1, 2), mode="circular").flatten().tolist() == [3, 0, 1, 2, 3, 0, 1]
    assert F.pad(x, (2, 1), mode="reflect").flatten().tolist() == [2, 1, 0, 1, 2, 3, 2]
    with pytest.raises(RuntimeError):
        F.pad(x, (4, 0), mode="reflect")
    with pytest.raises(NotImplementedError):
        F.pad(x, (1, 1), mode="mirror")


def test_init_is_seeded_and_bounded():
    tessera.manual_seed(3)
    a = nn.Linear(6, 4)
    tessera.manual_seed(3)
    assert tessera.equal(a.weight, nn.Linear(6, 4).weight)
    assert a.weight.abs().max().item() <= 1 / math.sqrt(6)
    with pytest.raises(ValueError):
        nn.init.xavier_uniform_(tessera.empty(3))


@pytest.mark.parametrize("layer", [tessera.nn.LSTM, tessera.nn.GRU, tessera.nn.RNN])
@pytest.mark.parametrize("bias", [True, False])
def test_recurrent_layers_as_one_operator_and_step_by_step(layer, bias):
    """Sequences of one length run in one operator, packed ones of several lengths step by step: the same states and
    gradients.
    """
    tessera.manual_seed(0)
    m = layer(5, 19, 2, bias=bias, bidirectional=True, dtype=tessera.float64)
    x = tessera.randn(4, 3, 5, dtype=tessera.float64)
    lengths = tessera.tensor([4, 4, 3])
    packed = tessera.nn.utils.rnn.pack_padded_sequence(x, lengths)
    results = []
    for run in (lambda: m(x[:, :2])[0], lambda: tessera.nn.utils.rnn.pad_packed_sequence(m(packed)[0])[0][:, :2]):
        m.zero_grad()
        out = run()
        (out * out).sum().backward()
        results.append([out.detach()] + [p.grad.clone() for p in m.parameters()])
    for one, steps in zip(*results):
        tessera.testing.assert_close(one, steps, rtol=1e-12, atol=1e-14)


def test_gradients_of_a_recurrent_layer_can_be_differentiated():
    tessera.manual_seed(0)
    m = tessera.nn.LSTM(3, 4, dtype=tessera.float64)
    x = tessera.randn(3, 2, 3, dtype=tessera.float64, requires_grad=True)
    assert tessera.autograd.gradgradcheck(lambda v: m(v)[0], (x,))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_derivatives_of_sampling(mode, padding, align):
    """Of the input always, of the places where samples move with them."""
    generator = tessera.Generator().manual_seed(3)
    for spatial, places in (((5, 6), (3, 4)), ((3, 4, 5), (2, 2, 3))):
        if mode == "bicubic" and len(spatial) == 3:
            continue
        x = tessera.randn(2, 3, *spatial, dtype=tessera.float64, generator=generator).requires_grad_()
        grid = tessera.rand(2, *places, len(spatial), dtype=tessera.float64, generator=generator) * 2.6 - 1.3
        grid.requires_grad_(mode != "nearest")
        assert tessera.autograd.gradcheck(lambda a, b: F.grid_sample(a, b, mode, padding, align), (x, grid))


def test_sampling_takes_half_types_and_refuses_what_does_not_fit():
    x, grid = tessera.randn(1, 2, 4, 4), tessera.rand(1, 3, 3, 2)
    want = F.grid_sample(x, grid, align_corners=False)
    for dtype, tolerance in ((tessera.float16, 0.01), (tessera.bfloat16, 0.1)):
        y = F.grid_sample(x.to(dtype), grid.to(dtype), align_corners=False)
        assert y.dtype == dtype and (y.float() - want).abs().max().item() < tolerance
    with pytest.raises(RuntimeError, match="one dtype"):
        F.grid_sample(x, grid.double(), align_corners=False)
    with pytest.raises(RuntimeError, match="bicubic"):
        F.grid_sample(tessera.randn(1, 1, 2, 2, 2), tessera.rand(1, 1, 1, 1, 3), mode="bicubic", align_corners=False)
    with pytest.raises(RuntimeError, match="padding_mode is"):
        tessera.grid_sampler(x, grid, 0, 3, False)
    assert F.grid_sample(x, tessera.full((1, 1, 1, 2), float("nan")), align_corners=True).flatten().equal(x[0, :, 0, 0])
    assert F.grid_sample(x[:, :0], grid, align_corners=False).shape == (1, 0, 3, 3)
    assert F.grid_sample(x, grid[:, :0], align_corners=False).shape == (1, 2, 0, 3)


def test_ctc_operator_follows_the_composed_form():
    """The composed form is what devices without the operator get."""
    from tessera.nn._functional.ctc import _composed

    generator = tessera.Generator().manual_seed(5)
    scores = tessera.randn(12, 4, 6, dtype=tessera.float64, generator=generator)
    targets = tessera.tensor([[1, 1, 2, 5], [3, 0, 0, 0], [4, 3, 4, 3], [5, 5, 5, 1]])
    ins, outs = [12, 9, 10, 12], [4, 1, 4, 0]
    flat = tessera.cat([row[:n] for row, n in zip(targets, outs)])
    for blank, given in ((0, targets), (0, flat)):
        results = []
        for function in (lambda lp: tessera._ctc_loss(lp, given, ins, outs, blank)[0], None):
            x = scores.clone().requires_grad_()
            lp = x.log_softmax(-1)
            loss = function(lp) if function else _composed(lp, given, ins, outs, blank)
            loss.backward(tessera.tensor([1.0, 2.0, 3.0, 4.0], dtype=tessera.float64))
            results.append((loss, x.grad))
        for one, two in zip(*results):
            close(one, two)


def test_ctc_loss_refuses_what_does_not_fit():
    lp = tessera.randn(5, 2, 4).log_softmax(-1)
    good = tessera.tensor([[1, 2], [3, 1]])
    for targets, ins, outs, blank, message in (
        (tessera.tensor([[1, 4], [3, 1]]), [5, 5], [2, 2], 0, "not a class"),
        (good, [5, 6], [2, 2], 0, "at most 5"),
        (good, [5, 5], [3, 2], 0, "targets of shape"),
        (good.flatten(), [5, 5], [1, 2], 0, "elements"),
        (good, [5, 5, 5], [2, 2], 0, "batch_size"),
        (good, [5, 5], [2, 2], 4, "blank"),
    ):
        with pytest.raises(RuntimeError, match=message):
            F.ctc_loss(lp, targets, ins, outs, blank)
    loss = F.ctc_loss(lp.requires_grad_(), tessera.tensor([[1, 1], [2, 3]]), [2, 5], [2, 2], zero_infinity=True)
    loss.backward()
    assert not lp.grad[:, 0].any() and lp.grad[:, 1].any() and loss.isfinite()


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dtype", [tessera.float32, tessera.float64, tessera.bfloat16])
def test_max_pooling_is_the_same_in_either_memory_format(n, dtype):
    pool = (None, None, F.max_pool2d, F.max_pool3d)[n]
    last = (None, None, tessera.channels_last, tessera.channels_last_3d)[n]
    generator = tessera.Generator().manual_seed(2)
    for channels in (3, 8, 21, 32):
        for how in (
            dict(kernel_size=2),
            dict(kernel_size=3, stride=2, padding=1),
            dict(kernel_size=3, stride=1, dilation=2, padding=1, ceil_mode=True),
        ):
            x = tessera.randn(2, channels, 9, *[7] * (n - 1), generator=generator).to(dtype)
            x[0, 1, 0, 0] = float("nan")
            x[1, 2] = float("-inf")
            results = []
            for format in (tessera.contiguous_format, last):
                a = x.clone(memory_format=format).requires_grad_()
                y, at = pool(a, return_indices=True, **how)
                y.backward(tessera.arange(y.numel(), dtype=dtype).reshape(y.shape) % 7)
                assert y.is_contiguous(memory_format=format) and at.is_contiguous(memory_format=format)
                assert a.grad.is_contiguous(memory_format=format)
                results.append((y, at, a.grad))
            for one, two in zip(*results):
                assert one.shape == two.shape
                tessera.testing.assert_close(one.contiguous(), two.contiguous(), equal_nan=True)
    unbatched = tessera.randn(1, 9, 5, *[6] * (n - 1)).to(dtype)
    assert pool(unbatched[0], 2).equal(pool(unbatched, 2)[0])


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("lengths", [[6, 6, 4, 3, 1], [5, 5, 5], [4, 3, 2, 1], [7]])
def test_packed_sequences_are_run_as_each_alone(kind, lengths):
    layer = getattr(nn, kind)(5, 7, 2, bidirectional=True).double()
    x = tessera.randn(max(lengths), len(lengths), 5, dtype=tessera.float64)
    results = []
    for together in (True, False):
        a = x.clone().requires_grad_()
        if together:
            packed, state = layer(nn.utils.rnn.pack_padded_sequence(a, tessera.tensor(lengths)))
            out, _ = nn.utils.rnn.pad_packed_sequence(packed)
            states = state if kind == "LSTM" else (state,)
        else:
            parts = [layer(a[:n, k : k + 1]) for k, n in enumerate(lengths)]
            out = tessera.cat([F.pad(o, (0, 0, 0, 0, 0, max(lengths) - o.size(0))) for o, _ in parts], 1)
            found = [s if kind == "LSTM" else (s,) for _, s in parts]
            states = [tessera.cat(column, 1) for column in zip(*found)]
        layer.zero_grad()
        (out.square().sum() + sum(s.sum() for s in states)).backward()
        results.append((out, *states, a.grad, *(p.grad for p in layer.parameters())))
    for one, two in zip(*results):
        close(one, two)


@pytest.mark.parametrize("dtype", [tessera.float16, tessera.bfloat16])
def test_recurrent_layers_in_half_types(dtype):
    layer = nn.LSTM(5, 7, bidirectional=True)
    x = tessera.randn(6, 3, 5)
    want, (h, c) = layer(x)
    half = copy.deepcopy(layer).to(dtype)
    got, states = half(x.to(dtype))
    assert {got.dtype, *(s.dtype for s in states)} == {dtype}
    for a, b in ((got, want), (states[0], h), (states[1], c)):
        assert (a.float() - b).abs().max().item() < 0.03
    got.sum().backward()
    assert all(p.grad.dtype == dtype and p.grad.any() for p in half.parameters())


def test_weights_of_a_recurrent_layer_may_be_assigned_as_a_list():
    layer = tessera.nn.GRU(2, 3)
    weights = [w.detach() * 2 for w in layer._flat_weights]
    x = tessera.ones(1, 1, 2)
    before = layer(x)[0]
    layer._flat_weights = weights
    assert all(a is b for a, b in zip(layer._flat_weights, weights)) and not before.equal(layer(x)[0])
