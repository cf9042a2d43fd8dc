"""The runner of other people's programs. (The programs themselves need packages that tests do not install.)"""

import subprocess

from programs import extensions, runner


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
