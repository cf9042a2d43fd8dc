"""What the kernels of the CUDA library take of a multiprocessor: registers for all threads of a block, shared memory,
stack. A block that takes more than there is does not start on a device, which no emulation shows.

Numbers are those of the compiled kernels, by cuobjdump: that of the toolkit, or of the pip package
nvidia-cuda-cuobjdump.
"""

import glob
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What any device from capability 8.0 to 12.0 has for a block: registers, and shared memory that a kernel may name at
# compile time. Registers are given to warps in units of 256.
REGISTERS, SHARED = 65536, 48 * 2**10
# Kernels that say no largest number of threads (__launch_bounds__) are started with so many, but for some.
THREADS = 256
MORE_THREADS = {"sum_tiles": 512, "sort_rows": 1024}
# Stack of a thread, in bytes: what does not fit into registers, and arrays whose places are computed. It is memory of
# the device, so more is a question: is it meant?
STACK = 512
# Kernels that ask for shared memory when they start take what a block of the smallest device may have (99 KiB), of
# which 1 KiB is the system's; what they name at compile time is more than that.
DYNAMIC = ("forward_kernel", "query_kernel", "key_kernel")
NAMED_BESIDE = 2**10


def cuobjdump():
    home = re.search(r"^NVCC = '(.*)/bin/nvcc'", definitions(), re.MULTILINE)
    places = [f"{home[1]}/bin/cuobjdump"] if home else []
    for environment in (sys.prefix, ROOT / ".venv"):  # the tools are in the latter
        places += glob.glob(f"{environment}/lib/python*/site-packages/nvidia/cu*/bin/cuobjdump")
    found = [p for p in [*places, shutil.which("cuobjdump")] if p and pathlib.Path(p).exists()]
    if not found:
        pytest.skip("no cuobjdump: neither in the CUDA toolkit nor as the package nvidia-cuda-cuobjdump (tools/setup)")
    return found[0]


def bazel(*arguments):
    result = subprocess.run(["bazel", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout.strip()


def definitions():
    return pathlib.Path(bazel("info", "output_base"), "external", "cuda", "defs.bzl").read_text()


@pytest.fixture(scope="module")
def library():
    bazel("query", "--noshow_progress", "@cuda//:all")  # writes what `definitions` reads
    if "HAVE_CUDA = True" not in definitions():
        pytest.skip("no CUDA toolkit (nvcc): the library for devices is not built")
    cuobjdump()  # skips before anything is built
    bazel("build", "--noshow_progress", "//python:_cuda")
    built = glob.glob(f"{bazel('info', 'bazel-bin')}/python/_cuda.*.so")  # of each Python; kernels are the same
    assert built
    found = max(built, key=lambda path: pathlib.Path(path).stat().st_mtime)
    return found


def bound_threads(cubin):
    """Kernel -> threads of its __launch_bounds__, from the sections .nv.info.KERNEL of an object of a device."""
    data = cubin.read_bytes()
    offset, size, count, names = struct.unpack_from("<Q", data, 40) + struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    found = {}
    for name, _, _, _, begin, length in sections:
        start = sections[names][4] + name
        title = data[start : data.index(b"\0", start)].decode()
        at, end = begin, begin + length
        while title.startswith(".nv.info.") and at < end:
            kind, attribute, value = struct.unpack_from("<BBH", data, at)
            at += 4
            if kind == 4:  # `value` bytes follow
                if attribute == 5:
                    x, y, z = struct.unpack_from("<III", data, at)
                    found[title.removeprefix(".nv.info.")] = x * y * z
                at += value
    return found


@pytest.fixture(scope="module")
def kernels(library, tmp_path_factory):
    """(architecture, kernel, its resources, its threads) of all."""
    folder = tmp_path_factory.mktemp("cubins")
    tool = cuobjdump()
    subprocess.run([tool, "-xelf", "all", library], cwd=folder, check=True, capture_output=True)
    bounds = {}
    for cubin in folder.glob("*.cubin"):
        bounds.update({(cubin.name.split(".")[-2], k): n for k, n in bound_threads(cubin).items()})
    text = subprocess.run([tool, "--dump-resource-usage", library], check=True, capture_output=True, text=True).stdout
    found, architecture = [], None
    for line in re.finditer(r"^arch = (\S+)|^ Function (\S+):\n +(REG:.*)", text, re.MULTILINE):
        if line[1]:
            architecture = line[1]
            continue
        resources = {k: int(v) for k, v in re.findall(r"([A-Z]+):(\d+)", line[3])}
        threads = bounds.get((architecture, line[2]))
        if threads is None:
            threads = max([n for k, n in MORE_THREADS.items() if re.search(rf"\d{k}I?", line[2])], default=THREADS)
        found.append((architecture, line[2], resources, threads))
    return found


def check(kernels, wrong):
    failed = [f"{a} {k}: {r}, {n} threads" for a, k, r, n in kernels if wrong(k, r, n)]
    assert not failed, "\n".join(failed[:20])


def test_every_kernel_is_there_for_the_architectures_of_the_build(library):
    """Code of each "sm_", and of each "compute_" what newer devices translate; all in less than 16 MiB."""
    found = set()
    for what, kind, file in (("elf", "sm", "cubin"), ("ptx", "compute", "ptx")):
        listed = subprocess.run([cuobjdump(), f"--list-{what}", library], capture_output=True, text=True, check=True)
        names = re.findall(rf"\.sm_(\d+[a-z]?)\.{file}", listed.stdout)
        found |= {f"{kind}_{name}" for name in names}
        counts = {names.count(name) for name in names}
        assert len(counts) == 1 and counts.pop() > 50  # of each source
    named = re.search(r"^ARCHITECTURES = \[(.*)\]", definitions(), re.MULTILINE)
    assert found == set(re.findall(r'"(\w+)"', named[1]))
    assert pathlib.Path(library).stat().st_size < 16 * 2**20


def test_there_are_kernels(kernels):
    assert len(kernels) > 1000
    assert any(n > THREADS for _, _, _, n in kernels) and any(r["STACK"] for _, _, r, _ in kernels)


def test_registers_of_a_block(kernels):
    def wrong(kernel, resources, threads):
        of_warp = -(-resources["REG"] * 32 // 256) * 256
        return of_warp * -(-threads // 32) > REGISTERS

    check(kernels, wrong)


def test_shared_memory(kernels):
    check(kernels, lambda k, r, n: r["SHARED"] > SHARED)
    check(kernels, lambda k, r, n: "attention" in k and any(d in k for d in DYNAMIC) and r["SHARED"] > NAMED_BESIDE)


def test_stack(kernels):
    check(kernels, lambda k, r, n: r["STACK"] > STACK or r["LOCAL"] > 0)
