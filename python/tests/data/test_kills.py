"""SIGKILL at random moments: what was saved is whole, and no process, shared memory or file is left behind.

TESSERA_KILL_ROUNDS sets the number of kills of each kind.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import tessera

ROUNDS = int(os.environ.get("TESSERA_KILL_ROUNDS", "2"))
WAIT = 60  # seconds until what should happen counts as not happening
MARK = "TESSERA_KILL_TEST"

SAVE = """
import itertools, sys
import tessera

path, zipped = sys.argv[1], sys.argv[2] == "zip"
for i in itertools.count():
    x = tessera.full((1 << 17,), i)
    tessera.save([x, x.clone(), i], path, _use_new_zipfile_serialization=zipped)
    if i == 0:
        print("ready", flush=True)
"""

LOAD = """
import sys
import tessera
from tessera.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self):
        self.table = tessera.arange(64.0)

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return self.table[i].expand(100_000), str(i)

def epochs(method, persistent):
    loader = DataLoader(
        Images(), 4, num_workers=2, multiprocessing_context=method, persistent_workers=persistent, shuffle=True
    )
    while True:
        iterator = iter(loader)
        print(*(worker.pid for worker in iterator._workers), flush=True)
        for batch, (images, names) in enumerate(iterator):
            assert images[:, 0].tolist() == [float(name) for name in names], (images, names)
            if batch == 9 and not persistent:
                break  # with batches under way

if __name__ == "__main__":
    print("ready", flush=True)
    epochs(sys.argv[1], sys.argv[2] == "persistent")
"""

SEND = """
import sys
import tessera
import tessera.multiprocessing as mp

def echo(number, tasks, results):
    while True:
        results.put(tasks.get())

if __name__ == "__main__":
    mp.set_sharing_strategy(sys.argv[2])
    context = mp.get_context(sys.argv[1])
    queues = context.SimpleQueue(), context.SimpleQueue()
    children = mp.start_processes(echo, queues, join=False, start_method=sys.argv[1])
    print("ready", *children.pids(), flush=True)
    while True:
        queues[0].put([tessera.ones(1000), tessera.zeros(100_000)])
        assert queues[1].get()[0].eq(1).all()
"""


def processes_of(mark):
    """Pids of the processes that a program started, itself included, by a variable of its environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/stat", "rb") as stat:
                if mark in environ.read() and stat.read().rpartition(b")")[2].split()[0] != b"Z":
                    found.append(int(pid))
        except OSError:  # gone, or another user's
            pass
    return found


def shared_files(pids):
    """Files of shared memory that processes with these pids have made."""
    return [name for name in os.listdir("/dev/shm") if name.startswith("torch_") and name.split("_")[1] in pids]


# Who started the tests may ignore Ctrl-C, and what they start would, too.
HEARS_CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


class Program:
    """A program that is killed, from the moment when it says that it is ready."""

    started = []

    def __init__(self, folder, text, *arguments):
        script = folder / "program.py"
        script.write_text(HEARS_CTRL_C + text)
        self.started.append(self)
        self.mark = f"{MARK}={os.getpid()}-{random.getrandbits(64):x}"
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, name: value},
            start_new_session=True,
        )
        self.first = self.process.stdout.readline().split()
        assert self.first[:1] == ["ready"], self.process.communicate()[1]

    def kill(self):
        assert self.process.poll() is None, self.process.communicate()[1]
        self.process.kill()
        self.process.communicate(timeout=WAIT)

    def assert_gone(self):
        """The program, what it started, and the tracker that tidies up behind them have ended, and left nothing."""
        until = time.monotonic() + WAIT
        while processes_of(self.mark.encode()):
            assert time.monotonic() < until, processes_of(self.mark.encode())
            time.sleep(0.02)
        assert not shared_files({str(self.process.pid), *self.first[1:]})


@pytest.fixture(autouse=True)
def nothing_runs_on():
    """Of a test that failed."""
    yield
    while Program.started:
        for pid in processes_of(Program.started.pop().mark.encode()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def moments(longest):
    rng = random.Random(ROUNDS)
    return [rng.random() * longest for _ in range(ROUNDS)]


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_a_killed_save(tmp_path, form):
    path = tmp_path / "model.pt"
    seen = set()
    for moment in moments(0.1):
        program = Program(tmp_path, SAVE, str(path), form)
        time.sleep(moment)
        program.kill()
        program.assert_gone()
        a, b, i = tessera.load(path)
        assert a.numel() == 1 << 17 and a.eq(i).all() and b.equal(a)
        seen.add(i)
    assert len(seen) > 1 or ROUNDS < 10
    # Where the file system has no files without names, one that was being written is left, hidden: one at most for each
    # kill.
    rest = set(os.listdir(tmp_path)) - {"program.py", "model.pt"}
    assert len(rest) <= ROUNDS and all(name.startswith(".model.pt.") and name.endswith(".tmp") for name in rest)


@pytest.mark.parametrize("kind", ["", "persistent"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_killed_loader(tmp_path, method, kind):
    for moment in moments(1.5 if method == "spawn" else 0.5):
        program = Program(tmp_path, LOAD, method, kind)
        time.sleep(moment)
        program.kill()
        program.assert_gone()


@pytest.mark.parametrize("kind", ["", "persistent"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_interrupted_loader(tmp_path, method, kind):
    """Ctrl-C, which all processes of a terminal get: it ends them all. (Where it meets the loader while that starts or
    ends its workers, the program may end by an error of theirs.)
    """
    for moment in moments(0.3):
        program = Program(tmp_path, LOAD, method, kind)
        assert len(program.process.stdout.readline().split()) == 2
        time.sleep(moment)
        os.killpg(program.process.pid, signal.SIGINT)
        errors = program.process.communicate(timeout=WAIT)[1]
        assert program.process.returncode in (-signal.SIGINT, 1) and "KeyboardInterrupt" in errors, errors
        program.assert_gone()


def test_workers_are_interrupted_quietly(tmp_path):
    program = Program(tmp_path, LOAD, "fork", "persistent")
    assert len(program.process.stdout.readline().split()) == 2
    program.process.stdout.readline()  # another pass has begun: the workers are at work
    os.killpg(program.process.pid, signal.SIGINT)
    assert program.process.communicate(timeout=WAIT)[1].count("Traceback") == 1
    program.assert_gone()


@pytest.mark.parametrize("kind", ["", "persistent"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_worker(tmp_path, method, kind):
    """The loader says so, and ends with all that it started."""
    for moment in moments(0.3):
        program = Program(tmp_path, LOAD, method, kind)
        pids = program.process.stdout.readline().split()
        time.sleep(moment)
        try:
            os.kill(int(pids[0]), signal.SIGKILL)
        except ProcessLookupError:  # its pass has ended
            program.kill()
            program.assert_gone()
            continue
        if kind:
            errors = program.process.communicate(timeout=WAIT)[1]
            assert program.process.returncode == 1
            assert "exited unexpectedly" in errors or "closed its pipe" in errors, errors
        else:
            try:
                errors = program.process.communicate(timeout=2)[1]
            except subprocess.TimeoutExpired:  # the worker ended anyway, and was not missed
                program.kill()
            else:
                assert program.process.returncode == 1
                assert "exited unexpectedly" in errors or "closed its pipe" in errors, errors
        program.assert_gone()


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_killed_sender(tmp_path, method, strategy):
    for i, moment in enumerate(moments(0.2)):
        program = Program(tmp_path, SEND, method, strategy)
        time.sleep(moment)
        if i % 2:
            os.kill(int(program.first[1]), signal.SIGKILL)
            time.sleep(0.01)
        program.kill()
        program.assert_gone()
