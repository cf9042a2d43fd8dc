"""The static programs of examples/gpt and examples/resnet: they read what torch.save writes, compute what the same
model in Python computes, and are small.
"""

import pathlib
import subprocess
import sys

import pytest
import tessera
from tessera import nn
from tessera.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMITS = {"gpt/generate": 3 * 2**20, "resnet/train_resnet": 4 * 2**20}  # bytes, stripped


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, cwd=ROOT).stdout.split(
        "\n"
    )[:-1]


@pytest.fixture(scope="module")
def programs():
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    run("bazel", "build", option, *("//examples/" + name.replace("/", ":") for name in LIMITS))
    folder = pathlib.Path(run("bazel", "info", option, "bazel-bin")[0]) / "examples"
    return {name: folder / name for name in LIMITS}


@pytest.mark.parametrize("name", LIMITS)
def test_programs_are_small(programs, name, capsys):
    size = programs[name].stat().st_size
    with capsys.disabled():
        print(f"\n{name}: {size / 2**20:.2f} MB")
    assert size < LIMITS[name]


# GPT-2: width 32 in 4 heads, 2 blocks, 50 tokens, 24 places.
WIDTH, HEADS, BLOCKS, TOKENS, PLACES = 32, 4, 2, 50, 24


def gpt_weights():
    tessera.manual_seed(0)
    shapes = {"wte.weight": (TOKENS, WIDTH), "wpe.weight": (PLACES, WIDTH)}
    for i in range(BLOCKS):
        for name, a, b in (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)):
            shapes[f"h.{i}.{name}.weight"] = (a * WIDTH, b * WIDTH)
            shapes[f"h.{i}.{name}.bias"] = (b * WIDTH,)
    for name in ["ln_f"] + [f"h.{i}.ln_{k}" for i in range(BLOCKS) for k in (1, 2)]:
        shapes[name + ".weight"] = shapes[name + ".bias"] = (WIDTH,)
    weights = {"transformer." + name: tessera.randn(shape) * 0.3 for name, shape in shapes.items()}
    return weights | {"lm_head.weight": weights["transformer.wte.weight"]}


def gpt_logits(w, tokens):
    def affine(x, name):
        return tessera.addmm(w[f"transformer.{name}.bias"], x, w[f"transformer.{name}.weight"])

    def norm(x, name):
        return F.layer_norm(x, (WIDTH,), w[f"transformer.{name}.weight"], w[f"transformer.{name}.bias"])

    n = len(tokens)
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:n]
    for i in range(BLOCKS):
        qkv = affine(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn")
        q, k, v = qkv.view(n, 3, HEADS, -1).permute(1, 2, 0, 3)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + affine(seen.transpose(0, 1).reshape(n, WIDTH), f"h.{i}.attn.c_proj")
        h = F.gelu(affine(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        x = x + affine(h, f"h.{i}.mlp.c_proj")
    return w["lm_head.weight"] @ norm(x, "ln_f")[-1]


def test_generate_continues_as_python(programs, tmp_path):
    w = gpt_weights()
    tessera.save(w, tmp_path / "gpt.pt")

    def told(*options):
        command = [programs["gpt/generate"], tmp_path / "gpt.pt", "--heads", HEADS, "--prompt", "3,14,15", *options]
        return [int(line) for line in run(*command)]

    def expected(count, choose):
        tokens = [3, 14, 15]
        for _ in range(count):
            tokens.append(int(choose(gpt_logits(w, tokens))))
        return tokens[3:]

    assert told("--top-k", 1, "--tokens", 10) == expected(10, tessera.argmax)
    tessera.manual_seed(5)
    drawn = expected(10, lambda logits: tessera.multinomial((logits / 0.8).softmax(0), 1))
    assert told("--tokens", 10, "--seed", 5, "--temperature", 0.8) == drawn
    few = told("--tokens", 30, "--seed", 1, "--top-k", 3)
    assert len(few) == PLACES - 3 + 1  # the places are used up
    assert few[0] in gpt_logits(w, [3, 14, 15]).topk(3)[1].tolist()


def test_what_generate_cannot_use_is_named(programs, tmp_path):
    tessera.save({"wte.weight": tessera.zeros(2, 4)}, tmp_path / "part.pt")
    told = subprocess.run([programs["gpt/generate"], tmp_path / "part.pt"], capture_output=True, text=True)
    assert told.returncode == 1 and "no tensor 'wpe.weight'" in told.stderr


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride > 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        past = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(past + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """With torchvision's names; `width` is 64 there."""

    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inside = width
        for stage in range(4):
            outside = width << stage
            blocks = Block(inside, outside, 2 if stage else 1), Block(outside, outside, 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
            inside = outside
        self.fc = nn.Linear(inside, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def test_resnet_learns_as_python(programs, tmp_path):
    tessera.manual_seed(2)
    net = ResNet18(8, 5)
    images, labels = tessera.rand(12, 3, 32, 32), tessera.randint(5, (12,))
    tessera.save(net.state_dict(), tmp_path / "net.pt")
    tessera.save({"images": images, "labels": labels}, tmp_path / "data.pt")
    options = ["--epochs", 2, "--batch", 6, "--lr", 0.05, "--out", tmp_path / "out.pt"]
    told = run(programs["resnet/train_resnet"], tmp_path / "net.pt", tmp_path / "data.pt", *options)

    optimizer = tessera.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(2):
        for x, y in zip(images.split(6), labels.split(6), strict=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert told[0] == "12 images, 62 tensors to learn"
    assert [float(line.removeprefix("loss ")) for line in told[1:5]] == pytest.approx(losses, rel=1e-6)
    net.eval()
    with tessera.no_grad():
        right = (net(images).argmax(1) == labels).sum().item()
    assert told[5] == f"{right} of 12 right"
    saved = tessera.load(tmp_path / "out.pt")
    assert list(saved) == list(net.state_dict())
    for name, tensor in net.state_dict().items():
        tessera.testing.assert_close(saved[name], tensor, rtol=1e-5, atol=1e-6)
