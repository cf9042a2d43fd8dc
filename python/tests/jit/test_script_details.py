"""Scripts: quantized tensors, names of local classes, what stands for objects in scripts, objects behind interfaces."""

import io
import math
from dataclasses import InitVar, dataclass, field
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest
import tessera
from tessera import Tensor, nn


def test_quantized_tensors():
    def whole(x: Tensor) -> Tuple[Tensor, float, int, Tensor, bool]:
        q = tessera.quantize_per_tensor(x, 0.5, 2, tessera.quint8)
        return q.int_repr(), q.q_scale(), q.q_zero_point(), q.dequantize(), q.is_quantized

    def channels(x: Tensor, scales: Tensor, zeros: Tensor) -> Tuple[Tensor, Tensor, Tensor, int]:
        q = tessera.quantize_per_channel(x, scales, zeros, 0, dtype=tessera.qint8)
        return q.int_repr(), q.q_per_channel_scales(), tessera.q_per_channel_zero_points(q), q.q_per_channel_axis()

    def lists(x: Tensor) -> List[Tensor]:
        both = tessera.quantize_per_tensor([x, x], tessera.tensor([0.5, 0.25]), tessera.tensor([0, 1]), tessera.qint32)
        return tessera.dequantize(both)

    x = tessera.tensor([[0.3, -1.0], [1.4, 0.9]])
    ints, scale, zero, numbers, quantized = tessera.jit.script(whole)(x)
    assert ints.dtype == tessera.uint8 and ints.tolist() == [[3, 0], [5, 4]]
    assert (scale, zero, quantized) == (0.5, 2, True)
    assert numbers.tolist() == [[0.5, -1.0], [1.5, 1.0]]
    scales, zeros = tessera.tensor([0.5, 0.25]), tessera.tensor([0, 1])
    expected = channels(x, scales, zeros)
    for a, b in zip(tessera.jit.script(channels)(x, scales, zeros), expected):
        assert a == b if isinstance(a, int) else tessera.equal(a, b)
    assert [t.tolist() for t in tessera.jit.script(lists)(x)] == [t.tolist() for t in lists(x)]

    def unknown(x: Tensor) -> Tensor:
        return x.int_representation()

    with pytest.raises(RuntimeError, match="int_representation"):
        tessera.jit.script(unknown)


def test_align_tensors():
    def both(x: Tensor, y: Tensor) -> List[Tensor]:
        return tessera.align_tensors(x, y)

    x, y = tessera.ones(2), tessera.zeros(3)
    a, b = tessera.jit.script(both)(x, y)
    assert tessera.equal(a, x) and tessera.equal(b, y)


def test_names_of_local_classes():
    Number = Tensor

    class Point(NamedTuple):
        at: Tensor
        weight: int

    def first(x: Number, points: Optional[List[Point]]) -> Dict[str, Point]:
        assert points is not None
        return {"first": points[0]}

    point = tessera.jit.script(first)(tessera.ones(1), [Point(tessera.zeros(2), 3)])["first"]
    assert isinstance(point, Point) and point.weight == 3


class _Plain:
    def __init__(self, value: int):
        self.value = value

    def get(self) -> int:
        return self.value


class _Stand:
    def __prepare_scriptable__(self):
        return _Plain(7)


def test_what_stands_for_objects():
    class Activation(nn.SELU):
        def __prepare_scriptable__(self):
            return nn.ReLU()

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2), Activation())
            self.number = _Stand()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) + self.number.get()

    holder = Holder()
    scripted = tessera.jit.script(holder)
    assert isinstance(holder.inner[1], Activation) and isinstance(holder.number, _Stand)  # as it was
    assert scripted.inner[0].weight is holder.inner[0].weight
    assert scripted(tessera.full((1, 2), -100.0)).min() >= 7


@tessera.jit.interface
class _Shift:
    def shift(self, x: Tensor) -> Tensor:
        pass


class _Up:
    def __init__(self):
        self.by = 2

    def shift(self, x: Tensor) -> Tensor:
        return x + self.by


class _Other:
    def __init__(self):
        self.by = 2


def test_objects_behind_interfaces():
    class Module(nn.Module):
        own: _Shift

        def __init__(self, own):
            super().__init__()
            self.own = own

        def forward(self, x: Tensor) -> Tensor:
            return self.own.shift(x)

    scripted = tessera.jit.script(Module(_Up()))
    buffer = io.BytesIO()
    tessera.jit.save(scripted, buffer)
    buffer.seek(0)
    for m in (scripted, tessera.jit.load(buffer)):
        assert m(tessera.zeros(1)).item() == 2 and list(m.children()) == [] and m.own.by == 2
    with pytest.raises(RuntimeError, match="own"):
        tessera.jit.script(Module(_Other()))


class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x, y=None):
        z = tessera.relu(self.norm(self.linear(x)))
        return z if y is None else (z, y + z)


class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = _Block()
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 2))
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.block.linear.weight

    def forward(self, x):
        a, b = self.block(x, x * 2)
        return self.rest(a + b + self.block(a)), self.tied(a)


def test_submodules_of_traces_have_methods():
    net = _Net().eval()
    traced = tessera.jit.trace(net, tessera.randn(3, 4))
    calls = [(n.kind(), n.s("name")) for n in traced.graph.nodes() if n.kind() == "prim::CallMethod"]
    assert [name for _, name in calls] == ["forward", "forward1", "forward", "forward"]
    assert not traced.inlined_graph.findAllNodes("prim::CallMethod")
    assert "forward" not in vars(net.block)  # as it was
    buffer = io.BytesIO()
    tessera.jit.save(traced, buffer)
    buffer.seek(0)
    x = tessera.randn(5, 4)
    for m in (traced, tessera.jit.load(buffer)):
        assert all(map(tessera.equal, m(x), net(x)))
        assert all(map(tessera.equal, m.block(x, x + 1), net.block(x, x + 1)))
        assert tessera.equal(m.block.forward1(x), net.block(x))
        assert tessera.equal(m.rest(x), net.rest(x)) and tessera.equal(m.tied(x), net.tied(x))
        assert tessera.equal(m.block.linear(x), net.block.linear(x))
    frozen = tessera.jit.freeze(traced)
    tessera.testing.assert_close(frozen(x), net(x))  # the norm is folded into the product


def test_submodules_whose_insides_are_used():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            self.kept = self.linear(x)
            return self.kept * 2

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.keeps, self.adds = Keeps(), nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.keeps(x)
            self.adds(y)
            return y + self.keeps.kept

    net = Net()
    traced = tessera.jit.trace(net, tessera.randn(2, 3))
    x = tessera.randn(4, 3)
    assert tessera.equal(traced(x), net(x))
    assert tessera.equal(traced.keeps.linear(x), net.keeps.linear(x))
    with pytest.raises(NotImplementedError):  # what it computes inside is used outside: it is no method
        traced.keeps(x)


class _Shifts(nn.Module):
    def __init__(self, by: int):
        super().__init__()
        self.by = by

    @tessera.jit.export
    def shift(self, x: Tensor) -> Tensor:
        return x + self.by


class _Longer(nn.ModuleList):
    def __len__(self):
        return 7


def test_containers_of_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.named = nn.ModuleDict({"a": _Shifts(1), "b": _Shifts(2)})
            self.listed, self.longer = nn.ModuleList([_Shifts(3)]), _Longer([_Shifts(4)])

        def forward(self, x: Tensor, name: str):
            found: _Shift = self.named[name]
            return found.shift(x), len(self.listed) + len(self.longer), "a" in self.named, name in self.named

    scripted = tessera.jit.script(Net())
    for name, value in (("a", 1), ("b", 2)):
        assert scripted(tessera.zeros(()), name) == (value, 8, True, True)
    with pytest.raises(tessera.jit.Error, match="KeyError: c"):
        scripted(tessera.zeros(()), "c")


def test_properties_in_archives():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 1

        @property
        def twice(self) -> int:
            return self.n * 2

        @twice.setter
        def twice(self, value: int):
            self.n = value // 2

        def forward(self, x: Tensor) -> Tensor:
            self.twice = 10
            return x + self.twice + self.n

    buffer = io.BytesIO()
    tessera.jit.save(tessera.jit.script(Counter()), buffer)
    buffer.seek(0)
    assert tessera.jit.load(buffer)(tessera.zeros(())).item() == 15


def test_complex_numbers_in_archives():
    class Turn(nn.Module):
        by: complex

        def __init__(self):
            super().__init__()
            self.by, self.more = 1 + 2j, [3j, complex(float("inf"), 1)]

        def forward(self, x: complex) -> Tuple[complex, complex, complex]:
            half = tessera.tensor(0.5)
            return x + self.by + self.more[0], complex(half, 2), complex(True, half)

    buffer = io.BytesIO()
    tessera.jit.save(tessera.jit.script(Turn()), buffer)
    buffer.seek(0)
    loaded = tessera.jit.load(buffer)
    assert loaded(1 + 0j) == (2 + 5j, 0.5 + 2j, 1 + 0.5j) and loaded.more[1] == complex(float("inf"), 1)


def test_dicts_with_items_by_name():
    def made(given: Dict[str, int]) -> Tuple[Dict[str, int], Dict[str, int]]:
        return dict(given, b=2, c=3), dict([("x", 1)], y=2)

    given = {"a": 1, "b": 0}
    assert tessera.jit.script(made)(given) == made(given) and given == {"a": 1, "b": 0}


def test_type_comments_without_results():
    def plus(x, n):
        # type: (Tensor, int)
        return x + n

    assert tessera.jit.script(plus)(tessera.ones(()), 2).item() == 3


class _Counted:
    def __init__(self):
        self.count = tessera.zeros(())

    def __enter__(self):
        self.count.add_(1)
        return self.count

    def __exit__(self, kind: Any, value: Any, trace: Any):
        self.count.sub_(1)


def test_with_statements_are_left_where_the_body_raises():
    @tessera.jit.script
    def inner(x: Tensor, c: _Counted) -> Tensor:
        with c as n:
            if bool(n > 1):
                raise ValueError("two")
        return x + n

    @tessera.jit.script
    def outer(x: Tensor, c: _Counted) -> Tensor:
        with c:
            x = inner(x, c)
        return x

    counted = tessera.jit.script(_Counted())
    assert inner(tessera.zeros(()), counted).item() == 0 and counted.count.item() == 0
    with pytest.raises(tessera.jit.Error, match="two"):
        outer(tessera.zeros(()), counted)
    assert counted.count.item() == 0


@dataclass(order=True)
class _Point:
    x: float
    y: float = 2.0
    power: InitVar[int] = 1
    norm: Optional[float] = field(default=None, compare=False)

    def __post_init__(self, power: int):
        self.norm = self.x**power + self.y**power


@dataclass
class _Named:
    name: str
    note: str

    def __eq__(self, other: "_Named") -> bool:
        return self.name == other.name


def test_dataclasses():
    def compared(x: float, y: float) -> Tuple[bool, bool, bool, bool, bool, Optional[float]]:
        a, b = _Point(x, y), _Point(1.0, 3.0, 2)
        return a < b, a <= b, a > b, a >= b, a == b, b.norm

    scripted = tessera.jit.script(compared)
    for x, y in ((1.0, 3.0), (1.0, 2.0), (2.0, 0.0)):
        assert scripted(x, y) == compared(x, y)

    def same(note: str) -> bool:
        return _Named("a", note) == _Named("a", "other")

    assert tessera.jit.script(same)("one")

    @dataclass
    class Listed:
        items: List[int] = field(default_factory=list)

    with pytest.raises(NotImplementedError, match="items"):
        tessera.jit.script(Listed)


def test_left_operands_of_in_come_first_and_ranges_are_lists(capfd):
    @tessera.jit.script
    def said(x: int) -> int:
        print("left")
        return x

    @tessera.jit.script
    def numbers(x: List[int]) -> List[int]:
        print("right")
        return x

    @tessera.jit.script
    def found(x: int, all: List[int]) -> bool:
        return said(x) in numbers(all)

    assert found(3, range(5)) and not found(7, range(5))
    assert capfd.readouterr().out.split() == ["left", "right"] * 2


def test_sparse_tensors_in_archives():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.some = tessera.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse()
            self.other = tessera.eye(3, dtype=tessera.float64).to_sparse()

        def forward(self, x: Tensor) -> Tensor:
            return x + self.some.to_dense()

    buffer = io.BytesIO()
    tessera.jit.save(tessera.jit.script(Adds()), buffer)
    buffer.seek(0)
    loaded = tessera.jit.load(buffer)
    assert loaded(tessera.zeros(2, 2)).tolist() == [[0.0, 1.0], [2.0, 0.0]]
    assert loaded.other.is_sparse and tessera.equal(loaded.other.to_dense(), tessera.eye(3, dtype=tessera.float64))


def test_powers_of_zero():
    def ints(a: int, b: int) -> float:
        return float(a**b)

    def floats(a: float, b: float) -> float:
        return a**b

    for f, one in ((tessera.jit.script(ints), 1), (tessera.jit.script(floats), 1.0)):
        assert f(2 * one, -2 * one) == 0.25 and f(0 * one, 0 * one) == 1 and f(0 * one, 3 * one) == 0
        with pytest.raises(RuntimeError, match="negative power"):
            f(0 * one, -one)


def test_traces_of_modules_whose_annotations_do_not_fit():
    class Plans(nn.Module):
        plan: Optional[Dict[str, Tuple[str, str]]]

        def __init__(self):
            super().__init__()
            self.plan = {"a": (["x"], ["y"])}
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return {"both": (self.linear(x), x)}

    module, x = Plans(), tessera.randn(3, 2)
    traced = tessera.jit.trace(module, x, strict=False)
    assert all(map(tessera.equal, traced(x)["both"], module(x)["both"]))


def test_traces_with_random_numbers_are_compared():
    drops = lambda x: tessera.dropout(x, 0.5, True)  # noqa: E731
    with pytest.warns(tessera.jit.TracerWarning) as said:
        tessera.jit.trace(drops, tessera.ones(100))
    texts = [str(w.message) for w in said]
    assert any("nondeterministic" in t for t in texts) and any("does not match" in t for t in texts)


@pytest.mark.parametrize("number", [2.6, -2.6, 7, -7])
def test_numbers_of_tensors_are_rounded_as_what_they_are(number):
    @tessera.jit.script
    def each(t: Tensor):
        return abs(t.item()), round(t.item()), math.floor(t.item()), math.ceil(t.item())

    t = tessera.tensor(number, dtype=tessera.float64 if isinstance(number, float) else tessera.int64)
    assert each(t) == (abs(number), round(number), math.floor(number), math.ceil(number))
