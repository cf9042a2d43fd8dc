"""tessera.utils.cpp_extension: what is built when, by which command lines, and a module that is compiled and called."""

import os
import shutil
import subprocess
import sys
import threading

import pytest
import tessera
from tessera.utils import cpp_extension
from tessera.utils.cpp_extension import _build, _jit, _setuptools, _toolchain

BUILDERS = [False] + [True] * cpp_extension.is_ninja_available()


def copy_step(folder, source, output, headers=None):
    """A step whose "compiler" copies a file and says how often it ran."""
    script = folder / "copy.py"
    script.write_text(
        "import shutil, sys\nsource, output, log, *headers = sys.argv[1:]\nshutil.copy(source, output)\n"
        "open(log, 'a').write(output + '\\n')\n"
        "named = ' '.join(name.replace('$', '$$').replace(' ', chr(92) + ' ') for name in [source, *headers[1:]])\n"
        "if headers: open(headers[0], 'w').write(output + ': ' + named + '\\n')\n"
    )
    names = [str(headers), *map(str, folder.glob("*.h"))] if headers else []
    command = [sys.executable, str(script), str(source), str(output), str(folder / "log"), *names]
    return _build.Step(str(output), [str(source)], command, str(headers) if headers else None)


def runs(folder):
    log = folder / "log"
    done = log.read_text().split() if log.exists() else []
    log.write_text("")
    return [os.path.basename(name) for name in done]


@pytest.mark.parametrize("ninja", BUILDERS)
def test_only_what_is_out_of_date_is_built_again(tmp_path, ninja):
    source, header = tmp_path / "a b$.cpp", tmp_path / "a.h"
    source.write_text("1")
    header.write_text("1")
    one, two = tmp_path / "one.o", tmp_path / "two.so"

    def build():
        # Times of files are no finer than what the file system keeps.
        steps = [copy_step(tmp_path, source, one, tmp_path / "one.d"), copy_step(tmp_path, one, two)]
        os.utime(tmp_path / "copy.py", (0, 0))
        _build.run(steps, str(tmp_path / "build"), "name", ninja=ninja)
        return runs(tmp_path)

    def touch(path, text):
        path.write_text(text)
        later = max(p.stat().st_mtime for p in (one, two)) + 2
        os.utime(path, (later, later))
        return later

    assert build() == ["one.o", "two.so"]
    assert build() == []
    later = touch(source, "2")
    assert build() == ["one.o", "two.so"] and two.read_text() == "2"
    for path in (source, header):
        os.utime(path, (1, 1))
    assert later and build() == []
    touch(header, "2")
    assert build()[0] == "one.o"


@pytest.mark.parametrize("ninja", BUILDERS)
def test_another_command_line_builds_again_and_failures_are_reported(tmp_path, ninja):
    def step(*words):
        output = tmp_path / "out"
        code = "import sys; open(sys.argv[1], 'w'); print('said'); sys.exit('x' in sys.argv)"
        return _build.Step(str(output), [], [sys.executable, "-c", code, str(output), *words])

    for words in ((), ("other",)):
        _build.run([step(*words)], str(tmp_path / "build"), "name", ninja=ninja)
    with pytest.raises(RuntimeError, match="(?s)Error building extension 'name'.*said"):
        _build.run([step("x")], str(tmp_path / "build"), "name", ninja=ninja)
    # What failed is not taken for built.
    with pytest.raises(RuntimeError, match="Error building extension"):
        _build.run([step("x")], str(tmp_path / "build"), "name", ninja=ninja)


def test_ninja_files_hold_any_name():
    step = _build.Step("/o ut:1.o", ["/in $x.cpp"], ["c++", "-DX=a b", "$HOME"], "/d.d", ["/lib so"])
    text = _build.ninja_file([step])
    assert "command = c++ '-DX=a b' '$$HOME'" in text
    assert "build /o$ ut$:1.o: step0 /in$ $$x.cpp | /lib$ so" in text


def test_workers_are_those_of_the_environment(monkeypatch):
    for given, wanted in (("3", 3), ("0", None), ("many", None)):
        monkeypatch.setenv("MAX_JOBS", given)
        assert cpp_extension._get_num_workers(False) == wanted


def test_the_language_is_never_older_than_the_headers():
    assert _toolchain.standard_flags(["-O2", "-std=c++17"]) == ["-std=c++20"]
    assert _toolchain.standard_flags(["-std=gnu++20"]) == ["-std=c++20"]
    assert _toolchain.standard_flags(["-std=c++23"]) == []


def test_what_is_compiled_for_openmp_is_linked_with_its_library():
    assert _toolchain.link_flags(["-O2", "-fopenmp"], ["-lx"]) == ["-lx", "-fopenmp"]
    assert _toolchain.link_flags(["-fopenmp"], ["-fopenmp", "-lx"]) == ["-fopenmp", "-lx"]
    assert _toolchain.link_flags(["-O2"], ["-fopenmp"]) == ["-fopenmp"] and _toolchain.link_flags([], []) == []
    steps = _jit._steps("m", ["/s/a.cpp"], (["-fopenmp"], [], []), [], "/b", "/b/m.so", False, False)
    assert "-fopenmp" in steps[-1].command


def test_devices_to_compile_for(monkeypatch):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0; Hopper 9.0a")
    assert _toolchain._get_cuda_arch_flags() == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=compute_90",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90a,code=sm_90a",
    ]
    assert _toolchain._get_cuda_arch_flags(["-arch=sm_70"]) == []
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "Vega")
    with pytest.raises(ValueError, match="Vega"):
        _toolchain._get_cuda_arch_flags()


def test_compilers_are_told_apart(tmp_path):
    assert cpp_extension.check_compiler_is_gcc("g++")
    assert cpp_extension.get_compiler_abi_compatibility_and_version("g++")[0] is True
    with pytest.warns(UserWarning, match="no-such-compiler"):
        assert cpp_extension.get_compiler_abi_compatibility_and_version("no-such-compiler") == (False, "0.0.0")


def test_where_extensions_are_built(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    assert cpp_extension._get_build_directory("name", False) == str(tmp_path / "name")
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cpp_extension._get_build_directory("name", False).startswith(cpp_extension.get_default_build_root())


def test_two_builds_of_one_folder_take_turns(tmp_path):
    inside = []

    def build():
        with _jit._locked(str(tmp_path)):
            inside.append("in")
            assert inside.count("in") - inside.count("out") == 1
            inside.append("out")

    threads = [threading.Thread(target=build) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert inside == ["in", "out"] * 8


def test_extensions_for_setuptools():
    extension = cpp_extension.CppExtension("a.b", ["b.cpp"], include_dirs=["mine"], libraries=["m"])
    assert extension.include_dirs[0] == "mine" and extension.include_dirs[1:] == cpp_extension.include_paths()
    assert extension.language == "c++" and extension.libraries[0] == "m" and "torch" in extension.libraries
    limited = cpp_extension.CppExtension("a", ["a.cpp"], py_limited_api=True)
    assert "torch_python" not in limited.libraries
    with pytest.raises(RuntimeError, match="SYCL"):
        cpp_extension.SyclExtension("a", ["a.sycl"])
    bound = cpp_extension.BuildExtension.with_options(no_python_abi_suffix=True)
    assert issubclass(bound, cpp_extension.BuildExtension)
    assert [_setuptools._macro(m) for m in (("A", None), ("B", "1"), ("C",))] == ["-DA", "-DB=1", "-UC"]


SOURCE = r"""
#include <torch/extension.h>

at::Tensor twice(const at::Tensor& t) {
  TORCH_CHECK_INDEX(t.dim() == 1, "one dimension, not ", t.dim());
  return t * 2;
}
at::Tensor same(at::Tensor t) { return t; }
at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
std::string call(pybind11::function f) {
  try {
    f();
  } catch (pybind11::error_already_set& e) {
    return e.matches(PyExc_KeyError) ? "KeyError" : "another";
  }
  return "nothing";
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extension")
    functions = {"twice": "two of it", "same": "", "add": "", "call": ""}
    return cpp_extension.load_inline(
        "tessera_test_extension",
        SOURCE,
        functions=functions,
        extra_cflags=["-O0"],
        build_directory=str(folder),
        no_implicit_headers=True,
    )


def test_a_compiled_module_computes_and_keeps_objects(compiled):
    x = tessera.tensor([1.0, 2.0], requires_grad=True)
    y = compiled.twice(x)
    y.sum().backward()
    assert y.tolist() == [2.0, 4.0] and x.grad.tolist() == [2.0, 2.0]
    p = tessera.nn.Parameter(tessera.ones(1))
    assert compiled.same(p) is p
    assert "two of it" in compiled.twice.__doc__ and compiled.__name__ == "tessera_test_extension"


def test_exceptions_cross_the_border_both_ways(compiled):
    with pytest.raises(IndexError, match="one dimension, not 2"):
        compiled.twice(tessera.ones(1, 1))
    with pytest.raises(RuntimeError, match="must match the size"):
        compiled.add(tessera.ones(2), tessera.ones(3))
    with pytest.raises(TypeError):
        compiled.same([1.0])
    assert compiled.call(lambda: {}["k"]) == "KeyError"
    assert compiled.call(lambda: tessera.ones(2)[5]) == "another"


def test_a_module_that_does_not_compile_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="(?s)Error building extension 'broken'.*error: "):
        cpp_extension.load_inline("broken", "int x = ;", build_directory=str(tmp_path), no_implicit_headers=True)


def test_a_program_without_python_links_with_the_package(tmp_path):
    source, program = tmp_path / "main.cpp", tmp_path / "main"
    source.write_text(
        '#include <ATen/ATen.h>\n#include <cstdio>\nint main() {\n  std::printf("%g\\n", at::ones({3}).sum()'
        ".item<double>());\n  try {\n    at::ones({2}) + at::ones({3});\n  } catch (const c10::Error& e) {\n"
        '    std::puts("caught");\n  }\n}\n'
    )
    (include,), (library,) = cpp_extension.include_paths(), cpp_extension.library_paths()
    command = ["g++", "-std=c++20", "-O0", "-isystem", include, str(source), "-o", str(program)]
    subprocess.run([*command, "-L" + library, "-ltorch", "-lc10", "-Wl,-rpath," + library], check=True)
    assert subprocess.run([program], check=True, capture_output=True, text=True).stdout == "3\ncaught\n"
    assert shutil.which("ldd") is None or "libpython" not in subprocess.check_output(["ldd", program], text=True)
