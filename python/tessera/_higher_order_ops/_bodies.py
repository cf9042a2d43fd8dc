"""Functions among the arguments of operators, as graphs of a trace that is under way.

What a body uses of the trace around it, and whatever tensor it finds elsewhere, becomes one more operand: bodies
hold no tensors. So the same graph serves the eager call, the traced one and the backward pass.
"""

import contextlib
import itertools

import tessera
from tessera import _C
from tessera.autograd import Function
from tessera.fx.experimental._expressions import is_unbacked
from tessera.fx.experimental.proxy_tensor import PythonKeyTracer
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule


class _BodyTracer(PythonKeyTracer):
    """A tracer in which tensors that it has not seen are operands, after the given ones."""

    def __init__(self):
        super().__init__()
        self.graph = Graph(tracer_cls=PythonKeyTracer)
        self.taken = []  # operands of elsewhere
        self.last = None
        self.annotate = None  # function of a node: notes of the trace around this one

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """As of Tracer, with the notes that nodes of the trace around have."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        if self.annotate is not None and kind != "placeholder":
            self.annotate(node)
        return node

    def placeholder(self, value, name):
        """A new placeholder, behind the others, which stands for a value."""
        first = next(iter(self.graph.nodes), None)
        at = self.graph.inserting_before(first) if self.last is None else self.graph.inserting_after(self.last)
        with at:
            proxy = self.create_proxy("placeholder", name, (), {})
        proxy.node.target = proxy.node.name
        self.last = proxy.node
        self.track(value, proxy)
        return proxy

    def lift(self, value):
        """A placeholder for a tensor of elsewhere."""
        self.taken.append(value)
        return self.placeholder(value, f"lifted_{len(self.taken) - 1}")

    def constant(self, value):
        """As lift: bodies hold no tensors."""
        return self.lift(value).node

    def check_found(self):
        """Nodes that check what the function said of numbers that it finds itself."""
        found = {s for s, (proxy, _) in self._sizes.items() if is_unbacked(s) and proxy.node.op != "placeholder"}
        guards = self._env.deferred_runtime_asserts.values() if found else ()
        for guard in [g for of_symbol in guards for g in of_symbol if g.expr.free_symbols & found]:
            node = self._numbers().of(guard.expr)
            text = f"Runtime assertion failed for expression {guard.expr} on node '{node}' ({guard.sloc})"
            self.create_node("call_function", tessera.ops.aten._assert_scalar.default, (node, text), {})

    def _size_node(self, symbol):
        """A symbolic size of a tensor of elsewhere is an operand, too."""
        if symbol not in self._sizes:
            self.lift(self._env._number(symbol))
        return super()._size_node(symbol)


class Body:
    """A function as a graph: `module(*operands, *lifted)` gives a tuple of tensors and numbers."""

    def __init__(self, module, lifted):
        self.module, self.lifted = module, lifted


@contextlib.contextmanager
def without(mode):
    """The innermost mode, which is `mode`, off for a block."""
    _C._pop_torch_dispatch_stack()
    try:
        yield
    finally:
        _C._push_on_torch_dispatch_stack(mode)


def _trace(name, mode, function, operands, lifted):
    tracer = _BodyTracer()
    tracer.annotate = getattr(mode.tracer, "_annotate", None)
    for i, value in enumerate(operands):
        tracer.placeholder(value, f"arg{i}_1")
    for value in lifted:
        tracer.lift(value)
    # The function alone: its gradient is that of its graph.
    with without(mode), tessera.no_grad(), mode.nested(tracer):
        result = function(*operands)
    tracer.check_found()
    tracer.graph.output(tuple(tracer.create_arg(leaf) for leaf in result))
    _reject_writes(name, tracer.graph)
    return Body(GraphModule(tracer.root, tracer.graph, "<lambda>"), tracer.taken)


def _reject_writes(name, graph):
    """Raises: RuntimeError if an operator of the graph writes to one of its arguments."""
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        for given, formal in zip(node.args, schema.arguments):
            if formal.is_write and getattr(given, "op", None) == "placeholder":
                raise RuntimeError(
                    f"{name}: a function writes to its operand {given.name} ({node.target}), which is not supported: "
                    "it might be modifying the input! Return the new tensor instead"
                )


def trace_bodies(name, mode, functions, operands):
    """Traces functions, each on its list of operands. Returns (bodies, tensors that all of them take in addition)."""
    bodies = [_trace(name, mode, f, given, ()) for f, given in zip(functions, operands)]
    lifted = list({id(t): t for b in bodies for t in b.lifted}.values())
    for body, given in zip(bodies, operands):
        if list(map(id, body.lifted)) != list(map(id, lifted)):
            _take(body, len(given), lifted)
    return bodies, lifted


def _take(body, count, lifted):
    """Makes the graph of a body of `count` operands take these tensors behind them, used or not."""
    graph = body.module.graph
    placeholders = graph.find_nodes(op="placeholder")
    own = {id(t): node for t, node in zip(body.lifted, placeholders[count:])}
    last = placeholders[count - 1] if count else None
    for i, value in enumerate(lifted):
        node = own.get(id(value))
        if node is None:
            with graph.inserting_before() if last is None else graph.inserting_after(last):
                node = graph.placeholder(f"lifted_{i}")
            node.target, node.meta["val"] = node.name, value
        elif last is None:
            next(iter(graph.nodes)).prepend(node)
        else:
            last.append(node)
        last = node
    body.lifted = lifted
    body.module.recompile()


def samples(mode, *values):
    """Tensors like those, which nobody else has: what a body is traced on that will get others than those. Where a
    mode computes with real tensors and writes nothing (an export), they are fake.
    """
    with without(mode), tessera.no_grad():
        found = [v.detach().clone() if isinstance(v, tessera.Tensor) else v for v in values]
        make = getattr(mode, "from_tensor", None)
        for i, v in enumerate(found):
            if make is not None and isinstance(v, tessera.Tensor):
                found[i] = make(v)
                _C._set_fake_constant(found[i], None)  # the next call gets another number
        return found


def emit(op, mode, names, modules, arguments, compute, keywords=None):
    """Adds the node `op(*arguments(nodes of the modules))` to the trace.

    Args:
        names: of the attributes that hold the modules ("true_graph").
        compute: gives the results, without being traced.
        keywords: dict of further arguments by name.
    """
    tracer = getattr(mode.tracer, "writer", mode.tracer)  # of an export: that of the function that is traced
    nodes = []
    for name, module in zip(names, modules):
        path = next(p for p in (f"{name}_{i}" for i in itertools.count()) if not hasattr(tracer.root, p))
        setattr(tracer.root, path, module)
        nodes.append(tracer.create_proxy("get_attr", path, (), {}))
    proxy = tracer.create_proxy("call_function", op, arguments(*nodes), keywords or {}, name=op.name())
    with without(mode):
        result = compute()
        if isinstance(result, (tuple, list)):
            result = _on_their_own(tracer, result)
    tracer.track(result, proxy)
    proxy.node.meta.setdefault("val", result)
    return result


def _on_their_own(tracer, results):
    """Results none of which is an operand or another one: with other numbers they may be others."""
    found, seen = [], set()
    for v in results:
        if isinstance(v, tessera.Tensor):
            place = tracer.place(v)
            if place in seen or tracer.found(v) is not None:
                v = v.clone()
            seen.add(tracer.place(v))
        found.append(v)
    return tuple(found)


class _Through(Function):
    """forward(*operands), whose gradients backward(operands, indices, gradients of the results) gives."""

    @staticmethod
    def forward(ctx, forward, backward, wanted, given, *operands):
        ctx.backward_of, ctx.wanted, ctx.given = backward, wanted, given
        ctx.set_materialize_grads(False)
        result = forward(given)
        ctx.forms = [(t.shape, t.dtype, t.device) if isinstance(t, tessera.Tensor) else None for t in result]
        ctx.mark_non_differentiable(*[t for t in result if isinstance(t, tessera.Tensor) and not has_gradient(t)])
        return tuple(result)

    @staticmethod
    def backward(ctx, *grads):
        filled = [
            tessera.zeros(form[0], dtype=form[1], device=form[2]) if g is None and form is not None else g
            for g, form in zip(grads, ctx.forms)
        ]
        found = ctx.backward_of(ctx.given, ctx.wanted, filled)
        gradients = [None] * len(ctx.given)
        for i, g in zip(ctx.wanted, found):
            gradients[i] = g
        return (None, None, None, None, *gradients)


def has_gradient(t):
    return t.is_floating_point() or t.is_complex()


def with_gradient(forward, backward, operands):
    """`forward(operands)`, differentiable by `backward(operands, wanted, gradients)`.

    `wanted` are the indices of the operands whose gradients backward returns.
    """
    wanted = [i for i, t in enumerate(operands) if isinstance(t, tessera.Tensor) and t.requires_grad]
    if not wanted or not tessera.is_grad_enabled():
        return tuple(forward(operands))
    return _Through.apply(forward, backward, wanted, operands, *operands)


def pulled_back(function, count, wanted, results=None):
    """The backward pass of a function of `count` operands: of (*operands, *gradients of its results that have one).

    Args:
        wanted: indices of the operands. results: how many of the first results have gradients; all if None.
    """

    def body(*args):
        operands, grads = list(args[:count]), args[count:]
        with tessera.enable_grad():
            for i in wanted:
                operands[i] = operands[i].detach().requires_grad_()
            made = function(*operands)[:results]
            pairs = [
                (t, g)
                for t, g in zip(made, grads)
                if isinstance(t, tessera.Tensor) and t.requires_grad and g is not None
            ]
            found = [None] * len(wanted)
            if pairs:
                found = tessera.autograd.grad(
                    [t for t, _ in pairs], [operands[i] for i in wanted], [g for _, g in pairs], allow_unused=True
                )
        return tuple(tessera.zeros_like(operands[i]) if g is None else g for i, g in zip(wanted, found))

    return body
