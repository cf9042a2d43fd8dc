#!/usr/bin/env python3
"""Stores and remote calls under load, each checked as it goes:

python -m tessera benchmarks/distributed/stress.py clients [N]      N clients (1,000) on one TCPStore
python -m tessera benchmarks/distributed/stress.py meet [N ...]     a group's first meeting, N members (threads)
python -m tessera benchmarks/distributed/stress.py restarts [N]     N restarts (100) by torchrun
python -m tessera benchmarks/distributed/stress.py fuzz [SECONDS]   malformed frames (600 s) beside honest clients
"""

import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta

import tessera
import tessera.distributed as dist
from tessera.distributed import rpc
from tessera.distributed._gloo import _collect
from tessera.distributed.rpc import _wire
from tessera.distributed.rpc._agent import current

LONG = timedelta(seconds=120)


def together(count, body):
    """body(i) on `count` threads; seconds. What one raises is raised here."""
    errors = []

    def one(i):
        try:
            body(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return time.perf_counter() - begin


def clients(count):
    """Each connects, sets, counts, waits for all and reads another's value."""
    server = dist.TCPStore("127.0.0.1", 0, None, True, LONG, False)
    stores = [None] * count

    def connect(i):
        stores[i] = dist.TCPStore("127.0.0.1", server.port, None, False, LONG, False)

    def work(i):
        stores[i].set(f"key/{i}", f"value {i}")
        if stores[i].add("count", 1) == count:
            stores[i].set("all", "here")
        stores[i].wait(["all"], LONG)
        other = (7 * i + 1) % count
        assert stores[i].get(f"key/{other}") == f"value {other}".encode()

    print(f"{count} clients connected in {together(count, connect):.2f} s")
    print(f"set, add, wait and get of each in {together(count, work):.2f} s")
    assert int(server.get("count")) == count
    one, rounds = stores[0], 3000
    begin = time.perf_counter()
    for i in range(rounds):
        one.set("k", "v")
        one.get("k")
    print(f"with them connected, one client's set and get: {(time.perf_counter() - begin) / rounds * 1e6:.0f} us")


def meet(counts):
    """What members of a group do before the first collective, without the collective."""
    for count in counts:
        server = dist.TCPStore("127.0.0.1", 0, None, True, LONG, False)
        seen = set()

        def member(i, count=count, server=server, seen=seen):
            store = dist.TCPStore("127.0.0.1", server.port, None, False, LONG, False)
            store.set(f"rank/{i}", f"10.0.0.{i % 250}|{40000 + i}|{i}|{'0' * 60}|")
            seen.add(len(_collect(store, i, count, "rank", LONG)))

        seconds = together(count, member)
        assert seen == {count}
        print(f"{count:5d} members met in {seconds:.2f} s ({seconds / count * 1e3:.2f} ms each)")


RESTARTING = """
import os, sys
import tessera.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if attempt < int(sys.argv[1]) and dist.get_rank() == attempt % 2:
    os._exit(3)
dist.barrier()
print("done after", attempt)
dist.destroy_process_group()
"""


def restarts(count):
    """A job of two workers of which one fails in each attempt but the last."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.py")
        with open(path, "w") as file:
            file.write(RESTARTING)
        launch = [sys.executable, "-m", "tessera.distributed.run", "--standalone", "--nproc-per-node=2"]
        begin = time.perf_counter()
        out = subprocess.run(
            [*launch, f"--max-restarts={count}", "--monitor-interval=0.05", path, str(count)],
            capture_output=True,
            text=True,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        )
    assert out.returncode == 0 and out.stdout.count(f"done after {count}") == 2, out.stderr[-3000:]
    seconds = time.perf_counter() - begin
    print(f"{count} restarts of two workers in {seconds:.0f} s ({seconds / count:.2f} s each)")


# ---- nonsense


def store_frame(rng):
    """A request that is nearly one."""
    fields = [rng.randbytes(rng.choice([0, 1, 5, 300])) for _ in range(rng.choice([0, 1, 2, 3, 9]))]
    body = struct.pack("<IBI", rng.getrandbits(32), rng.randrange(0, 20), len(fields))
    body += b"".join(struct.pack("<I", len(field)) + field for field in fields)
    return struct.pack("<I", len(body)) + body


STORE_HELLO = struct.pack("<IIBI", 9 + 4 + 15, 1, 1, 1) + struct.pack("<I", 15) + b"tessera-store-1"


def spoiled(rng, data):
    """The bytes with some changed, cut, doubled, or with sizes that are too large."""
    data, kind = bytearray(data), rng.randrange(5)
    if kind == 0:
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        at = rng.randrange(0, max(1, len(data) - 4))
        data[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 8, 2**31, 2**32 - 1, rng.getrandbits(32)]))
    elif kind == 3:
        data += data[: rng.randrange(len(data))]
    return bytes(data)


def misframed(rng, data):
    """A message that ends early, or whose head or sizes are wrong. Its pickles are left as they are: who knows the
    secret is trusted with what unpickling does. One that is cut goes on with the head of the next, which may read as a
    bytearray of 2**48 bytes: CPython then frees it before it has counted its exports, and prints a SystemError."""
    if rng.random() < 0.3:
        return data[: rng.randrange(len(data))]
    data, sizes = bytearray(data), 16 + 8 * int.from_bytes(data[8:12], "little")
    if rng.random() < 0.5:
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(8, 16)] = rng.choice([0, 1, 2, 3, 255, rng.randrange(256)])
    else:
        at = 16 + 8 * rng.randrange((sizes - 16) // 8)
        sizes = [0, 1, 2**20, 2**40, 2**41, 2**63, 2**63 | 2**20, 2**64 - 1, rng.getrandbits(64)]
        data[at : at + 8] = struct.pack("<Q", rng.choice(sizes))
    return bytes(data)


def throw(rng, place, hello, make, spoil=spoiled):
    """A stranger's connection: perhaps a right hello, then frames of which some are spoiled."""
    try:
        with socket.create_connection(place, timeout=5) as connection:
            if rng.random() < 0.8:
                connection.sendall(hello)
            for _ in range(rng.randrange(1, 6)):
                frame = make(rng)
                connection.sendall(spoil(rng, frame) if rng.random() < 0.7 else frame)
            if rng.random() < 0.3:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(0.002)
            connection.recv(4096)
    except OSError:
        pass  # it was thrown out


HERE = tessera.arange(1 << 17)


def rpc_frame(rng):
    """A call that is one: without tensors, with one that goes along, with one that stays in the asker's memory (or is
    said to be somewhere), or with a large answer, which nobody says to have read."""
    kind = rng.randrange(4)
    function, args = [(max, (1, 2)), (tessera.sum, HERE), (tessera.sum, HERE), (tessera.zeros, (1 << 17,))][kind]
    data, tensors = _wire.pack((function, args if type(args) is tuple else (args,), {}), lambda obj: None)
    pieces, _ = _wire.encode(data, _wire.table(tensors, "", {}), None)
    sizes, body = [], b""
    for piece in pieces:
        if type(piece) is bytes:
            size, content = len(piece), piece
        elif kind == 1:
            size, content = piece[1], bytes(piece[1])
        else:
            where = piece[0] if rng.random() < 0.5 else rng.choice([0, 8, 2**47, rng.getrandbits(64)])
            size, content = piece[1] | 1 << 63, struct.pack("<Q", where)
        sizes.append(size)
        body += content
    head = struct.pack("<QIBBH", rng.getrandbits(16), len(pieces), 0, rng.randrange(2), 0)
    return head + struct.pack(f"<{len(sizes)}Q", *sizes) + body


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20


def fuzz(seconds):
    """Throws nonsense at a store and at an agent of remote calls, while honest clients go on."""
    seed = int(os.environ.get("SEED", time.time()))
    print(f"SEED={seed}")
    server = dist.TCPStore("127.0.0.1", 0, None, True, LONG, False)
    honest = dist.TCPStore("127.0.0.1", server.port, None, False, LONG, False)
    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=_options())
    agent = current()
    end, counts, stop = time.monotonic() + seconds, [0, 0, 0], threading.Event()
    agent_place = agent._places[0][1:3]
    secret = agent._secret + (0).to_bytes(4, "little")

    def strangers(which, place, hello, make, spoil=spoiled):
        rng = random.Random(f"{seed} {which}")
        while not stop.is_set():
            throw(rng, place, hello, make, spoil)
            counts[which] += 1

    threads = [
        threading.Thread(target=strangers, args=(0, ("127.0.0.1", server.port), STORE_HELLO, store_frame)),
        threading.Thread(target=strangers, args=(1, agent_place, secret, rpc_frame, misframed)),
        threading.Thread(target=strangers, args=(2, agent_place, b"tessera-rpc-1 " + bytes(36), rpc_frame)),
    ]
    for thread in threads:
        thread.start()
    asked, begin = 0, 0
    try:
        while time.monotonic() < end:
            begin = begin or (asked == 2000 and resident())
            honest.set("mine", str(asked))
            assert honest.get("mine") == str(asked).encode()
            assert rpc.rpc_sync("alone", divmod, (asked, 7)) == divmod(asked, 7)
            asked += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    print(
        f"{seconds} s: {counts[0]} strangers' connections to the store, {counts[1] + counts[2]} to the agent; "
        f"{asked} honest calls of each were answered; {begin} MB at first, {resident()} MB at last"
    )
    last = time.monotonic() + 10
    while agent._kept and time.monotonic() < last:
        time.sleep(0.01)
    assert not agent._kept, "memory is held for connections that have ended"
    rpc.shutdown(graceful=False)


def _options():
    return rpc.TensorPipeRpcBackendOptions(init_method=f"file://{tempfile.mktemp()}")


def main(what, *numbers):
    tessera.set_num_threads(1)
    numbers = [int(number) for number in numbers]
    if what == "meet":
        return meet(numbers or [128, 256, 512, 1024])
    default = {"clients": 1000, "restarts": 100, "fuzz": 600}[what]
    return {"clients": clients, "restarts": restarts, "fuzz": fuzz}[what](*(numbers or [default]))


if __name__ == "__main__":
    main(*sys.argv[1:])
