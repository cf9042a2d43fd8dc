"""Lists and dicts that programs and Python share, classes derived from ScriptModule, objects that programs return."""

from typing import Dict, List

import pytest

import tessera
from tessera import Tensor, nn


def test_a_list_is_shared():
    def f(x: List[int]):
        x.append(9)

    shared = tessera.jit.script([1, 2, 3])
    tessera.jit.script(f)(shared)
    assert list(shared) == [1, 2, 3, 9] and len(shared) == 4 and shared[-1] == 9
    shared.append(5)
    shared.extend([6])
    shared[0] = 100
    del shared[1]
    shared.insert(0, 7)
    assert shared == [7, 100, 3, 9, 5, 6] and shared[1:3] == [100, 3] and 9 in shared
    assert (shared.pop(), shared.pop(0), shared.count(3)) == (6, 7, 1)
    shared.remove(3)
    shared[0:2] = [1]
    assert repr(shared) == "[1, 5]"
    with pytest.raises(TypeError):
        shared.append("x")
    with pytest.raises(IndexError):
        shared[7]
    shared.clear()
    assert len(shared) == 0
    plain = [1]
    tessera.jit.script(f)(plain)
    assert plain == [1]


def test_a_dict_is_shared():
    def f(x: Dict[str, int]):
        x["z"] = 9

    shared = tessera.jit.script({"a": 1})
    tessera.jit.script(f)(shared)
    assert dict(shared.items()) == {"a": 1, "z": 9} and "a" in shared and "q" not in shared
    shared["n"] = 4
    del shared["a"]
    assert list(shared) == list(shared.keys()) == ["z", "n"] and len(shared) == 2 and list(shared.values()) == [9, 4]
    with pytest.raises(KeyError):
        shared["q"]
    with pytest.raises(TypeError):
        shared["k"] = "text"
    with pytest.raises(tessera.jit.Error, match="of one type"):
        tessera.jit.script([1, "a"])


def test_lists_of_tensors_are_shared():
    def f(x: List[Tensor]):
        x[0] = x[0] + 1

    shared = tessera.jit.script([tessera.ones(1)])
    tessera.jit.script(f)(shared)
    assert shared[0].item() == 2


class Own(tessera.jit.ScriptModule):
    def __init__(self, k):
        super().__init__()
        self.w = nn.Parameter(tessera.full((2,), float(k)))
        self.inner = tessera.jit.script(nn.ReLU())
        self.define("def twice(self, x):\n    return x * 2\n")

    @tessera.jit.script_method
    def forward(self, x):
        return self.inner(x * self.w + self.helper(x))

    @tessera.jit.script_method
    def helper(self, x):
        return x * 10

    def plain(self):
        return "python"


def test_a_class_derived_from_script_module():
    made = Own(3)
    assert isinstance(made, Own) and isinstance(made, tessera.jit.RecursiveScriptModule)
    assert made(tessera.ones(2)).tolist() == [13.0, 13.0] and made.helper(tessera.ones(1)).item() == 10
    assert made.twice(tessera.ones(1)).item() == 2 and made.plain() == "python"
    assert list(made.state_dict()) == ["w"] and "helper" in made.code
    assert Own(1)(tessera.ones(2)).tolist() == [11.0, 11.0]


def test_define_on_an_empty_module():
    made = tessera.jit.ScriptModule()
    made.define("def forward(self, x: int):\n    return x + 1\n")
    assert made(4) == made.forward(4) == 5
    other = tessera.jit.ScriptModule()
    with pytest.raises(Exception):  # noqa: B017  it has no forward of its own
        other(4)


@tessera.jit.script
class Counted:
    def __init__(self, x: int):
        self.x = x

    def more(self):
        self.x += 1


def test_objects_are_of_the_class_that_was_compiled():
    def f(x: int):
        return Counted(x)

    def g(a: Counted):
        a.x += 10
        return a

    made = tessera.jit.script(f)(3)
    assert type(made) is Counted and made.x == 3
    made.more()
    changed = tessera.jit.script(g)(made)
    assert (made.x, changed.x, type(changed)) == (4, 14, Counted)


@tessera.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Plus(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Times(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 5


def test_a_module_list_takes_any_index_where_an_interface_is_annotated():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = nn.ModuleList([Plus(), Times()])

        def forward(self, x, k: int):
            step: Step = self.steps[k]
            return step.forward(x)

    made = tessera.jit.script(M())
    x = tessera.full((1,), 2.0)
    assert [made(x, k).item() for k in (0, 1, -1, -2)] == [3, 10, 10, 3]
    with pytest.raises(tessera.jit.Error, match="out of range"):
        made(x, 2)


def test_children_are_walked():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Plus(), Times()

        def forward(self, x):
            for _, child in self.named_children():
                x = child(x)
            for child in self.children():
                x = child(x)
            return x

    assert tessera.jit.script(M())(tessera.zeros(1)).item() == 30


@tessera.jit._overload
def _next(x: int) -> int: ...


@tessera.jit._overload
def _next(x: Tensor) -> Tensor: ...


def _next(x):
    return x + 1


def test_overloads_by_exact_types_first():
    def f(x):
        return _next(x), _next(3)

    made = tessera.jit.script(f)(tessera.ones(1))
    assert made[0].item() == 2 and made[1] == 4
