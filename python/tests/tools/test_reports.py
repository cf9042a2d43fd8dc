"""collect_env, bottleneck, show_pickle, FileCheck and the marks for compilers."""

import io
import os
import pickle
import subprocess
import sys

import pytest
import tessera
from tessera import compiler
from tessera.testing import FileCheck
from tessera.utils import collect_env, show_pickle


def run_module(*arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    result = subprocess.run(
        [sys.executable, "-m", *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_report_names_what_matters():
    report = run_module("tessera.utils.collect_env")
    for part in (f"Tessera version: {tessera.__version__}", "OS: ", "Python version: 3.", "[pip] numpy", "GCC version"):
        assert part in report
    info = collect_env.get_env_info()
    assert info.is_cuda_available == str(tessera.cuda.is_available()) and info._fields[0] == "torch_version"
    assert "Could not collect" in collect_env.pretty_str(info._replace(cmake_version=None, conda_packages=None))


def test_commands_are_asked():
    asked = []

    def answers(command):
        asked.append(command)
        return 0, "gcc (Mine) 99.1\nmore", ""

    assert collect_env.get_gcc_version(answers) == "(Mine) 99.1" and asked == ["gcc --version"]
    assert collect_env.get_clang_version(lambda command: (127, "", "not found")) is None
    assert collect_env.run("nosuchprogram --version")[0] == 127
    assert collect_env.run_and_return_first_line(answers, "x") == "gcc (Mine) 99.1"
    assert collect_env.get_pip_packages(lambda c: (0, "numpy==1\nother==2", ""))[1] == "numpy==1"
    assert collect_env.get_pip_packages(lambda c: (0, "numpy==1\nother==2", ""), ["oth"])[1] == "other==2"


def test_bottleneck(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, tessera\ndef busy():\n    for i in range(10**6): pass\nbusy(); print('got', sys.argv[1:])\n"
        "tessera.ones(3).exp()\n"
    )
    report = run_module("tessera.utils.bottleneck", "--top", "5", str(program), "--flag", "1")
    assert "got ['--flag', '1']" in report and "Environment Summary" in report
    assert "cProfile output" in report and "busy" in report and "aten::exp" in report


def test_pickles_are_shown_without_loading(tmp_path):
    class Bad:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/made",)

    out = io.StringIO()
    shown = show_pickle.DumpUnpickler.dump(io.BytesIO(pickle.dumps({"a": Bad(), "b": [1, "text"]}, protocol=2)), out)
    assert "posix.system" in out.getvalue() and "'text'" in out.getvalue()
    assert isinstance(shown["a"], show_pickle.FakeObject) and not (tmp_path / "made").exists()
    path = tmp_path / "model.pt"
    tessera.save({"w": tessera.ones(2, 3), "m": tessera.nn.Linear(1, 1)}, path)
    text = run_module("tessera.utils.show_pickle", f"{path}@*/data.pkl")
    assert "torch._utils._rebuild_tensor_v2" in text and "pers.obj" in text and "(2, 3)" in text
    assert "torch.nn.modules.linear.Linear" in text and "state=" in text
    assert show_pickle.main(["show_pickle", f"{path}@nothing"], io.StringIO()) == 1


TEXT = "a conv\na relu\nb conv c\n  x y\n  ~~~ z"


@pytest.mark.parametrize(
    "checks",
    [
        FileCheck().check("conv").check_next("relu").check_not("dropout"),
        FileCheck().check_count("conv", 2, exactly=True),
        FileCheck().check_dag("relu").check_dag("a conv").check("z"),
        FileCheck().check("b").check_same("c"),
        FileCheck().check_regex("r.l+u").check_source_highlighted("x y"),
        FileCheck().check_not("dropout").check("conv"),
        FileCheck().check_count("nothing", 0, exactly=True),
    ],
)
def test_checks_that_hold(checks):
    checks.run(TEXT)


@pytest.mark.parametrize(
    "checks, message",
    [
        (FileCheck().check("relu").check("a conv"), 'Expected to find "a conv"'),
        (FileCheck().check_count("conv", 1, exactly=True), 'Expected to not find "conv"'),
        (FileCheck().check_count("conv", 3), 'Expected to find "conv"'),
        (FileCheck().check("conv").check_same("relu"), "CHECK-SAME"),
        (FileCheck().check("conv").check_next("b"), "CHECK-NEXT"),
        (FileCheck().check_not("relu").check("b"), 'Expected to not find "relu"'),
        (FileCheck().check_source_highlighted("conv"), "HIGHLIGHTED"),
        (FileCheck().check_regex("^z"), "CHECK-REGEX"),
        (FileCheck(), "No checks"),
    ],
)
def test_checks_that_fail(checks, message):
    with pytest.raises(RuntimeError, match=message):
        checks.run(TEXT)


def test_checks_in_comments():
    FileCheck().run("# CHECK: conv\n# CHECK-NEXT: relu\n# CHECK-COUNT-1: conv", TEXT)
    with pytest.raises(RuntimeError, match='not find "relu"'):
        FileCheck().run("f(x)  # CHECK: conv\n# CHECK-NOT: relu", TEXT)


def test_marks_for_compilers():
    def add(x, y=1):
        return x + y

    assert not compiler.is_compiling() and compiler.list_backends() == ["inductor"]
    assert compiler.allow_in_graph(add) is add
    kept_out = compiler.disable(add, reason="slow")
    assert kept_out(1, y=2) == 3 and kept_out.__name__ == "add" and kept_out._torchdynamo_disable_msg == "slow"
    assert compiler.disable(recursive=False)(add)(1) == 2
    assert compiler.wrap_numpy(lambda x: x + 1)(tessera.ones(2)).tolist() == [2, 2]
    assert compiler.substitute_in_graph(add)(lambda x, y=1: x - y)(1) == 2
    with pytest.raises(TypeError, match="parameters of the original"):
        compiler.substitute_in_graph(add)(lambda z: z)
    for wrong in (compiler.allow_in_graph, compiler.disable, compiler.wrap_numpy):
        with pytest.raises(TypeError, match="int"):
            wrong(3)


def test_stances_end_with_their_block():
    from tessera.compiler import _stance

    seen = []

    @compiler.set_stance("force_eager")
    def f():
        seen.append(_stance.current[0])

    assert _stance.current == _stance.DEFAULT
    f()
    with compiler.set_stance("fail_on_recompile"):
        f()
        seen.append(_stance.current[0])
    assert seen == ["force_eager", "force_eager", "fail_on_recompile"] and _stance.current == _stance.DEFAULT
    compiler.set_stance("eager_on_recompile")
    assert _stance.current[0] == "eager_on_recompile"
    compiler.reset()
    assert _stance.current == _stance.DEFAULT
    with pytest.raises(RuntimeError, match="stance 'fast'"):
        compiler.set_stance("fast")
    with pytest.raises(RuntimeError, match="force_backend"):
        compiler.set_stance("force_eager", force_backend="eager")


def test_settings_of_save_and_load(tmp_path):
    from tessera.utils.serialization import config

    path = tmp_path / "x.pt"
    tessera.save(tessera.ones(3), path)
    assert config.load.mmap is False and config.save.compute_crc32 is True
    try:
        config.load.mmap = True
        assert tessera.load(path).tolist() == [1, 1, 1]
        with open(path, "rb") as file, pytest.raises(ValueError, match="file path"):
            tessera.load(file)
        config.save.compute_crc32 = False
        assert tessera.serialization.get_crc32_options() is False
    finally:
        config.load.mmap = False
        config.save.compute_crc32 = True
    with pytest.raises(AttributeError, match="mmap, mmap_flags, endianness"):
        config.load.nosuch = 1
    with pytest.raises(TypeError, match="bool"):
        config.load.mmap = "yes"
