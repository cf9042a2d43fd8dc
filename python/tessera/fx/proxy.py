"""Proxies: values that write down what a program does with them."""

import bisect
import collections
import contextlib
import dis
import functools
import inspect
import operator
import sys
import traceback
import types

import tessera
from tessera.fx import traceback as fx_traceback
from tessera.fx.node import Node, base_types, map_aggregate

__all__ = [
    "TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "MetaProxy", "Attribute", "ParameterProxy", "Scope",
    "ScopeContextManager",
]  # fmt: skip


class TraceError(ValueError):
    """The program did something with a proxy that a graph cannot hold."""


class Scope:
    """Where tracing is: the path and the type of the module whose forward runs."""

    def __init__(self, module_path, module_type):
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Context manager: `scope` is as current_scope says, and what it was before afterwards."""

    def __init__(self, scope, current_scope):
        self._scope, self._before = scope, (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self):
        return self._scope

    def __exit__(self, *error):
        self._scope.module_path, self._scope.module_type = self._before


# Types of arguments that stand in a node as they are, and the containers of them.
WRITTEN_AS_THEY_ARE = frozenset((int, float, bool, str, type(None), tuple, list, dict))

_HERE = frozenset((__file__, __file__.replace("proxy.py", "_symbolic_trace.py")))


class TracerBase:
    """Makes nodes and proxies. Tracer is the one that runs programs."""

    graph = None
    record_stack_traces = False  # nodes keep the program's lines: node.stack_trace
    check_mutable_operations = False  # functions that write to their arguments are errors
    trace_asserts = False  # `assert proxy` becomes a node
    proxy_buffer_attributes = False  # buffers are get_attr nodes whenever they are read
    traced_func_name = "forward"
    scope = None
    module_stack = None
    node_name_to_scope = None

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Makes a node in the graph, of arguments that create_arg made."""
        if kind == "call_function" and self.check_mutable_operations:
            from tessera.fx.operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.node_name_to_scope is not None and self.scope is not None:
            self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = collections.OrderedDict(self.module_stack)
        if fx_traceback.has_preserved_node_meta():
            for key, value in fx_traceback.get_current_meta().items():
                node.meta.setdefault(key, value)
        return node

    def proxy(self, node):
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """Makes a node of any arguments and returns its proxy.

        Args:
            proxy_factory_fn: function of the node that makes the proxy, instead of self.proxy.
        """
        args, kwargs = self.create_arg(args), self.create_arg(kwargs) if kwargs else {}
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("create_arg must return a tuple for args and a dict for kwargs")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces and not node.stack_trace:
            frames = traceback.extract_stack(sys._getframe(1))
            shown = [f for f in frames if f.filename not in _HERE]
            node.stack_trace = "".join(traceback.format_list(shown)).strip()
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a):
        """What a node's arguments hold for a value of the program: its node for a proxy; containers likewise.

        Errors: NotImplementedError for what a graph cannot hold.
        """
        kind = type(a)
        if kind in WRITTEN_AS_THEY_ARE:
            if kind is tuple:
                return tuple([self.create_arg(e) for e in a])
            if kind is list:
                return [self.create_arg(e) for e in a]
            return {self._key(k): self.create_arg(v) for k, v in a.items()} if kind is dict else a
        if isinstance(a, Proxy):
            return a.node
        if a is None or a is Ellipsis or isinstance(a, (Node, *base_types)):
            return a
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*(self.create_arg(e) for e in a))
        if isinstance(a, tuple):
            return tuple([self.create_arg(e) for e in a])
        if isinstance(a, list):
            return [self.create_arg(e) for e in a]
        if isinstance(a, dict):
            return {self._key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (types.FunctionType, types.BuiltinFunctionType, type)) or _is_operator(a):
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if _is_enum(a):
            return a
        if hasattr(type(a), "__dataclass_fields__"):
            return self._dataclass(a)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _dataclass(self, a):
        parts = {name: self.create_arg(getattr(a, name)) for name in type(a).__dataclass_fields__}
        return self.create_node("call_function", type(a), (), parts)

    def _key(self, k):
        if isinstance(k, Proxy) or (isinstance(k, tuple) and any(isinstance(e, Proxy) for e in k)):
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {k}")
        return k

    def to_bool(self, obj):
        """What `if proxy` does: an error, unless a subclass knows better."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        """What `for x in proxy` does: an error, unless a subclass knows better."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. Unpacking into a fixed number of names works, and so does a loop over "
            "range(n) with a number n that is known while tracing"
        )

    def keys(self, obj):
        """What `**proxy` asks for."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """For proxies of nodes of a graph that is there: what one does with them is appended.

    Args:
        graph: Graph.
    """

    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}
        self.node_name_to_scope = {}


def _is_enum(a):
    import enum

    return isinstance(a, enum.Enum)


def _is_operator(a):
    from tessera._ops import OpOverload, OpOverloadPacket

    return isinstance(a, (OpOverload, OpOverloadPacket))


@functools.lru_cache(256)
def _instructions(code):
    """(offsets, the bytecode instructions there) of a function."""
    found = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    return [i.offset for i in found], found


def _next_instruction(frame):
    """The bytecode instruction that a frame stands before or in the middle of, and the one after it."""
    offsets, found = _instructions(frame.f_code)
    at = bisect.bisect_left(offsets, frame.f_lasti)
    return found[at], found[at + 1] if at + 1 < len(found) else None


def _unpacked_count(frame):
    """If the caller's line unpacks a sequence into names: into how many; else None."""
    at, _ = _next_instruction(frame)
    return at.argval if at.opname == "UNPACK_SEQUENCE" else None


_ASKING = ("TO_BOOL", "COPY", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "UNARY_NOT")
_ASSERTING = ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")


def asserted(frame):
    """What an assert statement, which a frame stands at, wants to be so of what it asks: True, or False for a negation.
    None at other places: it is a jump over the raising of AssertionError.
    """
    at, after = _next_instruction(frame)
    # What asks for the truth may be an instruction of its own, and that of a comparison may ask itself.
    while after is not None and "JUMP" not in at.opname and at.opname in _ASKING:
        offsets, found = _instructions(frame.f_code)
        at, after = found[bisect.bisect_right(offsets, at.offset) :][:2]
    if "JUMP" not in at.opname or "NONE" in at.opname or after is None or after.opname not in _ASSERTING:
        return None
    return "TRUE" in at.opname


class Proxy:
    """Stands for a value while a program is traced: whatever is done with it becomes a node.

    Operators, functions of the library, methods and attributes are written down. Control flow that depends on the
    value is a TraceError; `len`, `int` and the like are errors of their own.

    Args:
        node: Node.
        tracer: TracerBase; None: nodes are appended to the node's graph.
    """

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        return Attribute(self, k)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__ = state

    def __deepcopy__(self, memo):
        import copy

        made = Proxy.__new__(type(self))
        memo[id(self)] = made
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
        return made

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        count = _unpacked_count(inspect.currentframe().f_back)
        if count is not None:
            return (self[i] for i in range(count))
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts and asserted(inspect.currentframe().f_back):
            self.tracer.create_proxy("call_function", tessera._assert, (self, "a traced assertion failed"), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self):
        """Asked for by `**proxy`; the tracer decides."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        return _record(orig_method, args or (), kwargs or {})


def _record(func, args, kwargs):
    """A call of the library with proxies among its arguments, as a node."""
    tracer = _only_tracer(args, kwargs)
    name = getattr(func, "__name__", "")
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)) or _is_tensor_method(func, name):
        return tracer.create_proxy("call_method", name, args, kwargs)
    if isinstance(func, types.MethodWrapperType):  # the getter of a property of tensors
        return tracer.create_proxy("call_function", getattr, (args[0], func.__self__.__name__), {})
    return tracer.create_proxy("call_function", func, args, kwargs, name=tracer.graph._target_to_str(name or func))


def _is_tensor_method(func, name):
    kinds = (types.FunctionType, type(tessera.Tensor.add))
    return isinstance(func, kinds) and getattr(tessera.Tensor, name, None) is func


def _only_tracer(args, kwargs):
    found = {}

    def look(a):
        if isinstance(a, Proxy):
            found.setdefault(id(a.tracer.graph), a.tracer)  # several may write one graph

    map_aggregate(args, look)
    map_aggregate(kwargs, look)
    if len(found) != 1:
        made_by = ", ".join(type(t).__name__ for t in found.values()) or "none"
        raise RuntimeError(
            f"Found multiple different tracers {{{made_by}}} while trying to trace operations: proxies of different "
            "traces cannot meet in one call"
        )
    return next(iter(found.values()))


class MetaProxy(Proxy):
    """A proxy that carries a fake value in node.meta["val"], which knows its shape and dtype.

    Args:
        node, tracer: as of Proxy.
        fake_mode: context manager in which what is done with it is computed on the fake values, too.
    """

    def __init__(self, node, tracer=None, fake_mode=None):
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self):
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args, kwargs = args or (), kwargs or {}
        metas = []
        map_aggregate((args, kwargs), lambda a: metas.append(a) if isinstance(a, MetaProxy) else None)
        mode = next((m.fake_mode for m in metas if m.fake_mode is not None), None)
        made = _record(orig_method, args, kwargs)
        value = lambda a: a.node.meta["val"] if isinstance(a, Proxy) else a  # noqa: E731
        with contextlib.nullcontext() if mode is None else mode:
            made.node.meta["val"] = orig_method(*map_aggregate(args, value), **map_aggregate(kwargs, value))
        return MetaProxy(made.node, made.tracer, mode)


class Attribute(Proxy):
    """`proxy.attr`: a node only if it is used as a value; a call of it is a call_method node.

    Args:
        root: Proxy.
        attr: the attribute's name.
    """

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        """The node of the attribute's value, made when it is first asked for."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter, whose shape is known: `shape`, `size()`, `dim()`, `numel()` are numbers.

    Args:
        tracer: TracerBase.
        node: its get_attr node.
        name: the parameter's path.
        param: the tensor.
    """

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        if not isinstance(param, tessera.nn.Parameter):
            raise AssertionError(f"ParameterProxy: expected a Parameter, got {type(param).__name__}")
        self.param, self.name = param, name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    @property
    def shape(self):
        """The parameter's Size."""
        return self.param.shape

    def size(self):
        """The parameter's Size."""
        return self.param.size()

    def dim(self):
        """How many dimensions the parameter has."""
        return self.param.dim()

    @property
    def ndim(self):
        """How many dimensions the parameter has."""
        return self.param.ndim

    def numel(self):
        """How many elements the parameter has."""
        return self.param.numel()

    def nelement(self):
        """How many elements the parameter has."""
        return self.param.nelement()


def _binary(function, reflected):
    def method(self, other):
        args = (other, self) if reflected else (self, other)
        return _only_tracer(args, {}).create_proxy("call_function", function, args, {})

    return method


def _unary(function):
    def method(self):
        return self.tracer.create_proxy("call_function", function, (self,), {})

    return method


def _add_operators():
    both = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split()
    one_way = "eq ne lt le gt ge getitem".split()
    for name in both + one_way:
        function = getattr(operator, name + "_" if name in ("and", "or") else name)
        setattr(Proxy, f"__{name}__", _binary(function, False))
        if name in both:
            setattr(Proxy, f"__r{name}__", _binary(function, True))
    for name in ("neg", "pos", "invert"):
        setattr(Proxy, f"__{name}__", _unary(getattr(operator, name)))
    Proxy.__hash__ = object.__hash__


_add_operators()
