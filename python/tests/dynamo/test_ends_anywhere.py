"""A graph may end before any instruction: the results, and what is written, stay those of the function."""

import contextlib
import copy

import pytest
import tessera
from tessera._dynamo import _code, _points, exc

X = tessera.arange(4.0) / 3
SCALE = 2


def loops(x, items):
    total = x
    for i, item in enumerate(items):
        if i % 2:
            continue
        total = total + item * i
        while total.dim() > 5:
            break
        items.append(i) if i == 0 else None
        if i > 3:
            return total
    else:
        total = total * 2
    return total, items


def comprehensions(x, items):
    k = 3
    squares = [i * x * k for i in items if i != 1]
    table = {str(i): [j for j in range(i)] for i in items}
    return squares, table, {i % 2 for i in items}, sum(i for i in items), k


def closures(x, items):
    n = 1

    def more(y, *args, z=2, **words):
        nonlocal n
        n += len(args) + len(words)
        return y * n + z

    a = more(x, 1, 2, w=3)
    n = n + 10
    return a, more(x, z=items[0]), n, [f(2) for f in [lambda q, i=i: q + i + n for i in items]]


def exceptions(x, items):
    out = []
    try:
        out.append(x + 1)
        raise KeyError("a")
    except KeyError as error:
        out.append(str(error))
    else:
        out.append("never")
    finally:
        out.append(x * 2)
    try:
        items[100]
    except (IndexError, ValueError):
        out.append(len(items))
    return out


@contextlib.contextmanager
def doubled(values):
    values.append("in")
    try:
        yield 2
    finally:
        values.append("out")


def contexts(x, items):
    with tessera.no_grad():
        y = x * 2
        first = tessera.is_grad_enabled()
    with doubled(items) as k, contextlib.nullcontext():
        y = y * k
    return y, first, tessera.is_grad_enabled(), items


def texts(x, items):
    name = f"{len(items):03d}-{items!r}" + "".join(str(i) for i in items)
    a, (b, *c) = 1, items
    d = [*c, *items, a]
    return name, a, b, c, d[::-1], d[1:-1], not d, x[..., None][0], -x, {**{"a": x}, "b": 1}


class Thing:
    def __init__(self, x):
        self.x = x
        self.count = 0

    @property
    def twice(self):
        return self.x * 2

    def grow(self, by=1):
        self.count += by
        self.last = by
        return self

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.x[i]


def objects(x, items):
    thing = Thing(x)
    thing.grow().grow(by=3)
    return thing.twice, thing[1], len(thing), bool(thing), thing.count if thing else None, thing.last


def conditions(x, items):
    a = items and items[0] or 7
    b = x if len(items) > 2 and x.dim() == 1 else None
    c = b is not None and b.shape[0] == 4
    d = 1 < len(items) <= 3
    assert d, "three"
    return a, b, c, d, "y" if not c else "n", 2 in items, 9 not in items


def writes(x, items):
    global SCALE
    before = SCALE
    SCALE = before + 1
    y = x.clone()
    y[0] = SCALE
    y[1:] += 1
    items[0], items[-1] = items[-1], items[0]
    del items[1]
    items += [y]
    SCALE = before
    return x * SCALE, items


def generators(x, items):
    def inner(values):
        for v in values:
            yield v * 2
        yield from values

    it = iter(inner(items))
    first = next(it)
    return first, list(it), [a + b for a, b in zip(items, items[1:])], any(i > 1 for i in items), x + first


FUNCTIONS = [
    loops, comprehensions, closures, exceptions, contexts, texts, objects, conditions, writes, generators,
]  # fmt: skip


def same(a, b):
    if isinstance(a, tessera.Tensor):
        return isinstance(b, tessera.Tensor) and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(v, b[k]) for k, v in a.items())
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("function", FUNCTIONS)
def test_wherever_the_graph_ends(function, monkeypatch):
    attempt, forced = _points.Point._attempt, {}

    def with_ends(self, tracer, args, breaks):
        if self.code is function.__code__:
            breaks = {**dict.fromkeys(forced, exc.Unsupported("a test")), **breaks}
            breaks.pop(self.index if not self.start else None, None)
        return attempt(self, tracer, args, breaks)

    monkeypatch.setattr(_points.Point, "_attempt", with_ends)
    items = [2, 1, 3]
    wanted_items = copy.copy(items)
    wanted = function(X, wanted_items)
    count = len(_code.of(function.__code__).instructions)
    assert count > 20
    for ends in [(), *((i,) for i in range(count)), tuple(range(0, count, 2)), tuple(range(1, count, 3))]:
        forced.clear()
        forced.update(dict.fromkeys(ends))
        compiled = tessera.compile(function, backend="eager")
        for _ in range(2):
            given = copy.copy(items)
            got = compiled(X, given)
            where = [_code.of(function.__code__).instructions[i] for i in ends]
            assert same(got, wanted), (where, got, wanted)
            assert same(given, wanted_items) and SCALE == 2 and tessera.is_grad_enabled(), where
