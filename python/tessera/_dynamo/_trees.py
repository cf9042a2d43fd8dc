"""Functions of trees (torch.utils._pytree) while capturing, and those of itertools whose order a program sees."""

import functools
import itertools

from tessera.utils import _pytree as pytree

from . import _builtins, _objects
from ._raising import fail
from ._tracer import is_named_tuple
from ._values import NONE, Const, Endless, Iter, Map, New, Obj, Seq, TensorV
from .exc import Unsupported


class _Leaf:
    """A Var in a tree of real containers."""

    __slots__ = ("var",)

    def __init__(self, var):
        self.var = var


# --- trees ---


def _skeleton(tracer, var, is_leaf=NONE):
    """The containers of a Var as real ones, with leaves in place of all else."""
    if not isinstance(is_leaf, Const) and _objects.truth(tracer, tracer.run_call(tracer, is_leaf, [var], {})):
        return _Leaf(var)
    inner = functools.partial(_skeleton, tracer, is_leaf=is_leaf)
    cls = var.cls if isinstance(var, (Seq, Map, New)) else type(var.value) if isinstance(var, Obj) else None
    known = cls is not None and (cls in pytree.SUPPORTED_NODES or is_named_tuple(cls))
    if not known:
        return _Leaf(var)
    if isinstance(var, Seq):
        parts = [inner(v) for v in var.items]
        return cls(*parts) if hasattr(cls, "_fields") else cls(parts)
    if isinstance(var, Map):
        made = cls() if var.factory is None else cls(getattr(var.factory, "value", None))
        made.update((key, inner(v)) for key, v in var.items.items())
        return made
    raise Unsupported(f"a {cls.__name__} as a tree, whose parts a registered function gives")


def _var(tree):
    """The Var of a tree of real containers and leaves."""
    if isinstance(tree, _Leaf):
        return tree.var
    if isinstance(tree, dict):
        made = Map({key: _var(v) for key, v in tree.items()}, type(tree))
        made.factory = Obj(tree.default_factory) if hasattr(tree, "default_factory") else None
        return made
    if isinstance(tree, (list, tuple)) or hasattr(tree, "popleft"):
        return Seq([_var(v) for v in tree], type(tree))
    raise Unsupported(f"a {type(tree).__name__} that is made of leaves")


def _spec(tracer, var):
    value = _objects.constant(var, "a TreeSpec") if isinstance(var, Const) else getattr(var, "value", None)
    if not isinstance(value, pytree.TreeSpec):
        fail(tracer, TypeError, f"expected a TreeSpec, but got {type(value).__name__}")
    if var.source is not None and var.source.kind != "object":
        tracer.guard(var.source, "ID_MATCH", value, value)
    return value


def _flat(tracer, tree, is_leaf=NONE):
    leaves, spec = pytree.tree_flatten(_skeleton(tracer, tree, is_leaf))
    return [leaf.var for leaf in leaves], spec


def _tree_flatten(tracer, tree, is_leaf=NONE):
    leaves, spec = _flat(tracer, tree, is_leaf)
    return Seq([Seq(leaves, list), tracer.trusted(spec)], tuple)


def _tree_unflatten(tracer, leaves, treespec):
    leaves = [_Leaf(v) for v in _objects.items_of(tracer, leaves)]
    spec = _spec(tracer, treespec)
    if len(leaves) != spec.num_leaves:
        fail(tracer, ValueError, f"tree_unflatten: expected {spec.num_leaves} leaves, but got {len(leaves)}")
    return _var(pytree.tree_unflatten(leaves, spec))


def _tree_map(tracer, func, tree, *rests, is_leaf=NONE):
    leaves, spec = _flat(tracer, tree, is_leaf)
    others = [spec.flatten_up_to(_skeleton(tracer, rest)) for rest in rests]
    others = [[_var(part) for part in parts] for parts in others]
    made = [tracer.run_call(tracer, func, list(args), {}) for args in zip(leaves, *others)]
    return _var(pytree.tree_unflatten([_Leaf(v) for v in made], spec))


def _tree_map_only(tracer, kinds, func, tree, is_leaf=NONE):
    def changed(var):
        if isinstance(kinds, Obj) and not isinstance(kinds.value, type) and callable(kinds.value):
            return _objects.truth(tracer, tracer.run_call(tracer, kinds, [var], {}))
        return _builtins.SPECIAL[isinstance](tracer, [var, kinds], {}).value

    leaves, spec = _flat(tracer, tree, is_leaf)
    made = [tracer.run_call(tracer, func, [v], {}) if changed(v) else v for v in leaves]
    return _var(pytree.tree_unflatten([_Leaf(v) for v in made], spec))


_OF_TREES: dict = {
    pytree.tree_flatten: _tree_flatten, pytree.tree_unflatten: _tree_unflatten, pytree.tree_map: _tree_map,
    pytree.tree_map_only: _tree_map_only,
    pytree.tree_leaves: lambda tracer, tree, is_leaf=NONE: Seq(_flat(tracer, tree, is_leaf)[0], list),
    pytree.tree_structure: lambda tracer, tree, is_leaf=NONE: tracer.trusted(_flat(tracer, tree, is_leaf)[1]),
    pytree.tree_is_leaf: lambda tracer, tree, is_leaf=NONE: Const(
        isinstance(_skeleton(tracer, tree, is_leaf), _Leaf)
    ),
}  # fmt: skip


# --- itertools ---


def _like(of, values):
    """An iterator of values that come from another one: without an end, if that has none."""
    return (Endless if isinstance(of, Endless) else Iter)(values)


def _lazily(tracer, iterable):
    return _builtins.lazily(tracer, [iterable])[0]


def _count(tracer, start=Const(0), step=Const(1)):
    def numbers(now):
        while True:
            yield now
            now = tracer.run_binary(tracer, "add", False, now, step)

    return Endless(numbers(start))


def _accumulate(tracer, iterable, func=NONE, *, initial=NONE):
    items = _lazily(tracer, iterable)
    if not (isinstance(initial, Const) and initial.value is None):
        items = itertools.chain([initial], items)

    def joined(a, b):
        if isinstance(func, Const):  # None
            return tracer.run_binary(tracer, "add", False, a, b)
        return tracer.run_call(tracer, func, [a, b], {})

    return _like(iterable, itertools.accumulate(items, joined))


def _groupby(tracer, iterable, key=NONE):
    groups = []
    for one in _objects.items_of(tracer, iterable):
        mark = one if isinstance(key, Const) else tracer.run_call(tracer, key, [one], {})
        if groups and _objects.truth(tracer, tracer.run_compare(tracer, "eq", groups[-1][0], mark)):
            groups[-1][1].append(one)
        else:
            groups.append((mark, [one]))
    return Iter([Seq([mark, Iter(items)], tuple) for mark, items in groups])


def _chosen(choose):
    """takewhile and its kin: of a predicate and items."""

    def run(tracer, predicate, iterable):
        def holds(var):
            known = isinstance(predicate, Const)  # None
            return _objects.truth(tracer, var if known else tracer.run_call(tracer, predicate, [var], {}))

        ends = choose is itertools.takewhile or not isinstance(iterable, Endless)
        return (Iter if ends else Endless)(choose(holds, _lazily(tracer, iterable)))

    return run


def _starmap(tracer, function, iterable):
    rows = (_objects.items_of(tracer, row) for row in _lazily(tracer, iterable))
    return _like(iterable, (tracer.run_call(tracer, function, row, {}) for row in rows))


def _compress(tracer, data, selectors):
    chosen = (_objects.truth(tracer, s) for s in _lazily(tracer, selectors))
    return _like(data, itertools.compress(_lazily(tracer, data), chosen))


def _tee(tracer, iterable, n=Const(2)):
    items = _objects.items_of(tracer, iterable)
    return Seq([Iter(list(items)) for _ in range(_objects.constant(n, "a count"))], tuple)


def _arranged(arrange):
    """combinations and its kin: of items and a length."""

    def run(tracer, iterable, r=None):
        length = () if r is None else (_objects.constant(r, "a length"),)
        return Iter([Seq(list(p), tuple) for p in arrange(_objects.items_of(tracer, iterable), *length)])

    return run


_OF_ITERTOOLS: dict = {
    itertools.count: _count,
    itertools.repeat: lambda _, object, times=None: Endless(itertools.repeat(object)) if times is None else Iter(
        [object] * _objects.constant(times, "a count")
    ),
    itertools.accumulate: _accumulate, itertools.groupby: _groupby,
    itertools.cycle: lambda tracer, iterable: Endless(itertools.cycle(_objects.items_of(tracer, iterable))),
    itertools.takewhile: _chosen(itertools.takewhile), itertools.dropwhile: _chosen(itertools.dropwhile),
    itertools.filterfalse: _chosen(itertools.filterfalse), itertools.starmap: _starmap, itertools.compress: _compress,
    itertools.tee: _tee, itertools.pairwise: _arranged(itertools.pairwise),
    **{f: _arranged(f) for f in (
        itertools.combinations, itertools.combinations_with_replacement, itertools.permutations
    )},
}  # fmt: skip


def _called(function):
    def run(tracer, args, kwargs):
        try:
            return function(tracer, *args, **kwargs)
        except TypeError as error:  # other arguments than it has
            raise Unsupported(str(error)) from None

    return run


_builtins.SPECIAL.update((f, _called(rule)) for f, rule in {**_OF_TREES, **_OF_ITERTOOLS}.items())
