"""Other people's C++ extensions, CPU sources, unmodified: built, checked with numbers, and their own tests.

    python tests/programs/extensions.py CHECKOUTS [NAME ...] [--work FOLDER] [--no-tests]

CHECKOUTS holds the repositories, each in a folder of its name (`EXTENSIONS` says which commits the table in README.md
is about). They are copied to FOLDER (a temporary one) and built there by `tessera.utils.cpp_extension.load`, with the
flags of their own setup.py; each library in a process of its own. Then `extension_checks.py` compares what the package
computes with plain formulas, and its own tests run, all by `python -m tessera`, which is `torch` to them. Needs
pybind11, and for the tests what they import (pytest, numpy, scipy, expecttest).

Prints a row for each: libraries built of how many, check, own tests passed of how many (skipped ones are not counted).
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = (
    "import sys; from tessera.utils import cpp_extension as e; name, folder, module, include, flags, *sources = "
    "sys.argv[1:]; e.load(name, sources, extra_cflags=flags.split(), extra_include_paths=include.split(), "
    "build_directory=folder, is_python_module=bool(module))"
)


@dataclasses.dataclass
class Extension:
    repository: str
    commit: str
    package: str
    flags: str = "-O3"
    is_module: bool = False  # Python modules, not libraries of operators
    sources: tuple = ()  # glob patterns of the main sources
    wholes: dict = dataclasses.field(default_factory=dict)  # path of a module -> glob patterns of its sources
    include: tuple = ()
    path: str = ""  # the folder that the package lies in
    tests: tuple = ("test",)
    needs: dict = dataclasses.field(default_factory=dict)  # folder in the checkout -> repository that belongs there

    def libraries(self, root):
        """[(name, folder, sources)]."""
        for path, patterns in self.wholes.items():
            module = root / self.path / path
            yield module.name, module.parent, sorted(p for pattern in patterns for p in root.glob(pattern))
        for path in sorted(p for pattern in self.sources for p in root.glob(pattern)):
            if self.is_module:
                name = "_C" if path.stem == "muladd" else path.stem
                folder = path.parent.parent if path.parent.name == "csrc" else path.parent
                yield name, folder, [path]
            else:
                beside = path.parent / "cpu" / f"{path.stem}_cpu.cpp"
                yield f"_{path.stem}_cpu", root / self.package, [path] + [beside] * beside.exists()


def _rusty(name, commit, package, **more):
    more.setdefault("include", ("csrc",))
    flags = "-O3 -Wno-sign-compare -DWITH_PYTHON -DAT_PARALLEL_OPENMP -fopenmp"
    return Extension("rusty1s/" + name, commit, package, flags, sources=("csrc/*.cpp",), **more)


EXTENSIONS = {
    "fast-transformers": Extension(
        "idiap/fast-transformers",
        "2ad36b97e64cb93862937bd21fcc9568d989561f",
        "fast_transformers",
        "-fopenmp -ffast-math",
        is_module=True,
        sources=("fast_transformers/**/*_cpu.cpp",),
        tests=("tests",),
    ),
    "pytorch_scatter": _rusty("pytorch_scatter", "648dda3cf964731ffb4de11eafc445a83133eda4", "torch_scatter"),
    "pytorch_spline_conv": _rusty(
        "pytorch_spline_conv", "050f58a430e41f6beda90fe9ea5a348c0b8831a7", "torch_spline_conv"
    ),
    "pytorch_cluster": _rusty("pytorch_cluster", "3d1d9e3967c77c757a68d8aad37d0171e93018e2", "torch_cluster"),
    "pytorch_sparse": _rusty(
        "pytorch_sparse",
        "91feaa5e28a2eb4ba983a9007d046112dbc92d97",
        "torch_sparse",
        include=("csrc", "third_party/parallel-hashmap"),
        needs={"third_party/parallel-hashmap": "greg7mdp/parallel-hashmap"},
    ),
    "extension-cpp": Extension(
        "pytorch/extension-cpp",
        "0ec4969c7bc8e15a8456e5eb9d9ca0a7ec15bc95",
        "extension_cpp",
        "-O3 -fdiagnostics-color=always -DPy_LIMITED_API=0x03090000",
        is_module=True,
        sources=("extension_cpp/csrc/*.cpp",),
    ),
    "detectron2": Extension(
        "facebookresearch/detectron2",
        "02b5c4e295e990042a714712c21dc79b731e8833",
        "detectron2",
        is_module=True,
        flags="-O2",
        wholes={"detectron2_C": ("detectron2/layers/csrc/**/*.cpp",)},
        include=("detectron2/layers/csrc",),
        tests=(),
    ),
    "fairseq": Extension(
        "facebookresearch/fairseq",
        "3d262bb25690e4eb2e7d3c1309b1e9c406ca4b99",
        "fairseq",
        is_module=True,
        flags="-std=c++11 -O3",
        wholes={name: (f"fairseq/clib/{name}/*.cpp",) for name in ("libbase", "libnat")},
        tests=(),
    ),
    "pytorch3d": Extension(
        "facebookresearch/pytorch3d",
        "9381c4016376345bb795b97c45a6c2de66db354a",
        "pytorch3d",
        is_module=True,
        flags="-std=c++17",
        wholes={"pytorch3d_C": ("pytorch3d/csrc/**/*.cpp",)},
        include=("pytorch3d/csrc",),
        tests=(),
    ),
    "apex": Extension(
        "NVIDIA/apex",
        "6424da3b4faa6c8f062da4a48c424fff3f02d42d",
        "apex",
        is_module=True,
        wholes={"apex_C": ("csrc/flatten_unflatten.cpp",)},
        tests=(),
    ),
    "torchdrug": Extension(
        "DeepGraphLearning/torchdrug",
        "6066fbd82360abb5f270cba1eca560af01b8cc90",
        "torchdrug",
        is_module=True,
        flags="-O3 -DAT_PARALLEL_OPENMP -fopenmp",
        wholes={
            "spmm": ("torchdrug/layers/functional/extension/*spmm.cpp",),
            "embedding": ("torchdrug/layers/functional/extension/embedding.cpp",),
        },
        tests=(),
    ),
    "signatory": Extension(
        "patrick-kidger/signatory",
        "2ce3b4af491dde96707b949528cdb648086dbce7",
        "signatory",
        is_module=True,
        flags="-fvisibility=hidden -fopenmp",
        wholes={"signatory/_impl": ("src/*.cpp",)},
        path="src",
        tests=(),
    ),
    "warp-transducer": Extension(
        "HawkAaron/warp-transducer",
        "f546575109111c455354861a0567c8aa794208a2",
        "warprnnt_pytorch",
        is_module=True,
        flags="-O2 -fopenmp",
        wholes={"warp_rnnt": ("pytorch_binding/src/binding.cpp", "src/rnnt_entrypoint.cpp")},
        include=("include",),
        tests=(),
    ),
    "torch-harmonics": Extension(
        "NVIDIA/torch-harmonics",
        "9e9fa5373bc66add241638ef7a481da2e5c80d32",
        "torch_harmonics",
        is_module=True,
        flags="-O3 -ffast-math -funroll-loops -DNDEBUG -fopenmp",
        wholes={
            "disco_helpers": ("torch_harmonics/disco/optimized/disco_helpers.cpp",),
            "attention_helpers": ("torch_harmonics/attention/optimized/attention_helpers.cpp",),
            "torch_harmonics/disco/_C": (
                "torch_harmonics/disco/optimized/disco_interface.cpp",
                "torch_harmonics/disco/optimized/kernels_cpu/*.cpp",
            ),
            "torch_harmonics/attention/_C": (
                "torch_harmonics/attention/optimized/attention_interface.cpp",
                "torch_harmonics/attention/optimized/kernels_cpu/*.cpp",
            ),
        },
        tests=("tests/test_convolution.py", "tests/test_attention.py"),
    ),
    # Its package builds its libraries itself when it is imported.
    "sru": Extension("asappresearch/sru", "9ddc8da12f067125c2cfdd4f3b28a87c02889681", "sru", tests=()),
}


def prepared(name, extension, checkouts, work):
    """A copy of a checkout with what belongs into it."""
    root = work / name
    shutil.copytree(checkouts / name, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    for folder, repository in extension.needs.items():
        shutil.copytree(checkouts / repository.partition("/")[2], root / folder, dirs_exist_ok=True)
    return root


def build(extension, root):
    """(libraries built, of how many, first error)."""
    done, all_of, error = 0, 0, None
    for name, folder, sources in extension.libraries(root):
        include = " ".join(str(root / path) for path in extension.include)
        module = "module" if extension.is_module else ""
        words = [name, str(folder), module, include, extension.flags, *map(str, sources)]
        made = subprocess.run([sys.executable, "-c", BUILD, *words], capture_output=True, text=True)
        all_of += 1
        done += made.returncode == 0
        if made.returncode and error is None:
            lines = [line for line in made.stderr.splitlines() if "rror" in line]
            error = f"{name}: {(lines or made.stderr.splitlines() or ['no message'])[0].strip()}"
    return done, all_of, error


def by_tessera(root, *words):
    """A finished `python -m tessera` in a folder, with the folders of all packages on the path."""
    folders = [folder for folder in sorted(root.parent.iterdir()) if folder.is_dir()]
    path = [str(folder / EXTENSIONS[folder.name].path) for folder in folders]
    path += [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": ""}
    environment["TORCH_EXTENSIONS_DIR"] = str(root / "extensions")
    command = [sys.executable, "-m", "tessera", *words]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


def own_tests(extension, root):
    """(passed, of how many, names of those that did not pass)."""
    words = ["-q", "-p", "no:cacheprovider", "-rfE", "--tb=no", "-o", "addopts="]
    told = by_tessera(root, "-m", "pytest", *words, *extension.tests).stdout
    count = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|error)", told.rpartition("\n=")[2] or told)}
    wrong = [line.partition(" - ")[0] for line in told.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return count.get("passed", 0), sum(count.values()), wrong


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("checkouts", type=pathlib.Path)
    ap.add_argument("names", nargs="*", default=list(EXTENSIONS), metavar="NAME")
    ap.add_argument("--work", type=pathlib.Path, help="where to build; what is there is used again")
    ap.add_argument("--no-tests", action="store_true", help="builds and checks alone")
    opts = ap.parse_args()
    work = (opts.work or pathlib.Path(tempfile.mkdtemp())).resolve()
    bad = 0
    print("| extension | libraries built | check | own tests passed |\n|---|---|---|---|")
    for name in opts.names:
        extension = EXTENSIONS[name]
        root = prepared(name, extension, opts.checkouts, work)
        done, all_of, error = build(extension, root)
        checked = by_tessera(root, str(HERE / "extension_checks.py"), name)
        answer = (checked.stdout or checked.stderr).strip().rpartition("\n")[2]
        passed, tests, wrong = (0, 0, []) if opts.no_tests or not extension.tests else own_tests(extension, root)
        built = f"{done} of {all_of}" if all_of else "by its own `load`"
        print(f"| {name} | {built} | {answer} | {passed} of {tests} |", flush=True)
        for line in [error] * (error is not None) + wrong:
            print("  " + line, file=sys.stderr)
        bad += done < all_of or checked.returncode != 0 or passed < tests
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
