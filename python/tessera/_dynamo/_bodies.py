"""Functions among the arguments of operators: the branches of torch.cond become graphs of their own, in the module of
the graph that is captured.
"""

import functools

import tessera
from tessera._higher_order_ops._operator import ControlFlow
from tessera._higher_order_ops.associative_scan import associative_scan_op
from tessera._higher_order_ops.map import map_impl
from tessera._higher_order_ops.scan import scan_op
from tessera._higher_order_ops.while_loop import check_open, while_loop_op
from tessera._higher_order_ops.wrap import CONTEXT, WRITES, tag_activation_checkpoint
from tessera.fx import Graph, GraphModule
from tessera.fx.node import map_arg

from . import _objects
from ._tracer import is_named_tuple
from ._values import Const, Loose, Map, NumberV, Obj, Partial, Seq, TensorV
from .exc import Unsupported


def is_loop(value):
    """Whether an object is an operator that calls functions again and again."""
    return isinstance(value, ControlFlow) and value in _LOOPS


def cond(tracer, args, kwargs):
    """A call of torch.cond: both branches are captured, unless the predicate is known."""
    names = ("pred", "true_fn", "false_fn", "operands")
    given = {**dict(zip(names, args)), **kwargs}
    pred, operands = given["pred"], given.get("operands", Seq([], tuple))
    if not isinstance(operands, Seq):
        raise Unsupported("torch.cond, whose operands are no tuple or list")
    if isinstance(pred, Const):
        return tracer.run_call(tracer, given["true_fn" if pred.value else "false_fn"], list(operands.items), {})
    if not isinstance(pred, (TensorV, NumberV)):
        raise Unsupported("torch.cond, whose predicate is no tensor, number or bool")
    bodies = [_Branch(tracer, given[name], operands.items) for name in ("true_fn", "false_fn")]
    _check_alike(*bodies)
    outer = list(dict.fromkeys(node for body in bodies for node in body.outer()))
    modules = [body.attach(f"cond_{kind}", outer) for body, kind in zip(bodies, ("true", "false"))]
    op = tessera.ops.higher_order.cond
    node = tracer.node("call_function", op, (pred.node, *modules, tuple(outer)), {})
    with tracer.fake:
        examples = tuple(v.example.clone() if isinstance(v, TensorV) else v.example for v in bodies[0].leaves)
    node.meta["example_value"] = examples
    return bodies[0].rebuilt(iter(tracer.result(examples, node).items))


_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def checkpointed(tracer, args, kwargs):
    """A call of torch.utils.checkpoint.checkpoint: the function is captured, and runs by it in the graph, too."""
    options = {name: _known(tracer, kwargs[name]) for name in _OPTIONS if name in kwargs}
    named = {name: v for name, v in kwargs.items() if name not in options}
    if named and options.get("use_reentrant", True):
        raise Unsupported("torch.utils.checkpoint with use_reentrant=True and keyword arguments of its function")
    before = {node: _version(node) for node in tracer.graph.nodes}
    body = _Checkpointed(tracer, args[0], args[1:], named)
    outer = body.outer()
    module = body.attach("wrap_body", outer)
    tracer.attributes[module.target].meta[WRITES] = any(_version(n) != before.get(n, 0) for n in outer)
    if "context_fn" in options:  # no text of a graph can hold it
        tracer.attributes[module.target].meta[CONTEXT] = options.pop("context_fn")
    node = tracer.node("call_function", tag_activation_checkpoint, (module, *outer), options)
    with tracer.fake:
        examples = tuple(v.example.clone() if isinstance(v, TensorV) else v.example for v in body.leaves)
    node.meta["example_value"] = examples
    return body.rebuilt(iter(tracer.result(examples, node).items))


def _version(node):
    """How often the tensor of a node was written to; 0 for what is no tensor."""
    example = node.meta.get("example_value")
    return example._version if isinstance(example, tessera.Tensor) and not example.is_inference() else 0


def _known(tracer, var):
    """An option as the object that it is: a constant, or a function, which the capture then depends on."""
    if isinstance(var, Partial):
        words = {name: _known(tracer, v) for name, v in var.kwargs.items()}
        return functools.partial(_known(tracer, var.function), *(_known(tracer, v) for v in var.args), **words)
    if isinstance(var, Obj) and not isinstance(var, Loose):
        if var.source is not None:
            tracer.guard(var.source, "ID_MATCH", var.value, var.value)
        return var.value
    return tracer.argument(var, False)


class Body:
    """A function that is captured into a graph of its own.

    Args:
        function: Var. args, kwargs: Vars of its arguments, of the graph around it or of `graph`.
        graph: where it goes.
    """

    what = "a function that is an argument of torch.cond"
    inputs = ()  # placeholders of the graph, for arguments of its own
    inputs_first = False  # whether they stand before those for nodes outside
    output = None  # what the graph gives, of nodes

    def __init__(self, tracer, function, args, kwargs, graph):
        self.tracer, self.graph = tracer, graph
        written = len(tracer.effects), len(tracer.calls)
        with tracer.writing_to(self.graph):
            self.result = tracer.run_call(tracer, function, list(args), kwargs)
            if written != (len(tracer.effects), len(tracer.calls)):
                raise Unsupported(f"{self.what} writes to objects outside of it")
            self._finish()

    def _finish(self):
        """Notes what the graph gives: all that it can hold."""
        self.output = self.tracer.argument(self.result, True)

    def outer(self):
        """The nodes of other graphs that the function uses, in the order of their use."""
        used = [n for node in self.graph.nodes for n in node.all_input_nodes]
        map_arg(self.output, used.append)
        return [n for n in dict.fromkeys(used) if n.graph is not self.graph]

    def attach(self, kind, outer):
        """The node of the graph around it that gives its module."""
        tracer = self.tracer
        name = f"{kind}_{sum(n.startswith(kind + '_') for n in tracer.attributes)}"
        tracer.attributes[name] = self.module(outer)
        return tracer.node("get_attr", name, (), {})

    def module(self, outer):
        """The graph as a module of these nodes' values, which are placeholders in it, before its own inputs."""
        nodes = list(self.graph.nodes)[len(self.inputs) if self.inputs_first else 0 :]
        first = next(iter(nodes), None)
        inside = {}
        with self.graph.inserting_before(first if first is not None else self.graph._root):
            for node in outer:
                inside[node] = made = self.graph.placeholder(node.name)
                made.target = made.name  # nodes of several graphs may have the same name
                inside[node].meta.update({k: v for k, v in node.meta.items() if k == "example_value"})
        for node in list(self.graph.nodes):
            for used in node.all_input_nodes:
                if used.graph is not self.graph:
                    node.replace_input_with(used, inside[used])
        self.graph.output(map_arg(self.output, lambda n: inside.get(n, n)))
        root = tessera.nn.Module()
        for name, value in self.tracer.attributes.items():
            setattr(root, name, value)
        return GraphModule(root, self.graph, "GraphModule")


class _Step(Body):
    """A function of an operator that calls it again and again. samples: examples of what each call gets."""

    inputs_first = True

    def __init__(self, tracer, op, function, samples, additional):
        self.what, graph = f"a function that is an argument of {op.name()}", Graph()
        self.inputs = [graph.placeholder(f"arg{i}") for i in range(len(samples))]
        for node, example in zip(self.inputs, samples):
            node.meta["example_value"] = example
        given = [tracer.result(example, node) for node, example in zip(self.inputs, samples)]
        super().__init__(tracer, function, [*given, *additional], {}, graph)
        try:
            check_open(samples)
        except RuntimeError as error:
            raise Unsupported(str(error), case_name="operator") from error


def _sample(tracer, kind, var):
    """What a step is given of a value: a slice, or all of it; of a number that is carried nothing is known."""
    if kind == "slice":
        return var.example.new_zeros(var.example.shape[1:])
    if isinstance(var, TensorV):
        return var.example.detach().clone()
    return tracer.symbols().env.create_unbacked_symint()


# Operator -> (how many functions it has, what steps get of the values in each of the tuples behind them); the last
# tuple, of what all steps get as it is, comes after these.
_LOOPS = {
    while_loop_op: (2, ("carried",)),
    scan_op: (1, ("carried", "slice")),
    map_impl: (1, ("slice",)),
    associative_scan_op: (1, ("slice",)),
}


def loop(tracer, op, args):
    """A call of one of these operators. Raises: Unsupported where the operator refuses what its functions give."""
    nested = op is while_loop_op and tracer.is_inside_of_function()
    if nested and not tracer.settings.fullgraph and tessera.is_grad_enabled():
        # A traced gradient of the outer loop would hold how often the inner one runs.
        raise Unsupported("a while_loop in a function that is an argument of an operator, with gradients")
    count, kinds = _LOOPS[op]
    tuples = [_objects.items_of(tracer, v) for v in args[count:]]
    additional = tuples[len(kinds)] if len(tuples) > len(kinds) else []

    def samples():
        pairs = [(kind, v) for kind, values in zip(kinds, tuples) for v in values]
        with tracer.fake:
            return [_sample(tracer, kind, v) for kind, v in pairs * (2 if op is associative_scan_op else 1)]

    bodies = [_Step(tracer, op, f, samples(), additional) for f in args[:count]]
    outer = list(dict.fromkeys(node for body in bodies for node in body.outer()))
    modules = [body.attach(f"{op.name()}_body", outer) for body in bodies]
    given = [Seq(values, tuple) for values in tuples[: len(kinds)]]
    node = tracer.node("call_function", op, (*modules, *(tracer.argument(v, True) for v in given), tuple(outer)), {})
    functions = [tracer.attributes[m.target] for m in modules]
    try:
        with tracer.fake:
            examples = op.run(
                *functions, *(tracer.argument(v, False) for v in given), tuple(n.meta["example_value"] for n in outer)
            )
    except RuntimeError as error:
        raise Unsupported(str(error), case_name="operator") from error
    node.meta["example_value"] = examples
    return tracer.result(examples, node)


class _Branch(Body):
    """A function of torch.cond."""

    def __init__(self, tracer, function, operands, named=None):
        self.leaves = []
        super().__init__(tracer, function, operands, named or {}, Graph())

    def _finish(self):
        self.form = self._collect(self.result)
        self.output = tuple(v.node for v in self.leaves)

    def _collect(self, var):
        """The structure of a result; its tensors and numbers are noted."""
        if isinstance(var, (TensorV, NumberV)):
            self.leaves.append(var)
            return "leaf"
        if isinstance(var, Const):
            return ("constant", var.value)
        if isinstance(var, Seq):
            return (var.cls, *map(self._collect, var.items))
        if isinstance(var, Map):
            return (var.cls, *((key, self._collect(v)) for key, v in var.items.items()))
        raise Unsupported(f"{self.what} returns something else than tensors")

    def rebuilt(self, values, var=None):
        """The result with other tensors and numbers: those of an iterator."""
        var = self.result if var is None else var
        if isinstance(var, (TensorV, NumberV)):
            return next(values)
        if isinstance(var, Seq):
            return Seq([self.rebuilt(values, v) for v in var.items], tuple if is_named_tuple(var.cls) else var.cls)
        if isinstance(var, Map):
            return Map({key: self.rebuilt(values, v) for key, v in var.items.items()}, var.cls)
        return var


class _Checkpointed(_Branch):
    what = "a function that is an argument of torch.utils.checkpoint.checkpoint"


def _check_alike(first, second):
    def facts(body):
        return [
            (tuple(map(str, v.example.shape)), v.example.dtype, v.example.device) if isinstance(v, TensorV) else int
            for v in body.leaves
        ]

    if first.form != second.form or facts(first) != facts(second):
        raise Unsupported(
            f"torch.cond, whose functions return different things: {facts(first)} and {facts(second)}; expected the "
            "same structure of tensors with the same shapes and dtypes"
        )
