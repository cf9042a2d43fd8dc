"""Scripted recurrent layers, attention, transformers, bags of embeddings, resizing and circular padding."""

import io

import pytest
import tessera
from tessera import nn


def tensors(value):
    """All tensors of a nest of tuples, in order."""
    if isinstance(value, tessera.Tensor):
        return [value]
    return [] if value is None else [t for v in value for t in tensors(v)]


def same_as_eager(module, *args, exact=True, **kwargs):
    tessera.manual_seed(1)
    expected = tensors(module(*args, **kwargs))
    scripted = tessera.jit.script(module)
    file = io.BytesIO()
    tessera.jit.save(scripted, file)
    file.seek(0)
    for program in (scripted, tessera.jit.load(file)):
        tessera.manual_seed(1)
        got = tensors(program(*args, **kwargs))
        assert len(got) == len(expected) > 0
        for a, b in zip(got, expected):
            assert tessera.equal(a, b) if exact else tessera.allclose(a, b, atol=1e-6)


X = tessera.linspace(-1, 1, 30).reshape(5, 2, 3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bidirectional": True},
        {"bias": False, "batch_first": True},
        {"num_layers": 2, "dropout": 0.5},
        {"dtype": tessera.float64},
    ],
    ids=str,
)
def test_recurrent_layers(kind, options):
    tessera.manual_seed(0)
    m = kind(3, 4, **options)
    x = X.to(options.get("dtype", tessera.float32))
    same_as_eager(m, x)
    same_as_eager(m, x[:, 0])  # without a batch
    rows, n = (4 if options.get("bidirectional") else options.get("num_layers", 1)), x.size(0 if m.batch_first else 1)
    h = tessera.ones(rows, n, 4, dtype=x.dtype)
    same_as_eager(m, x, (h, h * 2) if kind is nn.LSTM else h)


def test_recurrent_layers_with_projections_and_relu():
    tessera.manual_seed(0)
    same_as_eager(nn.LSTM(3, 4, proj_size=2, bidirectional=True), X, exact=False)
    same_as_eager(nn.RNN(3, 4, nonlinearity="relu"), X)
    x = X.clone().requires_grad_()
    m = nn.GRU(3, 4)
    a = tessera.autograd.grad(tessera.jit.script(m)(x)[0].sum(), x)[0]
    assert tessera.equal(a, tessera.autograd.grad(m(x)[0].sum(), x)[0])


def test_recurrent_layers_refuse_bad_input():
    m = tessera.jit.script(nn.LSTM(3, 4))
    with pytest.raises(Exception, match="Expected input to be 2D or 3D, got 4D"):
        m(X[None])
    with pytest.raises(Exception, match="must be equal to input_size. Expected 3, got 2"):
        m(X[..., :2])
    with pytest.raises(Exception, match="Expected hidden size"):
        m(X, (tessera.zeros(1, 3, 4), tessera.zeros(1, 3, 4)))


Q = tessera.linspace(-1, 1, 80).reshape(5, 2, 8)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"add_bias_kv": True, "add_zero_attn": True}], ids=str)
def test_attention(options):
    tessera.manual_seed(0)
    m = nn.MultiheadAttention(8, 2, **options)
    k = Q.flip(0) * 0.5
    same_as_eager(m, Q, k, k, exact=False)
    same_as_eager(m, Q, k, k, need_weights=False, exact=False)
    n, steps = (5, 2) if m.batch_first else (2, 5)
    padding = tessera.zeros(n, steps, dtype=tessera.bool)
    padding[0, -1] = True
    future = tessera.ones(steps, steps, dtype=tessera.bool).triu(1)
    same_as_eager(m, Q, k, k, key_padding_mask=padding, attn_mask=future, average_attn_weights=False, exact=False)
    same_as_eager(m, Q[:, 0], k[:, 0], k[:, 0], exact=False)


def test_attention_with_keys_of_other_sizes():
    tessera.manual_seed(0)
    m = nn.MultiheadAttention(8, 2, kdim=3, vdim=4, bias=False)
    same_as_eager(m, Q, X, tessera.ones(5, 2, 4), exact=False)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_transformers(norm_first, batch_first):
    tessera.manual_seed(0)
    options = dict(dim_feedforward=16, batch_first=batch_first, norm_first=norm_first, dropout=0.0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, activation="gelu", **options), 2)
    steps = Q.size(1 if batch_first else 0)
    future = nn.Transformer.generate_square_subsequent_mask(steps)
    same_as_eager(encoder, Q, exact=False)
    same_as_eager(encoder, Q, mask=future, exact=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, **options), 2, nn.LayerNorm(8))
    same_as_eager(decoder, Q, Q * 2, tgt_mask=future, exact=False)
    whole = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=batch_first, norm_first=norm_first)
    same_as_eager(whole, Q, Q + 1, tgt_mask=future, exact=False)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode):
    m = nn.EmbeddingBag(7, 3, mode=mode, padding_idx=0)
    same_as_eager(m, tessera.tensor([[1, 2, 0], [3, 4, 6]]))
    same_as_eager(m, tessera.tensor([1, 2, 0, 3]), tessera.tensor([0, 1]))
    if mode == "sum":
        same_as_eager(m, tessera.tensor([[1, 2], [3, 4]]), per_sample_weights=tessera.ones(2, 2) * 0.5)


@pytest.mark.parametrize(
    "options",
    [
        {"size": 5},
        {"size": (5, 4), "mode": "bilinear", "align_corners": True},
        {"scale_factor": 2, "mode": "bicubic"},
        {"scale_factor": (2.0, 1.5), "mode": "nearest-exact"},
        {"scale_factor": 0.5, "mode": "area"},
        {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
    ],
    ids=str,
)
def test_upsample(options):
    same_as_eager(nn.Upsample(**options), tessera.linspace(0, 1, 32).reshape(1, 2, 4, 4))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_circular_padding(n):
    same_as_eager(getattr(nn, f"CircularPad{n}d")(1), tessera.arange(0.0, 2 * 3**n).reshape(1, 2, *[3] * n))


def test_comparisons_of_tensors_are_tensors():
    @tessera.jit.script
    def f(a: tessera.Tensor, b: tessera.Tensor):
        below = a < b
        same = (a == b).sum()
        return below, same, (a >= 1) & (b != 2), 1 < a

    a, b = tessera.tensor([0.0, 1.0, 3.0]), tessera.tensor([1.0, 1.0, 2.0])
    below, same, both, swapped = f(a, b)
    assert below.tolist() == [True, False, False] and same.item() == 1
    assert both.tolist() == [False, True, False] and swapped.tolist() == [False, False, True]
