"""Trains a small ResNet and GPT by DistributedDataParallel, each rank on its part of a fixed batch.

    train.py MODELS BACKEND FOLDER [--die]

MODELS: resnet, gpt or both with a comma. Every step leaves a checkpoint in FOLDER, from which a restarted program goes
on; rank 0 leaves the final weights in FOLDER/MODEL. With --die the last rank kills itself in the middle of the first
attempt.
"""

import os
import signal
import sys

import tessera
import tessera.distributed as dist
from tessera import nn
from tessera.nn import functional as F

STEPS, BATCH = 4, 8


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.short(x) + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class ResNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, 1, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            Block(8, 8, 1),
            Block(8, 16, 2),
            Block(16, 16, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 10),
        )


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, w)
        x = x + self.out(mixed)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words=50, length=12, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(Layer(width, 4), Layer(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.places(tessera.arange(tokens.shape[1]))
        return self.head(self.norm(self.layers(x)))


def model_and_batch(name):
    tessera.manual_seed(1)
    if name == "resnet":
        return ResNet(), tessera.randn(BATCH, 3, 12, 12), tessera.randint(0, 10, (BATCH,))
    tokens = tessera.randint(0, 50, (BATCH, 13))
    return GPT(), tokens[:, :-1], tokens[:, 1:]


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, -2), y.flatten())


def optimizer_of(model):
    return tessera.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)


def alone(name):
    """What one process makes of the whole batch."""
    model, x, y = model_and_batch(name)
    optimizer = optimizer_of(model)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    return model.state_dict()


def train(name, folder, die):
    rank, world = dist.get_rank(), dist.get_world_size()
    model, x, y = model_and_batch(name)
    model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model), bucket_cap_mb=0.01)
    optimizer, checkpoint, first = optimizer_of(model), os.path.join(folder, f"{name}.checkpoint"), 0
    if os.path.exists(checkpoint):
        state = tessera.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    dist.barrier()  # all have read it
    for step in range(first, STEPS):
        optimizer.zero_grad()
        if die and step == 2 and rank == world - 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        loss_of(model, x[rank::world], y[rank::world]).backward()
        optimizer.step()
        if rank == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            tessera.save(state, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()
    if rank == 0:
        state = {"weights": model.module.state_dict(), "world": world, "first": first}
        tessera.save(state, os.path.join(folder, name))


def main(names, backend, folder, die):
    tessera.set_num_threads(1)
    dist.init_process_group(backend)
    for name in names.split(","):
        train(name, folder, die)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:4], "--die" in sys.argv)
