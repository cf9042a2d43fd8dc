"""What modes and subclasses see of collectives, and the operators themselves."""

import pytest
import tessera
import tessera.distributed as dist
from ranks import run
from tessera.distributed.tensor.debug import CommDebugMode
from tessera.utils._python_dispatch import TorchDispatchMode

_symm = lambda: tessera.ops.symm_mem


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names, self.calls = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            self.names.append(str(func))
            self.calls.append(len(args))
        return func(*args, **(kwargs or {}))


def test_modes_see_collectives_and_their_results_are_right():
    def body(rank, world):
        x, whole = tessera.full((2,), float(rank + 1)), tessera.empty(4)
        parts, one = [tessera.empty(2) for _ in range(2)], tessera.empty(1)
        with Seen() as outer, Seen() as seen:
            dist.all_reduce(x)
            dist.all_reduce(x, async_op=True).wait()
            dist.broadcast(x, 1)
            dist.all_gather(parts, x)
            dist.all_gather_into_tensor(whole, x)
            dist.reduce_scatter_tensor(one, x, dist.ReduceOp.MAX)
            dist.all_to_all_single(tessera.empty(2), x)
            dist.barrier()
        return seen.names, seen.calls, outer.names == seen.names, x.tolist(), whole.tolist(), one.item()

    names = "allreduce_ allreduce_ broadcast_ allgather_ _allgather_base_ _reduce_scatter_base_ alltoall_base_ barrier"
    names = [f"c10d.{name}.default" for name in names.split()]
    expected = (names, [5, 4, 5, 4, 4, 5, 6, 4], True, [6.0, 6.0], [6.0] * 4, 6.0)
    assert run(body) == [expected] * 2


def test_operators_are_called_by_themselves():
    def body(rank, world):
        ops, group, x = tessera.ops.c10d, dist.group.WORLD, tessera.ones(2)
        (first,), work = ops.allreduce_([x], group, dist.ReduceOp(dist.ReduceOp.SUM), None)
        work.wait()
        ops.barrier.default(x, group, [], async_op=False, timeout=5000)
        with pytest.raises(RuntimeError, match="takes tensors, process_group, dst, tag, but got 2 arguments"):
            ops.send([x], group)
        with pytest.raises(RuntimeError, match=r"\['other'\]"):
            ops.barrier(x, group, [], other=1)
        (ops.send if rank else ops.recv_)([x if rank else x.zero_()], group, 1 - rank, 3).wait()
        return first is x, x.tolist(), str(ops.send.default), isinstance(ops.send.default, tessera._ops.OpOverload)

    assert run(body) == [(True, [2.0, 2.0], "c10d.send.default", True)] * 2


def test_classes_of_tensors_see_collectives():
    class Loud(tessera.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = tessera.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            heard.append(str(func))
            take = lambda x: x.inner if isinstance(x, Loud) else x
            return func(*tessera.utils._pytree.tree_map(take, args), **(kwargs or {}))

    heard = []

    def body(rank, world):
        x = Loud(tessera.ones(2))
        dist.all_reduce(x)
        return heard, x.inner.tolist()

    assert run(body) == [(["c10d.allreduce_.default"], [2.0, 2.0])] * 2


def test_spread_tensors_are_refused():
    def body(rank, world):
        x = dist.tensor.ones(4, device_mesh=dist.init_device_mesh("cpu", (2,)), placements=[dist.tensor.Shard(0)])
        with pytest.raises(NotImplementedError, match="to_local"):
            dist.all_reduce(x)

    run(body)


def test_collectives_are_counted():
    def body(rank, world):
        with CommDebugMode() as mode:
            dist.all_reduce(tessera.ones(1))
            dist.barrier()
        return mode.get_total_counts(), mode.get_comm_counts()[tessera.ops.c10d.allreduce_]

    assert run(body) == [(1, 1)] * 2


def test_collectives_of_dtensors_are_counted_by_module():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (2,))
        x = dist.tensor.ones(4, device_mesh=mesh, placements=[dist.tensor.Shard(0)], requires_grad=True)
        with CommDebugMode() as mode:
            x.redistribute(placements=[dist.tensor.Replicate()])
        gathered = {tessera.ops.c10d_functional.all_gather_into_tensor: 1}
        assert mode.comm_counts == gathered
        return mode.comm_module_counts == {"Global": {"forward": gathered, "backward": {}}}

    assert run(body) == [True, True]


def test_products_of_what_is_spread():
    def body(rank, world):
        name = dist.group.WORLD.group_name
        tessera.manual_seed(3)
        whole, b = tessera.randn(2, 8, 6), tessera.randn(6, 4)
        a = whole.chunk(2, 1)[rank]
        gathered, (product,) = _symm().fused_all_gather_matmul(a, [b], 1, name)
        assert gathered.equal(whole) and tessera.allclose(product, whole @ b)
        assert _symm().fused_all_gather_matmul(a, [b], 1, name, return_A=False)[0] is None
        part = _symm().fused_matmul_reduce_scatter(whole * (rank + 1), b, "avg", 2, name)
        assert tessera.allclose(part, (whole @ b * 1.5).chunk(2, 2)[rank], atol=1e-5)
        with pytest.raises(RuntimeError, match="gather_dim has to be from 0 to 2"):
            _symm().fused_all_gather_matmul(a, [b], 3, name)
        with pytest.raises(RuntimeError, match="cannot be cut in 2 equal parts"):
            _symm().fused_matmul_reduce_scatter(whole[:, :3], b, "sum", 1, name)
        assert _symm()._low_contention_all_gather(a[:1, 0], name).shape == (2, 6)
        half = tessera.float8_e4m3fn
        a8, b8 = whole[0].to(half), b.t().contiguous().to(half).t()
        a8, b8 = (tessera.cat([x] * 16, dim)[: None if dim else 16] for x, dim in ((a8.repeat(1, 8), 0), (b8, 1)))
        b8 = tessera.cat([b8] * 8).t().contiguous().t()
        scales = tessera.arange(1.0, 17).view(16, 1)
        one = tessera.ones(1, b8.shape[1])
        plain = tessera._scaled_mm(a8, b8, scales, one, out_dtype=tessera.bfloat16)
        own = a8.chunk(2)[rank]
        both, (product,) = _symm().fused_all_gather_scaled_matmul(
            own, [b8], scales.chunk(2)[rank], [one], 0, name, [None], [None], [tessera.bfloat16], [False]
        )
        assert both.float().equal(a8.float()) and product.equal(plain)
        part = _symm().fused_scaled_matmul_reduce_scatter(
            a8.view(2, 8, -1), b8, scales, one, "avg", 0, 0, name, [2, 8, 64], None, None, tessera.bfloat16
        )
        return part.equal(plain.view(2, 8, -1).chunk(2)[rank])

    assert run(body) == [True, True]


def test_shards_along_another_dimension():
    def body(rank, world):
        whole = tessera.arange(24.0).view(4, 6)
        part = tessera.ops._dtensor.shard_dim_alltoall(whole.chunk(2, 0)[rank], 0, 1, dist.group.WORLD.group_name)
        return part.equal(whole.chunk(2, 1)[rank])

    assert run(body) == [True, True]


def test_views_and_fresh_tensors_send_nothing():
    def body(rank, world):
        mesh = dist.init_device_mesh("cpu", (2,))
        shard = dist.tensor.Shard
        spread = lambda x, at: dist.tensor.distribute_tensor(x, mesh, [shard(at)])
        x, row = spread(tessera.rand(4, 6), 1), spread(tessera.rand(1, 2, 2), 0)
        with CommDebugMode() as mode:
            view = row.view(1, 4)
            made = {
                "same": (x.new_full((4, 6), 3.0), shard(1)),
                "other": (x.new_ones(2, 6), dist.tensor.Replicate()),
                "strided": (x.new_empty_strided((4, 6), (6, 1)), shard(1)),
                "turned": (x.new_empty_strided((4, 6), (1, 4)), dist.tensor.Replicate()),
                "row": (view, shard(0)),
            }
        assert mode.get_total_counts() == 0
        for name, (tensor, placement) in made.items():
            assert tensor.placements == (placement,), name
        assert view.to_local().data_ptr() == row.to_local().data_ptr()
        assert made["strided"][0].to_local().shape == (4, 3) and made["turned"][0].stride() == (1, 4)
        return made["same"][0].full_tensor().sum().item(), view.full_tensor().equal(row.full_tensor().view(1, 4))

    assert run(body) == [(72.0, True)] * 2
