"""Results have the same bits at any number of threads."""

import hashlib
import math
import os
import subprocess
import sys

import pytest
import tessera

PROGRAM = """
import hashlib, sys
import tessera
from tessera import nn

tessera.set_num_threads(int(sys.argv[1]))
tessera.manual_seed(0)
model = nn.Sequential(nn.Unflatten(1, (1, 16)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                      nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, 300), nn.GELU(),
                      nn.Linear(300, 10))
optimizer = tessera.optim.Adam(model.parameters(), lr=1e-2)
inputs, labels = tessera.randn(512, 16, 16), tessera.randint(0, 10, (512,))
for _ in range(6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
digest = hashlib.sha256()
for value in model.state_dict().values():
    digest.update(value.numpy().tobytes())
print(tessera.get_num_threads(), digest.hexdigest(), loss.item())
"""


def train(threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    out = subprocess.run([sys.executable, "-c", PROGRAM, str(threads)], capture_output=True, text=True, env=environment)
    assert out.returncode == 0, out.stderr
    count, digest, loss = out.stdout.split()
    assert int(count) == threads
    return digest, float(loss)


def test_a_training_run():
    one, loss = train(1)
    assert math.isfinite(loss)
    for threads in (2, 3):
        assert train(threads) == (one, loss)


CASES = {
    "sum": lambda x: x.sum(),
    "mean of columns": lambda x: x.mean(0),
    "mean of rows": lambda x: x.mean(1),
    "var": lambda x: x.var(0),
    "softmax": lambda x: x.softmax(1),
    "softmax of columns": lambda x: x.softmax(0),
    "matmul": lambda x: x @ x.t(),
    "cumsum": lambda x: x.cumsum(0),
    "sort": lambda x: x.sort(1).values,
    "exp": lambda x: (x.t() * 3).exp(),
    "norm": lambda x: x.norm(),
    "prod": lambda x: (1 + x / 1000).prod(1),
    "logsumexp": lambda x: x.logsumexp(0),
    "index_add": lambda x: tessera.zeros(7, x.shape[1]).index_add(0, tessera.arange(x.shape[0]) % 7, x),
    "scatter_add": lambda x: tessera.zeros_like(x).scatter_add(0, (tessera.arange(x.numel()) % 5).reshape(x.shape), x),
    "random": lambda x: tessera.empty_like(x).normal_(),
}


@pytest.fixture
def restored_threads():
    before = tessera.get_num_threads()
    yield
    tessera.set_num_threads(before)


@pytest.mark.parametrize("name", CASES)
def test_operators(name, restored_threads):
    tessera.manual_seed(1)
    x = tessera.randn(700, 611)
    found = set()
    for threads in (1, 2, 5):
        tessera.set_num_threads(threads)
        tessera.manual_seed(2)
        found.add(hashlib.sha256(CASES[name](x).contiguous().numpy().tobytes()).hexdigest())
    assert len(found) == 1
