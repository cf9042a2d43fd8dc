"""Trees of Python containers: flatten to leaves and a description, build again, map.

Containers are dict, OrderedDict, defaultdict, list, tuple, named tuples, deque, and registered classes; everything
else, None
included, is a leaf. Dicts keep their order.
"""

import functools
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple

__all__ = [
    "PyTree",
    "Context",
    "FlattenFunc",
    "UnflattenFunc",
    "DumpableContext",
    "ToDumpableContextFn",
    "FromDumpableContextFn",
    "TreeSpec",
    "LeafSpec",
    "keystr",
    "key_get",
    "register_pytree_node",
    "tree_is_leaf",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_unflatten",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_structure",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_all",
    "tree_any",
    "tree_all_only",
    "tree_any_only",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
    "is_namedtuple",
    "is_namedtuple_class",
]

PyTree = Context = FlattenFunc = UnflattenFunc = DumpableContext = ToDumpableContextFn = FromDumpableContextFn = object

NodeDef = namedtuple("NodeDef", ["type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"])
SUPPORTED_NODES = {}
_serialized_names = {}  # in treespec_dumps -> class
_dumpers: dict = {}  # class -> (context as what JSON can hold, and back)


class MappingKey(namedtuple("MappingKey", ["key"])):
    """Step into a mapping."""

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


class SequenceKey(namedtuple("SequenceKey", ["idx"])):
    """Step into a sequence."""

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


class GetAttrKey(namedtuple("GetAttrKey", ["name"])):
    """Step to an attribute."""

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    """Makes instances of `cls` containers.

    Args:
        flatten_fn: obj -> (list of children, context).
        unflatten_fn: (children, context) -> obj.
        serialized_type_name: what `treespec_dumps` calls the class; by default its module and name.
        to_dumpable_context, from_dumpable_context: the context as a value that JSON can hold, and back; by default it
            is one.
        flatten_with_keys_fn: obj -> (list of (key, child), context).

    Raises: ValueError if `cls` is registered already, or with only one of the two functions for contexts.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _private_register_pytree_node(
    cls,
    flatten_fn,
    unflatten_fn,
    *,
    serialized_type_name=None,
    to_dumpable_context=None,
    from_dumpable_context=None,
    flatten_with_keys_fn=None,
):
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if to_dumpable_context is not None:
        _dumpers[cls] = to_dumpable_context, from_dumpable_context
    _serialized_names[serialized_type_name or f"{cls.__module__}.{cls.__qualname__}"] = cls


_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls):
    del SUPPORTED_NODES[cls]
    _dumpers.pop(cls, None)
    for name in [name for name, named in _serialized_names.items() if named is cls]:
        del _serialized_names[name]


def _name_of_class(cls):
    """Where a class is found again. Raises: TypeError for one that is not at the place of its name."""
    name = f"{cls.__module__}:{cls.__qualname__}" if isinstance(cls, type) else repr(cls)
    if not isinstance(cls, type) or _class_named(name) is not cls:
        raise TypeError(f"{name} is no class of a module")
    return name


def _class_named(name):
    """The class of a `_name_of_class`, in a module that is loaded: the text may come from anywhere. None if there is
    none.
    """
    module, _, path = name.partition(":")
    value = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, type) else None


def _namedtuple_named(name):
    cls = _class_named(name)
    if not is_namedtuple_class(cls):
        raise ValueError(f"{name} is no named tuple of a loaded module")
    return cls


def _factory_named(name):
    cls = None if name is None else _class_named(name)
    if name is not None and cls is None:
        raise ValueError(f"{name} is no class of a loaded module")
    return cls


_dumpers[namedtuple] = _name_of_class, _namedtuple_named
_dumpers[defaultdict] = (
    lambda context: [None if context[0] is None else _name_of_class(context[0]), context[1]],
    lambda dumped: [_factory_named(dumped[0]), dumped[1]],
)


def _mapping_keys(mapping):
    return [MappingKey(key) for key in mapping]


def _indices(values):
    return [SequenceKey(i) for i in range(len(values))]


def _register_builtins():
    def add(cls, flatten, unflatten, keys):
        def with_keys(obj):
            children, context = flatten(obj)
            return list(zip(keys(obj), children)), context

        SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten, with_keys)
        _serialized_names[f"{cls.__module__}.{cls.__qualname__}"] = cls

    add(tuple, lambda t: (list(t), None), lambda values, _: tuple(values), _indices)
    add(list, lambda v: (v, None), lambda values, _: list(values), _indices)
    add(dict, lambda d: (list(d.values()), list(d)), lambda values, keys: dict(zip(keys, values)), _mapping_keys)
    add(
        OrderedDict,
        lambda d: (list(d.values()), list(d)),
        lambda values, keys: OrderedDict(zip(keys, values)),
        _mapping_keys,
    )
    add(
        defaultdict,
        lambda d: (list(d.values()), [d.default_factory, list(d)]),
        lambda values, context: defaultdict(context[0], zip(context[1], values)),
        _mapping_keys,
    )
    add(deque, lambda d: (list(d), d.maxlen), lambda values, maxlen: deque(values, maxlen), _indices)
    add(
        namedtuple,
        lambda t: (list(t), type(t)),
        lambda values, cls: cls(*values),
        lambda t: [GetAttrKey(name) for name in t._fields],
    )


_register_builtins()


def is_namedtuple_class(cls):
    """True for classes that `collections.namedtuple` made, and their subclasses."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple(obj):
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple


def _node_type(tree):
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    return namedtuple if is_namedtuple_class(cls) else None


def tree_is_leaf(tree, is_leaf=None):
    """True if `tree` is a leaf, by its type or by `is_leaf(tree)`."""
    return (is_leaf is not None and is_leaf(tree)) or _node_type(tree) is None


_is_leaf = tree_is_leaf


class TreeSpec:
    """The shape of a tree: container type, its context, and the specs of the children."""

    __slots__ = ("type", "_context", "_children", "num_nodes", "num_leaves", "num_children")

    def __init__(self, type, context=None, children_specs=()):
        self.type = type
        self._context = context
        self._children = list(children_specs)
        self.num_nodes = 1 + sum(child.num_nodes for child in self._children)
        self.num_leaves = sum(child.num_leaves for child in self._children) if type is not None else 1
        self.num_children = len(self._children)

    @property
    def context(self):
        return self._context

    @property
    def children_specs(self):
        return self._children

    def children(self):
        return list(self._children)

    def child(self, index):
        return self._children[index]

    def entries(self):
        if self.type in (dict, OrderedDict):
            return list(self._context)
        return list(self._context[1]) if self.type is defaultdict else list(range(self.num_children))

    def is_leaf(self):
        return self.type is None

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.type is other.type and self._context == other._context and self._children == other._children

    def __hash__(self):
        context = tuple(map(repr, self._context)) if isinstance(self._context, list) else repr(self._context)
        return hash((self.type, context, tuple(self._children)))

    def __repr__(self):
        if self.type is None:
            return "*"
        children = ", ".join(repr(child) for child in self._children)
        return f"TreeSpec({self.type.__name__}, {self._context}, [{children}])"

    def __reduce__(self):
        return (LeafSpec, ()) if self.type is None else (TreeSpec, (self.type, self._context, self._children))

    def flatten_up_to(self, tree):
        """The subtrees of `tree` at this spec's leaves. Raises: ValueError if the containers differ."""
        out = []
        _flatten_up_to(self, tree, out)
        return out

    def unflatten(self, leaves):
        """The tree with these leaves. Raises: ValueError for a wrong number."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds "
                f"{self.num_leaves} items ({self})."
            )
        return _unflatten(self, iter(leaves))


class LeafSpec(TreeSpec):
    """The spec of a leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None)


def _flatten_up_to(spec, tree, out):
    if spec.type is None:
        out.append(tree)
        return
    kind = _node_type(tree)
    both_dicts = {kind, spec.type} <= {dict, OrderedDict, defaultdict}
    if kind is not spec.type and not both_dicts:
        raise ValueError(f"Type mismatch; expected {spec.type!r}, but got {type(tree)!r}.")
    if both_dicts:
        keys = spec.entries()
        if set(keys) != set(tree):
            raise ValueError(f"Node keys mismatch; expected keys {keys!r}, but got {list(tree)!r}.")
        children = [tree[key] for key in keys]
    else:
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if context != spec._context:
            raise ValueError(f"Node context mismatch for custom node type {spec.type!r}.")
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    for child, child_spec in zip(children, spec._children):
        _flatten_up_to(child_spec, child, out)


def _unflatten(spec, leaves):
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn(
        [_unflatten(child, leaves) for child in spec._children], spec._context
    )


_LEAF = LeafSpec()


def _flatten(tree, leaves, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf=None):
    """(list of leaves, TreeSpec)."""
    leaves = []
    return leaves, _flatten(tree, leaves, is_leaf)


def tree_unflatten(leaves, treespec):
    """The inverse of `tree_flatten`. Raises: TypeError for another kind of spec, ValueError for a wrong number of
    leaves.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """Iterates over the leaves."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None):
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """A tree of `func(leaf, ...)`; further trees must have at least the structure of the first."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves] + [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(map(func, *columns))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls `func` on the leaves for its effect, gives back `tree`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves] + [spec.flatten_up_to(rest) for rest in rests]
    for row in zip(*columns):
        func(*row)
    return tree


def map_only(kind):
    """Decorator: the function acts on instances of `kind` (a type, tuple of types, or predicate), others stay."""
    predicate = kind if callable(kind) and not isinstance(kind, type) else (lambda value: isinstance(value, kind))

    def decorate(func):
        @functools.wraps(func)
        def wrapped(value):
            return func(value) if predicate(value) else value

        return wrapped

    return decorate


def tree_map_only(kind, func, tree, is_leaf=None):
    return tree_map(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_map_only_(kind, func, tree, is_leaf=None):
    return tree_map_(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(kind, pred, tree, is_leaf=None):
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, kind))


def tree_any_only(kind, pred, tree, is_leaf=None):
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, kind))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Leaves of `tree` repeated so that they match `treespec`; None if the structures disagree."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _node_type(tree)
    if kind is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec._context:
        return None
    out = []
    for child, spec in zip(children, treespec._children):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        out.extend(flat)
    return out


def _with_path(path, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _node_type(tree)
    with_keys = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if with_keys is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    for key, child in with_keys(tree)[0]:
        yield from _with_path((*path, key), child, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """List of (path, leaf); a path is a tuple of keys."""
    return list(_with_path((), tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in pairs], [leaf for _, leaf in pairs]] + [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(map(func, *columns))


def keystr(path):
    """A path as text: "['a'][0].field"."""
    return "".join(str(key) for key in path)


def key_get(obj, path):
    """What lies at `path` in `obj`."""
    for key in path:
        obj = key.get(obj)
    return obj


def treespec_dumps(treespec, protocol=None):
    """A TreeSpec as JSON text. `protocol`: 1, the only one.

    Raises: TypeError for what is no TreeSpec and for contexts that JSON can't hold, ValueError for another protocol,
        NotImplementedError for classes that are
    not registered.
    """
    import json

    if protocol not in (None, 1):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")

    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec but got item of type "
            f"{type(treespec)}."
        )

    def encode(spec):
        if spec.type is None:
            return {"type": None, "context": None, "children_spec": []}
        name = next((name for name, cls in _serialized_names.items() if cls is spec.type), None)
        if name is None:
            raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
        to_dumpable = _dumpers[spec.type][0] if spec.type in _dumpers else lambda context: context
        try:
            context = json.dumps(to_dumpable(spec._context))
        except TypeError as error:
            raise TypeError(
                f"Unable to serialize context of {name}: {error}. Please make it json dump-able, or give "
                f"register_pytree_node a "
                "to_dumpable_context."
            ) from error
        return {"type": name, "context": context, "children_spec": [encode(child) for child in spec._children]}

    return json.dumps([1, encode(treespec)])


def treespec_loads(serialized):
    """The TreeSpec of `treespec_dumps`.

    Raises: NotImplementedError for another protocol or a class that is not registered, ValueError for named tuples of
        modules that are not loaded.
    """
    import json

    def decode(data):
        if data["type"] is None:
            return _LEAF
        cls = _serialized_names.get(data["type"])
        if cls is None:
            raise NotImplementedError(f"Deserializing {data['type']} in pytree is not registered.")
        context = json.loads(data["context"])
        if cls in _dumpers:
            context = _dumpers[cls][1](context)
        return TreeSpec(cls, context, [decode(child) for child in data["children_spec"]])

    protocol, data = json.loads(serialized)
    if protocol != 1:
        raise NotImplementedError(f"Unknown protocol {protocol}")
    return decode(data)


def treespec_pprint(treespec):
    return repr(tree_unflatten(["*"] * treespec.num_leaves, treespec)).replace("'*'", "*")


def arg_tree_leaves(*args, **kwargs):
    """Leaves of all arguments."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_iter(value)]
