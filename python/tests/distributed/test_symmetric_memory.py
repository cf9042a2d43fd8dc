"""Memory that ranks share, its signals, and the operators on it."""

import os

import pytest
import tessera
import tessera.distributed as dist
import tessera.distributed._symmetric_memory as symm_mem
from ranks import run

DTYPES = (tessera.float32, tessera.bfloat16, tessera.int64)


def shared(values, dtype=None):
    values = tessera.as_tensor(values) if dtype is None else tessera.as_tensor(values, dtype=dtype)
    return symm_mem.empty(*values.shape, dtype=values.dtype).copy_(values)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_read_and_write_the_memory_of_others(world):
    def body(rank, world):
        group = dist.group.WORLD
        x = symm_mem.empty((3, 2), dtype=tessera.float64).fill_(rank)
        memory = symm_mem.rendezvous(x, group)
        memory.barrier()
        seen = [memory.get_buffer(r, (6,), tessera.float64).tolist() for r in range(world)]
        memory.barrier()
        after = (rank + 1) % world
        memory.get_buffer(after, (2,), tessera.float64, 4).fill_(10.0 + rank)
        memory.barrier(channel=1)
        again = symm_mem.rendezvous(x[2], group.group_name)
        remote = again.get_remote_tensor(after, (2,), tessera.float64).tolist()
        here = (memory.rank, memory.world_size, memory.buffer_size, memory.multicast_ptr, again.offset)
        pointers = memory.buffer_ptrs[rank] == x.data_ptr() and len(set(memory.buffer_ptrs)) == world
        memory.barrier()
        return seen, x[2].tolist(), remote, here, pointers

    for rank, (seen, own, remote, here, pointers) in enumerate(run(body, world)):
        assert seen == [[float(r)] * 6 for r in range(world)] and pointers
        assert own == [10.0 + (rank - 1) % world] * 2 and remote == [10.0 + rank] * 2
        assert here == (rank, world, 48, 0, 32)


def test_signals_are_taken_once_and_in_order():
    def body(rank, world):
        x = symm_mem.empty(1)
        memory, found = symm_mem.rendezvous(x, dist.group.WORLD), []
        other = 1 - rank
        for step in range(20):
            if rank == 0:
                symm_mem.put_signal(tessera.tensor([float(step)]), memory, 1)
                memory.wait_signal(1, channel=2)
            else:
                symm_mem.wait_signal(memory, 0)
                found.append(x.item())
                memory.put_signal(0, channel=2)
        dist.barrier()
        pad = memory.get_signal_pad(other)
        idle = int(pad.to(tessera.int64).sum())
        words = memory.get_signal_pad(other, (2,), tessera.int32, 4).shape
        with pytest.raises(RuntimeError, match=f"rank {other} gave no signal in channel 3"):
            memory.wait_signal(other, channel=3, timeout_ms=20)
        dist.barrier()
        memory.put_signal(other, channel=3)
        if rank == 0:
            with pytest.raises(RuntimeError, match="rank 1 did not take the signal of channel 3"):
                memory.put_signal(1, channel=3, timeout_ms=20)
        return found, idle, tuple(words), memory.signal_pad_size

    (_, *rest), (found, *rest1) = run(body)
    assert found == [float(i) for i in range(20)] and rest == rest1 == [0, (2,), symm_mem.get_signal_pad_size()]


@pytest.mark.parametrize("world", [2, 4])
def test_reductions(world):
    def body(rank, world):
        ops, name, found = tessera.ops.symm_mem, dist.group.WORLD.group_name, []
        for dtype in DTYPES:
            values = tessera.arange(7, dtype=dtype) * (rank + 1)
            x, out = shared(values), tessera.empty(7, dtype=dtype)
            found.append(ops.one_shot_all_reduce(x, "sum", name))
            ops.one_shot_all_reduce_out(x, "sum", name, out)
            found.append(out)
            room = symm_mem.empty(16, dtype=dtype)
            found.append(ops.one_shot_all_reduce_copy(room, values, "sum", name))
            other = tessera.empty(7, dtype=dtype)
            found.append(ops.one_shot_all_reduce_copy_out(room, values, "sum", name, other))
            found.append(ops.two_shot_all_reduce_out(shared(values), "sum", name, tessera.empty(7, dtype=dtype)))
            found.append(ops.two_shot_all_reduce_(x, "sum", name))
        square = shared(tessera.arange(world * world * 1.0).view(world, world) * (rank + 1))
        rows = ops.reduce_scatter_out(square, name, False, tessera.empty(1, world))
        columns = ops.reduce_scatter_out(square, name, True, tessera.empty(world, 1))
        return [one.tolist() for one in found], rows.tolist(), columns.view(-1).tolist()

    total = sum(range(1, world + 1))
    square = (tessera.arange(world * world * 1.0).view(world, world) * total).tolist()
    for rank, (found, rows, columns) in enumerate(run(body, world)):
        assert found == [[total * i for i in range(7)]] * (6 * len(DTYPES))
        assert rows == [square[rank]] and columns == [row[rank] for row in square]


def test_tiles_are_reduced_to_roots():
    def body(rank, world):
        ops, name = tessera.ops.symm_mem, dist.group.WORLD.group_name
        x, out = shared(tessera.arange(16.0).view(4, 4) + rank), symm_mem.empty(4, 4).zero_()
        ops.tile_reduce(x[2:, 2:], out[2:, 2:], 1, name)
        each = symm_mem.empty(2, 2)
        ops.multi_root_tile_reduce([x[:2, :2], x[:2, 2:]], each, [1, 0], name)
        with pytest.raises(RuntimeError, match="root of its own"):
            ops.multi_root_tile_reduce([x[:2, :2], x[:2, 2:]], each, [1, 1], name)
        return out.tolist(), each.tolist()

    (out0, each0), (out1, each1) = run(body)
    assert tessera.tensor(out0).sum() == 0 and out1[2:] == [[0.0, 0.0, 21.0, 23.0], [0.0, 0.0, 29.0, 31.0]]
    assert each0 == [[5.0, 7.0], [13.0, 15.0]] and each1 == [[1.0, 3.0], [9.0, 11.0]]


def test_rows_are_exchanged():
    def body(rank, world):
        ops, name = tessera.ops.symm_mem, dist.group.WORLD.group_name
        x = shared(tessera.arange(6.0).view(6, 1) + 10 * rank)
        out, plan = symm_mem.empty(8, 1).fill_(-1.0), symm_mem.empty(2, 2, dtype=tessera.int64)
        ops.all_to_all_vdev(x, out, shared([1 + rank, 2]), plan, name)
        return out.view(-1).tolist(), plan.tolist()

    (first, plan0), (second, plan1) = run(body)
    assert first == [0.0, 10.0, 11.0, -1.0, -1.0, -1.0, -1.0, -1.0] and plan0 == [[1, 2], [0, 1]]
    assert second == [1.0, 2.0, 12.0, 13.0, -1.0, -1.0, -1.0, -1.0] and plan1 == [[2, 2], [0, 2]]


@pytest.mark.parametrize("align", [None, 4])
def test_rows_go_to_experts_and_back(align):
    splits = [[2, 0, 1, 1], [1, 0, 0, 3]]

    def body(rank, world):
        ops, name = tessera.ops.symm_mem, dist.group.WORLD.group_name
        x = shared(tessera.arange(4.0).view(4, 1) + 10 * rank)
        out, plan = symm_mem.empty(16, 1).fill_(-1.0), symm_mem.empty(2, 4, dtype=tessera.int64)
        ops.all_to_all_vdev_2d(x, out, shared(splits[rank]), plan, name, align)
        back, places = symm_mem.empty(4, 1), symm_mem.empty(2, 4, dtype=tessera.int64)
        ops.all_to_all_vdev_2d_offset(out, back, plan, places, name)
        small = symm_mem.empty(1, 1)
        with pytest.raises(RuntimeError, match="the output has 1"):
            ops.all_to_all_vdev_2d(x, small, shared(splits[rank]), plan, name)
        return out[: 3 if rank == 0 else 8].view(-1).tolist(), plan.tolist(), back.view(-1).tolist(), places.tolist()

    first, second = run(body)
    assert first[0] == [0.0, 1.0, 10.0] and first[2:] == ([0.0, 1.0, 2.0, 3.0], [[2, 0, 1, 1], [0, 2, 2, 3]])
    assert second[2:] == ([10.0, 11.0, 12.0, 13.0], [[1, 0, 0, 3], [0, 1, 1, 1]])
    assert second[0][:5] == ([2.0, 3.0, 11.0, 12.0, 13.0] if align is None else [2.0, -1.0, -1.0, -1.0, 3.0])
    assert first[1] != second[1]


def test_what_cannot_be_done_is_said():
    def body(rank, world):
        ops, name, errors = tessera.ops.symm_mem, dist.group.WORLD.group_name, []
        x = symm_mem.empty(4)

        def fails(call):
            with pytest.raises(RuntimeError) as found:
                call()
            errors.append(str(found.value))

        fails(lambda: symm_mem.rendezvous(tessera.ones(4), name))
        fails(lambda: symm_mem.rendezvous(symm_mem.empty(4 + rank), name))
        fails(lambda: ops.one_shot_all_reduce(x, "max", name))
        fails(lambda: ops.multimem_all_reduce_(x, "sum", name))
        fails(lambda: symm_mem.rendezvous(x, name).get_buffer(0, (5,), tessera.float32))
        fails(lambda: symm_mem.rendezvous(x, name).get_buffer(2, (4,), tessera.float32))
        fails(lambda: symm_mem.rendezvous(x, name).barrier(channel=10**6))
        fails(lambda: symm_mem.empty(3, device="cuda"))
        fails(lambda: symm_mem.set_backend("NCCL"))
        fails(lambda: symm_mem.get_mem_pool("cuda"))
        fails(lambda: symm_mem.set_signal_pad_size(4096))
        return errors

    words = "empty()|16 bytes|'max'|multicast|16 bytes|0 to 1|channel 1000000|cuda|NCCL|pool|before the first".split(
        "|"
    )
    for errors in run(body):
        assert len(errors) == len(words) and all(map(str.__contains__, errors, words))


def test_words_workspaces_and_groups():
    def body(rank, world):
        name = dist.group.WORLD.group_name
        ops = tessera.ops.symm_mem
        word = tessera.zeros(4, dtype=tessera.uint32)
        ops.memset32_(word, 1, 7, 2)
        ops.stream_write_value32_(word, 3, 2**32 - 1)
        small = symm_mem.get_symm_mem_workspace(name, 64)
        same = symm_mem.get_symm_mem_workspace(name, 32) is small
        larger = symm_mem.get_symm_mem_workspace(name, 4096).buffer_size
        before = symm_mem.is_symm_mem_enabled_for_group(name)
        symm_mem.enable_symm_mem_for_group(name)
        after = symm_mem.is_symm_mem_enabled_for_group(name)
        part = dist.new_group([1, 3])
        inside = None
        if rank in (1, 3):
            x = symm_mem.empty(1).fill_(rank)
            inside = tessera.ops.symm_mem.one_shot_all_reduce(x, "sum", part.group_name).item()
        names = symm_mem.get_backend("cpu"), symm_mem.get_backend("meta"), symm_mem.is_nvshmem_available()
        return word.tolist(), same, larger, before, after, inside, names

    for rank, found in enumerate(run(body, 4)):
        word = [0, 7, 7, 2**32 - 1]
        assert found == (word, True, 4096, False, True, 4.0 if rank % 2 else None, ("CPU", None, False))


def test_a_rank_that_dies_is_named():
    def body(rank, world):
        memory = symm_mem.rendezvous(symm_mem.empty(4), dist.group.WORLD)
        memory.barrier()
        if rank == 1:
            os._exit(1)
        try:
            memory.barrier(timeout_ms=300)
        except RuntimeError as error:
            dist.destroy_process_group()
            return str(error)

    found = run(body)
    assert "rank 1 gave no signal" in found[0] and found[1] is None


def test_memory_is_given_back():
    fds = lambda: sum(os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:symmetric") for fd in _own())

    def _own():
        return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]

    def body(rank, world):
        for _ in range(5):
            x = symm_mem.empty(1000)
            memory = symm_mem.rendezvous(x, dist.group.WORLD)
            memory.barrier()
        held = fds()
        del x, memory
        return held, fds()

    assert run(body) == [(3, 0)] * 2  # the own file, and one for each mapping
