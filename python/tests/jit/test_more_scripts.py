"""Scripts: slices of modules, defaults and annotations that only Python's objects know, replaced methods, arguments by
the names of the documents.
"""

import types
from typing import List, NamedTuple, Tuple

import pytest
import tessera
from tessera import Tensor, nn
from tessera.jit.annotations import BroadcastingList2


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.all = nn.ModuleList([nn.Linear(2, 2), nn.ReLU(), nn.Tanh(), nn.Sigmoid()])


def test_slices_of_modules_run_backwards():
    class Backwards(Layers):
        def forward(self, x):
            for layer in self.all[::-1]:
                x = layer(x)
            for layer in self.all[2::-2]:
                x = x + layer(x)
            for layer in self.all[-9:-1:2]:
                x = layer(x)
            for layer in self.all[9:1:-1]:
                x = 2 * layer(x)
            for layer in self.all[0:3:-1]:
                x = x * 1000
            return x

    module, x = Backwards(), tessera.randn(3, 2)
    assert tessera.equal(tessera.jit.script(module)(x), module(x))

    class Standing(Layers):
        def forward(self, x):
            for layer in self.all[::0]:
                x = layer(x)
            return x

    with pytest.raises(RuntimeError, match="step of a slice cannot be zero"):
        tessera.jit.script(Standing())


class Point(NamedTuple):
    weight: "int"
    at: "tessera.Tensor"


def test_named_tuples_with_annotations_as_text():
    def weighted(p: Point):
        return p.at * p.weight

    assert tessera.jit.script(weighted)(Point(3, tessera.ones(2))).tolist() == [3.0, 3.0]


def test_defaults_of_an_enclosing_scope():
    four, half = tessera.tensor(4.0), 0.5

    def f(x, y: Tensor = four, scale: float = half):
        return (x + y) * scale

    assert tessera.jit.script(f)(tessera.ones(2)).tolist() == [2.5, 2.5]


def test_methods_that_an_instance_replaces():
    class Two(nn.Module):
        def __init__(self, other):
            super().__init__()
            if other:
                self.forward = self.doubled

        def doubled(self, x):
            return x * 2

        def forward(self, x):
            return x + 10

    x = tessera.ones(1)
    assert tessera.jit.script(Two(True))(x).item() == 2
    assert tessera.jit.script(Two(False))(x).item() == 11

    def tripled(self, x):
        return x * 3

    module = Two(False)
    module.forward = types.MethodType(tripled, module)
    assert tessera.jit.script(module)(x).item() == 3


def test_arguments_by_the_names_of_the_documents():
    def f(x):
        return tessera.ceil(input=x), tessera.add(input=x, other=x), tessera.device(type="cpu")

    up, twice, device = tessera.jit.script(f)(tessera.tensor([0.5]))
    assert (up.item(), twice.item(), device) == (1.0, 1.0, tessera.device("cpu"))

    def pair(x: BroadcastingList2[float]) -> List[float]:
        return x

    assert tessera.jit.script(pair)(1.5) == [1.5, 1.5]
    with pytest.raises(RuntimeError, match=r"Expected a value of type 'List\[float\]'"):
        tessera.jit.script(pair)("1.5")


def test_what_values_are():
    def f(a: tessera.device, b: tessera.device, x, numbers: List[complex]):
        return hash(a) == hash(a), hash(a) == hash(b), x.is_sparse_csr, sum(numbers)

    x = tessera.eye(2)
    devices = tessera.device("cpu"), tessera.device("meta")
    assert tessera.jit.script(f)(*devices, x, [1j, 2 + 1j]) == (True, False, False, 2 + 2j)
    assert tessera.jit.script(f)(*devices, x.to_sparse_csr(), [])[2:] == (True, 0j)


def test_functions_of_init():
    def f(w: Tensor) -> Tuple[Tensor, Tensor]:
        a = nn.init.constant_(w, 2.5).clone()
        nn.init.xavier_uniform_(w, gain=2.0)
        return a, w

    w = nn.Parameter(tessera.empty(4, 2))
    a, w = tessera.jit.script(f)(w)
    assert tessera.all(a == 2.5) and w.abs().max() <= 2.0 and w.std() > 0.1

    def random(w: Tensor, seeded: tessera.Generator) -> Tensor:
        nn.init.normal_(w, 3.0, 0.5, generator=seeded)
        return w

    seeded = tessera.Generator().manual_seed(3)
    expected = nn.init.normal_(tessera.empty(5), 3.0, 0.5, generator=tessera.Generator().manual_seed(3))
    assert tessera.equal(tessera.jit.script(random)(tessera.empty(5), seeded), expected)


def test_dimensions_and_powers_in_their_several_forms():
    def f(a, b, dims: Tensor):
        return tessera.tensordot(a, b, dims)

    def pool(x):
        return nn.functional.lp_pool1d(x, 2, 2), nn.functional.lp_pool1d(x, 1.5, 2)

    a, b, dims = tessera.randn(2, 3, 4), tessera.randn(3, 4, 5), tessera.tensor([[1, 2], [0, 1]])
    assert tessera.equal(tessera.jit.script(f)(a, b, dims), tessera.tensordot(a, b, [[1, 2], [0, 1]]))
    for got, expected in zip(tessera.jit.script(pool)(b.abs()), pool(b.abs())):
        tessera.testing.assert_close(got, expected)


def test_slices_are_named():
    def f(x: tessera.Tensor, n: int, numbers: list[int]):
        s = slice(n, n + 2)
        every = slice(None, None, 2)
        to = slice(2)
        y = x.clone()
        y[s] = 0
        y[:, to] += 1
        first = (1, 2, 3)[slice(1, None)]
        return x[s, every], x[..., to], x[(s, 0)], numbers[s], "text"[to], first, y

    x = tessera.arange(20.0).view(4, 5)
    for got, want in zip(tessera.jit.script(f)(x, 1, [1, 2, 3, 4]), f(x, 1, [1, 2, 3, 4]), strict=True):
        assert tessera.equal(got, want) if isinstance(want, tessera.Tensor) else got == want


@pytest.mark.parametrize(
    "body, error",
    [
        ("s = slice()", "slice accepts exactly 1, 2 or 3 arguments, got: 0"),
        ("s = slice(1)\n    return s", "Python slice value cannot be used as a value"),
        ("s = [slice(1)]", "Python slice value cannot be used as a value"),
        ("if b:\n        s = slice(1)\n    else:\n        s = slice(2)\n    x[s]", "undefined value s"),
        ("s = slice(1.5)\n    x[s]", "Expected a value of type 'Optional\\[int\\]'"),
    ],
)
def test_what_slices_cannot_be(body, error):
    with pytest.raises(RuntimeError, match=error):
        tessera.jit.CompilationUnit(f"def f(x: Tensor, b: bool):\n    {body}").f
