"""What graphs and backward cost in memory.

    python benchmarks/graph_memory.py [--nodes N] [--batch N] [--only REGEX] [--torch-python EXE]

Bytes per operator of a recorded chain (result, node, and what it saves), and the peak memory of training steps, also
with checkpointing; each in a fresh process with one thread. With --torch-python (an interpreter that has PyTorch) the
same program runs there, and the ratio PyTorch / Tessera is printed.
"""

import argparse
import json
import re
import resource
import sys

from _measure import command, run, table

CHAINS = {
    "add": lambda torch, x, w: x + w,
    "mul": lambda torch, x, w: x * w,
    "exp": lambda torch, x, w: x.tanh(),
    "view": lambda torch, x, w: x.view(1),
    "sum": lambda torch, x, w: x.sum(0, keepdim=True),
    "linear": lambda torch, x, w: torch.nn.functional.linear(x, w.view(1, 1)),
}
MODELS = ("resnet", "resnet, checkpointed")


def resident():
    """Bytes of memory that the process uses now."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def chain_bytes(torch, name, nodes):
    """Memory per operator of a chain on one number."""
    step = CHAINS[name]
    w = torch.ones(1, requires_grad=True)

    def build(count):
        x = w * 1
        for _ in range(count):
            x = step(torch, x, w)
        return x

    build(100)
    before = resident()
    x = build(nodes)
    used = (resident() - before) / nodes
    x.backward()
    return used


def resnet(torch, checkpointed):
    """A residual network of four stages, as a function of images."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.path = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )
            self.skip = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu(self.path(x) + self.skip(x))

    widths = [64, 64, 128, 256, 512]
    blocks = [
        Block(a if i == 0 else b, b, 2 if i == 0 and b > 64 else 1) for a, b in zip(widths, widths[1:]) for i in (0, 1)
    ]
    stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    body = nn.Sequential(*blocks)

    def forward(x):
        x = stem(x)
        if not checkpointed:
            return head(body(x))
        from torch.utils.checkpoint import checkpoint

        for block in body:
            x = checkpoint(block, x, use_reentrant=False)
        return head(x)

    return forward


def training_bytes(torch, name, batch):
    """Memory that three steps need beyond what the process had with model and data."""
    torch.manual_seed(0)
    forward = resnet(torch, "checkpointed" in name)
    x = torch.randn(batch, 3, 128, 128)
    labels = torch.randint(0, 1000, (batch,))
    before = resident()
    for _ in range(3):
        torch.nn.functional.cross_entropy(forward(x), labels).backward()
    return peak() - before


def child(arguments):
    import torch

    torch.set_num_threads(1)
    if arguments.case in CHAINS:
        value = chain_bytes(torch, arguments.case, arguments.nodes)
    else:
        value = training_bytes(torch, arguments.case, arguments.batch)
    print(json.dumps(value))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--only", default="")
    parser.add_argument("--torch-python")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        child(arguments)
        return
    systems = [command(module="tessera")]
    if arguments.torch_python:
        systems.append(command(arguments.torch_python))
    rows = []
    for case in (*CHAINS, *MODELS):
        if not re.search(arguments.only, case):
            continue
        options = [__file__, "--case", case, "--nodes", str(arguments.nodes), "--batch", str(arguments.batch)]
        found = [json.loads(run(system + options)[0].splitlines()[-1]) for system in systems]
        unit, name = ("B", f"{case}, per operator") if case in CHAINS else ("MB", f"{case}, peak of training")
        shown = [f"{value / (1 if unit == 'B' else 1e6):.0f} {unit}" for value in found]
        rows.append([name, *shown, *([f"{found[1] / found[0]:.2f}"] if len(found) > 1 else [])])
    header = ["", "Tessera", *(["PyTorch", "PyTorch / Tessera"] if arguments.torch_python else [])]
    table(rows, header)


if __name__ == "__main__":
    sys.exit(main())
