"""Whole programs: what several processes train equals what one does with the whole batch, whoever starts them."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tessera

PROGRAM = Path(__file__).parent / "programs" / "train.py"
TORCHRUN = [sys.executable, "-m", "tessera.distributed.run", "--standalone"]


def program():
    spec = importlib.util.spec_from_file_location("train_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mpirun():
    found = shutil.which("mpirun")
    if not found or not tessera.distributed.is_mpi_available():
        pytest.skip("there is no MPI on this machine")
    return found


def run(command, *arguments):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TORCHELASTIC", "PET_"))}
    kept |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    # Open MPI wants to be told that containers' only user may start it, on however many cores there are.
    kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    kept |= {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    words = [*map(str, command), *map(str, arguments)]
    out = subprocess.run(words, env=kept, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    return out


def check(name, folder, world, first=0):
    found = tessera.load(folder / name)
    assert (found["world"], found["first"]) == (world, first)
    expected = program().alone(name)
    assert list(expected) == list(found["weights"])
    for key, value in expected.items():
        tessera.testing.assert_close(
            found["weights"][key], value, atol=1e-6, rtol=1e-6, msg=lambda text: f"{key}: {text}"
        )


@pytest.mark.parametrize("world", [2, 4])
def test_torchrun(world, tmp_path):
    run([*TORCHRUN, f"--nproc-per-node={world}", PROGRAM], "resnet,gpt", "gloo", tmp_path)
    check("resnet", tmp_path, world)
    check("gpt", tmp_path, world)


@pytest.mark.parametrize("world", [2, 4])
def test_mpirun(world, tmp_path):
    run([mpirun(), "-n", world, sys.executable, PROGRAM], "resnet,gpt", "mpi", tmp_path)
    check("resnet", tmp_path, world)
    check("gpt", tmp_path, world)


def test_a_killed_worker_goes_on_from_the_checkpoint(tmp_path):
    run([*TORCHRUN, "--nproc-per-node=2", "--max-restarts=1", PROGRAM], "gpt", "gloo", tmp_path, "--die")
    check("gpt", tmp_path, 2, first=2)


@pytest.mark.parametrize("world", [1, 3])
def test_everything_a_backend_does_goes_by_mpi(world):
    out = run([mpirun(), "-n", world, sys.executable, PROGRAM.with_name("collectives.py")], "mpi")
    # mpirun passes on what the ranks write in pieces, and may end one's line after another's words.
    said = sorted(re.findall(r"rank \d+ of \d+ is content", out.stdout))
    assert said == [f"rank {rank} of {world} is content" for rank in range(world)]
