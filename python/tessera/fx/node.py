"""Nodes: one step of a graph each."""

import builtins
import operator
import types
import typing

import tessera
from tessera._library.effects import effect_of
from tessera.fx._names import shown_target
from tessera.fx.immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]

BaseArgumentTypes = typing.Union[
    str, int, float, bool, complex, tessera.dtype, tessera.Tensor, tessera.device, tessera.memory_format, tessera.layout
]
base_types = typing.get_args(BaseArgumentTypes)
Target = typing.Union[typing.Callable, str]
Argument = typing.Optional[
    typing.Union[tuple, list, dict, slice, range, "Node", BaseArgumentTypes]  # of arguments, to any depth
]

_ATOMS = frozenset((int, float, bool, str, type(None)))
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
_side_effectful_functions = {tessera._assert, operator.setitem} if hasattr(tessera, "_assert") else {operator.setitem}
# Functions of the library whose results differ from call to call: dropping one changes what the later ones draw.
_RANDOM = frozenset(
    "rand rand_like randn randn_like randint randint_like randperm bernoulli multinomial normal poisson dropout "
    "alpha_dropout feature_dropout rrelu".split()
)


def has_side_effect(fn):
    """Registers a function that dead code elimination keeps, whoever uses its result. Returns it (a decorator)."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a, fn):
    """Applies fn to each leaf of nested tuples, lists, dicts and slices, which come back unchangeable."""
    kind = type(a)
    if kind is tuple:
        return tuple([map_aggregate(e, fn) for e in a])
    if kind is immutable_list or kind is list:
        return immutable_list([map_aggregate(e, fn) for e in a])
    if kind is immutable_dict or kind is dict:
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if kind is slice:
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    if isinstance(a, tuple):
        parts = [map_aggregate(e, fn) for e in a]
        return kind(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(e, fn) for e in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    return fn(a)


def map_arg(a, fn):
    """Applies fn to each Node in nested arguments and keeps everything else."""
    if not callable(fn):
        raise TypeError(f"map_arg: expected a function of a Node, got {type(fn).__name__}")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def _found_in(args, kwargs, found):
    """Collects the nodes among nested arguments, in order, each once."""
    stack = [*reversed(kwargs.values()), *reversed(args)]
    while stack:
        a = stack.pop()
        if isinstance(a, Node):
            found[a] = None
        elif isinstance(a, (tuple, list)):
            stack.extend(reversed(a))
        elif isinstance(a, dict):
            stack.extend(reversed(a.values()))
        elif isinstance(a, slice):
            stack.extend((a.step, a.stop, a.start))
    return found


def show(arg, of_node=str):
    """Nested arguments as text; of_node(node) stands for a node, strings have no quotes."""
    if isinstance(arg, Node):
        return of_node(arg)
    if isinstance(arg, tuple) and not hasattr(arg, "_fields"):
        inner = ", ".join(show(e, of_node) for e in arg)
        return f"({inner},)" if len(arg) == 1 else f"({inner})"
    if isinstance(arg, list):
        return "[" + ", ".join(show(e, of_node) for e in arg) + "]"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {show(v, of_node)}" for k, v in arg.items()) + "}"
    if isinstance(arg, slice):
        return f"slice({', '.join(show(e, of_node) for e in (arg.start, arg.stop, arg.step))})"
    return str(arg)


def type_text(kind):
    """An annotation as it stands in code: `int`, `torch.Tensor`, `typing.List[int]`."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return shown_target(kind).removeprefix("builtins.")
    return repr(kind).replace("tessera.", tessera._display_name + ".")


class Node:
    """One step of a Graph.

    - `op`: "placeholder" (an argument of the function), "get_attr" (a parameter of the module), "call_function",
      "call_module", "call_method" or "output".
    - `name`: what the value is called; unique in the graph.
    - `target`: the argument's name, the attribute's path, the function, the submodule's path or the method's name.
    - `args`, `kwargs`: what the call gets; nodes inside of them (to any depth) are the values that it uses.
    - `users`: the nodes that use this one's value (a dict, for its order). `meta`: notes of passes. `type`: annotation.

    Nodes are made by a Graph's methods. Assigning `args` or `kwargs` keeps the users on both sides right.
    """

    __slots__ = (
        "_args", "_erased", "_input_nodes", "_kwargs", "_next", "_prev", "_position", "_repr_fn", "__dict__",
        "graph", "meta", "name", "op", "target", "type", "users",
    )  # fmt: skip

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in OPS:
            raise AssertionError(f"Node: unknown op {op!r}; expected one of {', '.join(OPS[:-1])}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a "
                    "Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__} but a str "
                "is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users, self.meta = {}, {}
        self._prev = self._next = self
        self._erased, self._repr_fn, self._position = False, None, 0
        self._args, self._kwargs, self._input_nodes = (), immutable_dict(), {}
        self._assign(args, kwargs)

    # --- arguments and users ---

    def _assign(self, args, kwargs):
        for node in self._input_nodes:
            node.users.pop(self, None)
        if not kwargs and type(args) is tuple:  # nearly all: a few nodes and numbers
            found = {}
            for a in args:
                if type(a) is Node:
                    found[a] = None
                elif type(a) not in _ATOMS:
                    break
            else:
                self._args, self._kwargs, self._input_nodes = args, immutable_dict(), found
                for node in found:
                    node.users.setdefault(self)
                return
        as_it_is = lambda leaf: leaf  # noqa: E731
        self._args, self._kwargs = map_aggregate(tuple(args), as_it_is), map_aggregate(dict(kwargs), as_it_is)
        self._input_nodes = _found_in(self._args, self._kwargs, {})
        for node in self._input_nodes:
            node.users.setdefault(self)

    @property
    def args(self):
        """The positional arguments (a tuple). Assign to change them."""
        return self._args

    @args.setter
    def args(self, a):
        self._assign(a, self._kwargs)

    @property
    def kwargs(self):
        """The keyword arguments. Assign to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k):
        self._assign(self._args, k)

    @property
    def all_input_nodes(self):
        """The nodes whose values this one uses, in order, each once (a list)."""
        return list(self._input_nodes)

    def update_arg(self, idx, arg):
        """Replaces args[idx]."""
        changed = list(self._args)
        changed[idx] = arg
        self.args = tuple(changed)

    def insert_arg(self, idx, arg):
        """Inserts a positional argument before args[idx]; 0 <= idx <= len(args)."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key, arg):
        """Replaces or adds kwargs[key]."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        """Uses new_input wherever this node uses old_input."""
        swap = lambda n: new_input if n is old_input else n  # noqa: E731
        self._assign(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(self, replace_with, delete_user_cb=None, *, propagate_meta=False):
        """Makes the users of this node use another one.

        Args:
            replace_with: a Node.
            delete_user_cb: users for which it returns False keep this node.
            propagate_meta: also copy this node's meta, of which the other must have none.

        Returns: the list of users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
                hook(old=self, new=replace_with.name, user=user)
            user.replace_input_with(self, replace_with)
        return changed

    # --- place in the graph ---

    @property
    def next(self):
        """The node after this one (the graph's root after the last)."""
        return self._next

    @property
    def prev(self):
        """The node before this one (the graph's root before the first)."""
        return self._prev

    def _unlink(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def _link_before(self, x):
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x
        self.graph._numbered = False

    def prepend(self, x):
        """Moves x before this node."""
        self._link_before(x)

    def append(self, x):
        """Moves x after this node."""
        if x is not self and self._next is not x:
            self._next._link_before(x)

    def __lt__(self, other):
        return self.graph._position_of(self) < self.graph._position_of(other)

    def __gt__(self, other):
        return other < self

    def __le__(self, other):
        return not other < self

    def __ge__(self, other):
        return not self < other

    # --- the rest ---

    @property
    def stack_trace(self):
        """The Python lines that made this node while it was traced (record_stack_traces), or None."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random=True):
        """Whether the node does something besides computing its value: then dead code elimination keeps it.

        Args:
            impure_random: functions that draw random numbers count.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            target = self.target
            schema = getattr(target, "_schema", None)
            if schema is not None and (getattr(schema, "is_mutable", False) or effect_of(target) is not None):
                return True
            if schema is not None and not getattr(schema, "returns", True):
                return True  # checks return nothing
            if impure_random and getattr(target, "__name__", "").partition(".")[0] in _RANDOM:
                return True
            return target in _side_effectful_functions
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return getattr(module.get_submodule(self.target), "_is_impure", False)
        return False

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        """The call's arguments by their documented names (see operator_schemas.normalize_function).

        Returns: ArgsKwargsPair, or None if the signature is not known.
        """
        operator_schemas = tessera.fx.operator_schemas
        if self.op == "call_function":
            return operator_schemas.normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return operator_schemas.normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *, include_tensor_metadata=False):
        """The node's line in a printed graph.

        Args:
            placeholder_names: a list that gets the text of a placeholder's argument; then None is returned for one.
            maybe_return_typename: a list that gets the text of the output's annotation.
            include_tensor_metadata: show `meta["tensor_meta"]`, too.
        """
        if placeholder_names is not None and self.op == "placeholder":
            annotation = f": {type_text(self.type)}" if self.type else ""
            default = f" = {self.args[0]}" if self.args else ""
            placeholder_names.append(f"{self.target}{annotation}{default}")
            return None
        of_node = lambda n: f"%{n}"  # noqa: E731
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename.append(f" -> {type_text(self.type)}")
            return f"return {repr(self.args[0]) if not isinstance(self.args[0], str) else self.args[0]}"
        annotation = f"{type_text(self.type)} " if self.type else ""
        head = f"%{self.name} : {annotation}[num_users={len(self.users)}] = {self.op}"
        line = f"{head}[target={shown_target(self.target)}]"
        if self.op == "placeholder":
            return line + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return line
        line += f"(args = {show(self.args, of_node)}, kwargs = {show(self.kwargs, of_node)})"
        if include_tensor_metadata and "tensor_meta" in self.meta:
            line += f"  # {self.meta['tensor_meta']}"
        return line

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self.name

    def __deepcopy__(self, memo):
        import copy

        copy.deepcopy(self.graph, memo)  # a node is part of a graph: that of the copy has all the others, too
        return memo[id(self)]


_EVEN_IF_UNUSED = [builtins.print]
_side_effectful_functions.update(_EVEN_IF_UNUSED)
