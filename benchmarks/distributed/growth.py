#!/usr/bin/env python3
"""How all_reduce and the first meeting of a group grow to 1,024 ranks, by simulation: docs/growth.md has its numbers.

    python -m tessera benchmarks/distributed/growth.py

Each message costs alpha + bytes * beta at both of its ends, times what chance adds to alpha (a lognormal factor), and a
rank sends and receives one message at a time, both at once. Folding costs gamma a byte. The schedules are those of
distributed/message_engine.cc; the ring is what other libraries use. Sizes are recorded: the buckets that
DistributedDataParallel reduces for a ResNet-50 and a GPT-2 (124 million parameters), in a fake group of 1,024.
"""

import random

import tessera
import tessera.distributed as dist
from tessera import nn
from tessera.distributed._fake import FakeStore

ALPHA, BETA, GAMMA = 20e-6, 1 / 10e9, 1 / 8e9  # s a message; s a byte at 10 GB/s; s a byte folded
SIGMA = 0.5  # of the logarithm of the factor on alpha
RANKS = (2, 8, 64, 256, 1024)


class Clocks:
    """When each rank is done."""

    def __init__(self, size):
        self.size, self.now, self.rng = size, [0.0] * size, random.Random(size)

    def _message(self, count):
        return ALPHA * self.rng.lognormvariate(0, SIGMA) + count * BETA

    def pass_on(self, pairs, count, folds):
        """Messages from the first to the second of each pair."""
        for source, target in pairs:
            end = max(self.now[source], self.now[target]) + self._message(count) + (count * GAMMA if folds else 0)
            self.now[source] = end - (count * GAMMA if folds else 0)
            self.now[target] = end

    def swap(self, partner, count, folds):
        """Every rank sends to and receives from another: `partner(rank)` gives (to, from)."""
        before = list(self.now)
        for rank in range(self.size):
            to, source = partner(rank)
            start = max(before[rank], before[source], before[to])
            self.now[rank] = start + self._message(count) + (count * GAMMA if folds else 0)


def tree(clocks, count):
    """To rank 0 along a binomial tree, and back."""
    bits = [1 << i for i in range((clocks.size - 1).bit_length())]
    for bit in bits:
        clocks.pass_on([(r, r - bit) for r in range(clocks.size) if r & bit and not r & (bit - 1)], count, True)
    for bit in reversed(bits):
        clocks.pass_on([(r, r + bit) for r in range(0, clocks.size, 2 * bit) if r + bit < clocks.size], count, False)


def halving(clocks, count):
    """Halves, quarters ... to a part of each rank, and back."""
    bit, part = clocks.size // 2, count / 2
    while bit:
        clocks.swap(lambda rank, bit=bit: (rank ^ bit, rank ^ bit), part, True)
        bit, part = bit // 2, part / 2
    bit, part = 1, count / clocks.size
    while bit < clocks.size:
        clocks.swap(lambda rank, bit=bit: (rank ^ bit, rank ^ bit), part, False)
        bit, part = bit * 2, part * 2


def ring(clocks, count):
    """Parts go round twice."""
    size = clocks.size
    for turn in range(2 * (size - 1)):
        clocks.swap(lambda rank: ((rank + 1) % size, (rank - 1) % size), count / size, turn < size - 1)


def seconds(schedule, size, count):
    """When the last rank is done."""
    clocks = Clocks(size)
    schedule(clocks, count)
    return max(clocks.now)


def ours(size, count):
    """What the engine takes."""
    return seconds(tree if count <= 4096 else halving, size, count)


# ---- recorded sizes


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        changes = stride > 1 or inputs != 4 * width
        self.short = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.short = self.short if changes else nn.Identity()

    def forward(self, x):
        return nn.functional.relu(self.body(x) + self.short(x))


def resnet50():
    """The model and an input."""
    layers, inputs = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)), tessera.rand(
        2, 3, 64, 64
    )


class GPT2(nn.Module):
    def __init__(self, width=768, layers=12):
        super().__init__()
        self.words, self.places = nn.Embedding(50257, width), nn.Embedding(1024, width)
        layer = nn.TransformerEncoderLayer(width, 12, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(tessera.arange(tokens.shape[1]))
        return self.norm(self.layers(x)) @ self.words.weight.t()


def recorded(model, x):
    """Bytes of each bucket that is reduced in the second step."""
    model, sizes = nn.parallel.DistributedDataParallel(model), []

    def hook(state, bucket):
        sizes.append(bucket.buffer().numel() * bucket.buffer().element_size())
        done = tessera.futures.Future()
        done.set_result(bucket.buffer())
        return done

    model.register_comm_hook(None, hook)
    for _ in range(2):
        sizes.clear()
        model(x).sum().backward()
    return sizes


def row(label, numbers):
    print(f"| {label} | " + " | ".join(numbers) + " |")


def main():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1024)
    row("all_reduce, ms", [f"{size} ranks" for size in RANKS])
    row("---", ["---:"] * len(RANKS))
    for count in (4096, 65536, 1 << 20, 25 << 20, 64 << 20):
        label = f"{count >> 20} MB" if count >= 1 << 20 else f"{count >> 10} KB"
        for name, way in (("ours", ours), ("ring", lambda size, n: seconds(ring, size, n))):
            row(f"{label}, {name}", [f"{way(size, count) * 1e3:.2f}" for size in RANKS])
    for name, made in (("ResNet-50", resnet50()), ("GPT-2", (GPT2(), tessera.arange(16).view(1, 16)))):
        sizes = recorded(*made)
        total = sum(sizes) / 2**20
        for label, way in (("ours", ours), ("ring", lambda size, n: seconds(ring, size, n))):
            times = [sum(way(size, count) for count in sizes) * 1e3 for size in RANKS]
            row(f"gradients of {name}: {len(sizes)} buckets, {total:.0f} MB, {label}", [f"{t:.1f}" for t in times])


if __name__ == "__main__":
    main()
