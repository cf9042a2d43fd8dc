"""Collectives that return new tensors, and their gradients."""

import tessera
import tessera.distributed as dist
from ranks import run
from tessera.distributed import _functional_collectives as funcol
from tessera.distributed.nn import functional as carried


def test_results_wait_when_they_are_used():
    def body(rank, world):
        y = funcol.all_reduce(tessera.ones(2) * (rank + 1), "sum", dist.group.WORLD)
        waits = isinstance(y, funcol.AsyncCollectiveTensor)
        wide = funcol.all_gather_tensor(tessera.full((2, 1), float(rank)), 1, [0, 1])
        swapped = funcol.permute_tensor(tessera.tensor([float(rank)]), [1, 0], dist.group.WORLD.group_name)
        return waits, (y + 1).tolist(), wide.tolist(), swapped.item()

    assert run(body) == [(True, [4.0, 4.0], [[0.0, 1.0]] * 2, 1.0 - r) for r in (0, 1)]


def test_gradients_of_functional_collectives():
    def body(rank, world):
        group = dist.init_device_mesh("cpu", (world,))
        x = tessera.ones(4, requires_grad=True)
        z = funcol.reduce_scatter_tensor(x * (rank + 1), "sum", 0, group)
        (z * (rank + 1)).sum().backward()
        y = tessera.ones(2, requires_grad=True)
        (funcol.all_to_all_single(y, None, None, group) * (rank + 1)).sum().backward()
        return z.tolist(), x.grad.tolist(), y.grad.tolist()

    assert run(body) == [
        ([3.0, 3.0], [1.0, 1.0, 2.0, 2.0], [1.0, 2.0]),
        ([3.0, 3.0], [2.0, 2.0, 4.0, 4.0], [1.0, 2.0]),
    ]


def test_gradients_of_carried_collectives():
    def body(rank, world):
        found = []

        def check(call):
            x = tessera.tensor([1.0 + rank], requires_grad=True)
            outputs = call(x)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            sum(out.sum() * (rank + 1 + i) for i, out in enumerate(outputs)).backward()
            found.append(([out.item() for out in outputs], x.grad.item()))

        check(carried.all_reduce)
        check(carried.all_gather)
        check(lambda x: carried.broadcast(x, 0))
        check(lambda x: carried.reduce(x, 1))
        check(lambda x: carried.scatter([x, 2 * x], 0))
        check(lambda x: carried.all_to_all([x, x], [x, 3 * x]))
        return found

    first, second = run(body)
    assert first[:3] == [([3.0], 3.0), ([1.0, 2.0], 3.0), ([1.0], 3.0)]
    assert second[:3] == [([3.0], 3.0), ([1.0, 2.0], 5.0), ([1.0], 0.0)]
    assert first[3][1] == second[3][1] == 2.0 and second[3][0] == [3.0]
    assert first[4:] == [([1.0], 5.0), ([1.0, 2.0], 1.0 + 3 * 2)]
    assert second[4:] == [([2.0], 0.0), ([3.0, 6.0], 2.0 + 3 * 3)]


def test_batch_statistics_of_all_ranks():
    def body(rank, world):
        values = tessera.randn(8, 3, generator=tessera.Generator().manual_seed(1))
        own, whole = tessera.nn.SyncBatchNorm(3), tessera.nn.BatchNorm1d(3)
        expected = whole(values)[rank * 4 : rank * 4 + 4]
        return tessera.allclose(own(values[rank * 4 : rank * 4 + 4]), expected, atol=1e-6)

    assert run(body) == [True, True]
