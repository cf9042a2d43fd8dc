"""Fourier transforms against NumPy, at lengths and strides of every kind, and short-time transforms."""

import numpy as np
import pytest

import tessera

LENGTHS = [1, 2, 3, 5, 8, 13, 17, 30, 37, 64, 97, 120, 256, 343, 500, 512, 1009, 1024, 2310]
RANDOM = np.random.default_rng(3)


def signal(shape, complex_=True, dtype=np.float64):
    x = RANDOM.standard_normal(shape).astype(dtype)
    return x + 1j * RANDOM.standard_normal(shape).astype(dtype) if complex_ else x


def check(got, want, tolerance=1e-12):
    assert tuple(got.shape) == want.shape
    got = got.resolve_conj().numpy()
    assert np.abs(got - want).max(initial=0) <= tolerance * max(1.0, np.abs(want).max(initial=0))


@pytest.mark.parametrize("n", LENGTHS)
def test_every_kind_of_length(n):
    x, r, half = signal((3, n)), signal((3, n), False), signal((3, n // 2 + 1))
    check(tessera.fft.fft(tessera.from_numpy(x)), np.fft.fft(x))
    check(tessera.fft.ifft(tessera.from_numpy(x)), np.fft.ifft(x))
    check(tessera.fft.rfft(tessera.from_numpy(r)), np.fft.rfft(r))
    check(tessera.fft.ihfft(tessera.from_numpy(r)), np.fft.ihfft(r))
    check(tessera.fft.irfft(tessera.from_numpy(half), n=n), np.fft.irfft(half, n=n))
    check(tessera.fft.hfft(tessera.from_numpy(half), n=n), np.fft.hfft(half, n=n))


@pytest.mark.parametrize("mark", [lambda x: x.conj(), tessera._neg_view, lambda x: tessera._neg_view(x.conj())])
def test_marked_spectra_become_real_signals_as_plain_ones_do(mark):
    half = mark(tessera.from_numpy(signal((4, 5, 9))))
    plain = half.resolve_conj().resolve_neg().clone()
    assert (half.is_conj() or half.is_neg()) and not (plain.is_conj() or plain.is_neg())
    for f in (tessera.fft.irfft, tessera.fft.hfft, tessera.fft.irfft2, tessera.fft.hfftn):
        check(f(half), f(plain).numpy())


@pytest.mark.parametrize("n", LENGTHS)
def test_single_precision(n):
    x = signal((40, n), dtype=np.float32)
    y = tessera.fft.fft(tessera.from_numpy(x))
    assert y.dtype == tessera.complex64
    check(y, np.fft.fft(x.astype(np.complex128)), 1e-6)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("n", [4, 9, 31, 64, 1009])
def test_strides_of_every_kind(n, dim):
    shape = [6, 5, 11]
    shape[dim] = n
    x = signal(shape)
    t = tessera.from_numpy(x)
    check(tessera.fft.fft(t, dim=dim), np.fft.fft(x, axis=dim))
    check(tessera.fft.fft(t.permute(2, 0, 1), dim=(dim + 1) % 3), np.fft.fft(x.transpose(2, 0, 1), axis=(dim + 1) % 3))
    check(tessera.fft.rfft(t.real, dim=dim), np.fft.rfft(x.real, axis=dim))
    check(tessera.fft.irfft(t, dim=dim), np.fft.irfft(x, axis=dim))
    check(tessera.fft.fft(t[:, ::2, 1:], dim=dim), np.fft.fft(x[:, ::2, 1:], axis=dim))
    repeated = np.broadcast_to(x[:1], [4, *shape[1:]])
    check(tessera.fft.fft(t[:1].expand(4, *shape[1:]), dim=1), np.fft.fft(repeated, axis=1))


def test_several_dimensions_of_real_signals():
    x = signal((4, 6, 10), False)
    t = tessera.from_numpy(x)
    check(tessera.fft.rfftn(t), np.fft.rfftn(x))
    check(tessera.fft.irfftn(tessera.fft.rfftn(t), s=x.shape), x)
    check(tessera.fft.rfftn(t, dim=(2, 0)), np.fft.rfftn(x, axes=(2, 0)))
    want = np.fft.fftn(x, s=(3, 10), axes=(1, 2), norm="ortho")
    check(tessera.fft.fftn(t, s=(3, -1), dim=(1, 2), norm="ortho"), want)


@pytest.mark.parametrize("n", [9, 64, 225, 243, 1000, 1024, 8193])
@pytest.mark.parametrize("count", [2, 3, 20, 33])
def test_numbers_that_are_not_finite_stay_in_their_line(n, count):
    """Lines are transformed side by side, two real ones of odd length as one complex one."""
    for function in ("fft", "rfft", "irfft"):
        x = tessera.from_numpy(signal((count, n)).real.copy())
        if function == "irfft":
            x = tessera.fft.rfft(x)
        transform = getattr(tessera.fft, function)
        want = transform(x, n=n)
        x[1, 2] = float("nan")
        got = transform(x, n=n)
        assert not tessera.isfinite(got[1]).any()
        others = [i for i in range(count) if i != 1]
        np.testing.assert_allclose(got[others].numpy(), want[others].numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(16, 3, 64, 80), (1, 5, 7, 200, 100), (40, 6, 60, 61), (130, 128, 17)])
def test_several_dimensions_of_many_numbers(shape):
    """These go by parts that stay in the cache; the bits do not depend on the threads that work on them."""
    x = np.random.default_rng(1).standard_normal(shape)
    threads = tessera.get_num_threads()
    for dims in ((-2, -1), (-1, -2), (0, -1), (-3, -2, -1)):
        for function in ("rfftn", "fftn", "irfftn"):
            z = x if function == "rfftn" else x + 1j * x[::-1]
            want = getattr(np.fft, function)(z, axes=dims)
            for layout in (tessera.from_numpy(z), tessera.from_numpy(np.swapaxes(z, 0, 1).copy()).transpose(0, 1)):
                results = []
                for count in (1, 2):
                    tessera.set_num_threads(count)
                    results.append(getattr(tessera.fft, function)(layout, dim=dims))
                tessera.set_num_threads(threads)
                assert tessera.equal(*results)
                np.testing.assert_allclose(results[0].numpy(), want, rtol=1e-9, atol=1e-9 * np.abs(want).max())


def test_out_is_written_whatever_its_strides():
    x = signal((6, 10))
    out = tessera.zeros(10, 6, dtype=tessera.complex128).t()
    assert tessera.fft.fft(tessera.from_numpy(x), out=out) is out
    check(out, np.fft.fft(x))


def test_out_may_stand_for_its_conjugate():
    x = signal((6, 10))
    out = tessera.zeros(6, 10, dtype=tessera.complex128).conj()
    assert tessera.fft.fft2(tessera.from_numpy(x), out=out) is out and out.is_conj()
    check(out, np.fft.fft2(x))


@pytest.mark.parametrize("name", ["irfft", "hfft", "irfft2", "hfft2", "irfftn", "hfftn"])
def test_real_results_are_written_to_real_numbers(name):
    function, x = getattr(tessera.fft, name), tessera.randn(3, 4)
    for dtype in (tessera.complex64, tessera.complex128, tessera.int64):
        with pytest.raises(RuntimeError, match="floating point output"):
            function(x, out=tessera.empty(0, dtype=dtype))
    out = tessera.empty(0, dtype=tessera.float64)
    assert function(x, out=out) is out
    tessera.testing.assert_close(out, function(x), check_dtype=False)


def test_empty_batches_and_meta():
    assert tessera.fft.fft(tessera.zeros(0, 4)).shape == (0, 4)
    y = tessera.fft.rfft2(tessera.zeros(3, 8, 6, device="meta"))
    assert y.shape == (3, 8, 4) and y.dtype == tessera.complex64 and y.is_meta


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda f, x: f.fft(x, n=0), RuntimeError, "Invalid number of data points"),
        (lambda f, x: f.fft(x[:, :0]), RuntimeError, "Invalid number of data points"),
        (lambda f, x: f.fft(x, norm="half"), RuntimeError, "Invalid normalization mode"),
        (lambda f, x: f.rfft(x.to(tessera.complex64)), RuntimeError, "real input"),
        (lambda f, x: f.fft(x.half()), RuntimeError, "Unsupported dtype"),
        (lambda f, x: f.fftn(x, dim=(0, -2)), RuntimeError, "unique"),
        (lambda f, x: f.fftn(x, s=(2,), dim=(0, 1)), RuntimeError, "same length"),
        (lambda f, x: f.fftn(x, s=(2, 2, 2)), RuntimeError, "only has 2 dimensions"),
        (lambda f, x: f.rfftn(x, dim=()), RuntimeError, "at least one axis"),
        (lambda f, x: f.fft(x, dim=2), IndexError, "out of range"),
        (lambda f, x: f.fft(x.sum()), IndexError, "imension"),
        (lambda f, x: f.irfft(x[:, :1]), RuntimeError, "Invalid number of data points"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call(tessera.fft, tessera.ones(3, 4))


@pytest.mark.parametrize("mode", ["reflect", "constant", "replicate", "circular"])
def test_frames_are_transforms_of_pieces_of_the_padded_signal(mode):
    x = signal(50, False)
    window = np.hanning(12)
    got = tessera.stft(tessera.from_numpy(x), 16, 5, 12, tessera.from_numpy(window), pad_mode=mode, return_complex=True)
    padded = np.pad(x, 8, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))
    w = np.pad(window, 2)
    want = np.stack([np.fft.rfft(padded[i : i + 16] * w) for i in range(0, len(padded) - 15, 5)], axis=1)
    check(got, want)


def test_short_time_transforms_are_undone():
    x = tessera.from_numpy(signal((3, 100), False))
    window = tessera.hann_window(20, dtype=tessera.float64)
    for options in ({}, {"onesided": False}, {"normalized": True}, {"win_length": 16}):
        w = tessera.hann_window(options.get("win_length", 20), dtype=tessera.float64)
        y = tessera.stft(x, 20, 5, window=w, return_complex=True, **options)
        back = tessera.istft(y, 20, 5, window=w, length=100, **options)
        assert tessera.allclose(back, x, atol=1e-12)
    z = tessera.stft(x.to(tessera.complex128), 20, 5, window=window)
    assert tessera.allclose(tessera.istft(z, 20, 5, window=window, length=100, return_complex=True).real, x)


def test_windows_that_leave_gaps_are_refused():
    y = tessera.stft(tessera.ones(40), 8, 8, window=tessera.hann_window(8), return_complex=True)
    with pytest.raises(RuntimeError, match="leave a gap"):
        tessera.istft(y, 8, 8, window=tessera.hann_window(8), center=False)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann"])
def test_windows(name):
    formula = getattr(np, name if name != "hann" else "hanning")
    old = getattr(tessera, f"{name}_window")
    check(getattr(tessera.signal.windows, name)(9, dtype=tessera.float64), formula(9), 1e-15)
    check(old(9, periodic=False, dtype=tessera.float64), formula(9), 1e-15)
    check(old(8, dtype=tessera.float64), formula(9)[:8], 1e-15)
    assert old(0).shape == (0,) and old(1).tolist() == [1.0] and old(4).dtype == tessera.float32


def test_windows_with_parameters():
    windows = tessera.signal.windows
    check(windows.kaiser(10, beta=3.5, dtype=tessera.float64), np.kaiser(10, 3.5), 1e-14)
    k = np.arange(7) - 3
    check(windows.gaussian(7, std=0.8, dtype=tessera.float64), np.exp(-((k / 0.8) ** 2) / 2), 1e-15)
    check(windows.exponential(7, tau=2.0, dtype=tessera.float64), np.exp(-np.abs(k) / 2), 1e-15)
    for call in (
        lambda: windows.hann(-1),
        lambda: windows.hann(4, dtype=tessera.float16),
        lambda: windows.gaussian(4, std=0),
        lambda: windows.exponential(4, tau=-1.0),
        lambda: windows.exponential(4, center=1.0),
        lambda: windows.kaiser(4, beta=-1),
        lambda: windows.general_cosine(4, a=[]),
    ):
        with pytest.raises(ValueError):
            call()


def test_windows_of_a_single_point():
    windows = tessera.signal.windows
    for name in ("bartlett", "cosine", "exponential", "gaussian", "hann", "nuttall"):
        assert getattr(windows, name)(1, sym=False).tolist() == [1]
    assert windows.exponential(1, sym=False, center=2.0, dtype=tessera.float64).item() == pytest.approx(np.exp(-2))
    assert windows.general_cosine(0, a=[]).shape == (0,)


@pytest.mark.parametrize("transform", ["_fft_r2c", "_fft_c2r"])
def test_no_dimensions_under_transforms(transform):
    """A batching rule takes no dimensions for all of them: the derivative must not look for the last of none."""
    op = getattr(tessera.ops.aten, transform)
    arguments = ([], 0, True) if transform == "_fft_r2c" else ([], 0, 3)
    x = tessera.randn(2, 3, 2) if transform == "_fft_r2c" else tessera.randn(2, 3, 2, dtype=tessera.complex64)

    def gradient(t):
        result, pull = tessera.func.vjp(lambda y: op(y, *arguments), t)
        return pull(tessera.ones_like(result))[0]

    with pytest.raises(RuntimeError, match="at least one dimension"):
        tessera.func.vmap(gradient)(x)
