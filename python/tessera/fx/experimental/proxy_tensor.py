"""Tracing below autograd: the operators that a function runs on its tensors, backward passes included, as a graph."""

import contextlib
import functools
import inspect
import operator
import sys

import tessera
from tessera import _C
from tessera.fx._symbolic_trace import Tracer
from tessera.fx.experimental._expressions import Expr
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.fx.interpreter import Interpreter
from tessera.fx.passes.shape_prop import _extract_tensor_metadata
from tessera.fx.proxy import Proxy
from tessera.nn import Module
from tessera.utils import _pytree as pytree
from tessera.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = [
    "PythonKeyTracer", "dispatch_trace", "make_fx", "DecompositionInterpreter", "get_proxy_mode",
    "get_innermost_proxy_mode", "selective_decompose",
]  # fmt: skip

_modes = []


def __getattr__(name):
    if name == "py_sym_types":
        return _symbolic_numbers()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _symbolic_numbers():
    return tessera.SymInt, tessera.SymFloat, tessera.SymBool


def get_proxy_mode():
    """The mode of the innermost make_fx that is under way, or None."""
    return _modes[-1] if _modes else None


get_innermost_proxy_mode = get_proxy_mode


def _place(t):
    """What memory a tensor shows, and how; tensors without memory are themselves alone."""
    symbolic = _C._symbolic_shape(t)
    if symbolic is not None:
        exprs = (symbolic.sizes, symbolic.strides, symbolic.offset)
        return (t.untyped_storage()._cdata, *exprs, t.dtype, t.is_conj(), t.is_neg())
    if t.layout is not tessera.strided or t.numel() == 0 or t.device.type == "meta":
        return id(t)
    return t.untyped_storage()._cdata, t.storage_offset(), t.shape, t.stride(), t.dtype, t.is_conj(), t.is_neg()


def _held_objects():
    """Classes whose objects graphs hold: those of scripts, groups of processes and their reductions."""
    kinds = sys.modules.get("tessera.distributed._kinds")
    groups = sys.modules.get("tessera.distributed._process_group")
    more = (kinds.ReduceOp,) if kinds else ()
    return (_C.ScriptObject, *more, *((groups.ProcessGroup,) if groups else ()))


class PythonKeyTracer(Tracer):
    """The tracer of make_fx: modules are run, not called as nodes; tensors that it has not seen are constants."""

    def __init__(self):
        super().__init__(autowrap_modules=())
        self.root = Module()
        self._sizes = {}  # symbol -> (proxy of a tensor, the dimension whose size it is), or of a number and None
        self._number_nodes = None
        self._program_made = []  # nodes of tensors that the program makes of numbers
        self.lifted = {}  # id of such a tensor that is real -> it
        self._objects = {}  # id of an object that operators take -> (the object, where the root has it)
        self.recompute = None  # function of a tensor that the trace has not seen: (it, its proxy), or None
        self._made = {}  # id of a tensor -> (the tensor, which stays alive, its proxy)
        self._places = {}  # what memory it shows -> the same: autograd hands out other tensors of what it saved

    def call_module(self, m, forward, args, kwargs):
        """Runs the module's forward."""
        return forward(*args, **kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """The attribute as it is."""
        return attr_val

    def create_arg(self, a):
        """As of Tracer; tensors of the trace are their nodes, others attributes (`_tensor_constant0` ...)."""
        if isinstance(a, tessera.Tensor):
            found = self.found(a)
            if found is None and self.recompute is not None:
                found = self.recompute(a)
            if found is not None:
                return found[1].node
            return self.constant(a)
        if isinstance(a, _symbolic_numbers()):
            self._env = a.node.shape_env
            return self._numbers().of(a.node.expr)
        if isinstance(a, _held_objects()):
            return self._object(a)
        return super().create_arg(a)

    def _object(self, a):
        """The node of an object that operators take as it is: an attribute (`_torchbind_obj0` ...)."""
        if id(a) not in self._objects:
            path = self.get_fresh_qualname("_torchbind_obj")
            setattr(self.root, path, a)
            self._objects[id(a)] = a, path
        return self.create_node("get_attr", self._objects[id(a)][1], (), {})

    @staticmethod
    def place(a):
        """What memory a tensor shows."""
        return _place(a)

    def found(self, a):
        """(the tensor, its proxy) of a tensor of the trace, or None."""
        return self._made.get(id(a)) or self._places.get(_place(a))

    def constant(self, a):
        """The node of a tensor that the trace has not made: an attribute."""
        prefix = "_param_constant" if isinstance(a, tessera.nn.Parameter) else "_tensor_constant"
        path = self.get_fresh_qualname(prefix)
        known = _C._fake_constant(a)  # what torch.tensor() made while fake tensors were on
        if known is None and id(a) in self.lifted:
            known = a
        node = self.create_node("get_attr", path, (), {})
        if known is not None:
            with _disable_current_modes():
                known = known.clone()  # as it is before the program writes to it
            self._program_made.append(node)
        setattr(self.root, path, a if known is None else known)
        self.track(a, Proxy(node, self))
        return node

    def _numbers(self):
        if self._number_nodes is None:
            from tessera.fx.experimental._number_nodes import NumberNodes

            self._number_nodes = NumberNodes(self._size_node, self._number_node)
        return self._number_nodes

    def _size_node(self, symbol):
        """The node of a size that is a symbol."""
        if symbol not in self._sizes:
            raise RuntimeError(f"the symbol {symbol} is no size or number that this trace has seen")
        proxy, dim = self._sizes[symbol]
        if dim is None:
            return proxy.node
        return self._number_node(tessera.ops.aten.sym_size.int, (proxy.node, dim), symbol)

    def _number_node(self, function, args, expr):
        node = self.create_node("call_function", function, args, {})
        node.meta["val"] = self._env._number(expr) if isinstance(expr, Expr) else self._env.create_symboolnode(expr)
        return node

    def _track_number(self, value, proxy):
        self._env = value.node.shape_env
        expr = value.node.expr
        for symbol in expr.free_symbols if getattr(expr, "is_symbol", False) else ():
            self._sizes.setdefault(symbol, (proxy, None))
        self._numbers().known.setdefault(expr, proxy.node)
        proxy.node.meta["val"] = value

    def _track_sizes(self, value, proxy):
        shape = _C._symbolic_shape(value)
        for i, size in enumerate(shape.sizes if shape is not None else ()):
            self._env = shape.env
            if size.is_symbol:
                self._sizes.setdefault(size, (proxy, i))

    def track(self, value, proxy):
        """Notes the proxies of what an operator returned: a tensor, or a tuple or list of them."""
        if isinstance(value, _symbolic_numbers()):
            self._track_number(value, proxy)
        elif isinstance(value, tessera.Tensor):
            self._track_sizes(value, proxy)
            self._made[id(value)] = self._places[_place(value)] = (value, proxy)
            if "val" not in proxy.node.meta:
                proxy.node.meta["tensor_meta"] = _extract_tensor_metadata(value)
                proxy.node.meta["val"] = value
        elif isinstance(value, (tuple, list)):
            for i, part in enumerate(value):
                if isinstance(part, (tessera.Tensor, tuple, list, *_symbolic_numbers())):
                    self.track(part, self.create_proxy("call_function", operator.getitem, (proxy, i), {}))


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Writes the operators that run while it is on into a tracer's graph.

    Args:
        tracer: PythonKeyTracer.
        decomposition_table: {operator: function that computes the same with others}.
    """

    def __init__(self, tracer, decomposition_table=None):
        super().__init__()
        self.tracer = tracer
        self.decomposition_table = dict(decomposition_table or {})
        self._documented, self._form = {}, None
        self.refuses_values = True
        self._before = []

    def _lifted(self, tensor):
        """Notes a tensor that the program makes of numbers."""
        self.tracer.lifted[id(tensor)] = tensor

    def nested(self, tracer):
        """A mode like this one for another tracer: the functions that are arguments of operators have their own."""
        return type(self)(tracer, self.decomposition_table)

    def __enter__(self):
        _modes.append(self)
        from tessera._decomp import documented, documented_form, operators_seen_whole

        self._form = documented_form
        func = tessera._C._func
        self._documented = documented()
        before = func._keep_whole(None)
        if before is None:
            func._keep_whole(operators_seen_whole(self.decomposition_table))
        else:
            func._keep_whole(before)  # somebody has said what is seen whole
        self._before.append(before)
        return super().__enter__()

    def __exit__(self, *error):
        tessera._C._func._keep_whole(self._before.pop())
        _modes.remove(self)
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.name == "aten::_local_scalar_dense" and _C._fake_mode_of(args[0]) is None:
            return self._value(func, args[0])
        instead = self.decomposition_table.get(func) or self._documented.get(func)
        if instead is not None:
            before, self.refuses_values = self.refuses_values, False  # an operator may look at its arguments
            try:
                with self, tessera.no_grad():  # autograd has seen the operator
                    result = instead(*args, **kwargs)
            finally:
                self.refuses_values = before
            if result is not NotImplemented:
                return result
        shown = self._form(func, args, kwargs)
        name = shown[0]._schema.name.rpartition("::")[2]
        proxy = self.tracer.create_proxy("call_function", *shown, name=name)
        whole = tessera._C._func._keep_whole(None)  # what computes it takes operators apart as ever
        try:
            result = func(*args, **kwargs)
        finally:
            tessera._C._func._keep_whole(whole)
        if func._schema.is_mutable:
            self._track_written(func, args, result, proxy)
        else:
            self.tracer.track(result, proxy)
        return result

    def _value(self, func, tensor):
        """The number of a tensor: where values are known, a graph holds only those of constants."""
        if not isinstance(tensor, tessera.Tensor):
            return tensor  # a number of the program, which C++ holds as a tensor
        if self.refuses_values and self.tracer.found(tensor) is not None:
            raise RuntimeError(
                f"The program wants to get value out of a tracing tensor ({func}): the graph would hold the number of "
                "this one run, for a branch, a size or an argument. With tracing_mode='symbolic' it may stay open; "
                "torch.cond is a branch in the graph"
            )
        return func(tensor)

    def _track_written(self, func, args, result, proxy):
        results = result if isinstance(result, (tuple, list)) else (result,)
        self.tracer.track(result, proxy)
        written = [a for a, formal in zip(args, func._schema.arguments) if formal.is_write]
        returns = func._schema.returns  # an operator that does not return what it wrote leaves that its node
        returned = len(returns) == 1 and returns[0].alias_info is not None
        if len(written) == 1 and len(results) == 1 and returned and isinstance(written[0], tessera.Tensor):
            self.tracer.track(written[0], proxy)


def _copy_if_written(constant):
    """Where a graph writes to a tensor that the program makes at each call, or to a view of it: it gets a copy."""
    same, written = {constant}, False
    for node in constant.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        for formal, arg in zip(schema.arguments if schema is not None else (), node.args):
            if arg in same and formal.alias_info is not None:
                written = written or formal.is_write
                same.add(node)
    if written:
        with constant.graph.inserting_after(constant):
            copied = constant.graph.call_function(tessera.ops.aten.clone.default, (constant,))
        copied.meta = dict(constant.meta)
        constant.replace_all_uses_with(copied, delete_user_cb=lambda user: user is not copied)


def _names_of(function, count):
    """Names of the placeholders: those of the function's parameters with a number."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [named[i] if i < len(named) else f"arg{i}" for i in range(count)]


def dispatch_trace(root, tracer, concrete_args=()):
    """Traces `root` with a tracer: as Tracer.trace, and the graph as a GraphModule."""
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)


def _reject(f, tracing_mode):
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise ValueError(f"make_fx: expected tracing_mode 'real', 'fake' or 'symbolic', got {tracing_mode!r}")
    if not callable(f):
        raise TypeError(f"make_fx: expected a function, got {type(f).__name__}")


def make_fx(
    f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *, pre_dispatch=False,
    record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True, record_stack_traces=False,
    proxy_module_inputs=False,
):  # fmt: skip
    """A function that runs f on its arguments and returns the GraphModule of the operators that ran.

    What Python decides, control flow by values included, is decided by these arguments. Backward passes inside of f,
    and gradients, are traced, too.

    Args:
        f: function of trees of tensors and numbers; or a Module.
        decomposition_table: {operator: function}: run instead of the operator.
        tracing_mode: "real": f runs on the values given; "fake": on fake tensors: nothing is computed, sizes and
            numbers that depend on values are symbols, and branches by them raise; "symbolic": so are all sizes.
        record_stack_traces: nodes know the lines that made them.
        _allow_non_fake_inputs: other tensors that f uses may be real ones in the modes of fake tensors.
        pre_dispatch: operators are traced as they are called, above autograd and autocast: composite ones
            (`aten.linear`) stay whole, backward passes are what is called within them, and changes of the grad mode and
            regions of autocast are nodes.
        _error_on_data_dependent_ops: RuntimeError if f asks for the number of a real tensor that the trace has made;
            False: the graph holds the number.
        record_module_stack, proxy_module_inputs, _allow_fake_constant: False. Errors: NotImplementedError for others.

    >>> from tessera.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: x.sin().sum())(tessera.ones(2)).code.strip())
    def forward(self, x_1):
        sin = torch.ops.aten.sin.default(x_1);  x_1 = None
        sum_1 = torch.ops.aten.sum.default(sin);  sin = None
        return sum_1
    """
    _reject(f, tracing_mode)
    asked = dict(
        record_module_stack=record_module_stack, proxy_module_inputs=proxy_module_inputs,
        _allow_fake_constant=_allow_fake_constant,
    )  # fmt: skip
    for name, value in asked.items():
        if value:
            raise NotImplementedError(f"make_fx({name}={value!r}) is not supported; leave it out")

    real = _allow_non_fake_inputs

    @functools.wraps(f)
    def trace(*args):
        made = _Trace(f, decomposition_table, record_stack_traces, pre_dispatch)
        made.mode.refuses_values = _error_on_data_dependent_ops
        return made.run(args, _fake_mode_for(tracing_mode, args, real))

    return trace


def _fake_mode_for(tracing_mode, args, allow_non_fake_inputs):
    """The FakeTensorMode to run in, or None; that of the arguments, where they are fake."""
    if tracing_mode == "real":
        return None
    from tessera._guards import detect_fake_mode
    from tessera._subclasses.fake_tensor import FakeTensorMode

    mode = detect_fake_mode(args)
    if mode is not None:
        return mode
    from tessera.fx.experimental.symbolic_shapes import ShapeEnv

    # Sizes that depend on values are symbols in both; those of the arguments in one.
    static = tracing_mode == "fake"
    return FakeTensorMode(allow_non_fake_inputs=allow_non_fake_inputs, shape_env=ShapeEnv(), static_shapes=static)


def _as_fake(mode, value):
    """A fake tensor; with symbolic sizes integers are symbols, too."""
    if isinstance(value, tessera.Tensor):
        return mode.from_tensor(value)
    if type(value) is int and mode.shape_env is not None and not mode.static_shapes:
        symbol = mode.shape_env.create_unspecified_symbol(value, f"number {len(mode.shape_env.source_to_var)}")
        return mode.shape_env.create_symintnode(symbol, hint=value)
    return value


class _Trace:
    def __init__(self, function, decompositions, record_stack_traces, pre_dispatch=False):
        mode = ProxyTorchDispatchMode
        if pre_dispatch:
            mode = tessera.fx.experimental._pre_dispatch.PreDispatchMode
        self.function = function
        self.tracer = PythonKeyTracer()
        self.tracer.record_stack_traces = record_stack_traces
        self.mode = mode(self.tracer, decompositions)

    def run(self, args, fake_mode=None):
        tracer = self.tracer
        if fake_mode is not None:
            args = pytree.tree_map(functools.partial(_as_fake, fake_mode), args)
        tracer.graph = Graph(tracer_cls=PythonKeyTracer)
        self._placeholders(args)
        from tessera.fx import _symbolic_trace

        _symbolic_trace._tracing += 1
        try:
            with contextlib.nullcontext() if fake_mode is None else fake_mode, self.mode:
                result = self.function(*args)
        finally:
            _symbolic_trace._tracing -= 1
        codegen = tracer.graph._codegen
        if hasattr(codegen, "pytree_info"):
            result, spec = pytree.tree_flatten(result)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=spec)
        tracer.graph.output(tracer.create_arg(result))
        for node in tracer._program_made:
            _copy_if_written(node)
        name = self.function.__class__.__name__ if isinstance(self.function, Module) else "GraphModule"
        made = GraphModule(tracer.root, tracer.graph, getattr(self.function, "__name__", name))
        made.shape_env = None if fake_mode is None else fake_mode.shape_env
        for table in (tracer._made, tracer._places, tracer.lifted):
            table.clear()
        return made

    def _placeholders(self, args):
        """A placeholder for each leaf of the arguments; those of one argument that is a tree are numbered."""
        tracer = self.tracer
        names = _names_of(self.function, len(args))
        leaves, spec = pytree.tree_flatten(list(args))
        owner = [names[i] for i, part in enumerate(args) for _ in pytree.tree_leaves(part)]
        for name, leaf in zip(owner, leaves):
            proxy = tracer.create_proxy("placeholder", f"{name}_1", (), {})
            proxy.node.target = proxy.node.name
            if isinstance(leaf, (tessera.Tensor, *_symbolic_numbers())):
                tracer.track(leaf, proxy)
        if len(leaves) != len(args) or any(not pytree.tree_is_leaf(a) for a in args):
            from tessera.fx._code import _PyTreeCodeGen, _PyTreeInfo

            tracer.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo([f"{n}" for n in names], spec, None)))


class DecompositionInterpreter(Interpreter):
    """Runs a GraphModule of operators into another graph, with decompositions.

    Args:
        module: GraphModule.
        new_graph: Graph, which gets the nodes.
        decomposition_table: {operator: function}.
        **kwargs: of Interpreter.
    """

    def __init__(self, module, new_graph, decomposition_table=None, **kwargs):
        super().__init__(module, **kwargs)
        self.new_graph = new_graph
        self.tracer = PythonKeyTracer()
        self.tracer.graph = new_graph
        self.decomposition_table = dict(decomposition_table or {})
        self.mode = ProxyTorchDispatchMode(self.tracer, self.decomposition_table)

    def placeholder(self, target, args, kwargs):
        """The argument, and a placeholder of it in the new graph."""
        value = super().placeholder(target, args, kwargs)
        self.tracer.track(value, self.tracer.create_proxy("placeholder", target, (), {}))
        return value

    def get_attr(self, target, args, kwargs):
        """The attribute, and its node in the new graph."""
        value = super().get_attr(target, args, kwargs)
        self.tracer.track(value, self.tracer.create_proxy("get_attr", target, (), {}))
        return value

    def output(self, target, args, kwargs):
        """The result, and the new graph's output."""
        self.new_graph.output(self.tracer.create_arg(args[0]))
        return args[0]

    def run(self, *args, **kwargs):
        """Runs the graph on values; the new graph is complete afterwards."""
        with self.mode:
            return super().run(*args, **kwargs)


def selective_decompose(joint_gm, *args, decomposition, should_decompose):
    """A GraphModule in which the operators of chosen nodes are decomposed.

    Args:
        joint_gm: GraphModule of operators. args: what to run it on.
        decomposition: {operator: function}.
        should_decompose: function of a node.
    """

    class Chosen(DecompositionInterpreter):
        def run_node(self, n):
            self.mode.decomposition_table = decomposition if should_decompose(n) else {}
            return super().run_node(n)

    graph = Graph()
    Chosen(joint_gm, graph, decomposition).run(*args)
    return GraphModule(joint_gm, graph)


@contextlib.contextmanager
def disable_proxy_modes_tracing():
    """Context manager: operators run and are not traced."""
    with _disable_current_modes():
        yield
