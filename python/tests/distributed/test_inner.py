"""What programs use behind the documented names."""

from datetime import timedelta

import pytest
import tessera
import tessera.distributed as dist
from ranks import run
from tessera.distributed import distributed_c10d as c10d


def test_collectives_that_are_waited_for_together():
    def body(rank, world):
        a, b, c = tessera.full((3,), rank + 1.0), tessera.empty(2), tessera.empty(1)
        objects = [None] * world
        with dist._coalescing_manager(async_ops=True) as together:
            dist.all_reduce(a)
            first = len(together.works)
            dist._all_gather_base(b, tessera.tensor([rank + 1.0]))
            dist.all_gather_object(objects, rank)  # whole at once
            assert dist._reduce_scatter_base(c, tessera.tensor([1.0, 2.0])) is None
        count = len(together.works)
        together.wait()
        return first, count, len(together.works), a.tolist(), b.tolist(), c.tolist(), objects

    assert run(body) == [(1, 3, 0, [3.0] * 3, [1.0, 2.0], [2.0 * (r + 1)], [0, 1]) for r in (0, 1)]


def test_a_group_by_hand_beside_the_default_one():
    def body(rank, world):
        store = c10d.PrefixStore("mine", c10d._get_default_store())
        group, part = c10d._new_process_group_helper(2, rank, [], "gloo", store, "mine", timeout=timedelta(seconds=9))
        x = tessera.ones(1)
        dist.all_reduce(x, group=group)
        dist.broadcast(x, src=1, group=group)
        with pytest.raises(ValueError, match="of the name 'mine'"):
            c10d._new_process_group_helper(2, rank, [], "gloo", store, "mine")
        c10d._set_pg_timeout(timedelta(seconds=3), group)
        timeout = group._get_backend("cpu").options._timeout
        c10d._unregister_process_group("mine")
        with pytest.raises(ValueError, match="mine"):
            c10d._resolve_process_group("mine")
        return x.item(), timeout, part is group.get_group_store(), c10d._get_group_size(group)

    assert run(body) == [(2.0, timedelta(seconds=3), True, 2)] * 2


def test_helpers():
    def body(rank, world):
        values = [tessera.full((2,), rank), tessera.full((3,), rank + 0.5)]
        dist._broadcast_coalesced(dist.group.WORLD, values, 1 << 20, 1)
        dist._verify_params_across_processes(dist.group.WORLD, values)
        half = dist.new_group([1])
        if rank == 1:
            assert c10d._canonicalize_group_rank(half, group_rank=0, return_global=True) == 1
            assert c10d._canonicalize_group_rank(half, 1) == 0
        else:
            with pytest.raises(ValueError, match="Invalid process group"):
                dist.send(values[0], 1, group=half)
            assert dist.broadcast(values[0], 1, group=half) is None
            assert dist.isend(values[0], 1, group=half) is None
        with pytest.raises(ValueError, match="one dtype"):
            c10d._ensure_all_tensors_same_dtype(values, values[0])
        future = dist.all_reduce_coalesced([tessera.ones(1)], async_op=True)
        return values[0].tolist(), values[1].tolist(), str(c10d._get_pg_default_device()), future.wait()[0].item()

    assert run(body) == [([1, 1], [1.5] * 3, "cpu", 2.0)] * 2
    assert c10d._get_default_timeout("gloo") == timedelta(minutes=30)
