"""Programs and extensions that other build systems make against the package: CMake, pkg-config, setuptools."""

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
