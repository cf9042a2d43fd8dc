"""Collectives that return new tensors, and their gradients."""

import warnings

import pytest
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


@pytest.mark.parametrize("world", [2, 4])
def test_operators_of_groups_without_names(world):
    def body(rank, world):
        ops, ranks = tessera.ops.c10d_functional, list(range(world))
        last = ("", ranks, world)
        x = tessera.arange(float(world)) + rank
        got = [
            ops.all_reduce(x, "sum", *last),
            ops.all_gather_into_tensor(x[:1], *last),
            ops.reduce_scatter_tensor(x, "max", *last),
            ops.broadcast(x, 1, *last),
            ops.all_to_all_single(x, None, None, *last),
            *ops.all_reduce_coalesced([x, -x], "min", *last),
            *ops.all_gather_into_tensor_coalesced([x[:1]], *last),
            *ops.reduce_scatter_tensor_coalesced([x], "sum", *last),
        ]
        return [ops.wait_tensor(one).tolist() for one in got]

    rows = [[float(i + r) for i in range(world)] for r in range(world)]
    column = lambda i: [row[i] for row in rows]
    sums = [sum(column(i)) for i in range(world)]
    for rank, found in enumerate(run(body, world)):
        assert found == [
            sums,
            column(0),
            [max(column(rank))],
            rows[1],
            column(rank),
            rows[0],
            [-value for value in rows[-1]],
            column(0),
            [sums[rank]],
        ]


def test_results_in_given_tensors_and_gradients_of_operators():
    def body(rank, world):
        ops, name = tessera.ops._c10d_functional, dist.group.WORLD.group_name
        x = tessera.tensor([1.0 + rank, 2.0])
        wide, narrow = tessera.zeros(4), tessera.zeros(1)
        ops.all_gather_into_tensor_out(x, world, name, out=wide)
        ops.reduce_scatter_tensor_out(x, "sum", world, name, out=narrow)
        ops.all_reduce_coalesced_([x], "sum", name)
        ops.wait_tensor(x)
        carried = tessera.ops._c10d_functional_autograd
        y = tessera.ones(2, requires_grad=True)
        (ops.wait_tensor(carried.all_to_all_single(y, [1, 1], [1, 1], name)) * (rank + 1)).sum().backward()
        z = tessera.ones(1, requires_grad=True)
        (carried.all_gather_into_tensor(z, world, name) * (rank + 1)).sum().backward()
        w = tessera.ones(2, requires_grad=True)
        (carried.reduce_scatter_tensor(w, "sum", world, name) * (rank + 1)).sum().backward()
        return wide.tolist(), narrow.item(), x.tolist(), y.grad.tolist(), z.grad.item(), w.grad.tolist()

    same = [1.0, 2.0]
    assert run(body) == [
        ([1.0, 2.0, 2.0, 2.0], 3.0, [3.0, 4.0], same, 3.0, same),
        ([1.0, 2.0, 2.0, 2.0], 4.0, [3.0, 4.0], same, 3.0, same),
    ]


@pytest.mark.parametrize("world", [2, 4])
def test_functional_collectives_of_more_ranks(world):
    def body(rank, world):
        group, x = dist.group.WORLD, tessera.arange(world * 2.0).view(world, 2) * (rank + 1)
        return (
            funcol.all_reduce(x, "avg", group).tolist(),
            funcol.reduce_scatter_tensor(x, "sum", 0, group).tolist(),
            funcol.all_gather_tensor(x[:1] + rank, 1, group).tolist(),
            funcol.permute_tensor(x, [(r + 1) % world for r in range(world)], group).tolist(),
        )

    base = tessera.arange(world * 2.0).view(world, 2)
    total = sum(range(1, world + 1))
    for rank, found in enumerate(run(body, world)):
        assert found[0] == (base * total / world).tolist() and found[1] == (base[rank : rank + 1] * total).tolist()
        assert found[2] == [[value for r in range(world) for value in (float(r), 1.0 + 2 * r)]]
        assert found[3] == (base * ((rank - 1) % world + 1)).tolist()


def test_settings():
    with dist.config.patch(compile_on_one_rank=True):
        assert dist.config.compile_on_one_rank
    assert not dist.config.compile_on_one_rank and not dist.config.use_torchcomms
    with pytest.raises(AttributeError, match="nothing"):
        dist.config.nothing = 1

    def body(rank, world):
        store = dist.HashStore()
        with dist.config.patch(use_torchcomms=True), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        return [str(one.message) for one in seen]

    assert "use_torchcomms" in run(body, 1, backend=None)[0][0]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic", "export"])
def test_traced_collectives_wait(mode):
    def body(rank, world):
        group = dist.group.WORLD

        def function(x):
            whole = funcol.all_gather_tensor(funcol.all_reduce(x, "sum", group), 0, group)
            return funcol.reduce_scatter_tensor(whole + 1, "sum", 0, group), whole

        class Module(tessera.nn.Module):
            def forward(self, x):
                return function(x)

        x = tessera.arange(2.0) + rank
        if mode == "export":
            program = tessera.export.export(Module(), (x,))
            graph, made = program.graph, program.module()
        else:
            made = tessera.fx.experimental.proxy_tensor.make_fx(function, tracing_mode=mode)(x)
            graph = made.graph
        names = [node.target.__name__ for node in graph.nodes if node.op == "call_function"]
        part, whole = made(x)
        return names, part.tolist(), whole.tolist()

    wait = "wait_tensor.default"
    names = ["all_reduce.default", wait, "all_gather_into_tensor.default", wait, "add.Tensor"]
    names += ["reduce_scatter_tensor.default", wait]
    assert run(body) == [(names, [4.0, 8.0], [1.0, 3.0, 1.0, 3.0])] * 2


def test_nothing_is_sent_of_what_has_no_values():
    def body(rank, world):
        with tessera._subclasses.fake_tensor.FakeTensorMode():
            x = tessera.ones(4)
            dist.all_reduce(x)
            dist.all_gather_into_tensor(tessera.empty(8), x)
            return tuple((funcol.all_gather_tensor(x, 0, dist.group.WORLD) + 1).shape)

    assert run(body) == [(8,)] * 2
