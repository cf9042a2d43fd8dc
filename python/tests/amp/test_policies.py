"""What autocast does with each listed operator on the CPU, and that it leaves all others alone."""

import pytest

import tessera
from tessera import linalg
from tessera.nn import functional as F

BF16, F16, F32 = tessera.bfloat16, tessera.float16, tessera.float32
LOW = [BF16, F16]


def region(dtype=BF16):
    return tessera.autocast("cpu", dtype=dtype)


def numbers(dtype, *shape):
    generator = tessera.Generator().manual_seed(1)
    return (tessera.rand(*shape, generator=generator) * 0.8 + 0.1).to(dtype)


def positive(dtype, n=3):
    return (tessera.eye(n) * 2 + 0.1).to(dtype)


def indices(*shape):
    return tessera.zeros(*shape, dtype=tessera.int64)


def pooled(n):
    def call(t):
        x = numbers(t, 1, 2, *[4] * n).float()
        values, places = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
        return getattr(F, f"max_unpool{n}d")(values.to(t), places, 2)

    return call


LOWER_PRECISION = {
    "matmul": lambda t: numbers(t, 3, 3) @ numbers(t, 3),
    "mm": lambda t: tessera.mm(numbers(t, 3, 3), numbers(t, 3, 3)),
    "bmm": lambda t: tessera.bmm(numbers(t, 2, 3, 3), numbers(t, 2, 3, 3)),
    "addmm": lambda t: tessera.addmm(numbers(t, 3), numbers(t, 3, 3), numbers(t, 3, 3)),
    "addbmm": lambda t: tessera.addbmm(numbers(t, 3, 3), numbers(t, 2, 3, 3), numbers(t, 2, 3, 3)),
    "baddbmm": lambda t: tessera.baddbmm(numbers(t, 2, 3, 3), numbers(t, 2, 3, 3), numbers(t, 2, 3, 3)),
    "vecdot": lambda t: linalg.vecdot(numbers(t, 3), numbers(t, 3)),
    "linear": lambda t: F.linear(numbers(t, 2, 3), numbers(t, 4, 3), numbers(t, 4)),
    "conv1d": lambda t: F.conv1d(numbers(t, 1, 2, 5), numbers(t, 3, 2, 2), numbers(t, 3)),
    "conv2d": lambda t: F.conv2d(numbers(t, 1, 2, 5, 5), numbers(t, 3, 2, 2, 2)),
    "conv2d same": lambda t: F.conv2d(numbers(t, 1, 2, 5, 5), numbers(t, 3, 2, 3, 3), padding="same"),
    "conv3d": lambda t: F.conv3d(numbers(t, 1, 2, 5, 5, 5), numbers(t, 3, 2, 2, 2, 2)),
    "conv_tbc": lambda t: tessera.conv_tbc(numbers(t, 3, 2, 4), numbers(t, 2, 4, 5), numbers(t, 5)),
    "conv_transpose1d": lambda t: F.conv_transpose1d(numbers(t, 1, 2, 5), numbers(t, 2, 3, 2)),
    "conv_transpose2d": lambda t: F.conv_transpose2d(numbers(t, 1, 2, 5, 5), numbers(t, 2, 3, 2, 2)),
    "conv_transpose3d": lambda t: F.conv_transpose3d(numbers(t, 1, 2, 3, 3, 3), numbers(t, 2, 3, 2, 2, 2)),
    "prelu": lambda t: F.prelu(numbers(t, 2, 3), numbers(t, 3)),
    "attention": lambda t: F.scaled_dot_product_attention(*[numbers(t, 1, 3, 4)] * 3),
    "einsum": lambda t: tessera.einsum("ij,jk->ik", numbers(t, 3, 3), numbers(t, 3, 3)),
}


@pytest.mark.parametrize("name", LOWER_PRECISION)
@pytest.mark.parametrize("low", LOW)
def test_lower_precision(name, low):
    call = LOWER_PRECISION[name]
    exact = call(F32)
    with region(low):
        found = call(F32)
        assert call(low).dtype == low
    assert exact.dtype == F32 and found.dtype == low and tessera.allclose(found.float(), exact, rtol=0.03, atol=0.03)


def pair(f):
    return lambda t: f(numbers(t, 3, 3), numbers(t, 3, 3))


def square(f):
    return lambda t: f(positive(t))


FLOAT32 = {
    "mse": pair(F.mse_loss),
    "l1": pair(F.l1_loss),
    "smooth l1": pair(F.smooth_l1_loss),
    "huber": pair(F.huber_loss),
    "bce": pair(F.binary_cross_entropy),
    "bce of logits": pair(F.binary_cross_entropy_with_logits),
    "kl": lambda t: F.kl_div(numbers(t, 3, 3), numbers(t, 3, 3), reduction="sum"),
    "poisson": pair(F.poisson_nll_loss),
    "soft margin": pair(F.soft_margin_loss),
    "hinge": lambda t: F.hinge_embedding_loss(numbers(t, 3), tessera.ones(3).to(t)),
    "margin ranking": lambda t: F.margin_ranking_loss(numbers(t, 3), numbers(t, 3), tessera.ones(3).to(t)),
    "cosine embedding": lambda t: F.cosine_embedding_loss(*[numbers(t, 3, 3)] * 2, tessera.ones(3).to(t)),
    "triplet": lambda t: F.triplet_margin_loss(*[numbers(t, 3, 3)] * 3),
    "multi margin": lambda t: F.multi_margin_loss(numbers(t, 3, 3), indices(3)),
    "multilabel margin": lambda t: F.multilabel_margin_loss(numbers(t, 3, 3), indices(3, 3)),
    "cross entropy": lambda t: F.cross_entropy(numbers(t, 3, 3), indices(3)),
    "nll": lambda t: F.nll_loss(numbers(t, 3, 3), indices(3)),
    "nll 2d": lambda t: F.nll_loss(numbers(t, 1, 3, 2, 2), indices(1, 2, 2)),
    "ctc": lambda t: F.ctc_loss(numbers(t, 5, 2, 4).log_softmax(-1), indices(2, 2) + 1, indices(2) + 5, indices(2) + 2),
    "prod": lambda t: numbers(t, 3, 3).prod(),
    "prod of a dim": lambda t: numbers(t, 3, 3).prod(0),
    "trace": square(tessera.trace),
    "quantile": lambda t: tessera.quantile(numbers(t, 5), 0.5),
    "nanquantile": lambda t: tessera.nanquantile(numbers(t, 5), 0.5),
    "cdist": pair(tessera.cdist),
    "inverse": square(tessera.inverse),
    "pinverse": square(tessera.pinverse),
    "cholesky": square(linalg.cholesky),
    "eigvalsh": square(linalg.eigvalsh),
    "svdvals": square(linalg.svdvals),
    "inv": square(linalg.inv),
    "qr": lambda t: linalg.qr(positive(t))[1],
    "eigh": lambda t: linalg.eigh(positive(t))[0],
    "svd": lambda t: linalg.svd(positive(t))[1],
    "solve": lambda t: linalg.solve(positive(t), numbers(t, 3)),
    "lstsq": lambda t: linalg.lstsq(positive(t), numbers(t, 3, 1))[0],
    "cond": square(linalg.cond),
    "cholesky_solve": lambda t: tessera.cholesky_solve(numbers(t, 3, 3), positive(t)),
    "cholesky_inverse": square(tessera.cholesky_inverse),
    "irfft": lambda t: tessera.fft.irfft(numbers(t, 8)),
    "rfft": lambda t: tessera.fft.rfft(numbers(t, 8)).real,
    "fft2": lambda t: tessera.fft.fft2(numbers(t, 4, 4)).imag,
    "hfft": lambda t: tessera.fft.hfft(numbers(t, 4)),
    "stft": lambda t: tessera.stft(numbers(t, 64), 16, window=tessera.ones(16), return_complex=True).real,
    "polar": lambda t: tessera.polar(numbers(t, 3), numbers(t, 3)).real,
    "view_as_complex": lambda t: tessera.view_as_complex(numbers(t, 3, 2)).real,
    "avg_pool3d": lambda t: F.avg_pool3d(numbers(t, 1, 4, 4, 4), 2),
    "max_pool3d": lambda t: F.max_pool3d(numbers(t, 1, 4, 4, 4), 2),
    "adaptive_avg_pool3d": lambda t: F.adaptive_avg_pool3d(numbers(t, 1, 4, 4, 4), 2),
    "adaptive_max_pool3d": lambda t: F.adaptive_max_pool3d(numbers(t, 1, 4, 4, 4), 2),
    "max_unpool1d": pooled(1),
    "max_unpool2d": pooled(2),
    "max_unpool3d": pooled(3),
    "reflect 1": lambda t: F.pad(numbers(t, 1, 2, 4), (1, 1), mode="reflect"),
    "reflect 2": lambda t: F.pad(numbers(t, 1, 2, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "replicate 1": lambda t: F.pad(numbers(t, 1, 2, 4), (1, 1), mode="replicate"),
    "replicate 2": lambda t: F.pad(numbers(t, 1, 2, 4, 4), (1, 1, 1, 1), mode="replicate"),
    "replicate 3": lambda t: F.pad(numbers(t, 1, 2, 4, 4, 4), (1,) * 6, mode="replicate"),
    "grid_sample": lambda t: F.grid_sample(numbers(t, 1, 2, 4, 4), numbers(t, 1, 2, 2, 2), align_corners=False),
}
FRACTIONAL = {
    "fractional_max_pool2d": lambda t: F.fractional_max_pool2d(numbers(t, 1, 2, 4, 4), 2, output_size=2),
    "fractional_max_pool3d": lambda t: F.fractional_max_pool3d(numbers(t, 1, 2, 4, 4, 4), 2, output_size=2),
}


@pytest.mark.parametrize("name", FLOAT32)
@pytest.mark.parametrize("low", LOW)
def test_float32(name, low):
    call = FLOAT32[name]
    with region(low):
        found, unchanged = call(low), call(F32)
    assert found.dtype == unchanged.dtype == F32
    assert tessera.equal(unchanged, call(F32)) and tessera.allclose(found, unchanged, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", FRACTIONAL)
def test_float32_of_random_places(name):
    with region():
        assert FRACTIONAL[name](BF16).dtype == F32


def test_promotion():
    a, b = numbers(F32, 2, 2), numbers(BF16, 2, 2)
    with region():
        for mixed in (tessera.cat([a, b]), tessera.stack([b, a]), tessera.index_copy(a, 0, indices(1), b[:1])):
            assert mixed.dtype == F32
        for same in (tessera.cat([b, b]), tessera.stack([b, b]), tessera.index_copy(b, 0, indices(1), b[:1])):
            assert same.dtype == BF16
        assert tessera.cat([b, numbers(F16, 2, 2)]).dtype == F32
        assert tessera.cat([a.double(), b]).dtype == tessera.float64
        assert tessera.cat([indices(1), indices(1)]).dtype == tessera.int64


ALONE = {
    "add": pair(tessera.add),
    "mul": pair(tessera.mul),
    "exp": lambda t: numbers(t, 3).exp(),
    "sum": lambda t: numbers(t, 3, 3).sum(),
    "mean": lambda t: numbers(t, 3, 3).mean(0),
    "cumsum": lambda t: numbers(t, 3).cumsum(0),
    "softmax": lambda t: numbers(t, 3, 3).softmax(-1),
    "log_softmax": lambda t: numbers(t, 3, 3).log_softmax(-1),
    "norm": lambda t: numbers(t, 3).norm(),
    "var": lambda t: numbers(t, 3).var(),
    "addcmul": lambda t: tessera.addcmul(*[numbers(t, 3)] * 3),
    "addmv": lambda t: tessera.addmv(numbers(t, 3), numbers(t, 3, 3), numbers(t, 3)),
    "mv": lambda t: tessera.mv(numbers(t, 3, 3), numbers(t, 3)),
    "dot": lambda t: tessera.dot(numbers(t, 3), numbers(t, 3)),
    "outer": lambda t: tessera.outer(numbers(t, 3), numbers(t, 3)),
    "cross": lambda t: tessera.cross(numbers(t, 3), numbers(t, 3)),
    "bilinear": lambda t: F.bilinear(numbers(t, 2, 3), numbers(t, 2, 3), numbers(t, 2, 3, 3)),
    "relu": lambda t: F.relu(numbers(t, 3)),
    "gelu": lambda t: F.gelu(numbers(t, 3)),
    "layer_norm": lambda t: F.layer_norm(numbers(t, 2, 3), (3,)),
    "group_norm": lambda t: F.group_norm(numbers(t, 2, 4, 3), 2),
    "batch_norm": lambda t: F.batch_norm(numbers(t, 4, 3), None, None, training=True),
    "embedding": lambda t: F.embedding(indices(2), numbers(t, 3, 3)),
    "max_pool2d": lambda t: F.max_pool2d(numbers(t, 1, 4, 4), 2),
    "avg_pool2d": lambda t: F.avg_pool2d(numbers(t, 1, 4, 4), 2),
    "interpolate": lambda t: F.interpolate(numbers(t, 1, 2, 4, 4), scale_factor=2, mode="bilinear"),
    "constant pad": lambda t: F.pad(numbers(t, 1, 4), (1, 1)),
    "gaussian nll": lambda t: F.gaussian_nll_loss(*[numbers(t, 3)] * 3),
    "pairwise distance": pair(F.pairwise_distance),
    "cosine similarity": pair(F.cosine_similarity),
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_what_is_not_listed_is_left_alone(name, dtype):
    """And what it is made of, such as the products in bilinear()."""
    expected = ALONE[name](dtype)
    with region():
        assert tessera.equal(ALONE[name](dtype), expected)
    assert expected.dtype == dtype
