"""run_decompositions(): the graph of a program, run on functional tensors into another graph."""

import contextlib
import copy
import operator

import tessera
from tessera._decomp._registry import composites, is_hiding
from tessera._subclasses._symbolic_tools import BelowPython, plain
from tessera._decomp._forms import documented_form
from tessera._higher_order_ops.auto_functionalize import can_auto_functionalize, functional_call
from tessera.export._symbols import is_symbolic
from tessera.export._tracer import NOTES, ExportTracer, export_mode
from tessera.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from tessera.export.graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument,
)  # fmt: skip
from tessera.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from tessera.fx.interpreter import Interpreter
from tessera.utils import _pytree as pytree

_WRITTEN = {
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION, InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}  # fmt: skip


class _Tracer(ExportTracer):
    """The tracer of the new graph: its nodes have the notes of the nodes that they come from."""

    current = None  # the node of the old graph that is being run

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        if kind == "call_function" and hasattr(target, "_schema"):
            target, args, kwargs = documented_form(target, args, kwargs)
        return super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)

    def _annotate(self, node, _like=None):
        for key in ("nn_module_stack", "stack_trace", "custom", *NOTES):
            if self.current is not None and key in self.current.meta:
                node.meta[key] = self.current.meta[key]


class _Run(Interpreter):
    """Runs the old graph."""

    def __init__(self, program, tracer, table, functional):
        super().__init__(program.graph_module, garbage_collect_values=False)
        self.tracer, self.table, self.functional = tracer, table, functional
        self.extra_traceback = False

    def run_node(self, n):
        self.tracer.current = n
        if n.op == "call_function" and is_symbolic(n.meta.get("val")):
            return self._number(n)
        name = getattr(n.target, "_name", None) if n.op == "call_function" else None
        if name in (_RESHAPES if self.functional else ("aten::reshape",)) and self._is_composed(n.target):
            return self._reshape(n)
        if self.functional and n.op == "call_function" and can_auto_functionalize(n.target):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            with tessera._subclasses.functional_tensor.disable_functional_mode():
                return functional_call(n.target, args, kwargs)
        if self.functional and composites().get(name) and self._is_composed(n.target):
            return self._held(n)
        result = super().run_node(n)
        if n.op == "call_function":
            self._as_before(n.meta.get("val"), result)
        return result

    def _is_composed(self, op):
        """Whether the table has no function of its own for an operator."""
        return getattr(self.table.get(op), "__self__", op) is op

    def _held(self, n):
        """An operator that neither writes nor makes views, on what functional tensors hold: sizes stay symbols."""
        from tessera._subclasses.functional_tensor import FunctionalTensor, disable_functional_mode

        args, kwargs = self.fetch_args_kwargs_from_env(n)
        args, kwargs = pytree.tree_map(mb_unwrap, (args, kwargs))
        with disable_functional_mode():
            result = n.target(*args, **kwargs)
        self._as_before(n.meta.get("val"), result)
        return pytree.tree_map_only(tessera.Tensor, FunctionalTensor.to_functional, result)

    def _as_before(self, old, new):
        """Sizes that an operator finds in its data have the symbols that they had."""
        for before, value in zip(pytree.tree_leaves(old), pytree.tree_leaves(new)):
            if not isinstance(before, tessera.Tensor) or not isinstance(value, tessera.Tensor):
                continue
            value = mb_unwrap(value)
            shapes = tessera._C._symbolic_shape(before), tessera._C._symbolic_shape(value)
            node = self.tracer._nodes.get(id(value))
            if None not in shapes and node is not None:
                self.tracer.symbols.add_known(node[1], *shapes)

    def _reshape(self, n):
        """A reshape as the view that it was, or as that of a copy: the trace knows which, for all sizes."""
        old, new = n.args[0].meta["val"], n.meta["val"]
        tensor = self.env[n.args[0]]
        is_view = _is_viewable(mb_unwrap(tensor), new.shape)
        if not is_view or old.untyped_storage()._cdata != new.untyped_storage()._cdata:
            tensor = tessera.ops.aten.clone.default(tensor, memory_format=tessera.contiguous_format)
        return tessera.ops.aten.view.default(tensor, list(new.shape))

    def _number(self, n):
        """A symbolic number is as it was; what a tensor says of it gets its node now."""
        known = n.meta["val"]
        if n.target is tessera.ops.aten.item.default:
            tensor = mb_unwrap(self.env[n.args[0]])
            proxy = self.tracer.create_proxy("call_function", n.target, (tensor,), {}, name="item")
            self.tracer.track(known, proxy)
        elif n.target is operator.getitem:  # a number that a loop gives
            number = self.env[n.args[0]][n.args[1]]
            self.tracer.symbols.add(self.tracer.symbols.node_of(number), known)
        return known


# Composite operators whose result has the elements of their first argument, in order.
_RESHAPES = frozenset(
    "aten::reshape aten::flatten.using_ints aten::unflatten.int aten::view_as aten::reshape_as aten::ravel".split()
)


def _is_viewable(tensor, shape):
    """Whether a tensor has a view of these sizes: decompositions leave other strides than operators do."""
    sizes, strides, shape = (tuple(map(plain, numbers)) for numbers in (tensor.shape, tensor.stride(), shape))
    with BelowPython():
        try:
            tessera.empty_strided(sizes, strides, device="meta").view(shape)
        except RuntimeError:
            return False
    return True


def mb_unwrap(value):
    """What a functional tensor holds; others as they are."""
    from tessera._subclasses.functional_tensor import mb_unwrap_functional_tensor

    return mb_unwrap_functional_tensor(value) if isinstance(value, tessera.Tensor) else value


def _writes(program):
    """Whether an operator of a program, or what one is made of, writes to a tensor."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, tessera.fx.GraphModule)]
    schemas = ((n, getattr(n.target, "_schema", None)) for graph in graphs for n in graph.nodes)
    return any(
        schema is not None and (schema.is_mutable or (is_hiding(schema.name) and _hidden_write(schema.name, n.args)))
        for n, schema in schemas
    )


# Write to running statistics, which are their fourth argument, if their sixth says so; their schemas do not tell.
_NORMS = ("aten::batch_norm", "aten::native_batch_norm", "aten::instance_norm")


# Where the flag is among their arguments without which operators that hide what they do write nowhere.
_TRAINING = {"aten::rrelu": 3, "aten::feature_dropout": 2, "aten::alpha_dropout": 2, "aten::feature_alpha_dropout": 2}


def _hidden_write(name, args):
    if name in _NORMS:
        return args[3] is not None and args[5]
    if name in _TRAINING:
        return len(args) > _TRAINING[name] and args[_TRAINING[name]]
    return name != "aten::dropout"  # which the table has in a functional form


def _fake_mode(program):
    """The mode of what stands for the program's values, or a new one."""
    for node in program.graph.nodes:
        found = getattr(node.meta.get("val"), "fake_mode", None)
        if found is not None:
            return found
    return export_mode(allow_non_fake_inputs=True)


class _Decomposition:
    def __init__(self, program, table):
        from tessera._subclasses import functional_tensor

        self.program, self.table, self.functional = program, table, functional_tensor
        self.writes = _writes(program)  # otherwise there is nothing to make functional
        self.mode = _fake_mode(program)
        self.tracer = _Tracer(self.mode, {})

    def run(self):
        from tessera._decomp import decomposing

        inside = self._inputs()
        functional = self.functional
        with (
            tessera.no_grad(), self.mode, decomposing(self.table), ProxyTorchDispatchMode(self.tracer, self.table),
            functional.FunctionalTensorMode() if self.writes else contextlib.nullcontext(),
        ):  # fmt: skip
            runner = _Run(self.program, self.tracer, self.table, self.writes)
            results = runner.run(*inside, enable_io_processing=False)
            self.tracer.current = None
            self.env = runner.env
            outputs, specs = self._written(inside)
            for value, spec in zip(results, self.program.graph_signature.output_specs):
                self._result(value, spec, outputs, specs)
        self.tracer.graph.output(tuple(outputs))
        for node in reversed(self.tracer.graph.find_nodes(op="call_function", target=operator.getitem)):
            if not node.users:
                self.tracer.graph.erase_node(node)
        self._check_symbols()
        return self._program(specs)

    def _check_symbols(self):
        """RuntimeError if a size that may differ has become a number on the way."""
        env = getattr(self.mode, "shape_env", None)
        for expr in self.program.range_constraints:
            if env is not None and env.replace(expr) != expr:
                guards = [f"{g.expr} ({g.sloc})" for g in env.guards if g.expr.free_symbols & expr.free_symbols]
                raise RuntimeError(
                    f"run_decompositions: a decomposition works for {expr} = {env.replace(expr)} alone, because of "
                    f"{', '.join(guards[-3:])}; take the operator out of the table, or export with a fixed size"
                )

    def _inputs(self):
        """Placeholders as in the old graph, and the functional tensors that the graph runs on."""
        tracer, inside = self.tracer, []
        tracer.names_of_constants.update(self.program.constants)
        specs = self.program.graph_signature.input_specs
        for spec, node in zip(specs, self.program.graph.find_nodes(op="placeholder")):
            value = node.meta.get("val")
            with tessera.no_grad():
                value = value.detach() if isinstance(value, tessera.Tensor) and value.requires_grad else value
            made = tracer.make_placeholder(node.name, value)
            made.meta["val"] = node.meta.get("val")
            if spec.kind is InputKind.USER_INPUT:
                tracer.first_user_input = tracer.first_user_input or made
            is_tensor = isinstance(value, tessera.Tensor)
            wraps = is_tensor and self.writes
            inside.append(self.functional.FunctionalTensor.to_functional(value) if wraps else value)
        return inside

    def _written(self, inside):
        """(nodes, OutputSpecs) of the new values of what the program writes to."""
        values, specs = [], []
        for spec, tensor in zip(self.program.graph_signature.input_specs, inside):
            kind = _WRITTEN.get(spec.kind)
            if kind is None or not self.writes or not isinstance(tensor, tessera.Tensor):
                continue
            if not self.functional._functionalize_has_data_mutation(tensor):
                continue
            node = self.tracer.node_of(mb_unwrap(tensor))
            target = spec.arg.name if kind is OutputKind.USER_INPUT_MUTATION else spec.target
            values.append(node)
            specs.append(OutputSpec(kind, TensorArgument(node.name), target))
        order = list(_WRITTEN.values())
        ranked = sorted(range(len(specs)), key=lambda i: order.index(specs[i].kind))
        return [values[i] for i in ranked], [specs[i] for i in ranked]

    def _result(self, value, spec, values, specs):
        value = mb_unwrap(value)
        node = self.tracer.create_arg(value)
        arg = copy.copy(spec.arg)
        if isinstance(value, tessera.Tensor) or is_symbolic(value):
            arg.name = node.name if hasattr(node, "name") else ""
        values.append(node)
        specs.append(OutputSpec(spec.kind, arg, spec.target))

    def _program(self, output_specs):
        old, tracer = self.program, self.tracer
        lifted = [
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), path)
            for path, (_, node) in tracer.constants.items()
        ]
        signature = ExportGraphSignature(self._input_specs(lifted), output_specs)
        constants = {**old.constants, **{path: tensor for path, (tensor, _) in tracer.constants.items()}}
        made = ExportedProgram(
            tracer.root, tracer.graph, signature, old.state_dict, old.range_constraints, self._calls(),
            old.example_inputs, constants, verifiers=[tessera._export.verifier.Verifier],
        )  # fmt: skip
        made._guards_code = list(old._guards_code)
        made.graph_module.meta.update({k: v for k, v in old.graph_module.meta.items() if k == "custom"})
        return made

    def _input_specs(self, lifted):
        specs = [copy.deepcopy(s) for s in self.program.graph_signature.input_specs]
        first = next((i for i, s in enumerate(specs) if s.kind is InputKind.USER_INPUT), len(specs))
        return [*specs[:first], *lifted, *specs[first:]]

    def _calls(self):
        """The module calls, with the new names of values."""
        names = {n.name: n for n in self.program.graph.nodes}

        def renamed(arg):
            if isinstance(arg, ConstantArgument) or arg.name not in names:
                return arg
            node = self.tracer._nodes.get(id(mb_unwrap(self.env.get(names[arg.name]))))
            return arg if node is None else type(arg)(node[1].name)

        found = []
        for entry in self.program.module_call_graph:
            s = entry.signature
            if s is not None:
                s = ModuleCallSignature([renamed(a) for a in s.inputs], [renamed(a) for a in s.outputs], s.in_spec,
                                        s.out_spec, s.forward_arg_names)  # fmt: skip
            found.append(ModuleCallEntry(entry.fqn, s))
        return found


def decomposed(program, table, decompose_custom_triton_ops):
    """A program in other, functional operators. See ExportedProgram.run_decompositions."""
    if table is None:
        table = tessera.export.decomp_utils.CustomDecompTable()
    if not isinstance(table, dict):
        raise TypeError(f"run_decompositions: expected a dict of decompositions, got {type(table).__name__}")
    entries = table.materialize() if hasattr(table, "materialize") else dict(table)
    if decompose_custom_triton_ops:
        entries.update(_triton_operators(program))
    return _Decomposition(program, entries).run()


def _triton_operators(program):
    """{operator: its body} of the operators of library.triton_op that a program calls."""
    from tessera._library.custom_ops import _definitions

    targets = {n.target for n in program.graph.nodes if n.op == "call_function"}
    made = {op: _definitions.get(getattr(op, "_name", None)) for op in targets}
    return {op: d._default for op, d in made.items() if d is not None and d._is_triton_op}
