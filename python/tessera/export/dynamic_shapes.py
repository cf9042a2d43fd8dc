"""Which sizes of a program's inputs may differ from call to call: Dim, and what says so of whole argument lists."""

import ast
import dataclasses
import enum
import inspect
import math
import typing

import tessera
from tessera.utils import _pytree as pytree

__all__ = ["Constraint", "Dim", "dims", "refine_dynamic_shapes_from_suggested_fixes", "AdditionalInputs"]

_LINEAR = "(Only increasing linear operations with integer coefficients are supported.)"


class _DimHintType(enum.Enum):
    AUTO = 1
    STATIC = 2
    DYNAMIC = 3


@dataclasses.dataclass(frozen=True)
class _DimHint:
    """A dimension without a name: the trace finds its range and its relations to others. Call it to bound its range:
    `Dim.AUTO(min=2, max=64)`."""

    type: _DimHintType
    min: typing.Optional[int] = None
    max: typing.Optional[int] = None
    _factory: bool = dataclasses.field(default=True, compare=False)

    def __call__(self, min=None, max=None):
        if not self._factory:
            raise TypeError(f"{self!r} has its range already")
        for name, bound in (("min", min), ("max", max)):
            assert bound is None or bound >= 0, f"{name} must be non-negative, got {bound}"
        assert min is None or max is None or min <= max, f"min must be <= max, got min={min}, max={max}"
        return _DimHint(self.type, min, max, False)

    def __repr__(self):
        bounds = "".join(f", {n}={b}" for n, b in (("min", self.min), ("max", self.max)) if b is not None)
        return f"DimHint({self.type.name}{bounds})"


class Dim:
    """A dimension that may differ from call to call.

    Args:
        name: an identifier. Dimensions of one name are one, and have one size in every call.
        min, max: bounds of its size, both included; None: 0 and no bound. AssertionError if min > max.

    `a * dim + b` with whole numbers a > 0 and b is a dimension, too (NotImplementedError for other arithmetic). Instead
    of a Dim an argument's dimension may be `Dim.AUTO` (what the program allows is found), `Dim.DYNAMIC` (as AUTO, and
    an error if it can have one size only) or `Dim.STATIC`.

    >>> from tessera.export import Dim
    >>> d = Dim("d", min=3, max=6)
    >>> (2 * d + 4).__name__, (2 * d + 4).min, (2 * d + 4).max
    ('2*d + 4', 10, 16)
    """

    AUTO = _DimHint(_DimHintType.AUTO)
    DYNAMIC = _DimHint(_DimHintType.DYNAMIC)
    STATIC = _DimHint(_DimHintType.STATIC)

    def __init__(self, name, *, min=None, max=None):
        assert isinstance(name, str) and name.isidentifier(), f"Dim name must be a valid identifier, got {name}"
        from tessera.fx.experimental._expressions import int_oo

        low, high = 0 if min is None else min, int_oo if max is None else max
        assert low <= high, f"Cannot create Dim with inconsistent min={low}, max={high}"
        self.__name__, self.min, self.max = name, low, high

    root = property(lambda self: self, doc="The Dim that a derived one is computed from; of others itself.")
    _factor, _offset = 1, 0

    def _derive(self, factor, offset):
        return _DerivedDim(self.root, self._factor * factor, self._offset * factor + offset)

    def __add__(self, other):
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self.__name__}, where an integer was expected. {_LINEAR}"
            )
        return self._derive(1, other)

    __radd__ = __add__

    def __sub__(self, other):
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to subtract {other} from {self.__name__}, where an integer was expected. {_LINEAR}"
            )
        return self._derive(1, -other)

    def __rsub__(self, other):
        raise NotImplementedError(f"Attempted to negate {self.__name__}. {_LINEAR}")

    def __mul__(self, other):
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. {_LINEAR}"
            )
        return self._derive(other, 0)

    __rmul__ = __mul__

    def _same(self, other):
        return (self.__name__, self.min, self.max) == (other.__name__, other.min, other.max)

    def __repr__(self):
        low = "" if self.min == 2 else f", min={self.min}"
        high = "" if self.max == math.inf else f", max={self.max}"
        return f"Dim('{self.__name__}'{low}{high})"


class _DerivedDim(Dim):
    """factor * root + offset."""

    def __init__(self, root, factor, offset):
        self._root, self._factor, self._offset = root, factor, offset
        times = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = times if offset == 0 else f"{times} {'+' if offset > 0 else '-'} {abs(offset)}"

    root = property(lambda self: self._root)

    @property
    def min(self):
        """The least size. AssertionError if that would be negative."""
        least = self._of(self._root.min)
        assert least >= 0, (
            f"Expected derived min value of {self.__name__} to be >= 0. Please specify an appropriate min value for "
            f"{self._root.__name__} (currently {self._root.min})."
        )
        return least

    @property
    def max(self):
        """The largest size."""
        return self._of(self._root.max)

    def _of(self, size):
        return self._factor * size + self._offset

    def _root_size(self, size):
        """The root's size where this one's is `size`, or None if there is none."""
        whole, rest = divmod(size - self._offset, self._factor)
        return None if rest else whole

    def __repr__(self):
        return self.__name__


_Dim = Dim


def dims(*names, min=None, max=None):
    """Dims of several names: a tuple. min, max: of each, see Dim."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class _IntWrapper:
    """A whole number among a program's arguments, as an object of its own, so that ShapesCollection can tell it."""

    def __init__(self, val):
        self.val, self.dynamism, self._is_shape_input = val, None, False


@dataclasses.dataclass(frozen=True)
class _Constraint:
    """Size `dim` of the argument at `source` is the Dim `name`."""

    source: str
    dim: int
    name: str
    min: int
    max: float


@dataclasses.dataclass(frozen=True)
class _DerivedConstraint:
    """Size `dim` of the argument at `source` is `name`, which is computed from the Dim `root`."""

    source: str
    dim: int
    name: str
    root: str
    min: int
    max: float


@dataclasses.dataclass(frozen=True)
class _RelaxedConstraint:
    """Size `dim` of the argument at `source` may be any that the program allows."""

    source: str
    dim: int


Constraint = typing.Union[_Constraint, _DerivedConstraint, _RelaxedConstraint]


# --- trees of arguments, and of what is said of them ---


def _user_error(message, kind="INVALID_INPUT"):
    from tessera._dynamo.exc import UserError, UserErrorType

    return UserError(UserErrorType[kind], message)


def _combine_args(f, args, kwargs):
    """{argument's name: value} of a call: of a function, or of a module's forward; `*args` are a tuple, `**kwargs` a
    dict. TypeError if it cannot be called so."""
    if isinstance(f, tessera.export.ExportedProgram):
        f = f.module()
    forward = f.forward if isinstance(f, tessera.nn.Module) else f
    return dict(inspect.signature(forward).bind(*args, **(kwargs or {})).arguments)


def _children(tree):
    """[(key, child)] of a container, one level deep; None of a leaf."""
    if pytree.tree_is_leaf(tree):
        return None
    found, _ = pytree.tree_flatten_with_path(tree, is_leaf=lambda part: part is not tree)
    return [(path[0], child) for path, child in found]


def _plain(key):
    return getattr(key, "key", getattr(key, "idx", getattr(key, "name", None)))


def _mismatch(path, told):
    return _user_error(
        f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs{path}` {told}"
    )


def _spec_children(children, tree, spec, path):
    """The parts of a spec that belong to a container's parts."""
    keys = [_plain(key) for key, _ in children]
    is_container = isinstance(spec, (dict, tuple, list))
    # A class that was registered may be given as a dict or sequence of its parts; Python's own have to agree.
    parts_of_class = is_container and not isinstance(tree, (dict, tuple, list))
    if type(spec) is not type(tree) and not parts_of_class:
        told = f"is a {type(spec)}" if is_container else "is not"
        raise _mismatch(path, f"is a {type(tree)}, but `dynamic_shapes{path}` {told}")
    parts = spec if is_container else [child for _, child in _children(spec)]
    if len(parts) != len(children):
        raise _mismatch(path, f"has {len(children)} elements, but `dynamic_shapes{path}` has {len(parts)} elements")
    if not isinstance(spec, dict):
        return list(parts)
    if set(spec) != set(keys):
        raise _mismatch(path, f"has keys {keys}, but `dynamic_shapes{path}` has keys {list(spec)}")
    return [spec[key] for key in keys]


def _leaf_specs(tree, spec, path="", found=None):
    """[(path, leaf, its spec)] of a tree of arguments and a tree of specs. UserError where they differ."""
    found = [] if found is None else found
    children = _children(tree)
    if children is None:
        found.append((path, tree, spec))
        return found
    parts = [None] * len(children) if spec is None and not children else _spec_children(children, tree, spec, path)
    for (key, child), part in zip(children, parts):
        _leaf_specs(child, part, path + pytree.keystr((key,)), found)
    return found


def _match_top(combined, specs):
    """What is said of each argument, in the order of `combined`."""
    names = list(combined)
    if isinstance(specs, dict):
        if set(specs) != set(names):
            variadic = combined.get("kwargs")
            if isinstance(variadic, dict) and set(specs) == (set(names) - {"kwargs"}) | set(variadic):
                inner = {name: specs[name] for name in variadic}
                return [inner if name == "kwargs" else specs[name] for name in names]
            raise _user_error(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                f"{names} of `inputs`, but here they are {list(specs)}. Alternatively, you could also ignore arg names "
                "entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`."
            )
        return [specs[name] for name in names]
    if not isinstance(specs, (tuple, list)):
        raise AssertionError(f"expected dynamic_shapes to be dict, tuple, or list, got {type(specs)}")
    if len(specs) != len(names):
        raise _mismatch("", f"has {len(names)} elements, but `dynamic_shapes` has {len(specs)} elements")
    return list(specs)


def _check_dimension(spec, place, whole):
    if not (spec is None or type(spec) is int or isinstance(spec, (Dim, _DimHint))):
        raise _user_error(
            f"Unexpected dimension mapped to {place} in input tensor shape {whole} (expected None, an int, a Dim, "
            f"Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC, but got {spec!r} instead)"
        )


def _tensor_spec(tensor, spec, path):
    """{dimension: Dim, hint or int} of what is said of a tensor, dimensions counted from the front."""
    rank = tensor.dim()
    if spec is None:
        return {}
    where = f"specified at `dynamic_shapes{path}`"
    if isinstance(spec, (tuple, list)):
        if len(spec) != rank:
            raise _user_error(
                f"Expected dynamic shape spec {spec} {where} to have the same length as the actual tensor shape "
                f"{tensor.shape} (expected {rank}, but got {len(spec)} instead)"
            )
        spec = dict(enumerate(spec))
    elif not isinstance(spec, dict):
        raise _user_error(
            f"Unexpected input tensor shape {spec!r} {where} (expected either a list/tuple of dimensions, or a dict "
            "mapping indices to dimensions, where each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or "
            "Dim.DYNAMIC)"
        )
    found = {}
    for at, dim in spec.items():
        if type(at) is not int or not -rank <= at < rank:
            raise _user_error(
                f"Unexpected index {at!r} in input tensor shape {spec} {where}: the tensor has {rank} dimensions"
            )
        _check_dimension(dim, f"index {at}", f"{spec} {where}")
        if dim is not None:
            found[at % rank] = dim
    return found


def _leaf_spec(leaf, spec, path):
    """What is said of one leaf: {dimension: spec} of a tensor, a hint or None of a number."""
    if isinstance(leaf, tessera.Tensor):
        return _tensor_spec(leaf, spec, path)
    if isinstance(spec, Dim):
        raise ValueError(
            "Unable to specify input integers as dynamic through named Dims. Please use Dim.AUTO/DYNAMIC instead."
        )
    if isinstance(spec, _DimHint) and spec.type is not _DimHintType.STATIC:
        if type(leaf) is not int:
            raise _user_error(f"dynamic_shapes{path}: only tensors and whole numbers can be dynamic, got {leaf!r}")
        return spec
    if spec is None or isinstance(spec, _DimHint) or (type(spec) is int and spec == leaf):
        return None
    raise _user_error(f"Unexpected spec {spec!r} at `dynamic_shapes{path}` for the input {leaf!r}: expected None")


def _process_dynamic_shapes(combined, specs):
    """[(path, leaf, {dimension: spec} or hint or None)] of all leaves of a call's arguments, in their order.

    Args:
        combined: {argument's name: value}.
        specs: as the argument dynamic_shapes of export(), or None.
    """
    if specs is None or (not specs and not combined):
        leaves = pytree.tree_flatten_with_path(combined)[0]
        return [(pytree.keystr(p), leaf, {} if isinstance(leaf, tessera.Tensor) else None) for p, leaf in leaves]
    found = []
    for (name, value), spec in zip(combined.items(), _match_top(combined, specs)):
        _leaf_specs(value, spec, f"['{name}']", found)
    found = [(path, leaf, _leaf_spec(leaf, spec, path)) for path, leaf, spec in found]
    _check_names(found)
    return found


def _check_names(found):
    """One name, one definition."""
    known = {}
    for _, _, spec in found:
        for dim in spec.values() if isinstance(spec, dict) else ():
            if not isinstance(dim, Dim):
                continue
            first = known.setdefault(dim.root.__name__, dim.root)
            if not first._same(dim.root):
                raise _user_error(
                    f"Found different definitions {first!r} and {dim.root!r} for the same symbolic dimension "
                    f"{dim.root!r}!"
                )


def _check_dynamic_shapes(combined_args, dynamic_shapes):
    """UserError if a spec does not fit the arguments."""
    _process_dynamic_shapes(combined_args, dynamic_shapes)


def _map_arguments(of_leaf, combined):
    """of_leaf of each leaf, in the trees of the arguments, whose containers are plain ones."""

    def walk(tree):
        children = _children(tree)
        if children is None:
            return of_leaf(tree)
        if isinstance(tree, dict):
            return {_plain(key): walk(child) for key, child in children}
        parts = [walk(child) for _, child in children]
        return tuple(parts) if type(tree) is tuple else parts

    return {name: walk(value) for name, value in combined.items()}


# --- builders ---


class ShapesCollection:
    """Says of single tensors which of their sizes are dynamic; export() takes it as dynamic_shapes.

    `collection[tensor] = spec`, with a spec as in export(). AssertionError for other keys than tensors (and whole
    numbers in an _IntWrapper), and if a tensor gets a second, different spec.

    >>> from tessera.export import Dim, ShapesCollection
    >>> x, c = tessera.ones(4, 5), ShapesCollection()
    >>> c[x] = {0: Dim("n")}
    >>> c.dynamic_shapes(tessera.nn.ReLU(), (x,))
    {'input': {0: Dim('n', min=0)}}
    """

    def __init__(self):
        self._shapes = {}  # id -> (the object, which stays alive, its spec)

    def __setitem__(self, t, shape):
        assert isinstance(t, (tessera.Tensor, _IntWrapper)), (
            f"Cannot assign shape to non-tensor or non-_IntWrapper type {type(t)}"
        )
        known = self._shapes.setdefault(id(t), (t, shape))[1]
        assert _equal_specs(known, shape), f"Shapes assigned to input do not match: expected {known}, got {shape}"

    def __getitem__(self, t):
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The specs of all arguments of a call: {name: spec}.

        Args:
            m: Module. args, kwargs: of its call.

        Errors: ValueError if a tensor of the collection is not among the arguments.
        """
        seen = set()

        def of_leaf(leaf):
            if id(leaf) not in self._shapes:
                return None
            seen.add(id(leaf))
            return self._shapes[id(leaf)][1]

        found = _map_arguments(of_leaf, _combine_args(m, args, kwargs))
        if len(seen) != len(self._shapes):
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args. Maybe such tensors were copied when "
                "passing them as args? Maybe such tensors are contained in classes that were not registered with "
                "pytree?"
            )
        return found


def _equal_specs(a, b):
    if isinstance(a, Dim) and isinstance(b, Dim):
        return a._same(b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal_specs(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_equal_specs, a, b))
    return a == b


class AdditionalInputs:
    """Finds dynamic sizes from further inputs: those in which an input differs from export()'s are Dim.DYNAMIC.
    export() takes it as dynamic_shapes, and checks that the program accepts all of these inputs."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        """Adds an input: a tuple and a dict (or None). AssertionError for others."""
        assert type(args) is tuple, f"Representative args {args} must be a tuple"
        assert kwargs is None or type(kwargs) is dict, f"Representative kwargs {kwargs} must be None or a dict"
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m, args, kwargs=None):
        """The specs of all arguments: {name: spec}.

        Args:
            m: Module. args, kwargs: the example input of export().

        Errors: ValueError if an added input has another structure, or differs in something that cannot be dynamic.
        """
        combined = _combine_args(m, args, kwargs)
        leaves, spec = pytree.tree_flatten(combined)
        columns = [[leaf] for leaf in leaves]
        for more in self._examples:
            others, other_spec = pytree.tree_flatten(_combine_args(m, *more))
            if other_spec != spec:
                raise ValueError(f"AdditionalInputs: an input has the structure {other_spec}, expected {spec}")
            for column, leaf in zip(columns, others):
                column.append(leaf)
        found = iter([_variation(column) for column in columns])
        return _map_arguments(lambda leaf: next(found), combined)

    def verify(self, ep):
        """RuntimeError if an ExportedProgram does not accept one of the inputs."""
        for args, kwargs in self._examples:
            ep._check_inputs(args, kwargs or {})


def _variation(column):
    """What is dynamic of an argument, given its values in several calls."""
    first = column[0]
    if isinstance(first, tessera.Tensor):
        if any(not isinstance(other, tessera.Tensor) or other.dim() != first.dim() for other in column):
            raise ValueError("AdditionalInputs: the number of an argument's dimensions differs between inputs")
        return tuple(Dim.DYNAMIC if len(set(sizes)) > 1 else None for sizes in zip(*(t.shape for t in column)))
    if all(type(other) is type(first) and other == first for other in column):
        return None
    if all(type(other) is int for other in column):
        return Dim.DYNAMIC
    raise ValueError(f"AdditionalInputs: an argument is {first!r} in one input and another in others; it must be fixed")


# --- suggested fixes ---


def _suggestions(msg):
    """{name: ast of the right side} of the lines after `Suggested fixes:`."""
    _, found, tail = msg.partition("Suggested fixes:")
    fixes = {}
    for line in tail.split("\n") if found else ():
        name, equals, value = line.strip().partition(" = ")
        if equals and name.isidentifier():
            try:
                fixes[name] = ast.parse(value.strip(), mode="eval").body
            except SyntaxError:
                break
    return fixes


def _dim_of_call(node):
    bounds = {}
    for keyword in node.keywords:
        if isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is int:
            bounds[keyword.arg] = keyword.value.value
    return Dim(node.args[0].value, **bounds)


class _Fixes:
    """Dims by what a message suggests for them."""

    def __init__(self, fixes, known):
        self._fixes, self._known, self._made = fixes, known, {}

    def of_name(self, name):
        if name not in self._made:
            node = self._fixes.get(name)
            self._made[name] = self._known.get(name, None) or Dim(name)  # for the time that its own fix is read
            if node is not None:
                self._made[name] = self._value(node)
        return self._made[name]

    def _value(self, node):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Dim":
            return _dim_of_call(node)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return self.of_name(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left), self._value(node.right)
            by = {ast.Add: lambda: left + right, ast.Sub: lambda: left - right, ast.Mult: lambda: left * right}
            if type(node.op) in by:
                return by[type(node.op)]()
        raise ValueError(f"cannot read the suggested fix {ast.unparse(node)!r}")

    def of(self, spec):
        if not isinstance(spec, Dim):
            return spec
        if spec.__name__ in self._fixes:
            return self.of_name(spec.__name__)
        root = self.of_name(spec.root.__name__)
        return root if spec.root is spec else root * spec._factor + spec._offset


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    """dynamic_shapes with the changes that the message of a failed export() suggests.

    Args:
        msg: text of the error. dynamic_shapes: what that export() was given.

    Returns: the same structure, with other Dims, or numbers where a size has to be fixed.
    """
    fixes = _suggestions(msg)
    known = {}
    is_spec = lambda s: isinstance(s, (Dim, _DimHint))  # noqa: E731
    for spec in pytree.tree_leaves(dynamic_shapes, is_leaf=is_spec):
        if isinstance(spec, Dim):
            known[spec.root.__name__] = spec.root
    table = _Fixes(fixes, known)
    return pytree.tree_map(table.of, dynamic_shapes, is_leaf=is_spec)
