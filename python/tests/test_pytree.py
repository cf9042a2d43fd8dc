"""Trees of containers: what is one, specs, errors, paths, registered classes, text, and what walks leave alive."""

import dataclasses
import gc
import pickle
import sys
import time
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import tessera
from tessera.utils import _pytree as pytree

Point = namedtuple("Point", "x y")
TREES = {
    "leaf": (1, [1]),
    "none": (None, [None]),
    "tuple": ((1, (2, ())), [1, 2]),
    "list": ([1, [], [2]], [1, 2]),
    "dict": ({"b": 1, "a": 2}, [1, 2]),
    "ordered": (OrderedDict([("b", 1), ("a", 2)]), [1, 2]),
    "default": (defaultdict(list, b=1, a=2), [1, 2]),
    "deque": (deque([1, 2], 5), [1, 2]),
    "named": (Point([1], 2), [1, 2]),
    "size": (tessera.Size([3, 4]), [3, 4]),
    "nothing": ({}, []),
}


@pytest.mark.parametrize("name", TREES)
def test_each_container_is_taken_apart_and_built_again(name):
    tree, leaves = TREES[name]
    flat, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(flat, spec)
    assert flat == leaves == pytree.tree_leaves(tree) == list(pytree.tree_iter(tree))
    assert type(again) is type(tree) and again == tree and spec == pytree.tree_structure(again)
    assert spec.num_leaves == len(leaves) and hash(spec) == hash(pytree.tree_structure(again))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert [leaf for _, leaf in pytree.tree_leaves_with_path(tree)] == leaves
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in pytree.tree_leaves_with_path(tree))
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_what_containers_keep_besides_their_children():
    assert pytree.tree_map(str, deque([1], 3)).maxlen == 3
    assert pytree.tree_map(str, defaultdict(list, a=1)).default_factory is list
    moved = OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert pytree.tree_leaves(moved) == [2, 1] and list(pytree.tree_map(str, moved)) == ["b", "a"]
    best = tessera.max(tessera.tensor([[1.0, 3.0]]), 1)
    assert type(pytree.tree_map(lambda t: t + 1, best)) is type(best)
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(best)] == [".values", ".indices"]
    assert pytree.tree_leaves(time.localtime()) != list(time.localtime())  # a leaf: no result of an operator


def test_subclasses_of_containers_are_leaves():
    class Own(dict):
        pass

    class Named(Point):
        pass

    assert len(pytree.tree_leaves([Own(a=1), Named(1, 2)])) == 3
    assert pytree.tree_is_leaf(Own()) and not pytree.tree_is_leaf({})
    assert pytree._get_node_type(Named(1, 2)) is namedtuple and pytree._get_node_type(1) is int


def test_spec():
    spec = pytree.tree_structure({"a": [1, (2, None)], "b": 3})
    assert (spec.type, spec.context, spec.num_leaves, spec.num_nodes, spec.num_children) == (dict, ["a", "b"], 4, 7, 2)
    assert spec.child(0).children()[1].type is tuple and spec.children_specs == spec.children()
    assert spec.child(1).is_leaf() and isinstance(spec.child(1), pytree.LeafSpec) and spec.child(1).type is None
    assert (
        repr(spec)
        == "TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,\n    TreeSpec(tuple, None, [*,\n      *])]),\n  *])"
    )
    assert pytree.treespec_pprint(spec) == "{'a': [*, (*, *)], 'b': *}"
    assert pytree.LeafSpec() is pytree.treespec_leaf() is pytree.tree_structure(0)
    assert pytree.treespec_tuple([pytree.LeafSpec()]) == pytree.tree_structure((0,))
    assert pytree.treespec_dict(a=pytree.LeafSpec()) == pytree.TreeSpec(dict, ["a"], [pytree.LeafSpec()])
    assert spec != pytree.tree_structure({"b": 3, "a": [1, (2, None)]}) and spec != 3
    assert pytree.tree_structure({"a": 1}) != pytree.tree_structure(OrderedDict(a=1))
    for wrong in ([3], None):
        with pytest.raises(TypeError):
            pytree.TreeSpec(list, None, wrong)
    with pytest.raises(ValueError, match="got: \\[\\*, 3\\]"):
        pytree.treespec_tuple([pytree.LeafSpec(), 3])


def test_a_spec_of_another_writer_of_pickles_is_read():
    spec = pytree.TreeSpec.__new__(pytree.TreeSpec)
    spec.__setstate__([list, None, [pytree.LeafSpec()], 2, 1, 1])
    assert spec == pytree.tree_structure([0])
    with pytest.raises(RuntimeError, match="changed"):
        pytree.LeafSpec().__setstate__([list, None, []])


@pytest.mark.parametrize(
    ("spec_of", "tree", "text"),
    [
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1."),
        ([1], (1,), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ([[1]], [1], "Node type mismatch; expected <class 'list'>, but got <class 'int'>."),
        ({"a": 1}, {"b": 1}, "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
        ({"a": 1}, {"a": 1, "b": 2}, "Node keys mismatch; extra key(s): {'b'}."),
        (Point(1, 2), namedtuple("Other", "x y")(1, 2), "Node context mismatch for node type"),
    ],
)
def test_trees_that_do_not_fit(spec_of, tree, text):
    with pytest.raises(ValueError) as caught:
        pytree.tree_map(lambda a, b: a, spec_of, tree)
    assert text in str(caught.value)


def test_trees_that_fit_though_they_differ():
    pairs = pytree.tree_map(lambda a, b: (a, b), {"a": 1, "b": 3}, OrderedDict(b=2, a=5))
    assert pairs == {"a": (1, 5), "b": (3, 2)}
    assert pytree.tree_map(lambda a, b: b, deque([1], 3), deque([4], 9)) == deque([4], 3)
    assert pytree.tree_map(lambda a, b: b, [1, 2], [[3], (4,)]) == [[3], (4,)]


def test_maps():
    seen = []
    tree = [1, {"k": "s"}]
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [1, "s"]
    assert pytree.tree_map_only(int, lambda v: -v, tree) == [-1, {"k": "s"}]
    assert pytree.tree_map_only((int, str), lambda v: v * 2, tree) == [2, {"k": "ss"}]
    assert pytree.tree_map_only(int | str, lambda v: v * 2, tree) == [2, {"k": "ss"}]
    assert pytree.tree_map_only(lambda v: v == 1, lambda v: 7, tree) == [7, {"k": "s"}]
    assert pytree.tree_map_only_(str, seen.append, tree) is tree and seen == [1, "s", "s"]
    assert pytree.map_only(int)(lambda v: -v)(3) == -3 and pytree.map_only(int)(lambda v: -v)("a") == "a"
    paths = pytree.tree_map_with_path(lambda path, a, b: (pytree.keystr(path), a, b), tree, [3, {"k": 4}])
    assert paths == [("[0]", 1, 3), {"k": ("[1]['k']", "s", 4)}]
    assert pytree.arg_tree_leaves(1, [2], k=(3,)) == [1, 2, 3]
    for kind in (3, "int", (int, 3)):
        with pytest.raises(TypeError, match="must be a type, a tuple of types, or a callable"):
            pytree.tree_map_only(kind, str, tree)
    for call in (pytree.tree_map, pytree.tree_flatten, lambda: pytree.tree_map(str, [1], leaf=2)):
        with pytest.raises(TypeError):
            call()


def test_questions():
    def asked(v):
        seen.append(v)
        return v > 1

    seen = []
    assert not pytree.tree_all(asked, [2, (1, 3)]) and seen == [2, 1]
    assert pytree.tree_any(asked, [2, 3]) and seen == [2, 1, 2]
    assert pytree.tree_all_only(int, lambda v: v > 1, ["a", 2]) and not pytree.tree_any_only(int, bool, ["a", 0])


def test_is_leaf_decides_first():
    assert pytree.tree_leaves([1, (2, 3)], is_leaf=lambda v: isinstance(v, tuple)) == [1, (2, 3)]
    assert pytree.tree_flatten([1], lambda v: True) == ([[1]], pytree.LeafSpec())

    def fails(v):
        raise KeyError("asked")

    with pytest.raises(KeyError, match="asked"):
        pytree.tree_flatten([1], is_leaf=fails)


def test_a_container_that_changes_while_it_is_read():
    tree = [[1], [2], [3]]
    with pytest.raises(RuntimeError, match="changed its size"):
        pytree.tree_flatten(tree, is_leaf=lambda v: v is not tree and tree.clear())


def test_broadcast():
    spec = pytree.tree_structure([[1, 2], {"a": 3}])
    flat = pytree._broadcast_to_and_flatten
    assert flat(0, spec) == [0, 0, 0] and flat([0, 1], spec) == [0, 0, 1] and flat([0, {"a": 2}], spec) == [0, 0, 2]
    assert flat([0], spec) is None and flat((0, 1), spec) is None and flat([0, {"b": 2}], spec) is None


class Box:
    def __init__(self, value, tag=None):
        self.value, self.tag = value, tag


@pytest.fixture
def box():
    pytree.register_pytree_node(
        Box,
        lambda b: ([b.value], b.tag),
        lambda values, tag: Box(*values, tag),
        flatten_with_keys_fn=lambda b: ([(pytree.GetAttrKey("value"), b.value)], b.tag),
    )
    yield Box
    pytree._deregister_pytree_node(Box)


def test_registered_classes(box):
    tree = [Box({"a": 1}, "t"), 2]
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2] and spec.child(0).type is Box and spec.child(0).context == "t"
    again = spec.unflatten("xy")
    assert again[0].value == {"a": "x"} and again[0].tag == "t" and again[1] == "y"
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)] == ["[0].value['a']", "[1]"]
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Box, None, None)
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(dict, None, None)
    with pytest.raises(ValueError, match="Node context mismatch"):
        pytree.tree_map(lambda a, b: a, Box(1, "t"), Box(1, "u"))


def test_a_class_may_go_and_come_back(box):
    spec = pytree.tree_structure(Box(1))
    node = pytree.SUPPORTED_NODES.pop(Box)
    try:
        assert len(pytree.tree_leaves([Box(1), Box([2, 3])])) == 2 and pytree.tree_is_leaf(Box(1))
        with pytest.raises(ValueError, match="no registered pytree node"):
            spec.unflatten([1])
    finally:
        pytree.SUPPORTED_NODES[Box] = node
    assert spec.unflatten([5]).value == 5


@pytest.mark.parametrize("wrong", [lambda b: 3, lambda b: ([1],), lambda b: (3, None), lambda b: 1 / 0])
def test_flatten_functions_that_fail(wrong, box):
    node = pytree.SUPPORTED_NODES[Box]
    pytree.SUPPORTED_NODES[Box] = node._replace(flatten_fn=wrong)
    with pytest.raises((TypeError, ValueError, ZeroDivisionError)):
        pytree.tree_flatten([Box(1)])
    pytree.SUPPORTED_NODES[Box] = node


def test_paths_need_their_function(box):
    pytree.SUPPORTED_NODES[Box] = pytree.SUPPORTED_NODES[Box]._replace(flatten_with_keys_fn=None)
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_leaves_with_path([Box(1)])


def test_constants():
    class Mode(str):
        def __hash__(self):
            return str.__hash__(self)

        def __eq__(self, other):
            return str.__eq__(self, other)

    class Plain:
        pass

    pytree.register_constant(Mode)
    try:
        leaves, spec = pytree.tree_flatten([Mode("sum"), 2])
        assert leaves == [2] and spec != pytree.tree_structure([Mode("mean"), 2]) and pytree.is_constant_class(Mode)
        assert hash(spec) != hash(pytree.tree_structure([Mode("mean"), 2])) and spec.unflatten([3]) == ["sum", 3]
    finally:
        pytree._deregister_pytree_node(Mode)
    with pytest.raises(TypeError, match="__eq__"):
        pytree.register_constant(Plain)


def test_dataclasses():
    @dataclasses.dataclass
    class Output:
        a: int
        b: object = None
        c: int = 3

    pytree.register_dataclass(Output, drop_field_names=["c"])
    try:
        leaves, spec = pytree.tree_flatten(Output(1, c=9))
        assert leaves == [1] and spec.context == [["a"], ["b"]] and spec.unflatten([4]) == Output(4)
        assert [pytree.keystr(p) for p, _ in pytree.tree_leaves_with_path(Output(1, [2]))] == [".a", ".b[0]"]
    finally:
        pytree._deregister_pytree_node(Output)
    with pytest.raises(ValueError, match="Missing fields in `field_names`: {'c'}"):
        pytree.register_dataclass(Output, field_names=["a", "b"])
    with pytest.raises(ValueError, match="not a dataclass"):
        pytree.register_dataclass(int)


def test_steps_of_paths():
    key = pytree.MappingKey("a")
    assert key == pytree.MappingKey("a") and hash(key) == hash(pytree.MappingKey("a")) and key.key == "a"
    assert eval(repr(key), vars(pytree)) == key == pytree.MappingKey(key="a")
    assert key != pytree.GetAttrKey("a") and repr(key) == "MappingKey(key='a')" and pytree.tree_is_leaf(key)
    assert pickle.loads(pickle.dumps(pytree.SequenceKey(2))).idx == 2 and str(pytree.GetAttrKey("w")) == ".w"


def test_depth():
    deep = []
    for _ in range(200_000):
        deep = [deep]
    for read in (pytree.tree_leaves, pytree.tree_flatten, pytree.tree_leaves_with_path):
        with pytest.raises(RecursionError):
            read(deep)
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        pytree.tree_flatten(loop)
    loop.clear()
    spec = pytree.LeafSpec()
    for _ in range(200_000):
        spec = pytree.TreeSpec(list, None, [spec])
    for use in (hash, repr, lambda s: s.unflatten([1])):
        with pytest.raises(RecursionError):
            use(spec)
    del spec, deep


def test_nothing_is_kept_and_nothing_is_lost(box):
    tree = {"a": [object(), Point(object(), 2)], "b": defaultdict(list, k=Box(object())), "c": deque([object()], 2)}
    leaves = pytree.tree_leaves(tree)
    spec = pytree.tree_structure(tree)
    counted = [tree["a"][0], tree["a"], tree["b"], list, Point, None, pytree.LeafSpec(), pytree.TreeSpec, "k"]

    def work():
        flat, own = pytree.tree_flatten(tree)
        own.unflatten(flat)
        pytree.tree_map(lambda a, b: a, tree, tree)
        pytree.tree_leaves_with_path(tree)
        pytree._broadcast_to_and_flatten(1, own)
        pytree.tree_map_only(int, str, tree)
        repr(own), hash(own), own == spec, pickle.loads(pickle.dumps(pytree.tree_structure([1, {"k": 2}])))
        for wrong in (lambda: own.unflatten([]), lambda: own.flatten_up_to([1]), lambda: pytree.tree_map(1, tree)):
            with pytest.raises((ValueError, TypeError)):
                wrong()

    work()
    gc.collect()
    before = [sys.getrefcount(o) for o in counted]
    for _ in range(200):
        work()
    gc.collect()
    after = [sys.getrefcount(o) for o in counted]
    assert [(a, b) for a, b in zip(after, before) if abs(a - b) >= 100] == [] and len(leaves) == 5


def test_a_cycle_through_a_context_is_collected():
    class Tag:
        pass

    tag = Tag()
    tag.spec = pytree.TreeSpec(list, tag, [])
    gone = weakref.ref(tag)
    del tag
    gc.collect()
    assert gone() is None


def test_leaves_may_come_in_any_sequence():
    leaves, spec = pytree.tree_flatten({"a": 1, "b": (2, 3)})
    for given in (leaves, tuple(leaves), iter(leaves)):
        assert pytree.tree_unflatten(given, spec) == {"a": 1, "b": (2, 3)}
    one = pytree.tree_structure((0,))
    assert pytree.tree_unflatten(((4, 5),), one) == ((4, 5),)


def test_functions_of_the_built_in_containers_are_there_for_others():
    pair = namedtuple("pair", "a b")
    assert pytree._namedtuple_flatten(pair(1, 2)) == ([1, 2], pair)
    assert pytree._namedtuple_unflatten([3, 4], pair) == pair(3, 4)
    assert pytree._tuple_flatten((1, 2)) == ([1, 2], None) and pytree._tuple_unflatten([1, 2], None) == (1, 2)
