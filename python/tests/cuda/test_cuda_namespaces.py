"""torch.fft, torch.special and windows on devices as on the CPU; tensors of two devices; quantized ones. Run on the
emulated device by test_cuda.py.
"""

import pytest

import tessera
from tessera.nn import functional as F

on_device = pytest.mark.skipif(not tessera.cuda.is_available(), reason="no CUDA device")


def check(f, *tensors, tolerance=1e-12):
    want, got = f(*tensors), f(*(t.cuda() for t in tensors))
    assert got.is_cuda
    tessera.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.fixture
def plans():
    cache = tessera.backends.cuda.cufft_plan_cache
    cache.clear()
    before = cache.max_size
    yield cache
    cache.max_size = before


@on_device
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_along_a_dimension(name, norm):
    for shape in [(12,), (3, 5, 30), (1,)]:
        x = tessera.randn(shape, dtype=tessera.float64)
        x = x if name in ("rfft", "ihfft") else tessera.complex(x, x.sin())
        for dim in range(len(shape)):
            for n in (None, 7, 16):
                if shape[dim] > 1 or n:
                    check(lambda t, dim=dim, n=n: getattr(tessera.fft, name)(t, n=n, dim=dim, norm=norm), x)


@on_device
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "fft2", "rfft2", "irfft2"])
def test_transforms_along_several_dimensions(name):
    x = tessera.randn(4, 6, 10, dtype=tessera.float64)
    x = x if name in ("rfftn", "ihfftn", "rfft2") else tessera.complex(x, x.cos())
    check(getattr(tessera.fft, name), x)
    check(getattr(tessera.fft, name), x.permute(2, 0, 1))
    check(getattr(tessera.fft, name), x[:, ::2, 1::3])


@on_device
def test_single_precision_and_half():
    x = tessera.randn(50, 64)
    check(tessera.fft.rfft, x, tolerance=1e-5)
    with pytest.raises(RuntimeError, match="Unsupported dtype float16"):
        tessera.fft.fft(x.cuda().half())


@on_device
def test_gradients_of_transforms():
    for f in (tessera.fft.rfft, tessera.fft.irfft, tessera.fft.fft2, tessera.fft.hfft):
        results = []
        for device in ("cpu", "cuda"):
            x = tessera.linspace(-1, 1, 60, dtype=tessera.float64, device=device).view(6, 10).requires_grad_()
            f(x).abs().square().sum().backward()
            results.append(x.grad.cpu())
        tessera.testing.assert_close(results[1], results[0])


@on_device
def test_short_time_transforms():
    x = tessera.randn(600, dtype=tessera.float64)
    window = tessera.hann_window(64, dtype=tessera.float64)
    check(lambda t, w: tessera.stft(t, 64, window=w, return_complex=True), x, window)
    spectrum = tessera.stft(x.cuda(), 64, window=window.cuda(), return_complex=True)
    tessera.testing.assert_close(tessera.istft(spectrum, 64, window=window.cuda(), length=600).cpu(), x)


def special_functions():
    """The operators of torch.special: (name, number of tensors, an integer before them)."""
    found = []
    for name in sorted(dir(tessera.ops.aten)):
        if name.startswith("special_") and not name.endswith("_"):
            packet = getattr(tessera.ops.aten, name)
            schema = getattr(packet, packet.overloads()[0])._schema
            kinds = [str(a.type) for a in schema.arguments if not a.kwarg_only]
            found.append((name[len("special_") :], kinds))
    return found


@on_device
def test_special_functions():
    tried = 0
    for name, kinds in special_functions():
        if kinds.count("Tensor") not in (1, 2) or set(kinds) - {"Tensor", "float?"}:
            continue  # those with dimensions or orders are made of others
        for dtype, tolerance in ((tessera.float64, 1e-11), (tessera.float32, 2e-5)):
            x = tessera.linspace(0.02, 0.98, 97, dtype=dtype)
            others = [tessera.linspace(1.2, 8.0, 97, dtype=dtype)] * (kinds.count("Tensor") - 1)
            if name == "zeta":
                x = x + 1.5
            check(getattr(tessera.special, name), x, *others, tolerance=tolerance)
            tried += 1
    assert tried > 60


@on_device
def test_windows():
    for name in ("hann", "blackman", "nuttall", "kaiser", "gaussian", "exponential", "cosine", "bartlett"):
        make = getattr(tessera.signal.windows, name)
        got = make(33, dtype=tessera.float64, device="cuda")
        tessera.testing.assert_close(got.cpu(), make(33, dtype=tessera.float64), rtol=1e-12, atol=1e-12)


@on_device
def test_plans_are_kept_up_to_a_limit(plans):
    assert plans.max_size == 4096 and plans.size == 0
    for n in (8, 9, 10, 8):
        tessera.fft.fft(tessera.ones(n, device="cuda"))
    assert plans.size == plans[0].size == plans["cuda:0"].size == plans[tessera.device("cuda", 0)].size == 3
    plans[0].max_size = 2
    assert plans.size == plans.max_size == 2
    plans.clear()
    assert plans.size == 0


@on_device
def test_what_the_plan_cache_refuses(plans):
    with pytest.raises(RuntimeError, match=r"expected 0 <= device index < \d+, but got 1000"):
        plans[1000]
    with pytest.raises(RuntimeError, match="got -1"):
        plans.max_size = -1
    with pytest.raises(TypeError, match="integer"):
        plans.max_size = "many"
    with pytest.raises(RuntimeError, match="cannot be set"):
        plans.size = 3
    with pytest.raises(AttributeError):
        plans.other = 3


@pytest.mark.skipif(tessera.cuda.is_available(), reason="there is a CUDA device")
def test_no_device_has_no_plans():
    with pytest.raises(RuntimeError, match="no NVIDIA driver"):
        tessera.backends.cuda.cufft_plan_cache.size
    with pytest.raises(RuntimeError, match="device index < 0, but got 0"):
        tessera.backends.cuda.cufft_plan_cache[0]


# A call with tensors in memory of two kinds; which of them is on the device changes.
MIXED = {
    "conv2d": lambda x, y: F.conv2d(x.expand(1, 4, 4, 4), y.expand(2, 4, 4, 4)),
    "addmm": lambda x, y: tessera.addmm(x, y, y),
    "layer_norm": lambda x, y: F.layer_norm(x, (4,), y[0]),
    "group_norm": lambda x, y: F.group_norm(x, 2, y[0], y[1]),
    "batch_norm": lambda x, y: F.batch_norm(x, y[0], y[1]),
    "index_select": lambda x, y: x.index_select(0, y[0].long()),
    "embedding": lambda x, y: F.embedding(y.long(), x),
    "embedding_bag": lambda x, y: F.embedding_bag(y[0].long(), x, tessera.tensor([0])),
    "gather": lambda x, y: x.gather(0, y.long()),
    "scatter": lambda x, y: x.clone().scatter_(0, y.long(), 1.0),
    "index_add": lambda x, y: x.clone().index_add_(0, y[0].long(), x),
    "masked_select": lambda x, y: x.masked_select(y > 0),
    "nll_loss": lambda x, y: F.nll_loss(x, y[0].long()),
    "cdist": tessera.cdist,
    "searchsorted": lambda x, y: tessera.searchsorted(x, y),
}


@on_device
@pytest.mark.parametrize("name", MIXED)
def test_tensors_of_two_devices_are_refused(name):
    x, y = tessera.ones(4, 4), tessera.ones(4, 4)
    MIXED[name](x, y)
    for a, b in ((x.cuda(), y), (x, y.cuda())):
        with pytest.raises(RuntimeError, match="same device|should be the same"):
            MIXED[name](a, b)


@on_device
def test_indices_of_the_host_go_to_the_device():
    x, index, mask = (
        tessera.arange(12.0).reshape(4, 3),
        tessera.tensor([2, 0]),
        tessera.tensor([True, False, True, True]),
    )
    for where in (index, mask, index.int()):
        tessera.testing.assert_close(x.cuda()[where].cpu(), x[where])
        here, there = x.clone(), x.cuda()
        here[where] = there[where] = -1.0
        tessera.testing.assert_close(there.cpu(), here)
        with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
            x[where.cuda()]
    # Kernels of the emulated device can read the host's memory: that the index is copied shows in a capture.
    there = x.cuda()
    with tessera.cuda.stream(tessera.cuda.Stream()), pytest.raises(RuntimeError, match="captur"):
        with tessera.cuda.graph(tessera.cuda.CUDAGraph()):
            there[index]


@on_device
def test_quantized_tensors_move_and_layers_say_where_they_run():
    x = tessera.randn(2, 3)
    for q in (
        tessera.quantize_per_tensor(x, 0.1, 0, tessera.quint8),
        tessera.quantize_per_channel(x, tessera.tensor([0.1, 0.2]), tessera.tensor([0, 1]), 0, tessera.qint8),
    ):
        for moved in (q.cuda(), q.to("cuda"), q.cuda(0)):
            assert moved.is_cuda and moved.is_quantized and moved.cpu().device.type == "cpu"
            tessera.testing.assert_close(moved.dequantize().cpu(), q.dequantize())
    with pytest.raises(NotImplementedError, match="quantized layers run on the CPU"):
        tessera.ao.nn.quantized.Linear(3, 4)(tessera.quantize_per_tensor(x, 0.1, 0, tessera.quint8).cuda())


@on_device
def test_numbers_are_searched_in_sequences_on_the_device():
    sequence = tessera.tensor([1, 3, 5], device="cuda")
    assert tessera.searchsorted(sequence, 3.5).item() == 2
    assert tessera.searchsorted(sequence.double(), 3, right=True).item() == 2
    assert tessera.bucketize(4, sequence).device.type == "cuda"


@on_device
def test_hashes_and_histograms_of_grids_on_the_device():
    x = tessera.linspace(-1, 1, 24, device="cuda").reshape(12, 2)
    assert tessera.hash_tensor(x, 0).cpu().tolist() == tessera.hash_tensor(x.cpu(), 0).tolist()
    found, wanted = tessera.histogramdd(x, [3, 2], density=True), tessera.histogramdd(x.cpu(), [3, 2], density=True)
    assert found.hist.device.type == "cuda"
    tessera.testing.assert_close(found.hist.cpu(), wanted.hist)
    tessera.testing.assert_close(found.bin_edges[1].cpu(), wanted.bin_edges[1])


@on_device
def test_poles_of_polygamma_have_their_sign():
    x = tessera.tensor([0.0, -2.0])
    for n in (1, 2, 3):
        assert tessera.polygamma(n, x.cuda()).tolist() == tessera.polygamma(n, x).tolist()
