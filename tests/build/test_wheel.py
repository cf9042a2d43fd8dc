"""The installed wheel: its record, size, what it links and exports, and what importing it brings in."""

import base64
import hashlib
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest

# Bytes installed: all but the CUDA library, and that library.
LIMIT, CUDA_LIMIT = 20 * 2**20, 16 * 2**20
RUNTIME = re.compile(r"(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux-x86-64)\.so\.\d+$")


@pytest.fixture(scope="module")
def files():
    try:
        return importlib.metadata.files("tessera")
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("tessera is not installed as a distribution; tools/test does that")


@pytest.fixture(scope="module")
def extension(files):
    (found,) = [f for f in files if re.fullmatch(r"tessera/_C\.cpython-.*\.so", str(f))]
    return str(found.locate())


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_every_file_is_as_recorded(files):
    recorded = [f for f in files if f.hash is not None and "__pycache__" not in f.parts]
    assert len(recorded) > 10
    for f in recorded:
        if f.parent.name.endswith(".dist-info"):
            continue  # the installer adds to these
        digest = hashlib.new(f.hash.mode, f.locate().read_bytes()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == f.hash.value, str(f)


def test_holds_the_package_and_the_launchers_alias(files):
    names = {str(f) for f in files}
    assert {"tessera/__init__.py", "tessera/__main__.py", "tessera/version.py", "tessera/_operators.pyi"} <= names
    assert {"tessera/_alias/site/torch/__init__.py", "tessera/_alias/start/sitecustomize.py"} <= names
    assert not [n for n in names if n.startswith("torch") or "/tests/" in n]


def test_installs_less_than_20_megabytes(files):
    sizes = {str(f): pathlib.Path(f.locate()).stat().st_size for f in files if "__pycache__" not in f.parts}
    cuda = sum(size for name, size in sizes.items() if name.startswith("tessera/_cuda."))
    assert sum(sizes.values()) - cuda < LIMIT and cuda < CUDA_LIMIT


def test_needs_no_other_distribution():
    assert importlib.metadata.requires("tessera") in (None, [])


def test_version_is_the_packages():
    assert run(
        sys.executable, "-c", "import tessera; print(tessera.__version__)"
    ).strip() == importlib.metadata.version("tessera")


def test_extension_links_only_the_runtime(extension):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", extension))
    assert needed
    assert [n for n in needed if not RUNTIME.match(n)] == []
    assert "RPATH" not in run("readelf", "-dW", extension)
    assert "RUNPATH" not in run("readelf", "-dW", extension)


def dynamic_symbols(path):
    """(binding, whether it is defined, name) of each."""
    rows = [line.split() for line in run("readelf", "--dyn-syms", "-W", path).splitlines()]
    return [
        (s[4], s[6] != "UND", s[7].split("@")[0])
        for s in rows
        if len(s) >= 8 and s[0] != "Num:" and s[4] in ("GLOBAL", "WEAK", "UNIQUE")
    ]


def test_extension_exports_its_entry_point_and_the_cpp_api(extension):
    defined = {name for _, is_defined, name in dynamic_symbols(extension) if is_defined}
    others = {name for name in defined if "7tessera" not in name}
    assert others == {"PyInit__C"}
    assert {"_ZN7tessera2op10add_TensorE", "_ZTIN7tessera8autograd4NodeE"} <= defined
    internal = re.compile(r"_ZN7tessera(3cpu|7kernels|11op_autograd|10op_forward|7op_info)")
    assert not [name for name in defined if internal.match(name)]
    assert sum(len(name) + 1 for name in defined) + 24 * len(defined) < 300_000


def test_other_extensions_export_their_entry_point_alone(files):
    others = [f for f in files if re.fullmatch(r"tessera/_(?!C\.)\w+\.cpython-.*\.so", str(f))]
    assert others
    for f in others:
        defined = [name for _, is_defined, name in dynamic_symbols(str(f.locate())) if is_defined]
        assert defined == ["PyInit_" + f.name.split(".")[0]]


def test_a_program_without_python_can_load_the_library(extension):
    wanted = {(binding, name) for binding, is_defined, name in dynamic_symbols(extension) if not is_defined}
    python = {(binding, name) for binding, name in wanted if re.match("_?Py", name)}
    assert python and {binding for binding, _ in python} == {"WEAK"}


def packed_pointers(extension):
    """The addresses in the file's RELR list: an even entry is one, the bits of an odd one stand for the next 63."""
    words = memoryview(pathlib.Path(extension).read_bytes())
    section = re.search(r"\.relr\.dyn\s+\S+\s+\S+\s+([0-9a-f]+)\s+([0-9a-f]+)", run("readelf", "-SW", extension))
    begin, size = (int(s, 16) for s in section.groups())
    found, last = [], 0
    for word in words[begin : begin + size].cast("Q"):
        if word % 2 == 0:
            found.append(word)
            last = word + 8
        else:
            found += [last + 8 * i for i in range(63) if word >> (i + 1) & 1]
            last += 63 * 8
    return found


def test_extensions_relocate_themselves_before_anything_reads_their_pointers(files):
    extensions = [str(f.locate()) for f in files if re.fullmatch(r"tessera/_\w+\.cpython-.*\.so", str(f))]
    assert len(extensions) >= 2
    for extension in extensions:
        pointers = packed_pointers(extension)
        assert len(pointers) > 100
        kinds = re.findall(r"R_X86_64_\w+", run("readelf", "-rW", extension))
        assert kinds and not {"R_X86_64_RELATIVE", "R_X86_64_IRELATIVE"} & set(kinds)
        # What thread-local variables start with is copied before that.
        tls = re.search(r"\sTLS\s+\S+\s+(0x\S+)\s+\S+\s+(0x\S+)", run("readelf", "-lW", extension))
        begin, size = (int(s, 16) for s in tls.groups())
        assert not [p for p in pointers if begin <= p < begin + size]


def test_import_brings_in_neither_numpy_nor_the_namespaces():
    loaded = run(sys.executable, "-c", "import sys; import tessera; print(*sys.modules)").split()
    assert "numpy" not in loaded
    assert "tessera" in loaded
    for lazy in ("tessera.nn", "tessera.optim", "tessera.utils.data"):
        assert lazy not in loaded
