"""The programs of examples/frontend, built by Bazel and against the package's headers and library: they print what the
same models print in Python, and both read what the other wrote.
"""

import pathlib
import subprocess
import sys

import pytest
import tessera
from tessera import nn
from tessera.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(tessera.__file__).parent
NAMES = ("mnist", "dcgan", "operators", "classify")


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.splitlines()


def by_bazel(_):
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    run("bazel", "build", option, *(f"//examples/frontend:{name}" for name in NAMES))
    return pathlib.Path(run("bazel", "info", option, "bazel-bin")[0]) / "examples" / "frontend"


def by_package(folder):
    if not (PACKAGE / "include").is_dir():
        pytest.skip("the package is used from a checkout, without headers: tools/cpp_files.py writes them")
    link = [f"-L{PACKAGE / 'lib'}", f"-Wl,-rpath,{PACKAGE / 'lib'}", "-ltessera"]
    for name in NAMES:
        source = ROOT / "examples" / "frontend" / f"{name}.cc"
        run("g++", "-std=c++20", "-isystem", PACKAGE / "include", source, "-o", folder / name, *link)
    return folder


@pytest.fixture(scope="module", params=[by_bazel, by_package])
def programs(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with files of MNIST's form, which is of so many images: stripes, of which labels say how many."""
    folder = tmp_path_factory.mktemp("images")
    for name, count in (("train", 60000), ("t10k", 10000)):
        labels = (tessera.arange(count) * 7 + tessera.arange(count) // 9) % 10
        light = (tessera.arange(28) * (labels + 1).unsqueeze(1) * 9) % 256
        pixels = light.to(tessera.uint8).unsqueeze(1).expand(count, 28, 28).contiguous()
        for kind, magic, sizes, data in (("images-idx3", 2051, (28, 28), pixels), ("labels-idx1", 2049, (), labels)):
            head = b"".join(n.to_bytes(4, "big") for n in (magic, count, *sizes))
            (folder / f"{name}-{kind}-ubyte").write_bytes(head + data.to(tessera.uint8).numpy().tobytes())
    return folder


def batches(folder, name, size, count, mean, std):
    """The first `count` batches, normalised."""
    data = tessera.frombuffer(bytearray((folder / f"{name}-images-idx3-ubyte").read_bytes()[16:]), dtype=tessera.uint8)
    labels = tessera.frombuffer(bytearray((folder / f"{name}-labels-idx1-ubyte").read_bytes()[8:]), dtype=tessera.uint8)
    pixels = data[: size * count * 784].view(-1, 1, 28, 28).to(tessera.float32).div(255)
    pixels = (pixels - tessera.tensor(mean)) / tessera.tensor(std)
    return list(zip(pixels.split(size), labels[: size * count].long().split(size), strict=True))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 5), nn.Conv2d(8, 16, 5, bias=False)
        self.norm, self.drop = nn.BatchNorm2d(16), nn.Dropout(0.25)
        self.fc1, self.fc2 = nn.Linear(256, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x), 2).relu()
        x = F.max_pool2d(self.norm(self.conv2(x)).relu(), 2)
        return self.fc2(self.drop(self.fc1(x.flatten(1)).relu())).log_softmax(1)


def test_mnist_learns_as_python(programs, images, tmp_path):
    told = run(programs / "mnist", images, 2, 12, tmp_path / "net.pt")

    tessera.manual_seed(1)
    net, lines = Net(), []
    optimizer = tessera.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
    schedule = tessera.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for epoch in (1, 2):
        net.train()
        for i, (x, y) in enumerate(batches(images, "train", 16, 12, 0.1307, 0.3081)):
            optimizer.zero_grad()
            loss = F.nll_loss(net(x), y)
            loss.backward()
            optimizer.step()
            if i % 5 == 0:
                lines.append(f"epoch {epoch} batch {i + 1} loss {loss.item():.9g}")
        schedule.step()
        net.eval()
        with tessera.no_grad():
            out = [(net(x), y) for x, y in batches(images, "t10k", 50, 12, 0.1307, 0.3081)]
        right = sum((x.argmax(1) == y).sum().item() for x, y in out)
        loss = sum(F.nll_loss(x, y, reduction="sum").item() for x, y in out) / 600
        lines.append(f"{right} of 600 right, loss {loss:.9g}")
    assert told == lines
    saved = tessera.jit.load(tmp_path / "net.pt")
    found = dict(saved.named_parameters()) | dict(saved.named_buffers())
    assert set(found) == set(net.state_dict())
    assert all(tessera.equal(found[name], t) for name, t in net.state_dict().items())


def dcgan_networks():
    """In the order in which the program draws their weights."""
    options = {"bias": False}
    convolutions = [nn.ConvTranspose2d(16, 32, 4, **options), nn.ConvTranspose2d(32, 16, 3, 2, 1, **options)]
    convolutions += [nn.ConvTranspose2d(n, m, 4, 2, 1, **options) for n, m in ((16, 8), (8, 1))]
    layers = [layer for c, n in zip(convolutions, (32, 16, 8)) for layer in (c, nn.BatchNorm2d(n), nn.ReLU())]
    discriminator = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, **options),
        nn.LeakyReLU(0.2),
        nn.Conv2d(8, 16, 4, 2, 1, **options),
        nn.BatchNorm2d(16),
        nn.LeakyReLU(0.2),
        nn.Conv2d(16, 1, 7, **options),
        nn.Sigmoid(),
    )
    return nn.Sequential(*layers, convolutions[-1], nn.Tanh()), discriminator


def test_dcgan_learns_as_python(programs, images, tmp_path):
    told = run(programs / "dcgan", images, 6, tmp_path / "samples.pt")

    tessera.manual_seed(3)
    generator, discriminator = dcgan_networks()
    draws, tells = (
        tessera.optim.Adam(net.parameters(), lr=2e-3, betas=(0.5, 0.9)) for net in (generator, discriminator)
    )
    lines = []
    for i, (real, _) in enumerate(batches(images, "train", 16, 6, 0.5, 0.5)):
        discriminator.zero_grad()
        real_labels = tessera.empty(16).uniform_(0.8, 1.0)
        real_loss = F.binary_cross_entropy(discriminator(real).flatten(), real_labels)
        real_loss.backward()
        fake = generator(tessera.randn(16, 16, 1, 1))
        fake_loss = F.binary_cross_entropy(discriminator(fake.detach()).flatten(), tessera.zeros(16))
        fake_loss.backward()
        tells.step()
        generator.zero_grad()
        judged = discriminator(fake).flatten()
        loss = F.binary_cross_entropy(judged, tessera.ones_like(judged))
        loss.backward()
        draws.step()
        lines.append(f"batch {i + 1}: {(real_loss + fake_loss).item():.9g} {loss.item():.9g}")
    generator.eval()
    with tessera.no_grad():
        samples = generator(tessera.randn(4, 16, 1, 1))
    assert told == [*lines, f"samples {samples.abs().mean().item():.9g}"]
    (saved,) = tessera.jit.load(tmp_path / "samples.pt").parameters()
    assert tessera.equal(saved, samples)


def test_operators_of_ones_own(programs):
    told = run(programs / "operators")
    tessera.manual_seed(7)
    a, b = (tessera.randn(2, 3, dtype=tessera.float64, requires_grad=True) for _ in range(2))
    swish = a * (1.5 * a).sigmoid()
    product = a * b + 0.5
    apart = (a - b).square().sum(-1).sqrt()
    by_a, by_b = tessera.autograd.grad((product * product).sum(), (a, b))
    expected = {
        "swish": swish,
        "its gradient": tessera.autograd.grad(swish.sum(), a)[0],
        "muladd": product,
        "its gradient by a": by_a,
        "its gradient by b": by_b,
        "distance": apart,
        "its gradient ": tessera.autograd.grad(apart.sum(), a)[0],
        "twice": 2 * a,
    }
    assert told[5] == "of meta tensors: 4 x 5, meta"
    assert told[9] == "refused: muladd: shapes differ: [2, 3] and [3, 2]" and len(told) == 10
    for line, (name, value) in zip(told[:5] + told[6:9], expected.items(), strict=True):
        words = line.removeprefix(name.strip()).split()
        found = tessera.tensor([float(word) for word in words], dtype=tessera.float64)
        tessera.testing.assert_close(found, value.detach().flatten(), rtol=1e-8, atol=1e-8)


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.SiLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, groups=2),
            nn.GroupNorm(2, outside),
        )
        self.beside = nn.Conv2d(inside, outside, 1, stride)

    def forward(self, x):
        return F.silu(self.body(x) + self.beside(x))


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.blocks = nn.Sequential(Block(3, 8, 1), Block(8, 16, 2))
        self.attention = nn.MultiheadAttention(16, 4)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, classes)

    def forward(self, images):
        tokens = self.blocks(images).flatten(2).permute(2, 0, 1)
        seen = self.attention(tokens, tokens, tokens)[0]
        return self.head(self.norm(tokens + seen).mean(0)).log_softmax(1)


def test_classify_reads_what_python_wrote(programs, tmp_path):
    tessera.manual_seed(4)
    net, images = Classifier(7), tessera.randn(3, 3, 8, 8)
    net(images)  # running statistics that differ from their first values
    net.eval()
    tessera.save(dict(net.state_dict()), tmp_path / "net.pt")
    tessera.save(images, tmp_path / "images.pt")
    told = [line.split() for line in run(programs / "classify", tmp_path / "net.pt", tmp_path / "images.pt")]
    with tessera.no_grad():
        best, classes = net(images).max(1)
    assert [int(c) for c, _ in told] == classes.tolist()
    tessera.testing.assert_close(tessera.tensor([float(v) for _, v in told]), best, rtol=1e-6, atol=0)
    part = subprocess.run([programs / "classify", tmp_path / "images.pt", tmp_path / "images.pt"], capture_output=True)
    assert part.returncode != 0
