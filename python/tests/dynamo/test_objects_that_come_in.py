"""Objects of the program that captured functions read, write and copy: subclasses of dict, configurations, types."""

import collections
import copy
import inspect
import os
import typing

import pytest
import tessera
from tessera._dynamo.testing import CompileCounter


@pytest.fixture(autouse=True)
def fresh():
    tessera._dynamo.reset()


class Result(collections.OrderedDict):
    """Items by name and by place, as attributes as well."""

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.parts()[key]

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def parts(self):
        return tuple(self[key] for key in self.keys())


class Registry(dict):
    def __setitem__(self, key, value):
        super().__setitem__(str(key), value)

    def get(self, key):
        return super().get(str(key)) or {}

    def __missing__(self, key):
        return key + "!"


REGISTRY = Registry()
REGISTRY[1] = {"a": 2}


def result(n, **more):
    made = Result()
    for key, value in {"x": tessera.ones(n), "y": tessera.full((n,), 2.0), **more}.items():
        made[key] = value
    return made


def reads_and_writes(held):
    total = held[0] + (held["y"] if "y" in held else 0) + len(held)
    held["z"] = total
    for value in held.values():
        total = total + value
    REGISTRY["new"] = 5
    return total, REGISTRY.get(1), REGISTRY["nowhere"], list(held), bool(REGISTRY), {**held}


def test_subclasses_of_dict():
    counter = CompileCounter()
    call = tessera.compile(reads_and_writes, backend=counter, fullgraph=True)
    for n in (3, 3, 4):
        given, want_given = result(n), result(n)
        REGISTRY.pop("new", None)
        want = reads_and_writes(want_given)
        REGISTRY.pop("new", None)
        got = call(given)
        assert tessera.equal(got[0], want[0]) and got[1:5] == want[1:5] and list(got[5]) == list(want[5])
        assert list(given) == list(want_given) and tessera.equal(given.z, want_given.z)
        assert dict(REGISTRY) == {"1": {"a": 2}, "new": 5}
    frames = counter.frame_count
    call(result(3, w=tessera.zeros(3)))  # another key is another graph
    assert counter.frame_count == frames + 1


def test_signatures_are_constants():
    class Layer(tessera.nn.Module):
        def scale(self, x, *, by=2):
            return x * by

        def forward(self, x):
            found = inspect.signature(self.scale).parameters
            count = len(found) + 10 * (found["x"].default is inspect.Parameter.empty) + 100 * found["by"].default
            for parameter in found.values():
                count += 1000 * (parameter.kind == parameter.KEYWORD_ONLY)
            return self.scale(x) * count

    x = tessera.ones(1)
    assert tessera.compile(Layer(), backend="eager", fullgraph=True)(x) == Layer()(x) == 2 * 1212


def test_the_environment_is_guarded(monkeypatch):
    def function(x):
        if "TESSERA_TEST_A" in os.environ:
            x = x + 1
        if os.environ.get("TESSERA_TEST_A") == "2":
            x = x + 10
        return x + 100 * (os.getenv("TESSERA_TEST_B", "no") == "yes")

    call = tessera.compile(function, backend="eager", fullgraph=True)
    assert call(tessera.zeros(1)) == 0
    for name, value, want in (("A", "1", 1), ("A", "2", 11), ("B", "yes", 111)):
        monkeypatch.setenv(f"TESSERA_TEST_{name}", value)
        assert call(tessera.zeros(1)) == want


def test_limits_of_dtypes():
    def function(x):
        return x.clamp(min=tessera.finfo(x.dtype).min) + tessera.iinfo(tessera.int8).max + tessera.finfo(x.dtype).eps

    x = tessera.randn(3)
    assert tessera.equal(tessera.compile(function, backend="eager", fullgraph=True)(x), function(x))


class Config:
    def __init__(self):
        self.sizes, self.names, self.bias, self.me, self.old = [1, 2], {"a": 3}, tessera.ones(2), self, 7


CONFIG = Config()


def copies(x):
    deep, shallow = copy.deepcopy(CONFIG), copy.copy(CONFIG)
    deep.sizes.append(len(shallow.sizes))
    deep.names["a"] += 1
    deep.bias.add_(1)
    delattr(deep, "old")
    del shallow.old
    pair = copy.copy([x, deep])
    return x * deep.names["a"] + deep.bias + shallow.bias + hasattr(deep, "old"), deep, copy.deepcopy(pair[1:])


def test_copies():
    call = tessera.compile(copies, backend="eager", fullgraph=True)
    for _ in range(2):
        got, deep, (inner,) = call(tessera.ones(2))
        assert tessera.equal(got, tessera.full((2,), 7.0))
        assert (deep.sizes, deep.names, deep.me, hasattr(deep, "old")) == ([1, 2, 2], {"a": 4}, deep, False)
        assert inner is not deep and inner.me is inner and tessera.equal(inner.bias, deep.bias)
        assert (CONFIG.sizes, CONFIG.names, CONFIG.old) == ([1, 2], {"a": 3}, 7)
        assert tessera.equal(CONFIG.bias, tessera.ones(2))


def test_what_is_not_copied_ends_the_graph():
    layer = tessera.nn.Linear(2, 2)
    with pytest.raises(tessera._dynamo.exc.Unsupported, match="deepcopy of a Linear"):
        tessera.compile(lambda x: copy.deepcopy(layer)(x), backend="eager", fullgraph=True)(tessera.ones(2))


FIELDS = {"a": int | None, "b": typing.Optional[str], "c": list[int]}


def test_types_are_constants():
    def function(x):
        for kind in FIELDS.values():
            x = x + len(typing.get_args(kind))
        return x

    assert tessera.compile(function, backend="eager", fullgraph=True)(tessera.zeros(1)) == 5


class Hooked:
    def __getattr__(self, name):
        if name == "given":
            return 3
        raise AttributeError(name)


HOOKED = Hooked()


def test_attributes_that_a_method_refuses():
    def function(x):
        return x + hasattr(HOOKED, "missing") + 10 * hasattr(HOOKED, "given") + getattr(HOOKED, "missing", 5)

    assert tessera.compile(function, backend="eager", fullgraph=True)(tessera.zeros(1)) == 15
