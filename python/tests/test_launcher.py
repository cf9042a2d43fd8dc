"""`python -m tessera`: the program sees `torch`, its children too, other Python programs see nothing of it."""

import os
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
    prog = script(tmp_path, """
        import torch, tessera
        import torch.utils.data.sampler as outside
        import tessera.utils.data.sampler as inside
        assert torch is tessera and outside is inside
        assert outside.__spec__.name == "tessera.utils.data.sampler"
        print(torch.float32, torch.__version__)
        """)
    result = run(prog)
    assert result.stdout == "torch.float32 2.11.0\n", result.stderr


def test_argv_path_and_main(tmp_path):
    prog = script(tmp_path, "import sys; print(sys.argv, sys.path[0], __name__, __file__, sys.modules['__main__'].__dict__ is globals())")
    assert run(prog, "-x", "a b").stdout.strip() == f"['{prog}', '-x', 'a b'] {tmp_path} __main__ {prog} True"


def test_module_and_code_forms(tmp_path):
    script(tmp_path, "import sys, torch; print(__name__, sys.argv[1:], torch.__name__)", "mod.py")
    assert run("-m", "mod", "1", cwd=tmp_path).stdout == "__main__ ['1'] tessera\n"
    assert run("-c", "import sys, torch; print(sys.argv, repr(sys.path[0]), torch.float64)", "z").stdout == "['-c', 'z'] '' torch.float64\n"


def test_exit_codes_and_tracebacks(tmp_path):
    assert run("-c", "raise SystemExit(7)").returncode == 7
    result = run(script(tmp_path, "def f():\n    raise KeyError('k')\nf()\n"))
    assert result.returncode == 1
    assert "__main__.py" not in result.stderr and result.stderr.count("File ") == 2 and result.stderr.endswith("KeyError: 'k'\n")


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
        queue.put((str(torch.float32), torch.utils.data.__name__, type(mine).__name__))

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
    want = [f"{method} torch.float32 tessera.utils.data Mine" for method in ("fork", "spawn", "forkserver")]
    assert result.stdout.splitlines() == want, result.stderr


def test_subprocesses_and_distribution(tmp_path):
    prog = script(tmp_path, """
        import importlib.metadata, importlib.util, subprocess, sys
        print(importlib.metadata.version("torch"), importlib.util.find_spec("torch") is not None, importlib.util.find_spec("torch.nope"))
        code = "import sys, importlib.metadata as m; print('torch' in sys.modules, 'tessera' in sys.modules, m.version('torch'));"
        code += "import torch.utils.data, torch; print(torch.int8)"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout, end="")
        """)
    result = run(prog)
    assert result.stdout.splitlines() == ["2.11.0 True None", "False False 2.11.0", "torch.int8"], result.stderr


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
