"""`python -m tessera`: the program sees `torch`, its children too, other Python programs see nothing of it."""

import glob
import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest
import tessera

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(tessera.__file__)))


def run(*args, cwd=None, launcher=True, **kwargs):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in (ROOT, os.environ.get("PYTHONPATH")) if p))
    command = [sys.executable, *(["-m", "tessera"] if launcher else []), *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=120, **kwargs)


def script(folder, source, name="prog.py"):
    path = folder / name
    path.write_text(textwrap.dedent(source))
    return str(path)


def test_names_are_one_module_object(tmp_path):
    prog = script(
        tmp_path,
        """
        import torch, tessera
        import torch.utils.data.sampler as outside
        import tessera.utils.data.sampler as inside
        assert torch is tessera and outside is inside
        assert outside.__spec__.name == "tessera.utils.data.sampler"
        print(torch.float32, torch.__version__)
        """,
    )
    result = run(prog)
    assert result.stdout == "torch.float32 2.11.0\n", result.stderr


def test_argv_path_and_main(tmp_path):
    prog = script(
        tmp_path,
        "import sys; print(sys.argv, sys.path[0], __name__, __file__, sys.modules['__main__'].__dict__ is globals())",
    )
    assert run(prog, "-x", "a b").stdout.strip() == f"['{prog}', '-x', 'a b'] {tmp_path} __main__ {prog} True"


def test_module_and_code_forms(tmp_path):
    script(tmp_path, "import sys, torch; print(__name__, sys.argv[1:], torch.__name__)", "mod.py")
    assert run("-m", "mod", "1", cwd=tmp_path).stdout == "__main__ ['1'] torch\n"
    assert (
        run("-c", "import sys, torch; print(sys.argv, repr(sys.path[0]), torch.float64)", "z").stdout
        == "['-c', 'z'] '' torch.float64\n"
    )


def test_exit_codes_and_tracebacks(tmp_path):
    assert run("-c", "raise SystemExit(7)").returncode == 7
    result = run(script(tmp_path, "def f():\n    raise KeyError('k')\nf()\n"))
    assert result.returncode == 1
    assert (
        "__main__.py" not in result.stderr
        and result.stderr.count("File ") == 2
        and result.stderr.endswith("KeyError: 'k'\n")
    )


@pytest.mark.parametrize("args", [[], ["-"], ["-m"], ["-c"], ["--nope"], ["no_such_file.py"]])
def test_bad_command_lines(args):
    result = run(*args)
    assert result.returncode == 2 and result.stderr and "Traceback" not in result.stderr


CHILDREN = """
    import multiprocessing, pickle, sys

    class Mine:
        pass

    def child(queue, mine):
        import torch.utils.data
        queue.put((torch.utils.data.__name__, torch.utils.data.__spec__.name, type(mine).__name__))

    if __name__ == "__main__":
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=child, args=(queue, Mine()))
            process.start()
            print(method, *queue.get(timeout=60))
            process.join()
    """


def test_multiprocessing_children_inherit_the_alias(tmp_path):
    result = run(script(tmp_path, CHILDREN))
    want = [f"{method} torch.utils.data tessera.utils.data Mine" for method in ("fork", "spawn", "forkserver")]
    assert result.stdout.splitlines() == want, result.stderr


def test_subprocesses_and_distribution(tmp_path):
    prog = script(
        tmp_path,
        """
        import importlib.metadata, importlib.util, subprocess, sys
        found, none = importlib.util.find_spec("torch"), importlib.util.find_spec("torch.nope")
        print(importlib.metadata.version("torch"), found is not None, none)
        code = "import sys, importlib.metadata as m;"
        code += "print('torch' in sys.modules, 'tessera' in sys.modules, m.version('torch'));"
        code += "import torch.utils.data, torch; print(torch.int8)"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout, end="")
        """,
    )
    result = run(prog)
    assert result.stdout.splitlines() == ["2.11.0 True None", "False False 2.11.0", "torch.int8"], result.stderr


def test_numpy_is_there_for_what_looks_for_it(tmp_path):
    """pytest's approx reads tensors by the NumPy that it finds in sys.modules, where PyTorch has put it."""
    checks = (
        "\nassert torch.tensor(1.0) == pytest.approx(1.0 + 1e-9) and not torch.tensor(1.0) == pytest.approx(1.1)"
        "\nassert pytest.approx(torch.tensor(2.0)) == 2.0"
        "\nprint('equal')"
    )
    prog = script(tmp_path, "import torch, pytest" + checks)
    assert run(prog).stdout == "equal\n"
    child = f"import subprocess, sys; subprocess.run([sys.executable, {prog!r}], check=True)"
    assert run("-c", child).stdout == "equal\n"
    prog = script(tmp_path, "import pytest, torch" + checks)  # pytest comes first, in the child before the alias
    assert run("-c", child).stdout == "equal\n"
    assert run("-c", "import sys, torch; print('numpy' in sys.modules)").stdout == "False\n"


def test_functions_stay_when_the_modules_of_their_names_are_imported():
    program = """
import importlib, torch, torch.nn.parallel
names = ["autograd.gradcheck", "distributed.rendezvous", "export.unflatten", "multiprocessing.spawn",
         "nn.parallel.data_parallel", "nn.utils.spectral_norm", "nn.utils.weight_norm", "quantization.quantize",
         "ao.quantization.quantize", "ao.quantization.fuse_modules"]
for name in names:
    module = importlib.import_module("torch." + name)
    package, _, last = name.rpartition(".")
    found = getattr(importlib.import_module("torch." + package), last)
    assert found is getattr(module, last) and callable(found), name
assert type(torch) is type(importlib)  # its attributes are looked up as fast as those of any module
"""
    assert run("-c", program).returncode == 0


def test_missing_submodules_raise_import_error():
    code = """
try:
    import torch.nope
except ModuleNotFoundError as error:
    print(error)
print(hasattr(__import__("torch"), "nope"))
"""
    assert run("-c", code).stdout == "No module named 'torch.nope'\nFalse\n"


def test_without_the_launcher_nothing_is_aliased():
    code = "import tessera, sys; print(tessera.float32, tessera.__version__, 'torch' in sys.modules)"
    assert run("-c", code, launcher=False).stdout == f"tessera.float32 {tessera.version.tessera} False\n"


# What a child says of itself; for any version of Python.
REPORT = """
import json, os, sys
try:
    import torch
    found = torch.__file__
except ImportError as error:
    found = str(error)
try:
    from importlib.metadata import PackageNotFoundError, version
    try:
        installed = version("torch")
    except PackageNotFoundError:
        installed = "none"
except ImportError:
    installed = "unknown"
print(json.dumps({"torch": found, "installed": installed, "path": sys.path,
                  "customized": "sitecustomize" in sys.modules, "version": list(sys.version_info[:2])}))
"""
RUNS = "import subprocess, sys; raise SystemExit(subprocess.run(sys.argv[1:]).returncode)"


def in_child(*command, launcher=True, **kwargs):
    """What REPORT, or another program, prints in a child of a program under the launcher."""
    paths = (ROOT, *kwargs.pop("paths", ()), os.environ.get("PYTHONPATH"))
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in paths if p))
    prefix = [sys.executable, "-m", "tessera", "-c", RUNS] if launcher else []
    command = [*prefix, *map(str, command)]
    result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120, **kwargs)
    assert result.returncode == 0 and result.stdout, result.stderr
    return json.loads(result.stdout)


def fake_torch(folder):
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    info = folder / "torch-0.0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.0.1\n")
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with another torch: (interpreter, folder of packages)."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = glob.glob(str(folder / "lib" / "python*" / "site-packages"))
    fake_torch(type(folder)(packages))
    return folder / "bin" / "python", packages


def others():
    """Interpreters of other versions or environments: this one's base, and what PATH and pyenv have."""
    names = [f"python{version}" for version in ("2.7", "3", *(f"3.{minor}" for minor in range(6, 16)))]
    pyenv = glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python"))
    # sys._base_executable is the environment's own interpreter in some versions.
    base = os.path.join(sys.base_prefix, "bin", "python%d.%d" % sys.version_info[:2])
    found = [base, *map(shutil.which, names), *pyenv]
    found = [path for path in found if path != sys.executable]
    by_target = {os.path.realpath(path): path for path in found if path and os.access(path, os.X_OK)}
    if sys.prefix == sys.base_prefix:
        by_target.pop(os.path.realpath(sys.executable), None)
    return sorted(p for p in by_target.values() if subprocess.run([p, "-c", ""], capture_output=True).returncode == 0)


def test_an_environment_with_another_torch_keeps_it(environment):
    python, packages = environment
    report = in_child(python, "-c", REPORT)
    assert report["torch"] == os.path.join(packages, "torch", "__init__.py") and report["installed"] == "0.0.1"
    assert report == in_child(python, "-c", REPORT, launcher=False)


def test_an_environment_without_torch_has_none(environment, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    report = in_child(tmp_path / "bin" / "python", "-c", REPORT)
    assert report["torch"] == "No module named 'torch'" and report["installed"] == "none"
    assert report == in_child(tmp_path / "bin" / "python", "-c", REPORT, launcher=False)


def test_other_interpreters_are_untouched(tmp_path):
    folder = fake_torch(tmp_path / "packages")
    seen = []
    for python in others():
        report = in_child(python, "-c", REPORT, paths=[str(folder)])
        assert report == in_child(python, "-c", REPORT, paths=[str(folder)], launcher=False), python
        assert report["torch"].startswith(str(folder / "torch" / "__init__.py")), python
        assert report["installed"] in ("0.0.1", "unknown"), python
        seen.append(report["version"])
    print("interpreters:", seen)
    assert seen or sys.prefix == sys.base_prefix  # an environment has a base at least


@pytest.mark.parametrize("options", [["-S"], ["-E"], ["-I"]])
def test_children_that_ignore_the_path_or_site_have_no_alias(options):
    report = in_child(sys.executable, *options, "-c", REPORT)
    assert report["torch"] == "No module named 'torch'" and report["installed"] == "none"


def test_the_users_sitecustomize_still_runs(environment, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.path.append('customized')")
    for python in (sys.executable, environment[0]):
        report = in_child(python, "-c", REPORT, paths=[str(tmp_path)])
        assert report["customized"] and report["path"][-1] == "customized"
        assert report["installed"] == ("2.11.0" if python == sys.executable else "0.0.1")
    assert not in_child(sys.executable, "-c", REPORT)["customized"]


def test_errors_of_the_users_sitecustomize_show(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import a_name_that_is_nowhere")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([ROOT, str(tmp_path)]))
    for launcher in ([], ["-m", "tessera"]):
        command = [sys.executable, *launcher, "-c", RUNS, sys.executable, "-c", "print('runs')"]
        result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
        assert result.stdout == "runs\n" and result.stderr.count("No module named 'a_name_that_is_nowhere'") == 2


def test_the_alias_passes_through_other_interpreters_to_the_own(environment):
    report = in_child(environment[0], "-c", RUNS, sys.executable, "-c", REPORT)
    assert report["torch"] == tessera.__file__ and report["installed"] == "2.11.0"


def test_console_scripts_of_the_environment_have_the_alias(tmp_path):
    path = tmp_path / "tool"
    path.write_text(f"#!{sys.executable}\n{REPORT}")
    path.chmod(0o755)
    report = in_child(path)
    assert report["torch"] == tessera.__file__ and report["installed"] == "2.11.0"


def test_an_empty_entry_of_the_path_stays():
    code = "import os; print(os.environ['PYTHONPATH'].split(os.pathsep, 1)[1])"
    env = dict(os.environ, PYTHONPATH=os.pathsep + ROOT)
    command = [sys.executable, "-m", "tessera", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    assert result.stdout == os.pathsep + ROOT + "\n", result.stderr


def test_functorch_warns_and_names_the_newer_function():
    code = """
import warnings, torch, functorch
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert functorch.vmap(torch.sin)(torch.zeros(2)).tolist() == [0.0, 0.0]
    function, parameters = functorch.make_functional(torch.nn.Linear(1, 1))
    assert function(parameters, torch.ones(1)).shape == (1,)
    functorch.combine_state_for_ensemble([torch.nn.Linear(1, 1)] * 2)
for w in seen:
    print(w.category.__name__, str(w.message).split("`")[1::2])
"""
    result = run("-c", code)
    assert result.stdout.splitlines() == [
        "FutureWarning ['functorch.vmap', 'torch.vmap']",
        "FutureWarning ['functorch.make_functional', 'torch.func.functional_call']",
        "FutureWarning ['functorch.combine_state_for_ensemble', 'torch.func.stack_module_state']",
    ], result.stderr


def test_functorch_has_its_experimental_names():
    code = """
import torch
from functorch.experimental import chunk_vmap, control_flow, functionalize, ops
from functorch.experimental.control_flow import cond, map
x, y = torch.arange(6.0).view(2, 3), torch.arange(3.0)
sizes = []
def f(a, b):
    sizes.append(1)
    return a * b
assert torch.equal(chunk_vmap(f, in_dims=(1, 0), out_dims=1, chunks=2)(x, y), x * y) and len(sizes) == 2
assert cond(torch.tensor(True), torch.sin, torch.cos, (y,)).equal(y.sin())
assert map(lambda row, y: row + y, x, y).equal(x + y)
assert issubclass(control_flow.UnsupportedAliasMutationException, RuntimeError)
assert ops.HigherOrderOperator is torch._ops.HigherOrderOperator
"""
    result = run("-c", code)
    assert result.returncode == 0, result.stderr
