"""Collectives and messages between processes, over shared memory and over sockets."""

import pytest
import tessera
import tessera.distributed as dist
from ranks import run

TRANSPORTS = {"memory": {}, "sockets": {"TESSERA_DISTRIBUTED_TRANSPORT": "tcp"}}
DTYPES = [
    tessera.float16,
    tessera.bfloat16,
    tessera.float64,
    tessera.int8,
    tessera.int16,
    tessera.uint16,
    tessera.int32,
    tessera.int64,
]


@pytest.fixture(params=TRANSPORTS)
def transport(request):
    return TRANSPORTS[request.param]


@pytest.mark.parametrize("world", [2, 3])
def test_all_reduce_gives_everyone_the_same_bits(transport, world):
    def body(rank, world):
        found = []
        for n in (1, 1000, 300_001):
            x = tessera.randn(n, generator=tessera.Generator().manual_seed(rank))
            dist.all_reduce(x)
            found.append(x.numpy().tobytes())
        return found

    replies = run(body, world, environment=transport)
    assert all(reply == replies[0] for reply in replies)
    total = sum(tessera.randn(1000, generator=tessera.Generator().manual_seed(r)) for r in range(world))
    assert tessera.allclose(tessera.frombuffer(bytearray(replies[0][1]), dtype=tessera.float32), total)


def test_every_dtype_is_reduced(transport):
    def body(rank, world):
        found = []
        for dtype in DTYPES:
            x = tessera.full((3, 5), rank + 2).to(dtype)
            dist.all_reduce(x, dist.ReduceOp.PRODUCT)
            found.append((x.dtype == dtype, set(x.flatten().tolist())))
        flags = tessera.tensor([rank == 0, False])
        dist.all_reduce(flags)
        return found, flags.tolist()

    assert run(body, environment=transport) == [([(True, {6})] * len(DTYPES), [True, False])] * 2


def test_averages_and_factors():
    def body(rank, world):
        x = tessera.tensor([1.0 + rank, 4.0])
        dist.all_reduce(x, dist.ReduceOp.AVG)
        y = tessera.tensor([1.0 + rank])
        dist.all_reduce(y, tessera.distributed._kinds._make_nccl_premul_sum(0.5))
        return x.tolist(), y.tolist()

    assert run(body) == [([1.5, 4.0], [1.5])] * 2


def test_tensors_that_are_not_contiguous_go_in_logical_order(transport):
    def body(rank, world):
        x = tessera.arange(6.0).view(2, 3).t() if rank == 0 else tessera.zeros(3, 2)
        dist.broadcast(x, 0)
        y = tessera.ones(4, 2)[:, 0]
        dist.all_reduce(y)
        return x.tolist(), y.tolist()

    expected = ([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], [2.0] * 4)
    assert run(body, environment=transport) == [expected] * 2


def test_uneven_pieces(transport):
    def body(rank, world):
        parts = [tessera.empty(r + 1) for r in range(world)]
        dist.all_gather(parts, tessera.full((rank + 1,), float(rank)))
        outs = [tessera.empty(rank + 1) for _ in range(world)]
        dist.all_to_all(outs, [tessera.full((r + 1,), 10.0 * rank + r) for r in range(world)])
        return [p.tolist() for p in parts], [o.tolist() for o in outs]

    gathered = [[0.0], [1.0] * 2, [2.0] * 3]
    expected = [(gathered, [[10.0 * s + r] * (r + 1) for s in range(3)]) for r in range(3)]
    assert run(body, 3, environment=transport) == expected


def test_async_calls_keep_their_order_and_their_memory(transport):
    def body(rank, world):
        xs = [tessera.full((1000,), float(rank + i)) for i in range(20)]
        for x in xs[:-1]:
            dist.all_reduce(x, async_op=True)  # the handle is dropped
        last = dist.all_reduce(xs[-1], async_op=True).get_future().then(lambda done: done.value()[0][0].item())
        return last.wait(), [x[0].item() for x in xs]

    assert run(body, environment=transport) == [(39.0, [1.0 + 2 * i for i in range(20)])] * 2


def test_different_calls_are_an_error_and_not_a_hang():
    def body(rank, world):
        with pytest.raises(dist.DistBackendError, match="all_reduce"):
            if rank == 0:
                dist.all_reduce(tessera.ones(2))
            else:
                dist.broadcast(tessera.ones(2), 0)
        dist.destroy_process_group()
        return True

    assert run(body) == [True, True]


def test_coalesced_and_object_collectives(transport):
    def body(rank, world):
        a, b = tessera.ones(3), tessera.full((2, 2), 2.0)
        dist.all_reduce_coalesced([a, b])
        every = [None] * world
        dist.all_gather_object(every, {"rank": rank})
        return a.tolist(), b.sum().item(), every

    assert run(body, environment=transport) == [([2.0] * 3, 16.0, [{"rank": 0}, {"rank": 1}])] * 2


def test_sparse_tensors_add_up(transport):
    def body(rank, world):
        x = tessera.sparse_coo_tensor([[rank, 2]], [1.0, 2.0 + rank], (4,))
        dist.all_reduce(x)
        return x.to_dense().tolist()

    assert run(body, environment=transport) == [[1.0, 1.0, 5.0, 0.0]] * 2


def test_modules_inside_of_the_extension():
    from tessera._C import _distributed_c10d, _distributed_rpc

    assert _distributed_c10d.Store is dist.Store and _distributed_rpc._is_current_rpc_agent_set() is False


def test_groups_of_groups():
    def body(rank, world):
        own, every = dist.new_subgroups(2)
        half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
        x, y = tessera.tensor([float(rank)]), tessera.tensor([float(rank)])
        dist.all_reduce(x, group=own)
        dist.all_reduce(y, group=half)
        return x.item(), y.item(), len(every), dist.get_process_group_ranks(own)

    assert run(body, 4) == [(1.0, 1.0, 2, [0, 1])] * 2 + [(5.0, 5.0, 2, [2, 3])] * 2


def test_a_group_without_those_who_left():
    def body(rank, world):
        if rank == 1:
            return None
        dist.shrink_group([1])
        x = tessera.tensor([float(rank)])
        dist.all_reduce(x)
        return x.item(), dist.get_world_size(), dist.get_rank()

    def outer(rank, world):
        result = body(rank, world)
        if rank == 1:
            dist.destroy_process_group()
        return result

    assert run(outer, 3) == [(2.0, 2, 0), None, (2.0, 2, 1)]


def test_the_fake_backend_needs_nobody():
    def body(rank, world):
        from tessera.distributed._fake import FakeStore

        dist.init_process_group("fake", store=FakeStore(), rank=3, world_size=1024)
        out = tessera.empty(1024 * 2)
        dist.all_gather_into_tensor(out, tessera.ones(2))
        return dist.get_rank(), out.sum().item(), dist.init_device_mesh("cpu", (32, 32)).get_coordinate()

    assert run(body, 1, backend=None) == [(3, 2048.0, (0, 3))]


@pytest.mark.parametrize("name", ["nccl", "ucc", "xccl"])
def test_backends_that_are_not_built_say_so(name):
    assert not dist.is_backend_available(name)
    with pytest.raises(RuntimeError, match=name.upper()):
        dist.init_process_group(name, store=dist.HashStore(), rank=0, world_size=1)
    assert not dist.is_initialized()


@pytest.mark.parametrize("world", [3, 4])
def test_every_collective_of_more_ranks(transport, world):
    def body(rank, world):
        x, found = tessera.arange(2.0) + 10 * rank, {}
        zeros = lambda count=world: [tessera.zeros(2) for _ in range(count)]
        rows = [x + 100 * r for r in range(world)]
        found["broadcast"] = dist.broadcast(y := x.clone(), world - 1) or y
        found["reduce"] = dist.reduce(y := x.clone(), 1, dist.ReduceOp.MAX) or (y if rank == 1 else None)
        found["all_gather"] = dist.all_gather(y := zeros(), x) or tessera.stack(y)
        found["into"] = dist.all_gather_into_tensor(y := tessera.zeros(2 * world), x) or y
        found["gather"] = dist.gather(x, y := zeros() if rank == 2 else None, 2) or (y and tessera.stack(y))
        found["scatter"] = dist.scatter(y := tessera.zeros(2), rows if rank == 0 else None, 0) or y
        found["reduce_scatter"] = dist.reduce_scatter(y := tessera.zeros(2), rows) or y
        found["from"] = dist.reduce_scatter_tensor(y := tessera.zeros(2), tessera.cat(rows)) or y
        found["all_to_all"] = dist.all_to_all(y := zeros(), rows) or tessera.stack(y)
        ins, outs = list(range(world)), [rank] * world
        given = tessera.full((sum(ins),), float(rank))
        dist.all_to_all_single(y := tessera.zeros(sum(outs)), given, outs, ins)
        found["uneven"] = y
        operations = [
            dist.P2POp(dist.isend, x, (rank + 1) % world),
            dist.P2POp(dist.irecv, y := tessera.zeros(2), (rank - 1) % world),
        ]
        [work.wait() for work in dist.batch_isend_irecv(operations)]
        found["ring"] = y
        objects = [None] * world
        dist.all_gather_object(objects, {"rank": rank})
        dist.barrier()
        return {name: None if value is None else value.tolist() for name, value in found.items()}, objects

    x = [[10.0 * r, 10.0 * r + 1] for r in range(world)]
    total = [sum(column) for column in zip(*x)]
    for rank, (found, objects) in enumerate(run(body, world, environment=transport)):
        assert objects == [{"rank": r} for r in range(world)]
        assert found["broadcast"] == x[-1] and found["reduce"] == (x[-1] if rank == 1 else None)
        assert found["all_gather"] == x and found["into"] == sum(x, [])
        assert found["gather"] == (x if rank == 2 else None)
        assert found["scatter"] == [value + 100 * rank for value in x[0]]
        assert found["reduce_scatter"] == found["from"] == [value + 100 * rank * world for value in total]
        assert found["all_to_all"] == [[value + 100 * rank for value in row] for row in x]
        assert found["uneven"] == [float(r) for r in range(world) for _ in range(rank)]
        assert found["ring"] == x[(rank - 1) % world]
