"""The runner of other people's programs. (tools/test runs those of `pinned` in an environment with their packages.)"""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from programs import extensions, runner, scripts


def test_every_recipe_has_a_curve():
    curves = sorted(path.stem for path in (runner.HERE / "curves").glob("*.json"))
    assert curves == runner.names() and len(curves) >= 15
    for name in curves:
        curve = runner.curve_of(name)
        assert len(curve["out"]) >= 4 and curve["time"] > 0 and curve["peak"] > 0, name


def test_differences_are_found():
    assert runner.difference([1.0, "text"], [1.0005, "text"]) is None
    assert "instead of 1.0" in runner.difference([1.0], [1.002])
    assert "instead of 'a'" in runner.difference(["a"], ["b"]) and runner.difference([1.0], [float("nan")])
    assert "1 outputs" in runner.difference([1.0, 2.0], [1.0])


def test_a_program_runs_and_is_compared(tmp_path, monkeypatch):
    """One that needs nothing but the library, against its curve and against another."""
    (tmp_path / "recipes" / "models").mkdir(parents=True)
    (tmp_path / "curves").mkdir()
    (tmp_path / "recipe.py").write_text((runner.HERE / "recipe.py").read_text())
    (tmp_path / "recipes" / "models" / "line.py").write_text(
        "from recipe import run, torch, train\n"
        "model = torch.nn.Linear(3, 1)\n"
        "run(train(model, lambda i: torch.ones(2, 3), lambda m, b: (m(b) - 1).square().mean(), steps=3, lr=0.1))\n"
    )
    curve = tmp_path / "curves" / "line.json"
    curve.write_text('{"out": [2.543025493621826, 1.4258557558059692, 0.6414849758148193], "time": 1, "peak": 1}')
    monkeypatch.setattr(runner, "HERE", tmp_path)
    good, line = runner.row("line")
    assert good and "| equal |" in line, line
    curve.write_text('{"out": [1.0, 2.0, 3.0], "time": 1, "peak": 1}')
    good, line = runner.row("line")
    assert not good and "instead of 1.0" in line


def test_continuous_integration_runs_the_recipes_whose_packages_are_pinned():
    found = runner.pinned(runner.PINNED.read_text().splitlines())
    assert len(found) >= 20 and {"einops_all", "x_transformer", "gpytorch_gp", "torchdiffeq_ode"} <= set(found)
    lines = ["# all of them", "pytorch-crf==0.7.2", "Entmax==1.3  # losses", "", "torchcde==0.2.5", "higher==0.2.1"]
    assert runner.pinned(lines) == ["crf_and_entmax", "higher_maml"]
    assert runner.pinned(lines[:-2]) == []
    with pytest.raises(SystemExit, match="higher_maml: its curve is of other versions: higher 0.2.2, not 0.2.1"):
        runner.pinned(["higher==0.2.2"])
    assert all(runner.packages_of(name) for name in runner.names())


def test_results_are_written_as_the_report_reads_them(tmp_path, monkeypatch, capsys):
    """Two recipes side by side, of which one fails: a case each, in order, and an exit code."""
    (tmp_path / "recipes" / "models").mkdir(parents=True)
    (tmp_path / "curves").mkdir()
    (tmp_path / "recipe.py").write_text((runner.HERE / "recipe.py").read_text())
    for name, wanted in (("a", 3.0), ("b", 4.0)):
        (tmp_path / "recipes" / "models" / f"{name}.py").write_text(
            "from recipe import run, torch\nrun(iter([float(torch.ones(3).sum())]))\n"
        )
        (tmp_path / "curves" / f"{name}.json").write_text(json.dumps({"out": [wanted], "time": 1, "peak": 1}))
    monkeypatch.setattr(runner, "HERE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["runner.py", "--jobs", "2", "--junitxml", str(tmp_path / "found.xml")])
    assert runner.main() == 1
    cases = ElementTree.parse(tmp_path / "found.xml").getroot().findall("testcase")
    assert [(case.get("name"), case.find("failure") is not None) for case in cases] == [("a", False), ("b", True)]
    assert "3.0 instead of 4.0" in cases[1].find("failure").get("message")
    assert capsys.readouterr().out.splitlines()[2].startswith("| a | 1 | equal |")
    monkeypatch.setattr(sys, "argv", ["runner.py", "a"])
    assert runner.main() == 0


def test_extensions_of_others_are_found_and_their_tests_counted(tmp_path, monkeypatch):
    for file in ("csrc/scatter.cpp", "csrc/version.cpp", "csrc/cpu/scatter_cpu.cpp", "csrc/cpu/reducer.h"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    scatter = extensions.EXTENSIONS["pytorch_scatter"]
    found = {name: (folder.name, [p.name for p in sources]) for name, folder, sources in scatter.libraries(tmp_path)}
    assert found == {
        "_scatter_cpu": ("torch_scatter", ["scatter.cpp", "scatter_cpu.cpp"]),
        "_version_cpu": ("torch_scatter", ["version.cpp"]),
    }
    for file in ("fast_transformers/hashing/hash_cpu.cpp", "fast_transformers/hashing/hash_cuda.cu"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    modules = extensions.EXTENSIONS["fast-transformers"].libraries(tmp_path)
    assert [(name, folder.name) for name, folder, _ in modules] == [("hash_cpu", "hashing")]

    def told(*_):
        text = "..F\n\nFAILED test/a.py::b - AssertionError\nERROR test/c.py\n1 failed, 7 passed, 1 error in 3s\n"
        return subprocess.CompletedProcess([], 1, stdout=text)

    monkeypatch.setattr(extensions, "by_tessera", told)
    assert extensions.own_tests(scatter, tmp_path) == (7, 9, ["FAILED test/a.py::b", "ERROR test/c.py"])
    checks = (extensions.HERE / "extension_checks.py").read_text()
    assert all(f"def {name.replace('-', '_')}():" in checks for name in extensions.EXTENSIONS)


def test_scripts_are_run_to_a_line_and_compared(tmp_path):
    (tmp_path / "a.py").write_text("import sys, os\nfor i in range(1000):\n    print('loss', i / 8, flush=True)\n")
    command = [sys.executable, "a.py"]
    found, seconds, peak, error = scripts.run(command, tmp_path, "loss", 4)
    assert found == [[0.0], [0.125], [0.25], [0.375]] and error is None and seconds > 0 and peak > 0
    (tmp_path / "b.py").write_text("import os\nprint('loss', os.environ['WAY'])\nraise SystemExit('stopped')\n")
    found, _, _, error = scripts.run([sys.executable, "b.py"], tmp_path, "loss (.*)", 2, {"WAY": "7"})
    assert found == [[7.0]] and error == "stopped"
    assert scripts.first_difference([[1.0], [2.0]], [[1.0], [2.001]]) is None
    assert scripts.first_difference([[1.0], [2.0]], [[1.0], [2.01]]) == 1
    assert scripts.first_difference([[1.0], [2.0]], [[1.0]]) == 1


def test_what_runs_before_scripts():
    """A unit in the last place moves one number; `double` makes all of them float64."""

    def told(before):
        code = before + "import torch; torch.manual_seed(1); x = torch.randn(3); y = torch.randn(3); "
        code += "print(x.tolist() + y.tolist(), x.dtype, torch.FloatTensor([1]).dtype)"
        done = subprocess.run([sys.executable, "-m", "tessera", "-c", code], capture_output=True, text=True, check=True)
        numbers, _, types = done.stdout.strip().partition("] ")
        return eval(numbers + "]"), types

    (plain, types), (moved, _), (_, wide) = told(""), told(scripts.ULP), told(scripts.DOUBLE)
    assert types == "torch.float32 torch.float32" and wide == "torch.float64 torch.float64"
    assert moved[1:] == plain[1:] and 0 < moved[0] - plain[0] < 2e-7
