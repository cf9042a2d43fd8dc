"""The examples of docstrings do what they say, typed in by a reader who has imported tessera and nothing else."""

import doctest
import importlib
import pathlib
import pkgutil
import re
import types

import pytest

import tessera

# Importing these runs a program, or asks for a device.
NOT_IMPORTED = re.compile(r"tessera\.(__main__|_alias|cuda\._library)\b")


def modules():
    yield tessera
    for info in pkgutil.walk_packages(tessera.__path__, "tessera."):
        if not NOT_IMPORTED.match(info.name):
            yield importlib.import_module(info.name)
    made_there = vars(tessera.distributions).values()
    yield from (m for m in made_there if isinstance(m, types.ModuleType) and m.__spec__.loader is None)


def operators():
    """(name, docstring) of the callables that op tables make, functions and methods."""
    holders = [("tessera", tessera), ("tessera.Tensor", tessera.Tensor)]
    holders += [
        ("tessera." + name, importlib.import_module("tessera." + name))
        for name in ("special", "linalg", "nn.functional")
    ]
    for prefix, holder in holders:
        for name in dir(holder):
            member = getattr(holder, name, None)
            if type(member).__name__ in ("OpFunction", "OpMethod") and member.__doc__:
                yield prefix + "." + name, member.__doc__


def collect():
    finder, parser = doctest.DocTestFinder(), doctest.DocTestParser()
    found = {}
    for module in modules():
        for test in finder.find(module):
            if test.examples:
                found[test.filename, test.lineno] = test  # by place: a class that is in two modules has one docstring
    tests = list(found.values())
    for name, text in operators():
        test = parser.get_doctest(text, {}, name, None, None)
        if test.examples:
            tests.append(test)
    return tests


TESTS = collect()


@pytest.mark.parametrize("test", TESTS, ids=lambda t: t.name)
def test_example(test, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = []
    test.globs = {"tessera": tessera}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    try:
        runner.run(test, out=report.append)
    finally:
        tessera.set_printoptions(profile="default")
    assert runner.tries == len(test.examples)
    assert not runner.failures, "".join(report)


def test_every_example_of_the_sources_is_run():
    package = pathlib.Path(tessera.__file__).parent
    lines = sum(len(re.findall(r"^\s*>>> ", path.read_text(), re.M)) for path in package.rglob("*.py"))
    in_sources = [t for t in TESTS if t.filename is not None]
    assert in_sources and sum(len(t.examples) for t in in_sources) == lines
