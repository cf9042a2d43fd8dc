"""torchrun: environments, restarts, reports, output, several agents, signals."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta

import pytest
import tessera.distributed as dist
from tessera.distributed.elastic.multiprocessing import Std
from tessera.distributed.elastic.rendezvous.etcd_rendezvous_backend import EtcdRendezvousBackend, EtcdStore, _Client
from tessera.distributed.elastic.rendezvous.utils import _parse_rendezvous_config, parse_rendezvous_endpoint
from tessera.distributed.run import _filters, parse_min_max_nnodes

TRAIN = """
import os, signal, sys, time
import tessera, tessera.distributed as dist
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
x = tessera.tensor([rank + 1.0])
dist.all_reduce(x)
if attempt == "0" and "kill" in sys.argv and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if "kill" in sys.argv:
    dist.barrier()
with open(sys.argv[1] + str(rank), "w") as file:
    file.write(f"{x.item()} {attempt} {dist.get_world_size()} {os.environ['LOCAL_RANK']}")
print("said by", rank)
dist.barrier()
dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "PET_"))}
    return {**kept, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def agent(*arguments):
    return [sys.executable, "-m", "tessera.distributed.run", *map(str, arguments)]


def launch(*arguments):
    return subprocess.run(agent(*arguments), env=environment(), capture_output=True, text=True, timeout=100)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def results(tmp_path, count):
    return [(tmp_path / f"r{rank}").read_text() for rank in range(count)]


def test_a_killed_worker_is_started_again_with_all_others(tmp_path, script):
    out = launch("--standalone", "--nproc-per-node=2", "--max-restarts=1", script, tmp_path / "r", "kill")
    assert out.returncode == 0, out.stderr
    assert results(tmp_path, 2) == ["3.0 1 2 0", "3.0 1 2 1"]


def test_a_failure_is_reported_with_its_traceback(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text(
        "from tessera.distributed.elastic.multiprocessing.errors import record\n"
        "import os, time\n"
        "@record\n"
        "def main():\n"
        "    if os.environ['RANK'] == '1': raise ValueError('this is the reason')\n"
        "    time.sleep(60)\n"
        "main()\n"
    )
    begin = time.monotonic()
    out = launch("--standalone", "--nproc_per_node=2", path)
    assert out.returncode == 1 and time.monotonic() - begin < 40
    assert "this is the reason" in out.stderr and re.search(r"rank\s*: 1 \(local_rank: 1\)", out.stderr)


def test_two_agents_meet(tmp_path, script):
    place = f"--rdzv-endpoint=127.0.0.1:{free_port()}"
    options = ["--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-id=job", place]
    agents = [
        subprocess.Popen(agent(*options, script, tmp_path / "r"), env=environment(), stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [one.communicate(timeout=100)[1] for one in agents]
    assert [one.returncode for one in agents] == [0, 0], errors
    found = results(tmp_path, 4)
    assert [text[:8] for text in found] == ["10.0 0 4"] * 4
    assert sorted(text[-1] for text in found) == ["0", "0", "1", "1"]


def test_output_goes_into_files_and_is_shown(tmp_path, script):
    logs = tmp_path / "logs"
    options = ["--standalone", "--nproc-per-node=2", f"--log-dir={logs}", "-r", "0:1", "-t", "1:1"]
    out = launch(*options, script, tmp_path / "r")
    assert out.returncode == 0, out.stderr
    assert "[default1]:said by 1" in out.stdout and "said by 0" not in out.stdout
    kept = {path.parent.name: path.read_text() for path in logs.rglob("stdout.log")}
    assert kept == {"0": "said by 0\n", "1": "said by 1\n"}


def test_a_signal_ends_all(tmp_path):
    path = tmp_path / "sleeps.py"
    path.write_text(
        f"import os, time\nopen(r'{tmp_path}/pid' + os.environ['RANK'], 'w').write(str(os.getpid()))\ntime.sleep(99)"
    )
    process = subprocess.Popen(
        agent("--standalone", "--nproc-per-node=2", path), env=environment(), stderr=subprocess.PIPE
    )
    files = [tmp_path / "pid0", tmp_path / "pid1"]
    end = time.monotonic() + 60
    while not all(file.exists() and file.read_text() for file in files):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode != 0
    for file in files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


def test_texts_of_the_command_line():
    assert parse_min_max_nnodes("2:4") == (2, 4) and parse_min_max_nnodes("3") == (3, 3)
    with pytest.raises(RuntimeError, match="MIN:MAX"):
        parse_min_max_nnodes("1:2:3")
    assert parse_rendezvous_endpoint("host:1", 9) == ("host", 1) and parse_rendezvous_endpoint("[::1]", 9) == ("::1", 9)
    with pytest.raises(ValueError, match="port"):
        parse_rendezvous_endpoint("host:99999", 9)
    for wrong in ("[::1", "~:1", ":29400", "a b:1", "host:-1", "host:"):
        with pytest.raises(ValueError, match="rendezvous|port"):
            parse_rendezvous_endpoint(wrong, 9)
    assert _parse_rendezvous_config("a=1, b=x") == {"a": "1", "b": "x"} and _parse_rendezvous_config(" ") == {}
    for wrong in ("a", "a=", "=1", "a=1,,b=2"):
        with pytest.raises(ValueError, match="key=value"):
            _parse_rendezvous_config(wrong)
    assert Std.from_str("0:1,1:3") == {0: Std.OUT, 1: Std.ALL} and Std.from_str("2") == Std.ERR
    assert _filters("a,,b,c") == ["a,b", "c"]


def test_an_unknown_rendezvous_is_named(tmp_path):
    out = launch("--rdzv-backend=nowhere", "--rdzv-endpoint=localhost:1", tmp_path / "none.py")
    assert out.returncode == 1 and "'nowhere' is not known" in out.stderr


def test_agents_meet_in_an_etcd_server(tmp_path, script):
    if not shutil.which("etcd"):
        pytest.skip("there is no etcd server on this machine")
    port, peers = free_port(), free_port()
    place = f"http://127.0.0.1:{port}"
    options = [f"--data-dir={tmp_path}/etcd", f"--listen-client-urls={place}", f"--advertise-client-urls={place}"]
    options += [f"--listen-peer-urls=http://127.0.0.1:{peers}"]
    server = subprocess.Popen(["etcd", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert time.monotonic() < end and server.poll() is None
                time.sleep(0.05)
        check_etcd(place)
        options = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=etcd", "--rdzv-id=job", "--max-restarts=1"]
        options += [f"--rdzv-endpoint=127.0.0.1:{port}", script, tmp_path / "r", "kill"]
        agents = [
            subprocess.Popen(agent(*options), env=environment(), stderr=subprocess.PIPE, text=True) for _ in range(2)
        ]
        errors = [one.communicate(timeout=100)[1] for one in agents]
        assert [one.returncode for one in agents] == [0, 0], errors
        assert results(tmp_path, 2) == ["3.0 1 2 0", "3.0 1 2 0"]
    finally:
        server.kill()
        server.wait()


def check_etcd(place):
    """A store and a rendezvous's state in the server there."""
    client = _Client(place, 10)
    store = EtcdStore(client, "/test/", timedelta(seconds=0.3))
    store.set("a", "1")
    store.append("a", b"2")
    assert (store.get("a"), store.add("n", 3), store.add("n", -1), store.get("n")) == (b"12", 3, 2, b"2")
    assert store.compare_set("c", "", "x") == b"x" and store.compare_set("c", "y", "z") == b"x"
    assert store.compare_set("none", "y", "z") == b"y" and not store.check(["none"])
    assert sorted(store.list_keys()) == ["a", "c", "n"] and store.delete_key("c") and not store.delete_key("c")
    with pytest.raises(dist.DistStoreError, match="timed out"):
        store.get("c")
    backend = EtcdRendezvousBackend(client, "run")
    assert backend.get_state() is None
    state, token, stored = backend.set_state(b"first")
    assert (state, stored) == (b"first", True) and backend.set_state(b"late") == (b"first", token, False)
    assert backend.set_state(b"second", token)[2] and backend.get_state()[0] == b"second"
    assert not backend.set_state(b"third", token)[2]


def test_error_files_have_their_own_time_and_agents_do_not_write_over_them(tmp_path, monkeypatch):
    from tessera.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
    from tessera.distributed.elastic.multiprocessing.errors.handlers import get_error_handler

    path = tmp_path / "error.json"
    path.write_text(json.dumps({"message": "why", "timestamp": "10"}))
    failure = ProcessFailure(0, 997, 1, str(path))
    assert (failure.message, failure.timestamp) == ("why", 10)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "own.json"))

    @record
    def main(file):
        raise ChildFailedError("trainer", {0: ProcessFailure(0, 997, 1, file)})

    with pytest.raises(ChildFailedError):
        main("no such file")
    assert not (tmp_path / "own.json").exists() and get_error_handler() is not None
    with pytest.raises(ChildFailedError):
        main(str(path))
    assert json.loads((tmp_path / "own.json").read_text())["message"] == "why"


FAILS = """
import os, sys, time
from tessera.distributed.elastic.multiprocessing.errors import record

@record
def main():
    ready = sys.argv[1] + "/ready"
    if os.environ["RANK"] == "0":
        open(ready, "w").close()
        time.sleep(60)
    while not os.path.exists(ready):
        time.sleep(0.01)
    raise ValueError("why it fails")

main()
"""


def test_reports_have_who_failed_first_and_who_was_ended_for_it(tmp_path):
    program = tmp_path / "fails.py"
    program.write_text(FAILS)
    command = [sys.executable, "-m", "tessera.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--log-dir", str(tmp_path / "logs"), "--redirects", "3", str(program), str(tmp_path)]
    env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    others, first = done.stderr.rpartition("Root Cause")[::2]
    assert done.returncode == 1 and "OMP_NUM_THREADS" in others and "failed (exitcode: 1) local_rank: 1" in others
    assert "exitcode  : -15" in others.rpartition("Failures:")[2] and "SIGTERM" in others
    assert "exitcode  : 1 " in first and "ValueError: why it fails" in first and "-15" not in first
    (path,) = (tmp_path / "logs").glob("*/attempt_0/1/error.json")
    assert json.loads(path.read_text())["message"]["message"] == "ValueError: why it fails"
