#!/usr/bin/env python3
"""Faults that need a network or a disk of their own: namespaces of the kernel, so the script has to be root, with
iproute2's `ip`.

    python -m tessera benchmarks/distributed/faults.py

Two hosts (network namespaces with a pair of interfaces between them) hold a group, a store and an agent of remote
calls; then the cable is pulled without a word (no FIN, no RST), so that connections are half open. A file store lies on
a disk of 64 KB that others fill. Whoever waits has to raise an error within its timeout.
"""

import os
import subprocess
import sys
import tempfile
import time

HOSTS = {"tsr_a": "10.77.0.1", "tsr_b": "10.77.0.2"}

MEMBER = """
import os, sys, time
from datetime import timedelta
import tessera, tessera.distributed as dist
rank, what, folder, limit = int(sys.argv[1]), sys.argv[2], sys.argv[3], 4.0
dist.init_process_group("gloo", init_method="tcp://10.77.0.1:29511", rank=rank, world_size=2,
                        timeout=timedelta(seconds=limit))
x = tessera.ones(300_000)
dist.all_reduce(x)
dist.barrier()
open(f"{folder}/ready{rank}", "w").close()
while not os.path.exists(f"{folder}/cut"):
    time.sleep(0.05)
begin = time.monotonic()
store = dist.distributed_c10d._get_default_store()
store.set_timeout(timedelta(seconds=limit))
calls = {
    "all_reduce": lambda: dist.all_reduce(x),
    "recv": lambda: dist.recv(x, 1 - rank),
    "barrier": dist.barrier,
    "store": lambda: store.get("nobody sets this"),
}
if what == "store" and rank == 0:  # whose own store goes on
    os._exit(0)
try:
    calls[what]()
except RuntimeError as error:
    print(f"rank {rank}: {type(error).__name__} after {time.monotonic() - begin:.1f} s: {error}", flush=True)
    os._exit(0 if time.monotonic() - begin < limit + 3 else 4)
os._exit(3)
"""

FULL = """
import os, sys
import tessera.distributed as dist
store = dist.FileStore(sys.argv[1] + "/store", 1)
store.set("first", "x" * 1000)
with open(sys.argv[1] + "/other", "wb") as file:
    try:
        while True:
            os.write(file.fileno(), bytes(4096))
    except OSError:
        pass
try:
    for i in range(100):
        store.set(f"key{i}", "y" * 1000)
except dist.DistStoreError as error:
    print("file store:", error)
else:
    raise AssertionError("nothing was said of the full disk")
assert store.get("first") == b"x" * 1000
os.unlink(sys.argv[1] + "/other")
store.set("later", "z")
assert dist.FileStore(sys.argv[1] + "/store").get("later") == b"z"
"""


def ip(*words, check=True):
    """Runs ip(8)."""
    return subprocess.run(["ip", *words], check=check, capture_output=not check)


def set_up():
    """Two hosts and a cable."""
    for name in HOSTS:
        ip("netns", "add", name)
    ip("link", "add", "tsr_a0", "netns", "tsr_a", "type", "veth", "peer", "name", "tsr_b0", "netns", "tsr_b")
    for name, address in HOSTS.items():
        ip("-n", name, "addr", "add", f"{address}/24", "dev", f"{name}0")
        ip("-n", name, "link", "set", f"{name}0", "up")
        ip("-n", name, "link", "set", "lo", "up")


def tear_down():
    """Takes them away."""
    for name in HOSTS:
        ip("netns", "del", name, check=False)


def half_open(what, program):
    """Pulls the cable between two members that are about to call `what`."""
    set_up()
    try:
        with tempfile.TemporaryDirectory() as folder:
            members = []
            for rank, name in enumerate(HOSTS):
                environment = {**os.environ, "GLOO_SOCKET_IFNAME": f"{name}0", "TESSERA_DISTRIBUTED_TRANSPORT": "tcp"}
                command = ["ip", "netns", "exec", name, sys.executable, program, str(rank), what, folder]
                members.append(subprocess.Popen(command, env=environment))
            end = time.monotonic() + 60
            while not all(os.path.exists(f"{folder}/ready{rank}") for rank in range(2)):
                assert time.monotonic() < end, "the members did not meet"
                time.sleep(0.05)
            ip("-n", "tsr_a", "link", "set", "tsr_a0", "down")
            open(f"{folder}/cut", "w").close()
            codes = [member.wait(timeout=30) for member in members]
            assert codes == [0, 0], (what, codes)
    finally:
        tear_down()


def full_disk(program):
    """A file store on a disk of 64 KB."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
        try:
            subprocess.run([sys.executable, program, folder], check=True, timeout=60)
        finally:
            subprocess.run(["umount", folder], check=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("member.py", MEMBER), ("full.py", FULL)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        for what in ("all_reduce", "recv", "barrier", "store"):
            print(f"-- the cable is pulled before {what}")
            half_open(what, os.path.join(folder, "member.py"))
        print("-- a full disk")
        full_disk(os.path.join(folder, "full.py"))
    left = [name for name in os.listdir("/dev/shm") if "tessera" in name]
    assert not left, left
    print("all faults were named in time")


if __name__ == "__main__":
    main()
