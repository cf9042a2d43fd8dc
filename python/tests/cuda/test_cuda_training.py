"""A CNN, a small GPT and a ResNet-18 trained on a device: the losses follow those of the CPU. Small models on the
emulated device, which is slow; full ones on a real one.
"""

import os
import subprocess
import sys

import pytest
import tessera as torch
from tessera import nn
from tessera.nn import functional as F

HAVE_DEVICE = torch.cuda.is_available()
EMULATED = bool(os.environ.get("TESSERA_CUDA_LIBRARY"))
on_device = pytest.mark.skipif(not HAVE_DEVICE, reason="no CUDA device")


def test_on_the_emulated_device():
    library = os.environ.get("TESSERA_TEST_CUDA_LIBRARY")
    if HAVE_DEVICE:
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
    assert child.returncode == 0 and "6 passed" in child.stdout


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 16, 10),
    )


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words, width, heads, layers, length):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.blocks(h))).transpose(1, 2)


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        first, second = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.path = nn.Sequential(first, nn.BatchNorm2d(after), nn.ReLU(), second, nn.BatchNorm2d(after))
        plain = stride == 1 and before == after
        self.skip = (
            nn.Identity()
            if plain
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, x):
        return F.relu(self.path(x) + self.skip(x))


def resnet18(width):
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    before = width
    for stage in range(4):
        for k in range(2):
            layers.append(Residual(before, width << stage, 2 if stage and k == 0 else 1))
            before = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def losses(model, x, y, device, steps, make_optimizer):
    model = model.to(device)
    x, y = x.to(device), y.to(device)
    optimizer = make_optimizer(model.parameters())
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return [float(v) for v in found]


def check(make, x, y, steps, make_optimizer, tolerance):
    torch.manual_seed(0)
    model = make()
    start = {k: v.clone() for k, v in model.state_dict().items()}
    here = losses(model, x, y, "cpu", steps, make_optimizer)
    twin = make()
    twin.load_state_dict(start)
    there = losses(twin, x, y, "cuda", steps, make_optimizer)
    assert here[-1] < here[0] and there == pytest.approx(here, rel=tolerance)


@on_device
def test_cnn():
    torch.manual_seed(1)
    check(
        cnn,
        torch.randn(16, 1, 8, 8),
        torch.randint(10, (16,)),
        8,
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        1e-3,
    )


@on_device
def test_gpt():
    torch.manual_seed(2)
    words, width, heads, layers, batch, length = (20, 16, 2, 2, 2, 8) if EMULATED else (256, 128, 4, 4, 8, 64)
    text = torch.randint(words, (batch, length + 1))
    check(
        lambda: GPT(words, width, heads, layers, length),
        text[:, :-1],
        text[:, 1:],
        6,
        lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
        1e-3,
    )


@on_device
def test_resnet18():
    torch.manual_seed(3)
    width, side, batch, steps = (4, 32, 4, 3) if EMULATED else (64, 64, 8, 5)
    check(
        lambda: resnet18(width),
        torch.randn(batch, 3, side, side),
        torch.randint(10, (batch,)),
        steps,
        lambda p: torch.optim.Adam(p, lr=1e-3),
        2e-2,
    )


# ---- mixed precision -------------------------------------------------------------------------------------------------


@on_device
@pytest.mark.parametrize("fused", [False, True])
def test_mixed_precision(fused):
    """Steps with infinite gradients are left out on the device as well; the loss falls as it does in float32."""
    torch.manual_seed(0)
    model, x, y = cnn().to("cuda"), torch.randn(16, 1, 8, 8).to("cuda"), torch.randint(10, (16,)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, fused=fused)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0, growth_interval=2)
    found, scales = [], []
    for step in range(6):
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss * float("inf") if step == 1 else loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
        scales.append(scaler.get_scale())
    assert loss.dtype == torch.float32 and scales == [256.0, 128.0, 128.0, 256.0, 256.0, 512.0]
    assert found[2] == found[1] and found[-1] < 0.8 * found[0]
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {torch.float32}


@on_device
def test_policies_of_the_device():
    a = torch.ones(4, 4, device="cuda")
    h, here = a.half(), torch.ones(4, 4)
    with torch.autocast("cuda"):
        for low in (a @ a, a @ a[0], F.conv2d(a[None, None], a[None, None, :2, :2]), torch.einsum("ij,jk", a, a)):
            assert low.dtype == torch.float16
        for high in (h.exp(), h.sum(), h.softmax(-1), h.cumsum(0), h**2, F.layer_norm(h, (4,)), h.prod(0), h.norm()):
            assert high.dtype == torch.float32
        assert torch.addcmul(a, h, h).dtype == torch.float32 and torch.dot(h[0], a[0]).dtype == torch.float32
        assert F.softmax(h, -1, dtype=torch.float16).dtype == h.sum(dtype=torch.float16).dtype == torch.float16
        assert (h + h).dtype == torch.float16 and (here @ here).dtype == torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            F.binary_cross_entropy(h, h)
        with torch.autocast("cpu"):
            assert (a @ a).dtype == torch.float16 and (here @ here).dtype == torch.bfloat16
