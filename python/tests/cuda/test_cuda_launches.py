"""How many launches operations are, counted by capturing them into a graph, and that they wait for nothing: a capture
refuses what waits. No GPU is needed: on the emulated device every kernel, copy and fill is a node of the graph. Results
are compared with the CPU's.
"""

import gc
import os
import subprocess
import sys
import tempfile

import pytest
import tessera as torch
from tessera import nn
from tessera.nn import functional as F

EMULATED = torch.cuda.is_available() and "Emulated" in torch.cuda.get_device_name(0)
on_the_emulated_device = pytest.mark.skipif(not EMULATED, reason="launches are counted on the emulated device")


def test_on_the_emulated_device():
    library = os.environ.get("TESSERA_TEST_CUDA_LIBRARY")
    if torch.cuda.is_available():
        pytest.skip("the tests of this file run on a device already")
    if not library or not os.path.exists(library):
        pytest.skip("no emulated device: TESSERA_TEST_CUDA_LIBRARY names no file")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "TESSERA_CUDA_LIBRARY": library,
    }
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    print(child.stdout[-4000:])
    assert child.returncode == 0 and " passed" in child.stdout


def launches(call):
    """The nodes of the graph of a call; it runs once before, so that what is kept is there."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    graph.enable_debug_mode()
    gc.collect()
    with torch.cuda.graph(graph, stream=stream):
        call()
    with tempfile.NamedTemporaryFile(suffix=".dot") as file:
        graph.debug_dump(file.name)
        with open(file.name) as f:
            lines = f.read().splitlines()
    return sum("node_" in line and "->" not in line for line in lines)


def gradients(function, *inputs):
    """A call that differentiates function(*inputs); launches of the function itself do not count: see `extra`."""
    inputs = [x.detach().requires_grad_() for x in inputs]

    def call():
        y = function(*inputs)
        return torch.autograd.grad(y, inputs, torch.ones_like(y))

    return call


def numbers(device, *sizes, seed=0, dtype=torch.float32):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype).to(device)


def octets(device, *sizes):
    return (numbers("cpu", *sizes) * 256 - 128).to(torch.int8).to(device)


def classes(device, n, count=10):
    return torch.randint(0, count, (n,), generator=torch.Generator().manual_seed(1)).to(device)


def module(device, make):
    torch.manual_seed(3)
    return make().to(device)


def batch_norm(device, training, **options):
    layer = module(device, lambda: nn.BatchNorm2d(8, **options)).train(training)
    x = numbers(device, 4, 8, 6, 6)
    return lambda: layer(x)


def batch_norm_gradients(device):
    layer = module(device, lambda: nn.BatchNorm2d(8))
    x = numbers(device, 4, 8, 6, 6).requires_grad_()

    def call():
        y = layer(x)
        return torch.autograd.grad(y, [x, layer.weight, layer.bias], torch.ones_like(y))

    return call


def optimizer(kind, count=5, **options):
    def make(device):
        parameters = [nn.Parameter(numbers(device, 4, 4, seed=i)) for i in range(count)]
        for i, p in enumerate(parameters):
            p.grad = numbers(device, 4, 4, seed=10 + i)
        steps = kind(parameters, **options)

        def call():
            steps.step()
            return [p.detach().clone() for p in parameters]

        return call

    return make


def clipped(device):
    parameters = [nn.Parameter(numbers(device, 4, 4, seed=i)) for i in range(5)]

    def call():
        for i, p in enumerate(parameters):
            p.grad = numbers("cpu", 4, 4, seed=i).to(device) if device == "cpu" else p.detach()
        return nn.utils.clip_grad_norm_(parameters, 1.0)

    return call


def recurrent(device, kind, differentiated=False, hidden=16, **options):
    layer = module(device, lambda: kind(8, hidden, **options))
    x = numbers(device, 10, 3, 8).requires_grad_()

    def call():
        y = layer(x)[0]
        return torch.autograd.grad(y, [x, *layer.parameters()], torch.ones_like(y)) if differentiated else y

    return call


def packed(device):
    """Sequences of different lengths, whose last states lie at different steps."""
    layer = module(device, lambda: nn.LSTM(8, 16, bidirectional=True))
    x = nn.utils.rnn.pack_padded_sequence(numbers(device, 10, 6, 8), [10, 9, 7, 4, 3, 1])

    def call():
        y, (h, c) = layer(x)
        return [y.data, h, c]

    return call


def images(device):
    return numbers(device, 2, 3, 8, 8)


def places(device):
    return numbers(device, 2, 5, 5, 2, seed=2) * 2 - 1


def bag(device, mode):
    layer = module(device, lambda: nn.EmbeddingBag(10, 4, mode=mode))
    index, offsets = classes(device, 9), torch.tensor([0, 4, 4]).to(device)
    return lambda: layer(index, offsets)


def unpooled(device):
    values, where = F.max_pool2d(images(device), 2, return_indices=True)
    return lambda: F.max_unpool2d(values, where, 2)


def joined(device, function):
    parts = [numbers(device, 3, 4, seed=i) for i in range(6)]
    return lambda: function(parts)


def logits(device):
    return numbers(device, 6, 10) * 4


def convolution(device, memory_format=torch.contiguous_format, **options):
    layer = module(device, lambda: nn.Conv2d(6, 12, 3, padding=1, **options)).to(memory_format=memory_format)
    x = numbers(device, 2, 6, 5, 7).to(memory_format=memory_format)

    def call():
        y = layer(x)
        assert y.is_contiguous(memory_format=memory_format)
        return y

    return call


def activated(device, memory_format=torch.contiguous_format, added=False, bias=True):
    layer = module(device, lambda: nn.Conv2d(6, 12, 3, bias=bias)).to(memory_format=memory_format)
    x = numbers(device, 2, 6, 5, 7).to(memory_format=memory_format)
    z = numbers(device, 2, 12, 3, 5, seed=2).to(memory_format=memory_format)
    sizes = ([1, 1], [0, 0], [1, 1], 1)
    if added:
        return lambda: torch.cudnn_convolution_add_relu(x, layer.weight, z, -0.7, layer.bias, *sizes)
    return lambda: torch.cudnn_convolution_relu(x, layer.weight, layer.bias, *sizes)


def frozen(device):
    """Convolutions and activations of a frozen program: one call of cuDNN for both."""
    layers = module(device, lambda: nn.Sequential(nn.Conv2d(6, 12, 3), nn.ReLU(), nn.Conv2d(12, 4, 1), nn.ReLU()))
    program = torch.jit.optimize_for_inference(torch.jit.script(layers.eval()))
    assert ("cudnn_convolution_relu" in str(program.graph)) == (device == "cuda")
    x = numbers(device, 2, 6, 5, 7)

    def call():
        with torch.no_grad():
            return program(x)

    return call


def convolution_gradients(device):
    layer = module(device, lambda: nn.Conv2d(6, 12, 3, padding=1)).to(memory_format=torch.channels_last)
    x = numbers(device, 2, 6, 5, 7).to(memory_format=torch.channels_last).requires_grad_()
    grad = numbers(device, 2, 12, 5, 7, seed=3).to(memory_format=torch.channels_last)
    return lambda: torch.autograd.grad(layer(x), [x, *layer.parameters()], grad)


# What it is -> (at most so many launches, function of a device that gives a call). A step of an optimizer with five
# parameters has five clones more.
CASES = {
    "batch_norm, training": (3, lambda d: batch_norm(d, True)),  # one of them counts batches
    "batch_norm, mean over batches": (9, lambda d: batch_norm(d, True, momentum=None)),
    "batch_norm, evaluation": (1, lambda d: batch_norm(d, False)),
    "batch_norm, gradients": (6, batch_norm_gradients),
    "grid_sample, bilinear": (1, lambda d: lambda: F.grid_sample(images(d), places(d), align_corners=False)),
    "grid_sample, bicubic": (
        1,
        lambda d: lambda: F.grid_sample(images(d), places(d), mode="bicubic", align_corners=True),
    ),
    "interpolate, bilinear": (1, lambda d: lambda: F.interpolate(images(d), size=(11, 5), mode="bilinear")),
    "interpolate, nearest": (1, lambda d: lambda: F.interpolate(images(d), scale_factor=2)),
    "interpolate, bicubic, antialias": (
        2,
        lambda d: lambda: F.interpolate(images(d), size=(5, 5), mode="bicubic", antialias=True),
    ),
    "interpolate, gradients": (
        3,
        lambda d: gradients(lambda x: F.interpolate(x, size=(11, 5), mode="bilinear"), images(d)),
    ),
    "rms_norm": (1, lambda d: lambda: F.rms_norm(logits(d), (10,), weight=logits(d)[0])),
    "rms_norm, gradients": (
        5,
        lambda d: gradients(lambda x, w: F.rms_norm(x, (10,), weight=w), logits(d), logits(d)[0].clone()),
    ),
    "cross_entropy, smoothed": (2, lambda d: lambda: F.cross_entropy(logits(d), classes(d, 6), label_smoothing=0.1)),
    "cross_entropy, smoothed, gradients": (
        5,
        lambda d: gradients(lambda x: F.cross_entropy(x, classes(d, 6), label_smoothing=0.1), logits(d)),
    ),
    "stack": (1, lambda d: joined(d, torch.stack)),
    "cat": (1, lambda d: joined(d, lambda parts: torch.cat(parts, 1))),
    "SGD": (6, optimizer(torch.optim.SGD, lr=0.1, momentum=0.9)),
    "Adam": (8, optimizer(torch.optim.Adam, lr=0.1, capturable=True)),
    "RMSprop": (10, optimizer(torch.optim.RMSprop)),
    "RMSprop, capturable": (11, optimizer(torch.optim.RMSprop, capturable=True)),
    "Adagrad": (9, optimizer(torch.optim.Adagrad)),
    "NAdam": (13, optimizer(torch.optim.NAdam)),
    "NAdam, capturable": (50, optimizer(torch.optim.NAdam, capturable=True)),
    "Adadelta, capturable": (17, optimizer(torch.optim.Adadelta, capturable=True)),
    "Adamax, capturable": (24, optimizer(torch.optim.Adamax, capturable=True)),
    "RAdam": (11, optimizer(torch.optim.RAdam)),
    "RAdam, capturable": (46, optimizer(torch.optim.RAdam, capturable=True)),
    "ASGD, capturable": (29, optimizer(torch.optim.ASGD, capturable=True)),
    "ASGD": (8, optimizer(torch.optim.ASGD)),
    "Rprop": (25, optimizer(torch.optim.Rprop)),
    "Rprop, capturable": (26, optimizer(torch.optim.Rprop, capturable=True)),
    "clip_grad_norm_": (9, clipped),
    "binary_cross_entropy": (3, lambda d: lambda: F.binary_cross_entropy(numbers(d, 40), numbers(d, 40, seed=1))),
    "embedding_bag, sum": (2, lambda d: bag(d, "sum")),
    "embedding_bag, mean": (2, lambda d: bag(d, "mean")),
    "embedding_bag, max": (2, lambda d: bag(d, "max")),
    "one_hot": (2, lambda d: lambda: F.one_hot(classes(d, 6), 10)),
    "max_unpool": (3, unpooled),
    "conv2d with a bias": (1, lambda d: convolution(d)),
    "conv2d with a bias, channels last": (1, lambda d: convolution(d, torch.channels_last)),
    "conv2d of one channel per group": (1, lambda d: convolution(d, groups=6)),
    "conv2d of one channel per group, channels last": (1, lambda d: convolution(d, torch.channels_last, groups=6)),
    "conv2d and relu": (1, activated),
    "conv2d and relu without a bias": (2, lambda d: activated(d, bias=False)),
    "conv2d, addition and relu, channels last": (1, lambda d: activated(d, torch.channels_last, True)),
    "conv2d and relu, frozen": (2, frozen),
    "conv2d, channels last, gradients": (5, lambda d: convolution_gradients(d)),
    "max_pool, gradients": (3, lambda d: gradients(lambda x: F.max_pool2d(x, 3, 2, 1), images(d))),
    "_int_mm": (1, lambda d: lambda: torch._int_mm(octets(d, 70, 90), octets(d, 50, 90).t())),
    # Ten steps. All of a small layer's are one launch; where operators made them, an LSTM's 131 and 403.
    "LSTM": (7, lambda d: recurrent(d, nn.LSTM)),
    "LSTM, gradients": (16, lambda d: recurrent(d, nn.LSTM, True)),
    "LSTM, a launch a step": (16, lambda d: recurrent(d, nn.LSTM, hidden=70)),
    "LSTM, a launch a step, gradients": (35, lambda d: recurrent(d, nn.LSTM, True, hidden=70)),
    "LSTM, projected": (26, lambda d: recurrent(d, nn.LSTM, proj_size=5)),
    "LSTM, projected, gradients": (58, lambda d: recurrent(d, nn.LSTM, True, proj_size=5)),
    "LSTM, both directions": (13, lambda d: recurrent(d, nn.LSTM, bidirectional=True)),
    "LSTM, packed": (22, packed),
    "GRU": (4, lambda d: recurrent(d, nn.GRU)),
    "GRU, gradients": (14, lambda d: recurrent(d, nn.GRU, True)),
    "GRU, a launch a step": (13, lambda d: recurrent(d, nn.GRU, hidden=70)),
    "RNN, gradients": (13, lambda d: recurrent(d, nn.RNN, True)),
}


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in flat(part)]


def prepared(make, device):
    """The call with its inputs in place: what makes them is no part of it."""
    cache = {}

    def kept(name, function):
        def call(*arguments, **options):
            key = (name, arguments, tuple(options.items()))
            if key not in cache:
                cache[key] = function(*arguments, **options)
            return cache[key]

        return call

    names = ("images", "places", "logits", "classes", "numbers", "octets")
    before = {name: globals()[name] for name in names}
    globals().update({name: kept(name, before[name]) for name in names})
    try:
        call = make(device)
        call()  # makes the inputs of calls that ask for them
    finally:
        globals().update(before)

    def replayed():
        globals().update({name: kept(name, before[name]) for name in names})
        try:
            return call()
        finally:
            globals().update(before)

    return replayed


@on_the_emulated_device
@pytest.mark.parametrize("name", CASES)
def test_launches(name):
    most, make = CASES[name]
    assert launches(prepared(make, "cuda")) <= most
    for here, there in zip(flat(make("cuda")()), flat(make("cpu")())):
        torch.testing.assert_close(here.cpu(), there, rtol=2e-5, atol=2e-6)


@on_the_emulated_device
@pytest.mark.parametrize("p", [0.3, 0.9])
def test_dropout(p):
    x = numbers("cuda", 300) + 1
    assert launches(lambda: F.dropout(x, p)) == 1
    assert launches(gradients(lambda x: F.dropout(x, p), x)) <= 3
    x.requires_grad_()
    y = F.dropout(x, p)
    (grad,) = torch.autograd.grad(y.sum(), x)
    kept = (y != 0).float()
    torch.testing.assert_close(y, x * kept / (1 - p))
    torch.testing.assert_close(grad, kept / (1 - p))
    assert abs(kept.mean().item() - (1 - p)) < 0.1


@on_the_emulated_device
def test_attention_with_dropout():
    """No matrix of scores: memory grows with the rows alone; the gradient finds the same weights again."""
    q, k, v = (numbers("cuda", 1, 2, 33, 8, seed=i) for i in range(3))
    attend = lambda *x: F.scaled_dot_product_attention(*x, dropout_p=0.4)  # noqa: E731
    assert launches(lambda: attend(q, k, v)) <= 2
    # The weights as results for a value of ones' columns: what is dropped shows.
    eye = torch.eye(33, device="cuda").expand(1, 2, 33, 33)
    torch.manual_seed(5)
    weights = attend(q, k, eye)
    full = F.scaled_dot_product_attention(q, k, eye)
    kept = weights != 0
    torch.testing.assert_close(weights, torch.where(kept, full / 0.6, torch.zeros_like(full)))
    assert 0.5 < kept.float().mean().item() < 0.7
    # By hand with that mask.
    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    torch.manual_seed(5)
    y = attend(*inputs)
    grads = torch.autograd.grad(y, inputs, torch.ones_like(y))
    again = [x.clone().requires_grad_() for x in (q, k, v)]
    scores = (again[0] @ again[1].transpose(-2, -1) / 8**0.5).softmax(-1)
    expected = (scores * kept / 0.6) @ again[2]
    torch.testing.assert_close(y, expected)
    for here, there in zip(grads, torch.autograd.grad(expected, again, torch.ones_like(expected))):
        torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-5)


@on_the_emulated_device
def test_second_derivatives_of_joined_operators():
    x, w = numbers("cuda", 4, 6).double().requires_grad_(), numbers("cuda", 6, seed=1).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: F.rms_norm(x, (6,), w), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: F.rms_norm(x, (6,), w), (x, w))
    target = torch.tensor([1, 5, -100, 0], device="cuda")
    loss = lambda x: F.cross_entropy(x, target, label_smoothing=0.2)  # noqa: E731
    assert torch.autograd.gradcheck(loss, (x,))
    assert torch.autograd.gradgradcheck(loss, (x,))


@on_the_emulated_device
@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (
            lambda: F.binary_cross_entropy(torch.tensor([0.5, 1.5], device="cuda"), numbers("cuda", 2)),
            RuntimeError,
            "0 and 1",
        ),
        (lambda: F.one_hot(torch.tensor([1, 7], device="cuda"), 5), RuntimeError, "index 7 is out of bounds"),
        (
            lambda: F.embedding_bag(classes("cuda", 4), numbers("cuda", 10, 3), torch.tensor([1, 2], device="cuda")),
            RuntimeError,
            "has to be 0",
        ),
        (
            lambda: F.embedding_bag(
                torch.tensor([1, 30], device="cuda"), numbers("cuda", 10, 3), torch.tensor([0], device="cuda")
            ),
            IndexError,
            "index 30 is out of bounds",
        ),
    ],
)
def test_what_is_wrong_is_raised_by_the_next_wait(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
        torch.cuda.synchronize()
    torch.cuda.synchronize()
