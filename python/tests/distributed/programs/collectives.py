"""Every collective and message of a backend, checked on each rank: collectives.py BACKEND."""

import sys
from datetime import timedelta

import tessera
import tessera.distributed as dist


def collectives(rank, size):
    x = tessera.arange(5.0) + rank
    dist.all_reduce(x)
    assert x.tolist() == [size * i + size * (size - 1) / 2 for i in range(5)], x
    y = tessera.full((70_000,), rank, dtype=tessera.int32)
    dist.all_reduce(y, dist.ReduceOp.MAX)
    assert y.eq(size - 1).all()
    b = tessera.tensor([rank * 1.0 + 2j])
    dist.broadcast(b, size - 1)
    assert b.item() == complex(size - 1, 2)
    r = tessera.ones(3, dtype=tessera.bfloat16)
    dist.reduce(r, size - 1)
    assert rank < size - 1 or r.tolist() == [size] * 3
    outs = [tessera.zeros(2) for _ in range(size)]
    dist.all_gather(outs, tessera.full((2,), float(rank)))
    assert [o.tolist() for o in outs] == [[i, i] for i in range(size)]
    root = size - 1
    dist.gather(
        tessera.tensor([rank]), outs2 := [tessera.tensor([0]) for _ in range(size)] if rank == root else None, root
    )
    assert rank != root or [o.item() for o in outs2] == list(range(size))
    s = tessera.zeros(1)
    dist.scatter(s, [tessera.tensor([10.0 * i]) for i in range(size)] if rank == 0 else None, 0)
    assert s.item() == 10 * rank
    rs = tessera.zeros(2)
    dist.reduce_scatter_tensor(rs, tessera.arange(2.0 * size))
    assert rs.tolist() == [size * 2 * rank, size * (2 * rank + 1)]
    a2a = tessera.zeros(size)
    dist.all_to_all_single(a2a, tessera.arange(float(size)) + size * rank)
    assert a2a.tolist() == [rank + size * i for i in range(size)]
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": i} for i in range(size)]
    work = dist.all_reduce(z := tessera.ones(4), async_op=True)
    work.wait()
    assert z.tolist() == [size] * 4
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=20))


def messages(rank, size):
    if size == 1:
        return
    right, left = (rank + 1) % size, (rank - 1) % size
    got, back = tessera.zeros(100_000), tessera.zeros(1)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, tessera.full((100_000,), float(rank)), right), dist.P2POp(dist.irecv, got, left)]
    )
    for work in works:
        work.wait()
    assert got.eq(left).all()
    if rank == 0:
        seen = {dist.recv(back, tag=3) for _ in range(size - 1)}
        assert seen == set(range(1, size))
    else:
        dist.send(tessera.tensor([float(rank)]), 0, tag=3)
    if rank < 2:
        if rank == 0:
            dist.send(tessera.ones(3), 1)
        else:
            try:
                dist.recv(tessera.ones(2), 0)
            except RuntimeError as error:
                assert "12 bytes" in str(error) or "does not go" in str(error), error
            else:
                raise AssertionError("a message of another size was taken")


def groups(rank, size):
    odd = dist.new_group(list(range(1, size, 2)))
    if rank % 2:
        x = tessera.ones(1)
        dist.all_reduce(x, group=odd)
        assert x.item() == size // 2
    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
    assert mesh.get_local_rank() == rank


def main(backend):
    dist.init_process_group(backend, timeout=timedelta(seconds=30))
    rank, size = dist.get_rank(), dist.get_world_size()
    assert dist.get_backend() == backend
    collectives(rank, size)
    messages(rank, size)
    groups(rank, size)
    x = tessera.ones(1)
    if rank == 0 and size > 1:
        try:
            dist.group.WORLD._get_backend(tessera.device("cpu"))._set_default_timeout(timedelta(seconds=0.5))
            dist.recv(x, size - 1)
        except RuntimeError as error:
            assert f"rank {size - 1}" in str(error) and "timeout" in str(error), error
        else:
            raise AssertionError("a message came from nowhere")
    print(f"rank {rank} of {size} is content")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
