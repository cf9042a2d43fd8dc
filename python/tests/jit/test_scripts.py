"""jit: what scripted functions and modules are in Python; marks and settings."""

import cmath
import re
import warnings
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import pytest
import tessera
from tessera import jit, nn


@jit.script
def shifted(x: tessera.Tensor, up: bool) -> tessera.Tensor:
    """Adds or takes off one."""
    return x + 1 if up else x - 1


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.inner = nn.Sequential(nn.ReLU())
        self.count = jit.Attribute(0, int)
        self.register_buffer("steps", tessera.zeros(1))

    def forward(self, x):
        self.count += 1
        return self.inner(self.layer(x)) * self.count

    @jit.export
    def twice(self, x):
        return x + x

    @jit.unused
    def never(self, x):
        raise AssertionError

    @jit.ignore
    def plain(self):
        return 3


def test_functions():
    assert type(shifted) is jit.ScriptFunction and shifted.name == "shifted" and shifted.__doc__.startswith("Adds")
    assert shifted(tessera.zeros(1), True).item() == 1 and shifted(tessera.zeros(1), up=False).item() == -1
    assert shifted.code.startswith("def shifted(x: Tensor,\n    up: bool) -> Tensor:")
    assert jit.script(shifted) is shifted
    with pytest.raises(TypeError, match="expected a function"):
        jit.script(3)


def test_methods_that_are_scripted():
    class Holder:
        @jit.script
        def double(self, x: int):
            return x * 2

    assert Holder.double(None or tessera.ones(1), 3) == 6 and type(Holder.double) is jit.ScriptFunction


def test_modules_share_parameters():
    module = Gate()
    scripted = jit.script(module)
    assert isinstance(scripted, jit.ScriptModule) and not isinstance(scripted, Gate)
    assert isinstance(scripted.inner, jit.ScriptModule) and scripted.original_name == "Gate"
    assert scripted.layer.weight is module.layer.weight
    assert sorted(scripted.state_dict()) == ["layer.bias", "layer.weight", "steps"]
    x = tessera.ones(1, 2)
    first = scripted(x)
    assert tessera.equal(first * 2, scripted(x)) and scripted.count == 2 and isinstance(module.count, jit.Attribute)
    assert scripted.twice(x).sum() == 4 and scripted.plain() == 3
    scripted.eval()
    assert not scripted.training and module.training and "def forward" in scripted.code
    with pytest.raises(RuntimeError, match="after ScriptModule construction"):
        scripted.new = nn.Linear(1, 1)


def test_groups_of_functions():
    unit = jit.CompilationUnit("def f(x: int):\n    return g(x) + 1\ndef g(x: int) -> int:\n    return x * 2")
    assert unit.f(3) == 7 and unit.g(3) == 6
    with pytest.raises(AttributeError):
        jit.CompilationUnit().missing  # noqa: B018


def test_marks():
    for mark, method in (("EXPORT", Gate.twice), ("UNUSED", Gate.never), ("IGNORE", Gate.plain)):
        assert method._torchscript_modifier == getattr(jit.FunctionModifiers, mark)
    assert jit.ignore(drop=True)(lambda: 1)._torchscript_modifier == jit.FunctionModifiers.UNUSED
    with pytest.raises(RuntimeError, match="must be a bool"):
        jit.ignore(drop=1)
    with pytest.raises(TypeError):
        jit.ignore(other=1)
    with pytest.raises(RuntimeError, match="class"):
        jit.interface(lambda: 1)
    assert jit.script_if_tracing(abs)(-1) == 1 and not jit.is_scripting() and not jit.is_tracing()
    assert jit.annotate(List[int], []) == []


@pytest.mark.parametrize(
    "value, kind, yes",
    [
        ([1, 2], List[int], True),
        ([1, "a"], List[int], False),
        ({"a": 1}, Dict[str, int], True),
        ({1: 1}, Dict[str, int], False),
        ((1, "a"), Tuple[int, str], True),
        ((1,), Tuple[int, str], False),
        (None, Optional[int], True),
        (tessera.ones(1), tessera.Tensor, True),
        (1.5, (int, float), True),
        ([[1.0]], List[List[float]], True),
    ],
)
def test_isinstance_of_types_with_parameters(value, kind, yes):
    assert jit.isinstance(value, kind) is yes


@pytest.mark.parametrize(
    "kind, message",
    [
        (list, "Attempted to use list without a contained type. Please add a contained type, e.g. list[int]"),
        (Tuple, "Attempted to use Tuple without a contained type. Please add a contained type, e.g. Tuple[int]"),
        (Dict, "Attempted to use Dict without contained types. Please add contained type, e.g. Dict[int, int]"),
    ],
)
def test_isinstance_asks_for_the_types_of_elements(kind, message):
    with pytest.raises(RuntimeError) as e:
        jit.isinstance([], kind)
    assert str(e.value) == message


def test_what_traces_return():
    twice = jit.trace(lambda x: [x + 1, x], tessera.ones(1))
    assert [t.item() for t in twice(tessera.zeros(1))] == [1, 0]
    for result, message in (
        (None, "didn't return any values"),
        (3, "can be output from traced functions"),
        ({}, "Encountering a dict"),
    ):
        with pytest.raises(RuntimeError, match=message):
            jit.trace(lambda x, result=result: result, tessera.ones(1))


def test_fork_and_wait():
    future = jit.fork(lambda a, b: a + b, 1, b=2)
    assert jit.wait(future) == 3
    with pytest.raises(ZeroDivisionError):
        jit.fork(lambda: 1 / 0)


class Refused(Exception):
    pass


def complex_functions(z: complex, o: Optional[int], bad: bool):
    if bad:
        raise Refused("no")
    return cmath.exp(z), cmath.phase(z), jit._unwrap_optional(o), tessera.Size([1, 2])


def test_names_of_other_modules_in_programs():
    compiled = jit.script(complex_functions)
    z, angle, n, size = compiled(1 + 2j, 3, False)
    assert z == cmath.exp(1 + 2j) and angle == cmath.phase(1 + 2j) and (n, size) == (3, [1, 2])
    with pytest.raises(RuntimeError, match="Unwrapping null optional"):
        compiled(1j, None, False)
    with pytest.raises(jit.Error, match=rf"{__name__}.Refused: no") as e:
        compiled(1j, 1, True)
    assert not isinstance(e.value, RuntimeError)
    # the excerpt stands as in the file
    assert '        raise Refused("no")\n        ~' in str(e.value)


def test_settings():
    before = jit.set_fusion_strategy([("STATIC", 1)])
    assert jit.set_fusion_strategy(before) == [("STATIC", 1)]
    with pytest.raises(ValueError):
        jit.set_fusion_strategy([("OTHER", 1)])
    jit.enable_onednn_fusion(True)
    assert jit.onednn_fusion_enabled()
    jit.enable_onednn_fusion(False)
    with jit.optimized_execution(False), warnings.catch_warnings(record=True) as said, jit.strict_fusion():
        warnings.simplefilter("always")
    assert len(said) <= 1


LOOKUP = {"one": object()}


@jit.script
def reads_python(x):
    return x + len(LOOKUP)


@jit.script
def imports(x):
    import os

    return x + len(os.sep)


def test_decorated_functions_that_do_not_compile_stay_python():
    with pytest.warns(jit.ScriptWarning, match="reads_python runs as Python"):
        assert reads_python(tessera.ones(2)).tolist() == [2, 2]
    assert reads_python(tessera.ones(1)).tolist() == [2]
    for wrong in (lambda: reads_python.graph, lambda: imports(tessera.ones(1))):
        with pytest.raises(RuntimeError):
            wrong()


def _with_default(x, a: float = -1, b: Optional[float] = 2):
    return x * a


def test_a_whole_number_is_a_default_of_a_float():
    scripted = tessera.jit.script(_with_default)
    assert scripted(tessera.ones(1)).item() == -1.0 and "float a=-1." in str(scripted.schema)


@dataclass
class _Found:
    n: int
    weight: Optional[tessera.Tensor] = None


def _same(x, w: Optional[tessera.Tensor]):
    return _Found(1, w) == _Found(1, x)


def test_dataclasses_compare_optional_fields():
    scripted = tessera.jit.script(_same)
    assert scripted(tessera.ones(()), tessera.ones(())) and not scripted(tessera.ones(()), None)


def _cast(x):
    return x.float(), x.long(), x.half(), x.cpu()


def _no_axes(axes: List[Tuple[str, int]]):
    return len(axes)


def _calls_without_axes():
    return _no_axes(())


def test_methods_that_cast_and_an_empty_tuple_for_a_list():
    scripted = tessera.jit.script(_cast)
    assert isinstance(scripted.graph, tessera._C.Graph) and scripted(tessera.ones(1))[1].dtype == tessera.int64
    assert tessera.jit.script(_calls_without_axes)() == 0


def test_the_rest_of_tensors_is_a_list():
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.pattern = nn.Parameter(tessera.ones(2, 2)), "ij,jk->ik"

        def forward(self, x: tessera.Tensor) -> tessera.Tensor:
            return tessera.einsum(self.pattern, x, self.weight)

    assert tessera.equal(jit.script(Product())(tessera.eye(2)), tessera.ones(2, 2))


def a_leaf(x: tessera.Tensor, k: int) -> tessera.Tensor:
    if k == 7:
        raise ValueError("seven")
    return x + k


def a_branch(x: tessera.Tensor, first: int) -> tessera.Tensor:
    parts: List[jit.Future[tessera.Tensor]] = []
    for k in range(4):
        parts.append(jit.fork(a_leaf, x, first + k))
    total = x
    for part in parts:
        total = total + jit.wait(part)
    return total


def a_tree(x: tessera.Tensor, size: int, first: int) -> tessera.Tensor:
    branches: List[jit.Future[tessera.Tensor]] = []
    for k in range(size):
        branches.append(jit.fork(a_branch, x, first))
    total = tessera.zeros(2)
    for branch in branches:
        total = total + jit.wait(branch)
    return total


def test_tasks_that_wait_for_tasks_end_however_many_there_are():
    scripted = jit.script(a_tree)
    for _ in range(5):
        assert scripted(tessera.ones(2), 40, 0).tolist() == [440.0, 440.0]
    with pytest.raises(Exception, match="seven"):
        scripted(tessera.ones(2), 3, 4)
    x = tessera.ones(2, requires_grad=True)
    scripted(x, 2, 0).sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


@pytest.mark.parametrize(
    "given, shown",
    [
        ((3,), "Tuple[Tensor, int]"), ((None,), "Tuple[Tensor, NoneType]"), (("a",), "Tuple[Tensor, str]"),
        (({"a": 1.0},), "Tuple[Tensor, Dict[str, float]]"), (([1],), "Tuple[Tensor, List[int]]"),
    ],
)  # fmt: skip
def test_traces_take_tensors_and_containers_of_them(given, shown):
    with pytest.raises(RuntimeError, match=re.escape(f"Type '{shown}' cannot be traced")):
        tessera.jit.trace(lambda *values: values[0] * 2, (tessera.ones(2), *given))


def test_traces_take_no_empty_containers():
    with pytest.raises(RuntimeError, match="List inputs of traces must have elements"):
        tessera.jit.trace(lambda x, y: x, (tessera.ones(2), []))


@pytest.mark.parametrize("result", [3, [1, 2], "a", (None,)])
def test_traces_return_tensors(result):
    with pytest.raises(RuntimeError, match="Only tensors, lists, tuples of tensors"):
        tessera.jit.trace(lambda x: (x, result), (tessera.ones(2),))


def test_traces_warn_of_lists_that_they_return():
    both = lambda x: [x + 1, x * 2]  # noqa: E731
    with pytest.warns(tessera.jit.TracerWarning, match="Encountering a list at the output"):
        tessera.jit.trace(both, (tessera.ones(2),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = tessera.jit.trace(both, (tessera.ones(2),), strict=False)
    assert [t.tolist() for t in made(tessera.zeros(1))] == [[1.0], [0.0]]


def test_what_traces_of_modules_refuse():
    class M(tessera.nn.Module):
        def forward(self, x):
            return x

        def other(self, x):
            return x + 1

    with pytest.raises(AttributeError, match="use trace_module"):
        tessera.jit.trace(M().other, (tessera.ones(2),))
    hooked = M()
    hooked.register_full_backward_hook(lambda *a: None)
    with pytest.raises(ValueError, match="backward hooks"):
        tessera.jit.trace(hooked, (tessera.ones(2),))


def test_graphs_can_be_checked():
    @tessera.jit.script
    def plus(x):
        return x + 1

    tessera.testing.FileCheck().check("aten::add").check("return").run(plus.graph)
    with pytest.raises(TypeError, match="a str or a graph"):
        tessera.testing.FileCheck().check("a").run(3)
