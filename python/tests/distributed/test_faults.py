"""What others see of a process that ends, stops or talks nonsense: an error in time, and nothing is left behind."""

import os
import signal
import socket
import time
from datetime import timedelta

import pytest
import tessera
import tessera.distributed as dist
from ranks import run

TRANSPORTS = {"memory": {}, "sockets": {"TESSERA_DISTRIBUTED_TRANSPORT": "tcp"}}


@pytest.fixture(params=TRANSPORTS)
def transport(request):
    return TRANSPORTS[request.param]


def test_a_killed_rank_is_missed_at_once(transport):
    def body(rank, world):
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match="rank 1|gone|closed"):
            dist.all_reduce(tessera.ones(100_000))
        dist.destroy_process_group()
        return time.monotonic() - begin < 10

    assert run(body, 3, timeout=30, environment=transport) == [True, None, True]


def test_a_stopped_rank_is_named_after_the_timeout():
    def body(rank, world):
        dist.barrier()
        if rank == 1:
            if os.fork() == 0:  # wakes its parent when the others are done
                time.sleep(3)
                os.kill(os.getppid(), signal.SIGCONT)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGSTOP)
            with pytest.raises(RuntimeError, match="failed: "):
                dist.all_reduce(tessera.ones(3))
            os.wait()
        else:
            with pytest.raises(dist.DistBackendError, match="rank 1 did not join within the timeout of 1 s"):
                dist.all_reduce(tessera.ones(3))
        dist.destroy_process_group()
        return True

    assert run(body, timeout=1) == [True, True]


def test_a_group_names_who_does_not_come_to_make_it():
    store = dist.HashStore()
    with pytest.raises(dist.DistBackendError, match="rank 1 did not come"):
        dist.ProcessGroupGloo(store, 0, 2, timedelta(seconds=0.3))


def test_nothing_is_left_in_shared_memory():
    def body(rank, world):
        dist.all_reduce(tessera.ones(10))
        return sorted(os.listdir("/dev/shm"))

    before = sorted(os.listdir("/dev/shm"))
    assert run(body)[0] == before == sorted(os.listdir("/dev/shm"))


def test_strangers_cannot_speak_to_a_group():
    def body(rank, world):
        backend = dist.group.WORLD._get_backend("cpu")
        port = int(backend._store.get("rank/1").split(b"|")[1])
        if rank == 0:
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(b"tessera1" + b"x" * 64)
            dist.send(tessera.tensor([7.0]), 1)
            return None
        x = tessera.zeros(1)
        dist.recv(x, 0)
        return x.item()

    assert run(body)[1] == 7.0


def test_a_store_without_its_server_says_so():
    store = dist.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=5))
    other = dist.TCPStore("127.0.0.1", store.port, 1, False, timedelta(seconds=5), wait_for_workers=False)
    del store
    with pytest.raises(dist.DistNetworkError, match="gone|lost"):
        other.get("key")


def test_a_full_disk_leaves_the_file_store_whole(tmp_path, monkeypatch):
    store = dist.FileStore(str(tmp_path / "store"))
    store.set("a", "1")
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:5], at))
    with pytest.raises(dist.DistStoreError, match="the disk is full"):
        store.set("b", "2")
    monkeypatch.undo()
    store.set("c", "3")
    assert dist.FileStore(store.path).list_keys() == ["a", "c", "users/"]
    with pytest.raises(dist.DistStoreError, match="cannot be opened"):
        dist.FileStore(str(tmp_path / "no" / "store"))


def test_an_interrupt_ends_a_wait():
    def body(rank, world):
        if rank == 1:
            time.sleep(1.5)
            dist.destroy_process_group()
            return True
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyError("alarm")))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyError, match="alarm"):
            dist.all_reduce(tessera.ones(1))
        dist.destroy_process_group()
        return True

    assert run(body) == [True, True]
