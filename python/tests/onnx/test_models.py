"""Whole models, in both exporters and for another batch than that of the export; scripts with loops and conditions."""

import io
from typing import List, Optional, Tuple  # noqa: UP035 - the language of scripts

import onnx
import pytest

import tessera as torch
from tessera import nn
from tessera.nn import functional as F
from tessera.onnx import _wire


class Residual(nn.Module):
    def __init__(self, n, stride=1):
        super().__init__()
        self.one, self.two = nn.Conv2d(n, n, 3, stride, 1, bias=False), nn.Conv2d(n, n, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(n), nn.BatchNorm2d(n)])
        self.skip = nn.Conv2d(n, n, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        made = self.norms[1](self.two(F.relu(self.norms[0](self.one(x)), inplace=True)))
        made += self.skip(x)
        return F.relu_(made)


class Separable(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.deep, self.flat = nn.Conv2d(n, n, 3, padding=1, groups=n), nn.Conv2d(n, n, 1)
        self.squeeze, self.excite = nn.Linear(n, n // 2), nn.Linear(n // 2, n)

    def forward(self, x):
        x = F.hardswish(self.flat(self.deep(x)))
        scale = F.hardsigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(x, 1).flatten(1)))))
        return x * scale[:, :, None, None]


class UNet(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.down, self.mid, self.up = (
            nn.Conv2d(3, n, 3, padding=1),
            nn.Conv2d(n, n, 3, padding=1),
            nn.Conv2d(2 * n, 2, 1),
        )
        self.grow = nn.ConvTranspose2d(n, n, 2, stride=2)

    def forward(self, x):
        one = F.leaky_relu(self.down(x))
        return self.up(torch.cat((one, self.grow(F.elu(self.mid(F.max_pool2d(one, 2))))), 1))


class Patches(nn.Module):
    def __init__(self, n=16):
        super().__init__()
        self.cut, self.token = nn.Conv2d(3, n, 4, stride=4), nn.Parameter(torch.randn(1, 1, n))
        self.places = nn.Parameter(torch.randn(1, 17, n))
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(n, 4, 32, batch_first=True, norm_first=True), 2)

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        return self.layers(x)[:, 0]


class Decoder(nn.Module):
    """Rotary places, grouped heads, gated layers."""

    def __init__(self, n=16, heads=4, words=31):
        super().__init__()
        self.words, self.heads = nn.Embedding(words, n), heads
        self.q, self.kv, self.out = (
            nn.Linear(n, n, bias=False),
            nn.Linear(n, n, bias=False),
            nn.Linear(n, n, bias=False),
        )
        self.gate, self.value, self.back = nn.Linear(n, 32), nn.Linear(n, 32), nn.Linear(32, n)
        self.norm = nn.RMSNorm(n)

    def turned(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2]).unsqueeze(1) / 10 ** torch.arange(half)
        cos, sin = angle.cos(), angle.sin()
        one, two = x[..., :half], x[..., half:]
        return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)

    def forward(self, ids, mask=None):
        x = self.words(ids)
        y = self.norm(x)
        q = self.q(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (2, self.heads // 2, -1)).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        made = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(made.transpose(1, 2).flatten(2))
        return (x + self.back(F.silu(self.gate(x)) * self.value(x))) @ self.words.weight.T


class Tagger(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.words = nn.Embedding(20, 6, padding_idx=0)
        self.rnn = kind(6, 5, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, ids):
        return F.log_softmax(self.head(F.dropout(self.rnn(self.words(ids))[0], training=self.training)), -1)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.net = nn.Embedding(20, 8), nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, target):
        n = target.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        return self.net(self.words(source), self.words(target), tgt_mask=later, tgt_is_causal=False)


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x, edges):
        h = F.relu(self.one(x))
        received = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])
        return self.two(received).log_softmax(1)


class Coder(nn.Module):
    """A variational autoencoder's mean, a mixture of experts, and a lookup."""

    def __init__(self):
        super().__init__()
        self.code, self.back = nn.Linear(8, 4), nn.Linear(2, 8)
        self.experts, self.gate = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)]), nn.Linear(8, 3)

    def forward(self, x):
        mean, _ = self.code(x).chunk(2, -1)
        y = self.back(mean)
        weights, which = self.gate(y).softmax(-1).topk(2, -1)
        made = torch.stack([e(y) for e in self.experts], 1)
        taken = made.gather(1, which.unsqueeze(-1).expand(-1, -1, 8))
        return (taken * weights.unsqueeze(-1)).sum(1), torch.sigmoid(y).round(), y.argmax(-1)


def image(n=2):
    return torch.rand(n, 3, 16, 16)


def words(n=2, length=7):
    return torch.randint(1, 20, (n, length))


def stages():
    first = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)]
    return nn.Sequential(*first, Residual(8), Residual(8, 2), *last)


def mixer():
    return nn.Sequential(nn.Unfold(4, stride=4), nn.Linear(16, 16), nn.GELU(), nn.Flatten(), nn.Linear(768, 4))


def separable():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), Separable(8), Separable(8))


MODELS = {
    "residual": (stages, lambda n: (image(n),)),
    "separable": (separable, lambda n: (image(n),)),
    "unet": (UNet, lambda n: (image(n),)),
    "patches": (Patches, lambda n: (image(n),)),
    "decoder": (Decoder, lambda n: (words(n),)),
    "lstm": (lambda: Tagger(nn.LSTM), lambda n: (words(n),)),
    "gru": (lambda: Tagger(nn.GRU), lambda n: (words(n),)),
    "rnn": (lambda: Tagger(nn.RNN), lambda n: (words(n),)),
    "seq2seq": (Seq2Seq, lambda n: (words(n), words(n, 5))),
    "graph": (Graph, lambda n: (torch.rand(n, 4), torch.randint(0, n, (2, 9)))),
    "coder": (Coder, lambda n: (torch.rand(n, 8),)),
    "mixer": (mixer, lambda n: (image(n),)),
}
FIXED = ("lstm", "gru", "rnn")  # their layers fix how many sequences there are


def check(program, args, want):
    onnx.checker.check_model(program.model_proto, full_check=True)
    want = [torch.as_tensor(v) for v in torch.utils._pytree.tree_leaves(want)]
    got = program(*[a for a in args if isinstance(a, torch.Tensor)])
    assert len(got) == len(want) > 0
    for g, w in zip(got, want):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        torch.testing.assert_close(g, w.detach(), atol=1e-4, rtol=1e-4)


def exported(model, args, **settings):
    file = io.BytesIO()
    torch.onnx.export(model, args, file, dynamo=False, **settings)
    return torch.onnx.ONNXProgram(_wire.decode(file.getvalue()), None)


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model, args = make().eval(), inputs(3)
    batch = torch.export.Dim("batch")
    shapes = None if name in FIXED else tuple({0: batch} if a.shape[0] == 3 else None for a in args)
    program = torch.onnx.export(model, args, dynamic_shapes=shapes, verbose=False)
    check(program, args, model(*args))
    if shapes is not None:
        check(program, more := inputs(5), model(*more))
    check(exported(model, args), args, model(*args))


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.n = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)]), 2

    def forward(self, x, k: int):
        for layer in self.layers:
            x = layer(x)
        if x.size(0) > 1:
            x = x + 1
        y = x * 2 if bool(x.sum() > 0) else x - 1
        made: List[torch.Tensor] = []  # noqa: UP006
        for i in range(k):
            made.append(y + i)
        return torch.stack(made), x.shape[0]


class Doubling(nn.Module):
    def forward(self, x):
        i = 0
        while bool(x.sum() < 100.0):
            x = x * 2.0 + 1.0
            i += 1
        return x, i


class Steps(nn.Module):
    def forward(self, x):
        h = torch.zeros(x.size(1))
        for t in range(x.size(0)):
            h = torch.tanh(h + x[t])
        return h


class MayBeNone(nn.Module):
    def forward(self, x, m: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        if m is None:
            m = torch.ones_like(x)
        assert x.dim() == 2, "a matrix"
        return x * m, x.view(x.size(0), -1).mean(1)


def test_scripts():
    layers = torch.jit.script(Layers())
    for args in ((torch.randn(2, 4), 3), (-torch.ones(2, 4), 3)):
        check(exported(layers, (torch.randn(2, 4), 3)), args, layers(*args))
    doubling = torch.jit.script(Doubling())
    program = exported(doubling, (torch.rand(3),))
    assert [n.op_type for n in program.model.graph.node][-1] == "Loop"
    for x in (torch.rand(3), torch.rand(3) * 20, torch.ones(3) * 90):
        check(program, (x,), doubling(x))
    steps = torch.jit.script(Steps())
    program = exported(steps, (torch.rand(3, 4),), input_names=["x"], dynamic_axes={"x": {0: "time"}})
    for n in (3, 1, 7):
        check(program, (x := torch.rand(n, 4),), steps(x))
    maybe = torch.jit.script(MayBeNone())
    check(exported(maybe, (torch.rand(3, 4),)), (x := torch.rand(3, 4),), maybe(x))
    check(torch.onnx.export(maybe, (x,), verbose=False), (x,), maybe(x))


def test_scripts_say_what_cannot_be_exported():
    @torch.jit.script
    def raises(x):
        if x.dim() == 2:
            raise ValueError("no matrix")
        return x

    with pytest.raises(torch.onnx.OnnxExporterError, match="the program raises an error"):
        exported(raises, (torch.rand(2, 2),))
