"""What recipes share: they yield losses and texts, which `run` prints with their time and memory."""

import json
import resource
import time

import torch

torch.manual_seed(0)


def run(outputs):
    """Runs a recipe: prints what it yields, how many seconds it took, and the process's peak of memory in MiB."""
    start = time.perf_counter()
    found = list(outputs)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"out": found, "time": round(seconds, 3), "peak": round(peak, 1)}))


def train(model, batch, loss_of, steps=50, lr=1e-3):
    """Yields the losses of `steps` steps of AdamW: `loss_of(model, batch(step))`."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    model.train()
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch(step))
        loss.backward()
        optimizer.step()
        yield float(loss.detach())
