"""Functions of trees and of itertools inside of what is compiled whole."""

import collections
import itertools
import operator
import typing

import pytest
import tessera
from tessera.utils import _pytree as pytree

x = tessera.arange(4.0)
Pair = collections.namedtuple("Pair", "a b")
TREE = {"a": [x, 2], "b": (x + 1, Pair(x * 2, None)), "c": collections.OrderedDict(d=3.5)}


def rebuilt(x):
    leaves, spec = pytree.tree_flatten({"k": [x, (x + 1, 3)], "n": None})
    return pytree.tree_unflatten([v for v in reversed(leaves)], spec), spec.num_leaves, len(pytree.tree_leaves([x, x]))


def mapped(x):
    doubled = pytree.tree_map(lambda v: v * 2 if isinstance(v, tessera.Tensor) else v, [x, {"k": (x, "text")}])
    joined = pytree.tree_map(operator.add, (x, [x]), (1, [2]))
    only = pytree.tree_map_only(tessera.Tensor, lambda t: t.sin(), [x, 5])
    rows = pytree.tree_map(sum, [[x, 1], [x, 2], (x,)], is_leaf=lambda n: isinstance(n, (list, tuple)) and len(n) < 3)
    return doubled, joined, only, rows


def iterated(x):
    total = x
    for i, k in zip(itertools.count(2, 3), itertools.cycle([1, 2])):
        total = total * k + i
        if i > 9:
            break
    total = total + next(itertools.islice(itertools.repeat(x), 2, 3))
    sums = list(itertools.accumulate([x, 2, x], initial=1)) + list(itertools.accumulate([1, 2, 3], operator.mul))
    groups = [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 3, 3], key=lambda v: v % 2)]
    few = list(itertools.takewhile(lambda v: v < 5, itertools.count())), list(itertools.dropwhile(bool, [1, 0, 2]))
    a, b = itertools.tee([x, x + 1])
    pairs = [p * q for p, q in itertools.combinations([x, 2, 3], 2)] + [p - q for p, q in itertools.pairwise([x, 1, x])]
    rest = list(itertools.starmap(pow, [(x, 2), (2, 3)])), list(itertools.compress([x, 1, 2], [1, 0, 1]))
    return total, sums, groups, few, list(a), sum(b), pairs, rest, list(itertools.filterfalse(None, [0, 1, 0]))


@pytest.mark.parametrize("function", [rebuilt, mapped, iterated])
def test_as_called(function):
    found, wanted = tessera.compile(function, backend="eager", fullgraph=True)(x), function(x)
    (a, spec), (b, same) = pytree.tree_flatten(found), pytree.tree_flatten(wanted)
    assert spec == same
    for p, q in zip(a, b):
        assert tessera.equal(p, q) if isinstance(q, tessera.Tensor) else p == q


def test_trees_among_arguments():
    def total(tree):
        leaves = [v for v in pytree.tree_leaves(tree) if isinstance(v, tessera.Tensor)]
        return sum(leaves), pytree.tree_map(lambda v: v, tree)

    found, tree = tessera.compile(total, backend="eager", fullgraph=True)(TREE)
    assert tessera.equal(found, total(TREE)[0]) and pytree.tree_structure(tree) == pytree.tree_structure(TREE)
    assert type(tree["b"][1]) is Pair


def test_what_has_no_end_ends_the_graph():
    def program(x):
        numbers = itertools.count()
        return x + next(numbers), numbers

    value, numbers = tessera.compile(program, backend="eager")(x)
    assert tessera.equal(value, x) and next(numbers) == 1


class Named(typing.NamedTuple):
    a: tessera.Tensor
    b: tessera.Tensor

    def total(self):
        return self.a + self.b

    @staticmethod
    def three():
        return 3

    @classmethod
    def title(cls):
        return cls.__name__

    @property
    def twice(self):
        return self.a * 2


def test_methods_of_named_tuples():
    def program(x):
        named = Named(x, x + 1)
        return named.total() * named.three() + named.twice, named.title()

    found, wanted = tessera.compile(program, backend="eager", fullgraph=True)(x), program(x)
    assert tessera.equal(found[0], wanted[0]) and found[1] == wanted[1] == "Named"


def test_extremes_of_tensors_and_numbers():
    def program(x):
        a = min(max(x.sum(), 0), 1)
        return max(a, x.max()) - max(0, min(2, x.min())) + x

    compiled = tessera.compile(program, backend="eager", fullgraph=True)
    for value in (x, -x, x / 9):
        assert tessera.equal(compiled(value), program(value))


def test_what_is_written_to_under_vmap_is_the_argument():
    def program(x):
        y = tessera.vmap(tessera.Tensor.acos_)(x)
        return y is x, y + x

    compiled = tessera.compile(program, backend="eager", fullgraph=True)
    for function in (program, compiled):
        value = tessera.ones(4, 1)
        assert function(value)[0] is True and tessera.equal(value, tessera.zeros(4, 1))
