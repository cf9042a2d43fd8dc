"""The language of scripted programs: each program gives what Python gives for the same arguments."""

import enum
import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import pytest
import tessera
from tessera import Tensor


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Point(NamedTuple):
    x: int
    y: Tensor


class Counter:
    def __init__(self, start: int):
        self.n = start

    def add(self, k: int) -> int:
        self.n += k
        return self.n

    def __len__(self) -> int:
        return self.n


FACTOR = 3


def loops(n: int):
    s = 0
    for i in range(n):
        if i % 2 == 0:
            continue
        if i > 7:
            break
        s += i
    while s > 10:
        s -= 3
        if s == 12:
            return -1
    return s


def nested(n: int) -> int:
    for i in range(n):
        for j in range(n):
            if i * j == 6:
                return i * 10 + j
            if j > i:
                break
    return -1


def containers(xs: List[int], d: Dict[str, int]):
    ys = [x * 2 for x in xs if x > 1]
    for i, (a, b) in enumerate(zip(xs, ys)):
        d["k"] = d.get("k", 0) + a * b + i
    zs = sorted(xs, reverse=True)
    return ys, d, zs, xs[-1], xs[::2], 2 in xs, {k: v + 1 for k, v in d.items()}, min(xs), max(xs), sum(xs), len(d)


def strings(s: str, n: int):
    return (
        s.upper(),
        f"{s}-{n}",
        "%s_%d" % (s, n),
        s.split(","),
        s[1:],
        ",".join(["a", s]),
        s.replace("a", "b"),
        "{}".format(n),
        s * 2,
    )


def numbers(a: int, b: float):
    return (
        a // 2,
        a % 3,
        a / 4,
        -a // 2,
        math.sqrt(b),
        math.floor(b),
        int(b),
        float(a),
        round(b),
        abs(-a),
        divmod(a, 3),
        a & 3,
        a << 2,
        not a,
    )


def optional(x: Optional[int], y: Optional[Tensor]) -> int:
    if x is None:
        x = 1
    if y is not None and y.numel() > 1:
        return x + y.numel()
    assert x is not None
    return x if x > 2 else -x


def union(x: Union[int, str]) -> int:
    if isinstance(x, int):
        return x + 1
    return len(x)


def classes(k: int):
    c = Counter(k)
    c.add(2)
    c.n = c.n * FACTOR
    return c.n, len(c)


def enums(c: Color) -> Tuple[int, str, bool]:
    return c.value, c.name, c == Color.RED


def named(p: Point):
    q = Point(p.x + 1, p.y * 2)
    return q.x, q


def unpacking(xs: List[int]):
    a, b = xs
    c, *d = (1, 2, 3)
    (e, f), g = (a, b), c
    return a, b, c, len(d), d[0], d[1], e, f, g  # d is a tuple in a program, a list in Python


def conditional(a: bool, b: bool, n: int):
    return (a and b) or n > 2, 1 < n < 5, n if a else -n, not (a or b)


def anything(x: Any) -> int:
    if isinstance(x, int):
        return x
    if isinstance(x, str):
        return len(x)
    return -1


CASES = [
    (loops, (3,)),
    (loops, (20,)),
    (loops, (0,)),
    (nested, (8,)),
    (nested, (2,)),
    (containers, ([3, 1, 2], {"k": 1})),
    (strings, ("a,b", 3)),
    (numbers, (7, 2.25)),
    (optional, (None, None)),
    (optional, (5, None)),
    (optional, (5, "two")),
    (union, (4,)),
    (union, ("abc",)),
    (classes, (4,)),
    (enums, (Color.RED,)),
    (unpacking, ([4, 5],)),
    (conditional, (True, False, 3)),
    (conditional, (False, True, 1)),
    (anything, (3,)),
    (anything, ("four",)),
]


@pytest.mark.parametrize("fn, args", CASES, ids=[f"{f.__name__}-{i}" for i, (f, _) in enumerate(CASES)])
def test_programs_give_what_python_gives(fn, args):
    args = tuple(tessera.ones(2) if a == "two" else a for a in args)
    copies = [list(a) if isinstance(a, list) else dict(a) if isinstance(a, dict) else a for a in args]
    assert tessera.jit.script(fn)(*args) == fn(*copies)


def test_named_tuples_are_the_programs_own():
    x, q = tessera.jit.script(named)(Point(1, tessera.ones(2)))
    assert x == 2 and isinstance(q, Point) and q.y.tolist() == [2.0, 2.0]


def indexing(x, i: int, m):
    y = x.clone()
    y[0] = 5
    y[1:, 0] += 2
    return x[i], x[:, None], x[..., 1], x[1:], x[-1, 0], x[m], y


def test_tensors_are_indexed_as_in_python():
    x, m = tessera.arange(6.0).reshape(2, 3), tessera.tensor([True, False])
    for a, b in zip(tessera.jit.script(indexing)(x, 1, m), indexing(x, 1, m)):
        assert tessera.equal(a, b)


@pytest.mark.parametrize(
    "text, message",
    [
        ("def f(x):\n    return foo(x)", "undefined value foo"),
        ("def f(x):\n    return x.foo()", "has no attribute or method 'foo'"),
        ("def f(x: int):\n    try:\n        return x\n    except: pass", "try blocks aren't supported"),
        ("def f(x):\n    import os\n    return x", "import statements aren't supported"),
        (
            "def f(c: bool):\n    if c:\n        r = 1\n    else:\n        r = 's'\n    return r",
            "Type mismatch: r is set to type int in the true branch",
        ),
        ("def f(c: bool):\n    if c:\n        r = 1\n    return r", "r is not defined in the false branch"),
        (
            "def f(x: int) -> str:\n    return x",
            "Return value was annotated as having type str but is actually of type int",
        ),
        ("def f(x):\n    while True:\n        x = 3\n    return x", "Variable 'x' previously had type Tensor"),
        ("def f(x: int):\n    return torch.add(x, 's')", "Arguments for call are not valid"),
        ("def f(x: Foo):\n    return x", "Unknown type name 'Foo'"),
        ("def f(x: int):\n    lambda y: y\n    return x", "lambda"),
    ],
)
def test_errors_say_where_and_what(text, message):
    with pytest.raises(RuntimeError, match=None) as e:
        tessera.jit.CompilationUnit(text)
    assert message in str(e.value) and "<--- HERE" in str(e.value)


def failing(x: int) -> int:
    if x < 0:
        raise ValueError(f"bad {x}")
    assert x != 1, "not one"
    return [1, 2][x]


@pytest.mark.parametrize(
    "x, kind, text",
    [(-2, tessera.jit.Error, "bad -2"), (1, tessera.jit.Error, "not one"), (5, RuntimeError, "out of range")],
)
def test_failures_at_run_time_name_the_line(x, kind, text):
    with pytest.raises(kind, match=text) as e:
        tessera.jit.script(failing)(x)
    assert "<--- HERE" in str(e.value) and "in failing" in str(e.value)


def gradient(x):
    return (x * x * 3).sum()


def test_gradients_flow_and_modes_are_restored():
    x = tessera.tensor([1.0, 2.0], requires_grad=True)
    tessera.jit.script(gradient)(x).backward()
    assert x.grad.tolist() == [6.0, 12.0]
    unit = tessera.jit.CompilationUnit("def f(x):\n    with torch.no_grad():\n        y = x * 2\n    return y, x * 3")
    y, z = unit.f(x)
    assert not y.requires_grad and z.requires_grad and tessera.is_grad_enabled()


def test_arguments_are_checked_by_type():
    f = tessera.jit.script(loops)
    for bad in ("a", 2.5, None):
        with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'n'"):
            f(bad)
    with pytest.raises(RuntimeError, match="missing value for argument 'n'"):
        f()
    with pytest.raises(RuntimeError, match="Unknown keyword argument"):
        f(3, m=2)


def test_graphs_and_text_show_the_program():
    f = tessera.jit.script(optional)
    assert "prim::If" in str(f.graph) and "def optional(x: Optional[int]" in f.code
    assert f.schema == "optional(int? x, Tensor? y) -> int"


@tessera.jit.script
def first_of_tuple(x: Union[int, Tuple[int, int]]) -> int:
    return x[1] if isinstance(x, tuple) else x


@tessera.jit.script
def first_of_list(x: Union[int, List[int]]) -> int:
    if isinstance(x, list):
        return x[0]
    return x


@tessera.jit.script
def first_of_dict(x: Union[int, Dict[str, int]]) -> int:
    if isinstance(x, dict):
        return x["a"]
    else:
        return x


@tessera.jit.script
def both_halves(x: Union[Tensor, Tuple[Tensor, Tensor]]):
    if isinstance(x, tuple):
        a, b = x
    else:
        a, b = x, x
    return a + b


@tessera.jit.script
def settled(up: bool) -> Tensor:
    x: Optional[Tensor] = None
    if up:
        x = tessera.ones(2)
    else:
        x = tessera.zeros(2)
    return x + 1


@tessera.jit.script
def fields(s: str, i: int, x: float) -> List[str]:
    return [
        f"{s!r} {s!s} {i}",
        f"{x:.2f}|{x:8.3f}|{x:+.1e}|{x:<6}|{x:.0%}",
        f"{i:5d}|{i:<4}|{i:^5}|{i:05}|{i:x}|{i:#b}|{i * 100000:,}",
        f"{s:>4}|{s:*^5}|{s:.1}|{-i:=+5}|{{}}",
    ]


def test_isinstance_of_bare_containers():
    for program in (first_of_tuple, first_of_list, first_of_dict, both_halves, settled, fields):
        assert program.graph
    assert first_of_tuple((3, 4)) == 4 and first_of_list([1, 2]) == 1 and first_of_dict({"a": 5}) == 5
    assert first_of_tuple(7) == first_of_list(7) == first_of_dict(7) == 7
    one = tessera.ones(2)
    assert both_halves(one).tolist() == both_halves((one, one)).tolist() == [2, 2]


def test_optional_that_both_branches_settle():
    assert settled(True).tolist() == [2, 2] and settled(False).tolist() == [1, 1]


def test_conversions_and_specifications_of_format_strings():
    s, i, x = "ab", 42, 3.14159
    assert fields(s, i, x) == [
        f"{s!r} {s!s} {i}",
        f"{x:.2f}|{x:8.3f}|{x:+.1e}|{x:<6}|{x:.0%}",
        f"{i:5d}|{i:<4}|{i:^5}|{i:05}|{i:x}|{i:#b}|{i * 100000:,}",
        f"{s:>4}|{s:*^5}|{s:.1}|{-i:=+5}|{{}}",
    ]
