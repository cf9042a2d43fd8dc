"""Trees of Python containers: flattened to leaves and a TreeSpec, built again, mapped.

Containers are tuple, list, dict, OrderedDict, defaultdict, deque, named tuples, results of operators, `Size` and the
registered classes; all else, None included, is a leaf. Dicts keep their order. The walks are those of
`python/bindings/pytree`; here are the registry, paths, and specs as text.
"""

import functools
import json
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from operator import attrgetter

import tessera
from tessera._C import _pytree as _walks

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
    "register_constant",
    "register_dataclass",
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
    "treespec_leaf",
    "treespec_tuple",
    "treespec_dict",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_structseq",
    "is_structseq_class",
]

SUPPORTED_NODES = _walks.SUPPORTED_NODES
LeafSpec = _walks.LeafSpec
TreeSpec = _walks.TreeSpec
_broadcast_to_and_flatten = _walks._broadcast_to_and_flatten
_get_node_type = _walks._get_node_type
tree_flatten = _walks.tree_flatten
tree_is_leaf = _walks.tree_is_leaf
tree_leaves = _walks.tree_leaves
tree_leaves_with_path = _walks.tree_leaves_with_path
tree_map = _walks.tree_map
tree_map_ = _walks.tree_map_
tree_map_only = _walks.tree_map_only
tree_map_only_ = _walks.tree_map_only_
tree_structure = _walks.tree_structure
tree_unflatten = _walks.tree_unflatten

PyTree = Context = FlattenFunc = UnflattenFunc = DumpableContext = ToDumpableContextFn = FromDumpableContextFn = object
KeyPath = FlattenWithKeysFunc = object
PyTreeSpec = TreeSpec
_is_leaf = tree_is_leaf


# --- paths ---


class _Step:
    """One step of a path, by `key`, `idx` or `name`; equal to another of its class that leads to the same place."""

    __slots__ = ("_at",)
    _text = ""

    def __init_subclass__(cls):
        (cls._field,) = cls.__match_args__
        setattr(cls, cls._field, property(attrgetter("_at")))

    def __eq__(self, other):
        return self._at == other._at if type(other) is type(self) else NotImplemented

    def __hash__(self):
        return hash((type(self), self._at))

    def __repr__(self):
        return f"{type(self).__name__}({self._field}={self._at!r})"

    def __str__(self):
        return self._text.format(self._at)

    def __reduce__(self):
        return type(self), (self._at,)

    def get(self, parent):
        return parent[self._at]


class MappingKey(_Step):
    __slots__ = ()
    __match_args__ = ("key",)
    _text = "[{!r}]"

    def __init__(self, key):
        self._at = key


class SequenceKey(_Step):
    __slots__ = ()
    __match_args__ = ("idx",)
    _text = "[{!r}]"

    def __init__(self, idx):
        self._at = idx


class GetAttrKey(_Step):
    __slots__ = ()
    __match_args__ = ("name",)
    _text = ".{}"

    def __init__(self, name):
        self._at = name

    def get(self, parent):
        return getattr(parent, self._at)


KeyEntry = _Step
_walks.set_step_classes(MappingKey, SequenceKey, GetAttrKey)


def keystr(path):
    """A path as text: "['a'][0].field"."""
    return "".join(map(str, path))


def key_get(obj, path):
    """What lies at `path` in `obj`."""
    return functools.reduce(lambda parent, step: step.get(parent), path, obj)


# --- the registry ---

NodeDef = namedtuple("NodeDef", ["type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"])
# What a spec's text calls a class, and how contexts become what JSON can hold; by default they are a text of their own
# inside of it.
_Dumper = namedtuple("_Dumper", ["name", "dump", "load"])
_dumpers: dict = {}
CONSTANT_NODES: set = set()
_classes: dict = {}  # name in a dumped spec -> class
_nested = json.dumps, json.loads


def _add(cls, node, name, dump=None, load=None):
    SUPPORTED_NODES[cls] = node
    name = name or f"{cls.__module__}.{cls.__qualname__}"
    _dumpers[cls] = _Dumper(name, *((dump, load) if dump else _nested))
    _classes[name] = cls


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
    """Makes instances of `cls`, but not of its subclasses, containers.

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
    if (to_dumpable_context is None) is not (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    node = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    _add(cls, node, serialized_type_name, to_dumpable_context, from_dumpable_context)


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls):
    del SUPPORTED_NODES[cls]
    del _classes[_dumpers.pop(cls).name]
    CONSTANT_NODES.discard(cls)


class ConstantNode(namedtuple("ConstantNode", ["value"])):
    """The context of a constant: the object itself."""

    __slots__ = ()


def register_constant(cls):
    """Makes instances of `cls` containers without leaves: they belong to the TreeSpec, whose equality compares them.

    Raises: TypeError for a class without an `__eq__` and a `__hash__` of its own.
    """
    for method in ("__eq__", "__hash__"):
        if getattr(cls, method) in (getattr(object, method), None):
            raise TypeError(f"register_constant(cls) expects `cls` to have a non-default `{method}` implementation.")
    register_pytree_node(
        cls,
        lambda value: ([], ConstantNode(value)),
        lambda _, constant: constant.value,
        flatten_with_keys_fn=lambda value: ([], ConstantNode(value)),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    """True if `register_constant` made `cls` one."""
    return cls in CONSTANT_NODES


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Makes instances of a dataclass containers of their fields; fields that are None are part of the TreeSpec.

    Args:
        field_names: the fields, in order; by default those of the dataclass that its constructor takes.
        drop_field_names: fields that are lost.

    Raises: ValueError if `cls` is no dataclass and `field_names` are missing, or if these and `drop_field_names` are
        not all of its fields.
    """
    import dataclasses

    own = [f.name for f in dataclasses.fields(cls) if f.init] if dataclasses.is_dataclass(cls) else None
    if own is None and field_names is None:
        raise ValueError(
            f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a "
            "dataclass."
        )
    dropped = set(drop_field_names or ())
    names = [name for name in own if name not in dropped] if field_names is None else list(field_names)
    if own is not None:
        if missing := set(own) - dropped - set(names):
            raise ValueError(
                f"field_names does not include all dataclass fields.\nMissing fields in `field_names`: {missing}. If "
                "you want to include these fields in the pytree, please add them to `field_names`, otherwise please "
                "add them to `drop_field_names`."
            )
        if unknown := {*names, *dropped} - set(own):
            raise ValueError(f"{cls} has no field that its constructor takes for {unknown}; remove them.")

    def with_keys(obj):
        fields = [(name, getattr(obj, name)) for name in names]
        present = [(GetAttrKey(name), value) for name, value in fields if value is not None]
        return present, [[key.name for key, _ in present], [name for name, value in fields if value is None]]

    def flatten(obj):
        pairs, context = with_keys(obj)
        return [value for _, value in pairs], context

    def unflatten(values, context):
        present, absent = context
        return cls(**dict(zip(present, values)), **dict.fromkeys(absent))

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=with_keys
    )


# --- the built-in containers, which the walks know by themselves, for those who look them up ---


def _dict_flatten(d):
    return list(d.values()), list(d)


def _dict_unflatten(values, keys):
    return dict(zip(keys, values))


def _list_flatten(values):
    return list(values), None


def _list_unflatten(values, _):
    return list(values)


def _tuple_flatten(values):
    return list(values), None


def _tuple_unflatten(values, _):
    return tuple(values)


def _namedtuple_flatten(values):
    return list(values), type(values)


def _namedtuple_unflatten(values, cls):
    return cls(*values)


def _with_keys(flatten, keys):
    def flatten_with_keys(obj):
        children, context = flatten(obj)
        return list(zip(keys(obj), children)), context

    return flatten_with_keys


def _indices(values):
    return map(SequenceKey, range(len(values)))


def _mapping_keys(mapping):
    return map(MappingKey, mapping)


_dict_flatten_with_keys = _with_keys(_dict_flatten, _mapping_keys)
_list_flatten_with_keys = _with_keys(_list_flatten, _indices)


def _class_named(module, path):
    """A class of a module that is loaded: the text may come from anywhere, so nothing is imported. None if there is
    none.
    """
    value = sys.modules.get(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, type) else None


def _place_of(cls):
    """(module, name) where a class is found again. Raises: TypeError for one that is not there."""
    if not isinstance(cls, type) or _class_named(cls.__module__, cls.__qualname__) is not cls:
        raise TypeError(f"{cls!r} is no class of a module")
    return cls.__module__, cls.__qualname__


_namedtuple_names: dict = {}  # class -> name in a dumped spec


def _register_namedtuple(cls, *, serialized_type_name):
    """Gives a named tuple a name of its own for `treespec_dumps`; without one, its module and name are taken."""
    _namedtuple_names[cls] = serialized_type_name


def _dump_namedtuple(cls):
    return _namedtuple_names.get(cls) or ":".join(_place_of(cls))


def _load_namedtuple(name):
    cls = next((cls for cls, own in _namedtuple_names.items() if own == name), None)
    cls = cls or _class_named(*name.partition(":")[::2])
    if not is_namedtuple_class(cls):
        raise ValueError(f"{name} is no named tuple of a loaded module")
    return cls


def _dump_defaultdict(context):
    factory, keys = context
    module, name = (None, None) if factory is None else _place_of(factory)
    return {"default_factory_module": module, "default_factory_name": name, "dict_context": keys}


def _load_defaultdict(dumped):
    module, name = dumped["default_factory_module"], dumped["default_factory_name"]
    factory = None if module is None else _class_named(module, name)
    if module is not None and factory is None:
        raise ValueError(f"{module}.{name} is no class of a loaded module")
    return [factory, dumped["dict_context"]]


def _built_in(cls, flatten, unflatten, keys=_indices, name=None, dump=None, load=None):
    _add(cls, NodeDef(cls, flatten, unflatten, _with_keys(flatten, keys)), name, dump, load)


_built_in(tuple, _list_flatten, lambda values, _: tuple(values))
_built_in(list, _list_flatten, _list_unflatten)
_built_in(dict, _dict_flatten, _dict_unflatten, _mapping_keys)
_built_in(OrderedDict, _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values)), _mapping_keys)
_built_in(
    defaultdict,
    lambda d: (list(d.values()), [d.default_factory, list(d)]),
    lambda values, context: defaultdict(context[0], zip(context[1], values)),
    _mapping_keys,
    dump=_dump_defaultdict,
    load=_load_defaultdict,
)
_built_in(deque, lambda d: (list(d), d.maxlen), deque)
_built_in(
    namedtuple,
    lambda values: (list(values), type(values)),
    lambda values, cls: cls(*values),
    lambda values: map(GetAttrKey, values._fields),
    dump=_dump_namedtuple,
    load=_load_namedtuple,
)
_built_in(tessera.Size, _list_flatten, lambda values, _: tessera.Size(values), name="torch.Size")


def is_namedtuple_class(cls):
    """True for classes that `collections.namedtuple` made, and their subclasses."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_structseq_class(cls):
    """True for classes of C with named fields, as those of `time.localtime()` and of an operator's results."""
    counts = ("n_fields", "n_sequence_fields", "n_unnamed_fields")
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, count, None), int) for count in counts)
    )


def _class_of(obj):
    return obj if isinstance(obj, type) else type(obj)


def is_namedtuple(obj):
    """The same of an instance or a class."""
    return is_namedtuple_class(_class_of(obj))


def is_structseq(obj):
    """The same of an instance or a class."""
    return is_structseq_class(_class_of(obj))


def is_namedtuple_instance(obj):
    return is_namedtuple_class(type(obj))


def is_structseq_instance(obj):
    return is_structseq_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


# --- over the leaves ---


def tree_iter(tree, is_leaf=None):
    """Iterates over the leaves."""
    return iter(tree_leaves(tree, is_leaf))


def arg_tree_leaves(*args, **kwargs):
    """Leaves of all arguments."""
    return tree_leaves((args, kwargs))


def tree_flatten_with_path(tree, is_leaf=None):
    """(list of (path, leaf), TreeSpec)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """`tree_map` with the path of the leaf as a first argument of `func`."""
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    return tree_map(lambda *leaves: func(next(paths), *leaves), tree, *rests, is_leaf=is_leaf)


def map_only(type_or_types_or_pred, /):
    """Decorator: the function acts on instances of the types, or where the predicate holds; others stay."""

    def decorate(func):
        return functools.wraps(func)(
            lambda value: tree_map_only(type_or_types_or_pred, func, value, is_leaf=lambda _: True)
        )

    tree_map_only(type_or_types_or_pred, None, [])  # TypeError for what is neither
    return decorate


def tree_all(pred, tree, is_leaf=None):
    """True if `pred` holds for all leaves; none is asked after the first for which it does not."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """True if `pred` holds for one of the leaves; none is asked after it."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def _leaves_of_type(types, tree, is_leaf):
    return [leaf for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, types)]


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    """`tree_all` over the leaves of these types."""
    return all(map(pred, _leaves_of_type(type_or_types, tree, is_leaf)))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    """`tree_any` over the leaves of these types."""
    return any(map(pred, _leaves_of_type(type_or_types, tree, is_leaf)))


# --- specs ---


def treespec_leaf():
    """The spec of a leaf."""
    return LeafSpec()


def treespec_tuple(iterable=(), /):
    """The spec of a tuple. Raises: ValueError for children that are no specs."""
    children = list(iterable)
    if not all(isinstance(child, TreeSpec) for child in children):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping=(), /, **kwargs):
    """The spec of a dict. Raises: ValueError for values that are no specs."""
    children = dict(mapping, **kwargs)
    if not all(isinstance(child, TreeSpec) for child in children.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {children!r}.")
    return TreeSpec(dict, list(children), list(children.values()))


class _Star:
    def __repr__(self):
        return "*"


def treespec_pprint(treespec):
    """The tree with a star for each leaf, as text."""
    return repr(tree_unflatten([_Star()] * treespec.num_leaves, treespec))


def treespec_dumps(treespec, protocol=None):
    """A TreeSpec as JSON text. `protocol`: 1, the only one.

    Raises: TypeError for what is no TreeSpec and for contexts that JSON can't hold, ValueError for another protocol,
        NotImplementedError for classes that are not registered.
    """
    _check_protocol(1 if protocol is None else protocol)
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}; use "
            "tree_structure() to get one."
        )
    return json.dumps([1, _encoded(treespec)])


def treespec_loads(serialized):
    """The TreeSpec of `treespec_dumps`.

    Raises: ValueError for another protocol and for named tuples of modules that are not loaded, NotImplementedError for
        a class that is not registered.
    """
    protocol, data = json.loads(serialized)
    _check_protocol(protocol)
    return _decoded(data)


def _check_protocol(protocol):
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")


def _encoded(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    dumper = _dumpers.get(spec.type)
    if dumper is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    try:
        context = dumper.dump(spec.context)
        json.dumps(context)
    except TypeError as error:
        raise TypeError(
            f"Unable to serialize context of {dumper.name}: {error}. Please make it json dump-able, or give "
            "register_pytree_node a to_dumpable_context."
        ) from error
    return {"type": dumper.name, "context": context, "children_spec": list(map(_encoded, spec.children()))}


def _decoded(data):
    if data["type"] is None:
        return LeafSpec()
    cls = _classes.get(data["type"])
    if cls is None:
        raise NotImplementedError(
            f"Deserializing {data['type']} in pytree is not registered; import the package that registers it, or call "
            "register_pytree_node with this serialized_type_name."
        )
    return TreeSpec(cls, _dumpers[cls].load(data["context"]), list(map(_decoded, data["children_spec"])))
