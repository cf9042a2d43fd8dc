"""One capture: the graph that grows, the guards, and what the program has written to objects that others see."""

import builtins
import collections
import contextlib
import enum
import operator
import re
import types
import typing

import tessera
from tessera._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from tessera.fx import Graph, GraphModule
from tessera.fx import traceback as fx_traceback

from . import config
from ._sources import Guards, Source, held, plain_mapping, tensor_facts, tensor_of
from ._symbols import History, NeedSymbols, Symbols
from ._values import Bound, Cell, Const, Held, Loose, Map, New, NumberV, Obj, Partial, Seq, Slice, TensorV
from .exc import USER_ERROR, OperatorRefused, Unsupported

CONSTANTS = (
    int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, tessera.dtype,
    tessera.device, tessera.layout, tessera.memory_format,
)  # fmt: skip
SEQUENCES = (list, tuple, tessera.Size, collections.deque, set, frozenset)
_TENSORS = (tessera.Tensor, tessera.nn.Parameter, tessera.nn.Buffer)
BY_IDENTITY = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType, type, enum.Enum, property,
    type(tessera.Tensor.add), type(tessera.relu), tessera.Generator, types.UnionType, types.GenericAlias,
    type(typing.List[int]), type(typing.Optional),
)  # fmt: skip


def is_named_tuple(cls):
    """Whether a class was made by collections.namedtuple or typing.NamedTuple, or is a tuple of results."""
    return issubclass(cls, tuple) and (hasattr(cls, "_fields") or hasattr(cls, "n_sequence_fields"))


def modes():
    """The state of the thread that decides what operators do."""
    c = tessera._C
    return (
        c._is_grad_enabled(), tessera.is_inference_mode_enabled(), tessera.get_default_dtype(),
        tessera.is_autocast_enabled("cpu"), tessera.get_autocast_dtype("cpu"), tessera.is_autocast_enabled("cuda"),
        tessera.get_autocast_dtype("cuda"), tessera.is_autocast_cache_enabled(),
        tessera.are_deterministic_algorithms_enabled(), c._len_torch_dispatch_stack(), c._len_torch_function_stack(),
    )  # fmt: skip


def _check_layout(value):
    if value.is_nested or value.layout is not tessera.strided:
        raise Unsupported(f"a tensor of layout {value.layout} comes into the graph")


class Tracer:
    """What one capture makes.

    Args:
        settings: of torch.compile (fullgraph, dynamic ...), see _points.Settings.
        history: what its place has seen before. symbolic: there may be symbols for numbers.
    """

    run_call = run_binary = run_compare = None  # of _calls
    frame_class = None  # of _frames

    def __init__(self, settings, history=None, symbolic=False):
        self.settings, self.history = settings, history or History()
        self.graph = self._into = Graph()  # _into: where nodes go, which of a function among arguments is another one
        self._open = [self.graph]  # the graph, and those of functions in it that are being captured
        self.attributes = {}  # of the GraphModule: tensors that are constants
        self.inputs = []  # Vars whose nodes are placeholders
        self.guards = Guards()
        env = None
        if symbolic:
            from tessera.fx.experimental.symbolic_shapes import ShapeEnv

            env = ShapeEnv(
                allow_scalar_outputs=self.captures_numbers(),
                allow_dynamic_output_shape_ops=self.captures_sizes(),
            )
        self.fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env, static_shapes=True)
        self._symbols = Symbols(self.fake) if symbolic else None
        self.effects = {}  # (id of the object, name) -> (Var of the object, name, Var of the value)
        self.calls = []  # mutations that are not attributes: (text template, Vars)
        self._known = {}  # id of a real object -> (the object, its Var)
        self._made = {}  # id of an example -> (the example, its Var)
        self._spaces = {}  # id of a dict of globals -> its source
        self._last_placeholder = None
        self.steps = 0
        self.stack = []  # frames, outermost first
        self.modes_before = modes()
        self.regions = []  # real context managers that are entered while capturing
        self.modules = {}  # id of a module whose call is being captured -> (where it is, its class)

    # --- values that come in ---

    def guard(self, source, kind, argument=None, value=None):
        """Notes what has to hold at later calls."""
        self.guards.add(source, kind, argument, value)

    def wrap(self, value, source):
        """The Var of a real object at a source; guards on what the capture has to know of it."""
        kind = type(value)
        if isinstance(value, CONSTANTS) and kind in CONSTANTS:
            return self._wrap_constant(value, source)
        found = self._known.get(id(value))
        if found is not None:
            known = found[1]
            if source is not None and known.source is not None and known.source is not source:
                self.guard(source, "SAME", (known.source, True))
            return known
        if kind is types.FunctionType and value.__closure__ and source is not None and source.is_local():
            self.guard(source, "TYPE_MATCH", kind, value)
            self.guard(source.attr("__code__"), "ID_MATCH", value.__code__, value.__code__)
            made = Loose(value, source)
        elif source is not None and isinstance(value, BY_IDENTITY):
            self.guard(source, "ID_MATCH", value, value)
            made = Obj(value, source)
        else:
            made = self._wrap_structure(value, kind, source)
        self._known[id(value)] = (value, made)
        return made

    def _wrap_constant(self, value, source):
        kind = type(value)
        number = kind in (int, float) and source is not None
        if number and self.history.number(value, source, self.settings.dynamic):
            example = self.symbols().number(value, source)
            if type(example) is not kind:
                self.guard(source, *(("TYPE_MATCH", int) if kind is int else ("FINITE",)), value=value)
                made = NumberV(self, example, source=source)
                made.real = value
                return made
        self.guard(source, "CONSTANT_MATCH", value, value)
        return Const(value, source)

    def _wrap_structure(self, value, kind, source):
        if kind in _TENSORS:
            return self._wrap_tensor(value, source)
        if isinstance(value, tessera.Tensor):
            raise Unsupported(f"a tensor of the subclass {kind.__name__} comes into the graph")
        if kind is types.CellType:
            return Cell(source=source, value=value, unread=True)
        if source is not None:
            self.guard(source, "TYPE_MATCH", kind, value)
            base = source.base
            source.of_module = isinstance(value, tessera.nn.Module) or base is not None and base.of_module
        if kind in (set, frozenset):
            return self._wrap_set(value, kind, source)
        if kind in SEQUENCES or is_named_tuple(kind):
            self.guard(source, "LENGTH", len(value), value)
            made = Seq([], kind, source, value)
            self._known[id(value)] = (value, made)  # it may hold itself
            made.items += [self.wrap(v, source.item(i) if source else None) for i, v in enumerate(value)]
            return made
        if kind in (dict, collections.OrderedDict, collections.defaultdict):
            return self._wrap_dict(value, kind, source)
        if kind is slice:
            return Slice([self.wrap(getattr(value, p), source.attr(p)) for p in ("start", "stop", "step")])
        if kind is types.MethodType:
            function = self.wrap(value.__func__, source.attr("__func__"))
            return Bound(function, self.wrap(value.__self__, source.attr("__self__")), source)
        if kind.__name__ == "partial" and kind.__module__ == "functools":
            function = self.wrap(value.func, source.attr("func"))
            args = self.wrap(value.args, source.attr("args")).items
            return Partial(function, args, self.wrap(value.keywords, source.attr("keywords")).items, source)
        return Held(self, value, source) if isinstance(value, dict) and source is not None else Obj(value, source)

    def _wrap_set(self, value, kind, source):
        if not all(type(v) in CONSTANTS or isinstance(v, (type, enum.Enum, types.FunctionType)) for v in value):
            raise Unsupported(f"a {kind.__name__} of objects that are no constants")
        self.guard(source, "CALL", (frozenset, frozenset(value)), value)
        return Seq([Const(v) if type(v) in CONSTANTS else Obj(v) for v in value], kind, source, value)

    def _wrap_dict(self, value, kind, source):
        keys = list(value)
        if any(isinstance(k, tessera.Tensor) for k in keys):
            raise Unsupported("a dict with tensors as keys comes into the function")
        self.guard(source, "DICT_KEYS", keys, value)
        made = Map({}, kind, source, value)
        self._known[id(value)] = (value, made)
        return self._filled(made, value, keys, source)

    def held(self, var):
        """The Map of what an instance of a subclass of dict holds. var: Held."""
        source, value = var.source.held(), held(var.value)
        self.guard(source, "DICT_KEYS", list(value), value)
        made = Map({}, plain_mapping(type(var.value)), source, var.value)
        if isinstance(var.value, collections.defaultdict):
            made.factory = self.wrap(var.value.default_factory, var.source.attr("default_factory"))
        return self._filled(made, value, list(value), source)

    def _filled(self, made, value, keys, source):
        for key in keys:
            made.items[key] = self.wrap(value[key], source.item(key) if source else None)
        if made.cls is collections.defaultdict:
            made.factory = self.wrap(value.default_factory, source.attr("default_factory"))
        return made

    def _wrap_tensor(self, value, source):
        if source is None or source.kind == "object":
            return self.constant_tensor(value)
        _check_layout(value)
        dynamic = self.history.dimensions(value, source, self.settings.dynamic)
        self.guard(source, "TENSOR_MATCH", tensor_facts(value, dynamic), value)
        example = self.symbols().tensor(value, source, dynamic) if dynamic else self.fake.from_tensor(value)
        made = TensorV(self, example, source=source, cls=type(value))
        made.real = value
        self._made[id(example)] = (example, made)
        return made

    def constant_tensor(self, value):
        """A tensor that is no input: an attribute of the graph's module."""
        if not value.is_nested:
            _check_layout(value)
        name = f"_tensor_constant{len(self.attributes)}"
        self.attributes[name] = value
        example = self.fake.from_tensor(value)
        with self.writing_to(self.graph):
            node = self.node("get_attr", name, (), {})
        made = TensorV(self, example, node, cls=type(value))
        self._made[id(example)] = (example, made)
        return made

    def captures_numbers(self):
        """Whether numbers of tensors become symbols: so the settings say, and a graph has to be whole that way."""
        return config.capture_scalar_outputs or self.settings.fullgraph

    def captures_sizes(self):
        """Whether sizes that depend on values become symbols."""
        return config.capture_dynamic_output_shape_ops or self.settings.fullgraph

    def symbols(self):
        """The Symbols of this capture. Raises: NeedSymbols if it has none yet."""
        if self._symbols is None:
            raise NeedSymbols
        return self._symbols

    def decide(self, var):
        """Whether a NumberV is true; what was assumed is guarded."""
        return bool(self._known_number(var, bool))

    def specialize(self, var):
        """The number of a NumberV; it is guarded."""
        kind = {"SymFloat": float, "SymBool": bool}.get(type(var.example).__name__, int)
        return self._known_number(var, kind)

    @staticmethod
    def _known_number(var, kind):
        try:
            return kind(var.example)
        except RuntimeError as error:
            raise Unsupported(f"a number that depends on numbers of tensors: {error}", case_name="branch") from None

    def shape_guards(self):
        """Adds the guard on all symbols."""
        found = None if self._symbols is None else self._symbols.guard()
        if found is not None:
            function, sources = found
            self.guard(sources[0], "SHAPE_ENV", (function, sources[1:]))

    def class_source(self, cls):
        """The place of a class that is known by itself."""
        return self.trusted(cls).source or Source("object", None, cls)

    def number(self, n, owner, dimension):
        """The Var of a size of a tensor."""
        if isinstance(n, int):
            return Const(n)
        return self.call("call_method", "size", [owner, Const(dimension)], {})

    def trusted(self, value):
        """The Var of a function or class of this library, which is not guarded."""
        found = self._known.get(id(value))
        if found is not None:
            return found[1]
        made = Obj(value, Source("object", None, value))
        self._known[id(value)] = (value, made)
        return made

    def placeholder(self, var):
        """The node of an input that is used for the first time. A float comes in as a tensor."""
        if type(getattr(var, "real", None)) is float:
            real = tensor_of(var.real)
            held = TensorV(self, self.fake.from_tensor(real), source=var.source.tensor(), cls=tessera.Tensor)
            held.real = real
            with self.writing_to(self.graph):
                node = self.node("call_method", "item", (held.node,), {})
            node.meta["example_value"] = var.example
            return node
        name = _name_of(var.source)
        first = self._last_placeholder
        if first is None:
            nodes = list(self.graph.nodes)
            scope = self.graph.inserting_before(nodes[0]) if nodes else self.graph.inserting_before()
        else:
            scope = self.graph.inserting_after(first)
        with scope:
            node = self.graph.create_node("placeholder", name, (), {}, name=name.lower())
        node.target = _unique_target(name, self.inputs, node)
        self._last_placeholder = node
        node.meta.update(example_value=var.example, grapharg=var.source.name())
        self.inputs.append(var)
        return node

    # --- nodes ---

    @contextlib.contextmanager
    def writing_to(self, graph):
        """Context manager: nodes go into this graph."""
        before, self._into = self._into, graph
        self._open.append(graph)
        try:
            yield
        finally:
            self._into = before
            self._open.pop()

    def is_inside_of_function(self):
        """Whether a function that is an argument of an operator is being captured."""
        return self._into is not self.graph

    def node(self, op, target, args, kwargs):
        """A new node, which knows the lines of the program that it is of."""
        node = self._into.create_node(op, target, args, kwargs)
        if any(n.graph not in self._open for n in node.all_input_nodes):
            raise Unsupported("a tensor of a function that is an argument of an operator, which is used behind it")
        lines = [frame.summary() for frame in self.stack]
        node.stack_trace = "\n".join(
            f'  File "{f.filename}", line {f.lineno}, in {f.name}\n    {f.line}' for f in lines
        )
        self._note_origin(node)
        return node

    def _note_origin(self, node):
        """Notes of a node which modules' calls it is part of, and which layer, function or method it comes from."""
        if self.modules:
            node.meta["nn_module_stack"] = self.modules
        custom = fx_traceback.get_current_meta().get("custom")
        if custom and self.regions:
            node.meta["custom"] = dict(custom)
        if node.op in ("call_function", "call_method"):
            _, cls = next(reversed(self.modules.values()), (None, None))
            layer = cls is not None and cls.__module__.startswith("tessera.nn.modules.")
            node.meta["source_fn_stack"] = [(node.name, cls if layer else node.target)]

    @contextlib.contextmanager
    def inside_of(self, module):
        """Context manager: what is captured is part of a module's call. module: its Var."""
        key, name = str(id(module.value)), module.source.name() if module.source is not None else ""
        before, place = self.modules, re.sub(r"\._modules\[['\"](.*?)['\"]\]", r".\1", name)
        self.modules = {**before, key: (place, type(module.value))}
        try:
            yield
        finally:
            self.modules = before

    def argument(self, var, nodes):
        """A Var as an argument: of nodes (nodes=True), or of functions that run on examples."""
        if isinstance(var, Const):
            return var.value
        if isinstance(var, (TensorV, NumberV)):
            return var.node if nodes else var.example
        if isinstance(var, Seq):
            parts = [self.argument(v, nodes) for v in var.items]
            if is_named_tuple(var.cls):
                return var.cls(*parts) if hasattr(var.cls, "_fields") else var.cls(parts)
            if nodes and var.cls is tessera.Size:
                return tuple(parts)
            return var.cls(parts)
        if isinstance(var, Map):
            return {k: self.argument(v, nodes) for k, v in var.items.items()}
        if isinstance(var, Slice):
            return slice(*(self.argument(v, nodes) for v in var.parts))
        if (
            isinstance(var, Obj)
            and not isinstance(var, Loose)
            and (isinstance(var.value, BY_IDENTITY) or isinstance(var.value, tessera.Tensor))
        ):
            if isinstance(var.value, tessera.Generator):
                raise Unsupported("a random generator as an argument of an operator")
            return var.value
        raise Unsupported(f"a value of type {kind_of(var)} as an argument of an operator")

    def call(self, op, target, args, kwargs):
        """Adds a call to the graph, runs it on examples, and gives the Var of its result."""
        real_args, real_kwargs = (
            self.argument(Seq(args, tuple), False),
            {k: self.argument(v, False) for k, v in kwargs.items()},
        )
        try:
            with self.fake:
                if op == "call_method":
                    result = getattr(real_args[0], target)(*real_args[1:], **real_kwargs)
                else:
                    result = target(*real_args, **real_kwargs)
        except Unsupported:
            raise
        except Exception as error:
            sizes = isinstance(error, DynamicOutputShapeException)
            numbers = isinstance(error, DataDependentOutputException)
            if sizes and self.captures_sizes() or numbers and self.captures_numbers():
                self.symbols()  # once there are any, what depends on values has some
            name = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
            shown = f"{op} {name}(*{real_args}, **{real_kwargs})"
            raise OperatorRefused(
                "RuntimeError when making fake tensor call",
                case_name="operator",
                hints=[USER_ERROR],
                explanation=f"Dynamo failed to run FX node with fake tensors: {shown}: got "
                f"{type(error).__name__}({str(error)!r})",
            ) from error
        if isinstance(result, tessera.Tensor) and not result.is_nested:
            _check_layout(result)  # how many elements it has is not known
        if isinstance(result, CONSTANTS) and not isinstance(result, (type(None), type(NotImplemented))):
            return Const(result)  # a fact of shapes or dtypes: no node is needed
        if type(result) in (tuple, tessera.Size) and all(type(n) is int for n in result):
            return Seq([Const(n) for n in result], type(result))
        node = self.node(
            op, target, self.argument(Seq(args, tuple), True), {k: self.argument(v, True) for k, v in kwargs.items()}
        )
        node.meta["example_value"] = result
        return self.result(result, node)

    def result(self, result, node):
        """The Var of what a node gives."""
        if isinstance(result, tessera.Tensor):
            known = self._made.get(id(result))
            if known is not None:
                return known[1]  # an operator that returns its argument
            made = TensorV(self, result, node, cls=tessera.Tensor)
            self._made[id(result)] = (result, made)
            return made
        if isinstance(result, CONSTANTS) and type(result) in CONSTANTS:
            return Const(result)
        if type(result).__name__ in ("SymInt", "SymFloat", "SymBool"):
            return NumberV(self, result, node)
        if isinstance(result, (tuple, list)):
            return Seq([self._part(node, i, part) for i, part in enumerate(result)], type(result))
        if isinstance(result, dict):
            return Map({key: self._part(node, key, part) for key, part in result.items()}, type(result))
        if hasattr(result, "var"):  # a function
            return result.var(node)
        raise Unsupported(f"an operator whose result is of type {type(result).__name__}")

    def _part(self, node, key, part):
        """The Var of an item of what a node gives."""
        inner = node
        if not (isinstance(part, CONSTANTS) and type(part) in CONSTANTS):
            inner = self.node("call_function", operator.getitem, (node, key), {})
            inner.meta["example_value"] = part
        return self.result(part, inner)

    def mode(self, function, *args):
        """Changes a mode of the thread, now and where the graph runs."""
        function(*args)
        self.node("call_function", function, args, {})

    def close(self):
        """Leaves the regions that are still open."""
        while self.regions:
            self.regions.pop().__exit__(None, None, None)

    # --- what the program writes ---

    def effect(self, owner, name, value):
        """Notes that the program has set an attribute of an object."""
        self.effects[(id(owner), name)] = (owner, name, value)

    def written(self, owner, name):
        """What the program has set an attribute to, or None."""
        found = self.effects.get((id(owner), name))
        return None if found is None else found[2]

    def has_effects(self, owner):
        """Whether the program has set attributes of an object."""
        return any(e[0] is owner for e in self.effects.values())

    def change(self, container):
        """Notes that the program writes to a list or dict."""
        if container.source is not None and not container.changed:
            container.changed = True
            self.calls.append(container)
        container.changed = True

    def changed(self, table):
        """{key: Var} of a real dict that the program has written to; None of others."""
        known = self._known.get(id(table))
        return known[1].items if known is not None and getattr(known[1], "changed", False) else None

    def check_aliases(self):
        """Two objects of which one was written to have to be two at later calls, too."""
        changed = [*self.calls, *(e[0] for e in self.effects.values() if hasattr(e[0], "source"))]
        for var in {id(v): v for v in changed if v.source is not None}.values():
            for value, other in list(self._known.values()):
                whole = var.source.base if var.source.kind == "held" else var.source
                if other.source not in (None, whole) and type(value) is type(getattr(var, "value", None)):
                    self.guard(other.source, "SAME", (whole, False))

    def space_source(self, space):
        """The place of a module's variables."""
        if id(space) not in self._spaces:
            self._spaces[id(space)] = Source("object", None, space)
        return self._spaces[id(space)]

    def global_source(self, space, name):
        """Where a global name is: (value, its source), or (value, None) for a builtin; None if nowhere."""
        if name in space:
            return space[name], self.space_source(space).item(name)
        return (getattr(builtins, name), None) if hasattr(builtins, name) else None

    def module(self, outputs):
        """The GraphModule of all nodes so far. `outputs`: Vars."""
        self.graph.output(tuple(v.node for v in outputs))
        root = tessera.nn.Module()
        for name, value in self.attributes.items():
            setattr(root, name, value)
        return GraphModule(root, self.graph, "GraphModule")


def kind_of(var):
    """The class of a Var's value, for messages."""
    if isinstance(var, (Const, Obj)):
        return type(var.value).__name__
    if isinstance(var, (Seq, Map, New)):
        return var.cls.__name__
    return {"TensorV": "Tensor", "NumberV": "int"}.get(type(var).__name__, type(var).__name__.lower())


def _name_of(source):
    text = source.name()
    cleaned = "".join(c if c.isalnum() else "_" for c in text)
    while "__" in cleaned:
        cleaned = cleaned.replace("__", "_")
    return "L_" + cleaned.removeprefix("L_").strip("_") + "_"


def _unique_target(name, inputs, node):
    taken = {str(v._node.target) for v in inputs if v._node is not None and v._node is not node}
    return name if name not in taken else node.name
