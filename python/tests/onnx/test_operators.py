"""Operators in both exporters: the file is valid, and onnxruntime computes what this library computes."""

import io
import math

import onnx
import pytest

import tessera as torch
from tessera import nn
from tessera.nn import functional as F
from tessera.onnx import _wire


class Fn(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def numbers(*shape, dtype=torch.float32, low=-3.0, high=3.0, seed=0):
    g = torch.Generator().manual_seed(seed + sum(shape))
    made = torch.rand(shape, generator=g) * (high - low) + low
    return made.to(dtype)


X, P = numbers(3, 4), numbers(3, 4, low=0.1, high=0.9)
Y = numbers(3, 4, seed=1)
I = numbers(3, 4, dtype=torch.int64, low=-9, high=9)  # noqa: E741
J = numbers(3, 4, dtype=torch.int64, low=1, high=5, seed=2)
B = X > 0
C = numbers(2, 3, 4)
IMG = numbers(2, 4, 8, 8)

UNARY = (
    "abs ceil cos cosh erf exp floor neg relu sigmoid sign sin sinh sqrt tan tanh exp2 expm1 square frac trunc sinc "
    "isnan isinf isfinite isposinf isneginf signbit deg2rad rad2deg logical_not round erfc nan_to_num positive atan "
    "asinh clone"
).split()
INSIDE = "acos asin atanh log log2 log10 log1p reciprocal rsqrt logit".split()
ACTIVATIONS = (
    "silu mish relu6 hardswish hardsigmoid logsigmoid tanhshrink selu softsign gelu leaky_relu elu celu hardtanh "
    "hardshrink softshrink softplus glu"
).split()
BINARY = (
    "add sub mul div maximum minimum atan2 eq ne lt le gt ge fmod remainder floor_divide logical_and logical_or "
    "logical_xor hypot logaddexp logaddexp2 copysign heaviside isclose fmax fmin"
).split()

CASES = {f"{n}": (getattr(torch, n), X) for n in UNARY}
CASES.update({n: (getattr(torch, n), P) for n in INSIDE})
CASES.update({"F." + n: (getattr(F, n), X) for n in ACTIVATIONS})
CASES.update({n: (getattr(torch, n), X, Y) for n in BINARY})
CASES.update(
    {n + " int": (getattr(torch, n), I, J) for n in "add sub mul div eq lt fmod remainder floor_divide maximum".split()}
)
CASES.update({n: (getattr(torch, n), I, J) for n in
              "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()})  # fmt: skip
CASES.update(
    {
        "acosh": (lambda x: torch.acosh(x + 1), P),
        "pow": (torch.pow, P, Y),
        "pow 3": (lambda x: x**3, X),
        "2 pow": (lambda x: 2**x, X),
        "float_power": (torch.float_power, P, Y),
        "angle": (lambda x: torch.angle(torch.where(x > 2, math.nan, x)), X),
        "add mixed": (lambda x, i: x + i, X, I),
        "add alpha": (lambda x, y: torch.add(x, y, alpha=3), X, Y),
        "rsub": (lambda x: 5 - x, I),
        "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), X, Y),
        "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), I, torch.where(B, J, -J)),
        "bool add": (lambda x, y: x + y, B, ~B),
        "bool mul": (lambda x, y: x * y, B, ~B),
        "bitwise_not": (lambda x, b: (~x, ~b), I, B),
        "bool and": (lambda x, y: (x & y, x | y, x ^ y), B, Y > 0),
        "xlogy": (torch.xlogy, P, P),
        "lerp": (torch.lerp, X, Y, P),
        "lerp number": (lambda x, y: torch.lerp(x, y, 0.3), X, Y),
        "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=2), X, Y, P),
        "addcdiv": (torch.addcdiv, X, Y, P),
        "where": (torch.where, B, X, Y),
        "where number": (lambda b, x: torch.where(b, x, 2.0), B, X),
        "masked_fill": (lambda x, b: x.masked_fill(b, -math.inf), X, B),
        "clamp": (lambda x: (x.clamp(-1, 1), x.clamp(min=0), x.clamp(max=0.5)), X),
        "clamp int": (lambda x: x.clamp(-2, 3), I),
        "clamp tensor": (lambda x, y: torch.clamp(x, y, y + 1), X, Y),
        "clamp_min": (lambda x: x.clamp_min(0.1), X),
        "round decimals": (lambda x: torch.round(x, decimals=2), X),
        "threshold": (lambda x: F.threshold(x, 0.1, 9.0), X),
        "prelu": (F.prelu, IMG, torch.tensor([0.1, 0.2, 0.3, 0.4])),
        "rrelu": (F.rrelu, X),
        "softplus beta": (lambda x: F.softplus(x, 2.0, 1.0), X),
        "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
        "casts": (lambda x: (x.to(torch.int32), x.half(), x.double(), x.bool(), x.long().float()), X),
        "type_as": (lambda x, i: x.type_as(i), X, I),
        # reductions
        "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True)), C),
        "sum bool": (lambda b: (b.sum(), b.sum(0)), B),
        "sum dtype": (lambda i: i.sum(0, dtype=torch.float32), I),
        "mean": (lambda x: (x.mean(), x.mean(-1), x.mean((1, 2))), C),
        "prod": (lambda x: (x.prod(), x.prod(1)), P),
        "amax": (lambda x: (x.amax(1), x.amin((0, 1)), x.amax()), C),
        "max": (lambda x: (x.max(), *x.max(1), *x.min(0, keepdim=True)), X),
        "aminmax": (lambda x: tuple(x.aminmax(dim=1)), X),
        "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), X),
        "all any": (lambda b: (b.all(), b.any(1), b.all(0)), B),
        "any float": (lambda x: ((x > 2).any(), x.bool().all(1)), X),
        "logsumexp": (lambda x: x.logsumexp(1), X),
        "var": (
            lambda x: (x.var(), x.var(1), x.std(0, unbiased=False), *torch.var_mean(x, 1), *torch.std_mean(x, 1)),
            X,
        ),
        "var correction": (lambda x: torch.var(x, dim=1, correction=0, keepdim=True), X),
        "norm": (
            lambda x: (x.norm(), x.norm(dim=1), x.norm(1, 0), torch.linalg.vector_norm(x, 3, 1), x.norm(math.inf, 1)),
            X,
        ),
        "cumsum": (lambda x: (x.cumsum(1), x.cumsum(0)), X),
        "cumsum int": (lambda x: x.cumsum(1), I),
        "cumprod": (lambda x: x.cumprod(1), P),
        "cummax": (lambda x: (*x.cummax(1), *x.cummin(0)), X),
        "index_*, one number": (
            lambda x, i: (x.index_add(0, i, x, alpha=2), x.index_copy(0, i, x + 1), x.index_fill(0, i, 3.0)),
            X[0, 0],
            torch.zeros(1, dtype=torch.int64),
        ),
        "linalg.diagonal": (lambda x: (torch.linalg.diagonal(x), torch.linalg.diagonal(x, offset=1, dim1=0)), C),
        "cdist, powers": (lambda x, y: [torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, math.inf)], X, Y),
        "gather short": (lambda x, i: x.gather(1, i), X, torch.zeros(3, 2, dtype=torch.int32)),
        "cumulative, one number": (lambda x: (x.cumsum(0), x.cumprod(0), *x.cummax(0), *x.cummin(-1)), X[0, 0]),
        "logcumsumexp": (lambda x: x.logcumsumexp(1), X),
        "count_nonzero": (lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, 1)), I),
        "diff": (lambda x: x.diff(), X),
        "trace": (torch.trace, numbers(4, 4)),
        "nansum": (lambda x: x.nansum(1), X),
        "median": (lambda x: (x.median(), *x.median(1)), X),
        # order
        "topk": (lambda x: (*x.topk(2), *x.topk(2, 0, largest=False)), X),
        "sort": (lambda x: (*x.sort(), *x.sort(0, descending=True)), X),
        "argsort": (lambda x: x.argsort(1), X),
        "kthvalue": (lambda x: tuple(x.kthvalue(2, 1)), X),
        "msort": (torch.msort, X),
        # products
        "matmul": (lambda x, y: (x @ y, x[0] @ y[0], x[0, 0] @ y[0]), C, numbers(2, 4, 5)),
        "mm": (torch.mm, X, Y.T),
        "bmm": (torch.bmm, C, C.mT),
        "mv": (torch.mv, X, Y[0]),
        "dot": (torch.dot, X[0], Y[0]),
        "outer": (torch.outer, X[0], Y[1]),
        "addmm": (torch.addmm, numbers(3, 3), X, Y.T),
        "addmm alpha": (lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=0.5), numbers(3), X, Y.T),
        "baddbmm": (torch.baddbmm, numbers(2, 3, 3), C, C.mT),
        "einsum": (
            lambda a, b: (
                torch.einsum("bij,bkj->bik", a, b),
                torch.einsum("bij->ji", a),
                torch.einsum("...i,...i", a, b),
            ),
            C,
            C + 1,
        ),
        "linear": (
            lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), F.linear(x[0], w, b)),
            C,
            numbers(5, 4),
            numbers(5),
        ),
        "bilinear": (F.bilinear, X, Y, numbers(5, 4, 4), numbers(5)),
        "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y), X, Y),
        "pairwise_distance": (F.pairwise_distance, X, Y),
        "cdist": (lambda x, y: torch.cdist(x, y), X, Y),
        "cross": (lambda x, y: torch.linalg.cross(x, y), numbers(4, 3), numbers(4, 3, seed=5)),
        "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([1, 2], [1, 2])), C, C + 1),
        "inner": (torch.inner, X, Y),
        "det": (torch.det, numbers(3, 3)),
        "kron": (torch.kron, X, Y),
        # shapes
        "view": (
            lambda x: (
                x.view(6, 4),
                x.reshape(-1),
                x.reshape(2, -1, 2, 2),
                x.flatten(),
                x.flatten(1),
                x.unflatten(2, (2, 2)),
            ),
            C,
        ),
        "squeeze": (
            lambda x: (
                x.unsqueeze(0),
                x.unsqueeze(-1).squeeze(-1),
                x[None].squeeze(),
                x.squeeze(0),
                x[:, None].squeeze((0, 1)),
            ),
            C,
        ),
        "transposes": (
            lambda x: (
                x.transpose(0, 1),
                x.permute(2, 0, 1),
                x.mT,
                x[0].t(),
                x.movedim(0, 2),
                x.swapaxes(0, -1),
                x.contiguous(),
            ),
            C,
        ),
        "expand": (
            lambda x: (
                x.expand(2, 3, 4),
                x[:, :1].expand(-1, 5),
                x[:, :1].expand_as(x),
                torch.broadcast_to(x[0], (3, 4)),
            ),
            X,
        ),
        "repeat": (
            lambda x: (x.repeat(2, 1), x.repeat(2, 1, 3), x.tile(2), x.repeat_interleave(2), x.repeat_interleave(3, 1)),
            X,
        ),
        "repeat_interleave": (lambda x, n: x.repeat_interleave(2, 0) + n.sum(), X, torch.tensor([1, 0, 2])),
        "cat": (
            lambda x, y: (
                torch.cat((x, y)),
                torch.cat((x, y), 1),
                torch.stack((x, y), 1),
                torch.hstack((x, y)),
                torch.vstack((x, y)),
                torch.dstack((x, y)),
                torch.column_stack((x[0], y[0])),
            ),
            X,
            Y,
        ),
        "cat mixed": (lambda x, i: torch.cat((x, i)), X, I),
        "meshgrid": (
            lambda x, y: (*torch.meshgrid(x, y, indexing="ij"), *torch.meshgrid(x, y, indexing="xy")),
            X[0],
            Y[:, 0],
        ),
        "split": (
            lambda x: (*x.split(3, 2), *x.split([1, 2], 1), *x.chunk(2, 0), *x.unbind(1), *x.tensor_split(3, 2)),
            C,
        ),
        "select": (
            lambda x: (
                x.select(1, 1),
                x[..., -1],
                x[0],
                x[:, 1:],
                x[:, ::2],
                x[:, -2:],
                x.narrow(2, 1, 2),
                x[:, :-1, None],
            ),
            C,
        ),
        "flip": (lambda x: (x.flip(0), x.flip(0, 2), x.roll(1), x.roll((1, -1), (0, 2)), x.rot90()), C),
        "tri": (lambda x: (x.tril(), x.triu(1), x.tril(-1), (x > 0).triu()), X),
        "diagonal": (lambda x: (x.diagonal(), x.diagonal(1), torch.diag(x[0]), x.diag_embed(), torch.diag(x)), X),
        "pad": (
            lambda x: (
                F.pad(x, (1, 2)),
                F.pad(x, (1, 0, 2, 1), value=3.0),
                F.pad(x, (1, 1, 1, 1), mode="reflect"),
                F.pad(x, (1, 2, 0, 1), mode="replicate"),
                F.pad(x, (1, 1, 1, 1), mode="circular"),
                F.pad(x, (-1, -1)),
            ),
            IMG,
        ),
        "unfold": (
            lambda x: (x.unfold(2, 3, 2), F.unfold(x, 3, padding=1), F.unfold(x, (2, 3), stride=2, dilation=(1, 2))),
            IMG,
        ),
        "fold": (lambda x: F.fold(F.unfold(x, 2, stride=2), (8, 8), 2, stride=2), IMG),
        "pixel_shuffle": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)), IMG),
        "as_strided": (lambda x: x.as_strided((2, 2), (4, 1), 1), X),
        # indexing
        "index": (lambda x, i: (x[i], x[:, i], x[i, i], x[:, i, i], x[i, :, i]), C, torch.tensor([0, 1])),
        "mask": (lambda x, b: (x[b], x.masked_select(b)), X, B),
        "mask row": (lambda x, b: (x[b], x[:, x[0] > 0]), X, B[:, 0]),
        "index_put": (
            lambda x, i, v: (x.index_put((i,), v), x.index_put((i,), v, accumulate=True)),
            X,
            torch.tensor([2, 0]),
            numbers(2, 4),
        ),
        "write": (lambda x: _write(x), X),
        "write view": (lambda x: _write_views(x), C),
        "gather": (lambda x, i: (x.gather(1, i), x.gather(0, i[:2] % 3)), X, J % 4),
        "take": (lambda x, i: (x.take(i), x.take_along_dim(i, 1)), X, J % 4),
        "index_select": (
            lambda x, i: (
                x.index_select(1, i),
                x.index_add(0, i, x[:2]),
                x.index_copy(0, i, x[:2]),
                x.index_fill(1, i, 7.0),
            ),
            X,
            torch.tensor([2, 0]),
        ),
        "scatter": (
            lambda x, i, s: (
                x.scatter(1, i, s),
                x.scatter(1, i, 5.0),
                x.scatter_add(0, i % 3, s),
                x.scatter(1, i[:, :2], s),
            ),
            X,
            torch.tensor([[0, 1, 2, 3]] * 3),
            Y,
        ),
        "scatter_reduce": (
            lambda x, i, s: tuple(
                x.scatter_reduce(1, i, s, r, include_self=k)
                for r in ("sum", "prod", "mean", "amax", "amin")
                for k in (True, False)
            ),
            X,
            torch.tensor([[0, 0, 2, 3]] * 3),
            Y,
        ),
        "nonzero": (lambda b: (b.nonzero(), torch.argwhere(b), *torch.where(b)), B),
        "embedding": (F.embedding, J, numbers(9, 3)),
        "masked_scatter": (lambda x, b: x.masked_scatter(b, x), X, B),
        "embedding_bag": (
            lambda w, i, o: (
                F.embedding_bag(i, w, o),
                F.embedding_bag(i, w, o, mode="sum"),
                F.embedding_bag(i, w, o, mode="max"),
            ),
            numbers(9, 3),
            torch.tensor([1, 2, 4, 5, 4]),
            torch.tensor([0, 2]),
        ),
        "bucketize": (
            lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True), torch.searchsorted(b, x)),
            X,
            torch.tensor([-1.0, 0.0, 1.5]),
        ),
        "isin": (torch.isin, I, torch.tensor([1, 2, -3])),
        "unique": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), J),
        # tensors out of nothing
        "creation": (
            lambda x: (
                x + torch.zeros(3, 4),
                torch.ones_like(x),
                x.new_full((2,), 3.0),
                torch.arange(5) + x.sum(),
                torch.full((2, 2), 1.5) * x[0, 0],
                torch.eye(3) @ x,
                torch.linspace(0, 1, 4) + x,
            ),
            X,
        ),
        # layers
        "conv1d": (lambda x, w: F.conv1d(x[:, :, 0], w[..., 0], stride=2, padding=1), IMG, numbers(6, 4, 3, 3)),
        "conv2d": (
            lambda x, w, b: (
                F.conv2d(x, w, b),
                F.conv2d(x, w, b, 2, 1, 2),
                F.conv2d(x, w, padding="same"),
                F.conv2d(x[0], w),
            ),
            IMG,
            numbers(6, 4, 3, 3),
            numbers(6),
        ),
        "conv groups": (lambda x, w: F.conv2d(x, w, groups=2), IMG, numbers(6, 2, 3, 3)),
        "conv3d": (lambda x, w: F.conv3d(x[None], w), numbers(2, 4, 5, 5), numbers(3, 2, 2, 2, 2)),
        "conv_transpose": (
            lambda x, w: (F.conv_transpose2d(x, w), F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)),
            IMG,
            numbers(4, 3, 3, 3),
        ),
        "max_pool": (
            lambda x: (
                F.max_pool2d(x, 2),
                F.max_pool2d(x, 3, 2, 1),
                F.max_pool2d(x, 3, 2, ceil_mode=True),
                F.max_pool1d(x[0], 2),
                F.max_pool3d(x[None], 2),
            ),
            IMG,
        ),
        "max_pool indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), IMG),
        "avg_pool": (
            lambda x: (
                F.avg_pool2d(x, 2),
                F.avg_pool2d(x, 3, 2, 1),
                F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                F.avg_pool2d(x, 2, divisor_override=3),
                F.avg_pool1d(x[0], 2),
            ),
            IMG,
        ),
        "adaptive": (
            lambda x: (
                F.adaptive_avg_pool2d(x, 1),
                F.adaptive_avg_pool2d(x, 4),
                F.adaptive_avg_pool2d(x, (3, 5)),
                F.adaptive_max_pool2d(x, 3),
                F.adaptive_avg_pool1d(x[0], 3),
            ),
            IMG,
        ),
        "max_unpool": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), IMG),
        "lp_pool": (lambda x: F.lp_pool2d(x.abs(), 2, 2), IMG),
        "norms": (
            lambda x, w, b: (
                F.layer_norm(x, (8, 8)),
                F.layer_norm(x, (8,), w, b),
                F.group_norm(x, 2),
                F.instance_norm(x),
                F.rms_norm(x, (8,), w),
            ),
            IMG,
            numbers(8),
            numbers(8),
        ),
        "normalize": (lambda x: F.normalize(x, dim=1), X),
        "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v), IMG, numbers(4), numbers(4, low=0.5, high=2)),
        "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0), F.softmin(x, 1), x.softmax(1, dtype=torch.float64)), X),
        "interpolate nearest": (
            lambda x: (
                F.interpolate(x, scale_factor=2),
                F.interpolate(x, size=(5, 11)),
                F.interpolate(x, scale_factor=2, mode="nearest-exact"),
            ),
            IMG,
        ),
        "interpolate linear": (
            lambda x: (
                F.interpolate(x, scale_factor=2, mode="bilinear"),
                F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True),
                F.interpolate(x[:, :, 0], size=5, mode="linear"),
            ),
            IMG,
        ),
        "interpolate cubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), IMG),
        "interpolate antialias": (lambda x: F.interpolate(x, size=(4, 4), mode="bilinear", antialias=True), IMG),
        "grid_sample": (
            lambda x, g: (
                F.grid_sample(x, g, align_corners=False),
                F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
            ),
            IMG,
            numbers(2, 5, 6, 2, low=-1.1, high=1.1),
        ),
        "affine_grid": (lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), numbers(2, 2, 3)),
        "attention": (
            lambda q, k: (
                F.scaled_dot_product_attention(q, k, k),
                F.scaled_dot_product_attention(q, k, k, is_causal=True),
                F.scaled_dot_product_attention(q, k, k, scale=0.3),
            ),
            IMG,
            IMG + 1,
        ),
        "attention mask": (
            lambda q, m: (F.scaled_dot_product_attention(q, q, q, m > 0), F.scaled_dot_product_attention(q, q, q, m)),
            IMG,
            numbers(8, 8),
        ),
        "gqa": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), IMG, IMG[:, :2]),
        "dropout": (
            lambda x: (
                F.dropout(x, training=False),
                F.dropout2d(x, training=False),
                F.alpha_dropout(x, training=False),
            ),
            IMG,
        ),
        "losses": (
            lambda x, y: (
                F.mse_loss(x, y),
                F.l1_loss(x, y, reduction="sum"),
                F.smooth_l1_loss(x, y),
                F.huber_loss(x, y, reduction="none"),
                F.binary_cross_entropy(x, y),
                F.binary_cross_entropy_with_logits(x, y),
                F.kl_div(x.log(), y),
            ),
            P,
            P.flip(0),
        ),
        "cross_entropy": (
            lambda x, t: (
                F.cross_entropy(x, t),
                F.cross_entropy(x, t, reduction="none"),
                F.nll_loss(x.log_softmax(1), t),
            ),
            X,
            torch.tensor([0, 3, 1]),
        ),
        "lstm cell": (nn.LSTMCell(4, 5), X),
        "gru cell": (nn.GRUCell(4, 5), X),
        "shape": (lambda x: x.reshape(x.shape[0], -1) * x.size(1) + x.dim() + x.numel(), C),
        "histc": (lambda x: torch.histc(x, 5, -2.0, 2.0), X),
        "masked": (
            lambda x, b: (
                *[getattr(torch.masked, n)(x, 1, mask=b) for n in "sum mean amax amin prod logsumexp var".split()],
                torch.masked.norm(x, 3.0, 0, mask=b),
                torch.masked.softmax(x, 1, mask=b),
                torch.masked.log_softmax(x, 0, mask=b),
            ),
            X,
            torch.tensor([[True, False, True, True], [True, True, False, True], [False, True, True, False]]),
        ),
        "index_reduce": (
            lambda x, i: [
                x.index_reduce(1, i, x[:, :3], r, include_self=k)
                for r in ("prod", "mean", "amax", "amin")
                for k in (True, False)
            ],
            X,
            torch.tensor([1, 0, 1]),
        ),
        "diagonal, written": (lambda x: _write_diagonals(x), C),
        "bincount": (lambda i, x: (torch.bincount(i), torch.bincount(i, x, 7)), J[0], P[0]),
        # what runtimes and ONNX's own operators do otherwise
        "addmm of nothing": (lambda c, x: torch.addmm(c, x[:, :0], x[:, :0].T, beta=0.2), numbers(3, 3), X),
        "addmm of whole numbers": (lambda c, x: torch.addmm(c, x, x.T, beta=2, alpha=3), I[:, :3], I),
        "empty": (
            lambda x: (
                x.fliplr(),
                x.cumprod(1),
                *x.cummax(1),
                x.roll(1),
                x.gather(1, torch.zeros(0, dtype=torch.long)),
            ),
            torch.zeros(3, 0),
        ),
        "numbers": (
            lambda x: (
                x.sum(0),
                x.any(0),
                torch.count_nonzero(x, 0),
                x.logsumexp(0),
                x.logcumsumexp(0),
                *x.kthvalue(1, 0),
                x.argwhere(),
                x.median(),
                x.softmax(0, dtype=torch.float64),
                x.norm(dim=0),
                x.masked_select(x > -9),
                x.scatter(0, torch.tensor(0), x + 1),
                x.bool().argsort(),
                F.one_hot(x.long() % 3, 3),
                F.cosine_similarity(x, x, 0),
                F.prelu(x, torch.tensor([0.5])),
            ),
            X[0, 0],
        ),
        "infinities": (
            lambda x, y: (
                torch.atan2(x, y),
                torch.logaddexp(x, y),
                torch.logaddexp2(x, y),
                torch.fmax(x, y),
                torch.fmin(x, y),
                F.threshold(x, 0.1, 9.0),
                F.hardshrink(x),
                torch.special.entr(x),
                x.norm(0),
            ),
            torch.tensor([math.inf, -math.inf, math.inf, math.nan, 0.0, -1.0]),
            torch.tensor([math.inf, -math.inf, -math.inf, 1.0, math.nan, 0.0]),
        ),
        "shifts too far": (
            lambda x, n: (x >> n, x << n, x.int() >> n.int(), x.int() << n.int()),
            I[0],
            torch.tensor([1, 63, 64, -1]),
        ),
        "truths": (
            lambda b, c: (
                b.clamp(min=c),
                torch.maximum(b, c),
                b.cummin(1)[0],
                torch.kron(b, c),
                b.sign(),
                b < c,
                torch.addr(b[:, 0], b[:, 1], c[0, :3]),
            ),
            B,
            Y > 0,
        ),
        "whole numbers": (
            lambda x: (x.ceil(), x.nansum(), F.relu6(x), F.pad(x, (1, 0), value=2.0), F.max_pool1d(x, 2)),
            I,
        ),
        "einsum, dots": (
            lambda x, y: (torch.einsum("...ik,...j->ij", x, y), torch.einsum("...k,k", x, y)),
            C,
            numbers(4),
        ),
        "avg_pool, rest": (
            lambda x: [
                F.avg_pool2d(x, 3, 2, 1, c, p, d) for c in (False, True) for p in (False, True) for d in (None, 5)
            ],
            IMG,
        ),
        "max_pool, rest": (
            lambda x: (F.max_pool2d(x, 3, 2, 1, ceil_mode=True), *F.adaptive_max_pool2d(x, 4, return_indices=True)),
            IMG,
        ),
        "pad, less": (lambda x: [F.pad(x, (-1, 3, 2, -2), mode=m) for m in ("constant", "replicate", "reflect")], IMG),
        "windows": (lambda x: torch.signal.windows.hann(4) * x, X),
        "norm of one": (lambda x: (F.layer_norm(x, (1,)), F.celu(x.double())), X[:, :1]),
        "masked_scatter, wider": (lambda x, b: x[0].masked_scatter(b, x), X, B),
        "attention, fewer dimensions": (lambda q, k: F.scaled_dot_product_attention(q, k, k), IMG[0], IMG),
        "smoothed": (
            lambda x, t, p: (F.cross_entropy(x, t, label_smoothing=0.1), F.cross_entropy(x, p)),
            X,
            torch.tensor([0, 3, 1]),
            P,
        ),
        "multi_margin": (lambda x: F.softmax(x.unsqueeze(0), dim=-1).squeeze(0), X),
    }
)


@pytest.mark.parametrize("dynamo", [True, False], ids=["program", "trace"])
@pytest.mark.parametrize(
    "function, error",
    [
        (lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True), "its result 1 is read"),
        (lambda x: x.index_add(0, torch.tensor([0]), x[:1]), "reduction 'add' needs opset_version 16, not 15"),
        (lambda x: F.conv1d(x.long(), torch.ones(3, 3, 1, dtype=torch.long)), "takes floating numbers, no .*int64"),
        (lambda x: x.mT.as_strided((2, 2), (1, 2)), "elements do not lie in their order"),
    ],
)
def test_what_no_operator_of_onnx_does_is_said(function, error, dynamo):
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match=error):
        exported(Fn(function), (numbers(3, 5),), dynamo, opset_version=15)


def _write(x):
    y = x.clone()
    y[:, 0] = 1
    y[0, 1:] = x[1, 1:]
    y[y > 2] = 2
    y.add_(1).mul_(2)
    y[:, ::2] *= 3
    y[torch.tensor([0, 2])] = 0.5
    return y


def _write_diagonals(x):
    y = x.clone()
    y.diagonal(0, 1, 2).fill_(0)
    y.diagonal(1, 0, 2).mul_(2)
    y.diagonal(-1, 1, 2).add_(1)
    return y, torch.diagflat(x[0, 0]), x.diagonal_scatter(x[0, :3, :2] * 5, 1, 0, 2)


def _write_views(x):
    y = x.clone()
    z, t = y.view(2, 12), y.transpose(1, 2)
    z[:, 3] = 7
    t[0].fill_(2)
    one, two = y.chunk(2, 2)
    two *= 2
    one += 1
    y[1].relu_()
    return y, z, t, one


def flat(tree):
    return [v for v in torch.utils._pytree.tree_leaves(tree) if v is not None]


def exported(module, args, dynamo, **settings):
    if dynamo:
        return torch.onnx.export(module, args, verbose=False, **settings)
    file = io.BytesIO()
    torch.onnx.export(module, args, file, dynamo=False, **settings)
    return torch.onnx.ONNXProgram(_wire.decode(file.getvalue()), None)


def compare(got, want):
    assert len(got) == len(want) > 0
    for g, w in zip(got, want):
        w = w if isinstance(w, torch.Tensor) else torch.tensor(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        torch.testing.assert_close(g, w, atol=1e-4, rtol=1e-4, equal_nan=True)


@pytest.mark.parametrize("dynamo", [True, False], ids=["program", "trace"])
@pytest.mark.parametrize("name", CASES)
def test_operator(name, dynamo):
    function, *args = CASES[name]
    module = function if isinstance(function, nn.Module) else Fn(function)
    module.eval()
    with torch.no_grad():
        want = flat(module(*args))
    program = exported(module, tuple(args), dynamo, opset_version=20)
    onnx.checker.check_model(program.model_proto, full_check=True)
    compare(program(*args), want)
