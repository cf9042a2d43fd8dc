"""Programs and extensions that other build systems make against the package: CMake, pkg-config, setuptools."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import tessera

PACKAGE = pathlib.Path(tessera.__file__).parent
# A class of the library that is thrown here and known there: nothing of this links without it. Small, to be compiled
# in a second.
TOLD = '#include <c10/util/Exception.h>\nstatic std::string told() {\n  try {\n    TORCH_CHECK(false, "told ", 7);\n  }'
TOLD += " catch (const c10::Error& e) {\n    return e.msg();\n  }\n  return {};\n}\n"
PROGRAM = TOLD + "#include <cstdio>\nint main() { std::puts(told().c_str()); }\n"
# As the tutorials of the C++ front end have it.
CMAKE = """cmake_minimum_required(VERSION 3.18 FATAL_ERROR)
project(example-app)
find_package(%s REQUIRED)
set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} ${TORCH_CXX_FLAGS}")
add_executable(example-app example-app.cpp)
target_link_libraries(example-app "${%s_LIBRARIES}")
set_property(TARGET example-app PROPERTY CXX_STANDARD 17)
"""
MODULE = (
    "#include <Python.h>\n"
    + TOLD
    + """
static PyObject* call(PyObject*, PyObject*) { return PyUnicode_FromString(told().c_str()); }
static PyMethodDef methods[] = {{"told", call, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, C10_STRINGIZE(TORCH_EXTENSION_NAME), "", -1, methods};
PyMODINIT_FUNC C10_CONCATENATE(PyInit_, TORCH_EXTENSION_NAME)() { return PyModule_Create(&module); }
"""
)
SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="told_extension",
    ext_modules=[CppExtension("told_module", ["module.cpp"], extra_compile_args={"cxx": ["-O0"]})],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
"""


def run(*command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


@needs("cmake")
@pytest.mark.parametrize(("package", "variable"), [("Torch", "TORCH"), ("Tessera", "TESSERA")])
def test_cmake_finds_the_package(tmp_path, package, variable):
    (tmp_path / "example-app.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE % (package, variable))
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={tessera.utils.cmake_prefix_path}")
    run("cmake", "--build", build)
    assert run(build / "example-app") == "told 7\n"


@needs("pkg-config")
def test_pkg_config_has_the_flags(tmp_path):
    (tmp_path / "main.cpp").write_text(PROGRAM)
    environment = {**os.environ, "PKG_CONFIG_PATH": str(PACKAGE / "lib" / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "tessera", env=environment).split()
    run("c++", "-O0", tmp_path / "main.cpp", "-o", tmp_path / "main", *flags)
    assert run(tmp_path / "main") == "told 7\n"


def test_setuptools_builds_an_extension_in_place(tmp_path):
    (tmp_path / "module.cpp").write_text(MODULE)
    (tmp_path / "setup.py").write_text(SETUP)
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    run(sys.executable, "-m", "tessera", "setup.py", "build_ext", "--inplace", cwd=tmp_path, env=environment)
    code = "import tessera, told_module; print(told_module.told())"
    assert run(sys.executable, "-c", code, cwd=tmp_path, env=environment) == "told 7\n"


# A CUDA toolkit for machines without one: nvcc writes down what it is told and has the C++ compiler do the rest, after
# taking away what only nvcc knows, as nvcc does.
NVCC = """#!{python}
import json, subprocess, sys

words, left = sys.argv[1:], []
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
while words:
    word = words.pop(0)
    if word in ("--compiler-options", "-Xcompiler"):
        left += words.pop(0).split(",")
    elif not word.startswith(("-gencode", "--expt", "--use_fast_math", "-arch")):
        left += ["-x", "c++", word, "-x", "none"] if word.endswith(".cu") else [word]
sys.exit(subprocess.call(["c++", *left]))
"""
KERNELS = """#include <cuda_runtime.h>
extern "C" int of_runtime();
int of_device() { return STAND_IN_TOOLKIT + of_runtime(); }
"""
CALLER = """#include <Python.h>
int of_device();
static PyObject* call(PyObject*, PyObject*) { return PyLong_FromLong(of_device() + WITH_CUDA); }
static PyMethodDef methods[] = {{"value", call, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
#define NAME_(a, b) a##b
#define NAME(a, b) NAME_(a, b)
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "devices", "", -1, methods};
PyMODINIT_FUNC NAME(PyInit_, TORCH_EXTENSION_NAME)() { return PyModule_Create(&module); }
"""
CUDA_SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

args = {"cxx": ["-O0", "-DWITH_CUDA=10"], "nvcc": ["-O1", "--use_fast_math"]}
setup(
    name="devices",
    ext_modules=[CUDAExtension("devices", ["caller.cpp", "kernels.cu"], extra_compile_args=args)],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=%s)},
)
"""
CUDA_LOAD = """import tessera.utils.cpp_extension as e
args = {"extra_cflags": ["-O0", "-DWITH_CUDA=10"], "extra_cuda_cflags": ["-O1", "--use_fast_math"]}
print(e.load("devices", ["caller.cpp", "kernels.cu"], build_directory=".", **args).value())
"""


@pytest.fixture
def toolkit(tmp_path):
    """(environment of a build with the toolkit, a function that reads what nvcc was told)."""
    home, log = tmp_path / "toolkit", tmp_path / "told"
    for folder in ("bin", "include", "lib64"):
        (home / folder).mkdir(parents=True)
    (home / "bin" / "nvcc").write_text(NVCC.format(python=sys.executable, log=str(log)))
    (home / "bin" / "nvcc").chmod(0o755)
    (home / "include" / "cuda_runtime.h").write_text("#define STAND_IN_TOOLKIT 100\n")
    (tmp_path / "runtime.cpp").write_text('extern "C" int of_runtime() { return 2; }\n')
    run("c++", "-shared", "-fPIC", tmp_path / "runtime.cpp", "-o", home / "lib64" / "libcudart.so")
    (tmp_path / "caller.cpp").write_text(CALLER)
    (tmp_path / "kernels.cu").write_text(KERNELS)
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "CUDA_HOME": str(home), "TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX"}
    environment["LD_LIBRARY_PATH"] = str(home / "lib64")
    return environment, lambda: [json.loads(line) for line in log.read_text().splitlines()]


def check_told(words, home):
    """What nvcc has to be told of a source."""
    assert {"-O1", "--use_fast_math", "-std=c++20", "--expt-relaxed-constexpr", "-c"} <= set(words)
    assert "-DWITH_CUDA=10" not in words and "-O0" not in words
    assert words[words.index("--compiler-options") + 1] == "-fPIC"
    assert [word for word in words if word.startswith("-gencode")] == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=compute_90",
        "-gencode=arch=compute_90,code=sm_90",
    ]
    assert "-DTORCH_EXTENSION_NAME=devices" in words
    folders = " ".join(words).replace("-isystem ", "-I")
    assert f"-I{home}/include" in folders and f"-I{PACKAGE / 'include'}" in folders


@pytest.mark.parametrize("ninja", [False, pytest.param(True, marks=needs("ninja"))])
def test_setuptools_builds_cuda_sources(tmp_path, toolkit, ninja):
    environment, told = toolkit
    (tmp_path / "setup.py").write_text(CUDA_SETUP % ninja)
    build = [sys.executable, "-m", "tessera", "setup.py", "build_ext", "--inplace"]
    run(*build, cwd=tmp_path, env=environment)
    (words,) = told()
    check_told(words, environment["CUDA_HOME"])
    code = "import tessera, devices; print(devices.value())"
    assert run(sys.executable, "-c", code, cwd=tmp_path, env=environment) == "112\n"
    run(*build, cwd=tmp_path, env=environment)
    assert len(told()) == 1  # nothing is out of date
    (tmp_path / "toolkit" / "include" / "cuda_runtime.h").write_text("#define STAND_IN_TOOLKIT 200\n")
    run(*build, cwd=tmp_path, env=environment)
    assert len(told()) == 2 and run(sys.executable, "-c", code, cwd=tmp_path, env=environment) == "212\n"


def test_load_builds_cuda_sources(tmp_path, toolkit):
    environment, told = toolkit
    assert run(sys.executable, "-c", CUDA_LOAD, cwd=tmp_path, env=environment) == "112\n"
    (words,) = told()
    check_told(words, environment["CUDA_HOME"])
    steps = (tmp_path / "build.ninja").read_text() if shutil.which("ninja") else ""
    assert not steps or f"{environment['CUDA_HOME']}/bin/nvcc" in steps and "kernels.cuda.o" in steps


def test_cuda_extensions_need_a_toolkit(tmp_path):
    code = "from tessera.utils.cpp_extension import _toolchain; _toolchain.CUDA_HOME = None\n"
    code += "from tessera.utils.cpp_extension import CUDAExtension\ntry:\n    CUDAExtension('a', ['a.cu'])\n"
    code += "except OSError as error:\n    print(error)\n"
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert "CUDA_HOME" in run(sys.executable, "-c", code, env={**os.environ, "PYTHONPATH": path})
