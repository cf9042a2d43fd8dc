"""export(): from a module and example inputs to an ExportedProgram."""

import contextlib
import inspect

import tessera
from tessera.export import dynamic_shapes as _shapes
from tessera.export._functions import open_functions
from tessera.export._inputs import Inputs
from tessera.export._symbols import is_symbolic
from tessera.export._tracer import ExportTracer, export_mode
from tessera.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from tessera.export.graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, SymBoolArgument,
    SymFloatArgument, SymIntArgument, TensorArgument,
)  # fmt: skip
from tessera.fx.node import Node
from tessera.utils import _pytree as pytree

_CONSTANTS = (int, float, bool, str, type(None), complex, tessera.dtype, tessera.device, tessera.layout,
              tessera.memory_format)  # fmt: skip


def _argument_of(value, node):
    """The argument class of a value and its node."""
    if isinstance(value, tessera.Tensor):
        return TensorArgument(node.name)
    if is_symbolic(value):
        if not isinstance(node, Node):
            return ConstantArgument("", node)
        by = {"SymInt": SymIntArgument, "SymFloat": SymFloatArgument, "SymBool": SymBoolArgument}
        return by[type(value).__name__](node.name)
    return ConstantArgument(node.name if isinstance(node, Node) else "", value)


class _Calls:
    """Follows the calls of submodules: the stack for nodes, and signatures of those that are asked for."""

    def __init__(self, tracer, root, preserved):
        self._tracer, self._preserved = tracer, set(preserved)
        self._paths = {}
        for path, module in root.named_modules(remove_duplicate=False):
            self._paths[id(module)] = self._paths.get(id(module), path)
        self._counts = {}
        self.signatures = {}  # path, with @n from the second call on -> ModuleCallSignature

    def __call__(self, forward, module, args, kwargs):
        path = self._paths.get(id(module))
        if path is None:
            return forward(*args, **kwargs)
        stack, before = self._tracer.module_stack, None
        count = self._counts[path] = self._counts.get(path, -1) + 1
        call = f"{path}@{count}" if count else path
        kind = type(module)
        stack["L__self__" + call] = (path, f"{kind.__module__}.{kind.__qualname__}".replace("tessera.", "torch.", 1))
        try:
            before = self._inputs(args, kwargs) if path in self._preserved else None
            result = forward(*args, **kwargs)
            if before is not None:
                self._preserve(path, call, before, result)
            return result
        finally:
            stack.pop("L__self__" + call, None)

    def _arguments(self, tree):
        leaves, spec = pytree.tree_flatten(tree)
        create = self._tracer.create_arg
        return [_argument_of(leaf, create(leaf)) for leaf in leaves], spec

    def _inputs(self, args, kwargs):
        return self._arguments((args, kwargs))

    def _preserve(self, path, call, before, result):
        outputs, out_spec = self._arguments(result)
        inputs, in_spec = before
        first = self.signatures.get(path)
        if first is not None and (first.in_spec, first.out_spec) != (in_spec, out_spec):
            raise AssertionError(
                f"preserve_module_call_signature: {path!r} is called with the structures {first.in_spec} and "
                f"{in_spec}; "
                "its calls must be alike"
            )
        self.signatures[call] = ModuleCallSignature(inputs, outputs, in_spec, out_spec, None)


_MISSING = object()


class _State:
    """Parameters, buffers and constants of a module, and what stands for them while it is traced."""

    def __init__(self, root, fake_mode):
        self._root, self._mode = root, fake_mode
        self.parameters = dict(root.named_parameters(remove_duplicate=False))
        self.buffers = dict(root.named_buffers(remove_duplicate=False))
        self.persistent = {
            path: path.rpartition(".")[2] not in module._non_persistent_buffers_set
            for path in self.buffers
            for module in (root.get_submodule(path.rpartition(".")[0]),)
        }
        self.attributes = self._plain_attributes()
        self.stand_ins = {}
        made = {}
        for path, tensor in {**self.parameters, **self.buffers}.items():
            if id(tensor) not in made:
                made[id(tensor)] = fake_mode.from_tensor(tensor, static_shapes=True)
            self.stand_ins[path] = made[id(tensor)]

    def _plain_attributes(self):
        found = {}
        for path, module in self._root.named_modules(remove_duplicate=False):
            for name, value in vars(module).items():
                if isinstance(value, tessera.Tensor):
                    found.setdefault(id(value), (value, f"{path}.{name}" if path else name))
        return found

    @contextlib.contextmanager
    def swapped(self):
        """Context manager: the module holds what stands for its state. What its forward assigned is taken back."""
        kept = [(m, dict(m.__dict__), dict(m._parameters), dict(m._buffers)) for m in self._root.modules()]
        for path, stand_in in self.stand_ins.items():
            owner, _, name = path.rpartition(".")
            module = self._root.get_submodule(owner)
            table = module._parameters if path in self.parameters else module._buffers
            table[name] = stand_in
        self._kept = kept
        held = [v for _, attributes, _, _ in kept for v in attributes.values() if type(v) in (dict, list)]
        held = [(v, v.copy()) for v in {id(v): v for v in held}.values()]  # where forward may keep what it computed
        try:
            yield
        finally:
            for container, before in held:
                container.clear()
                container.update(before) if type(before) is dict else container.extend(before)
            for module, attributes, parameters, buffers in kept:
                for table, old in ((module._parameters, parameters), (module._buffers, buffers)):
                    table.clear()
                    table.update(old)
                module.__dict__.clear()
                module.__dict__.update(attributes)

    def assigned_attributes(self):
        """Names of attributes of modules, buffers apart, that were assigned or deleted; while swapped."""
        ignored = ("_parameters", "_buffers", "_modules")
        found = []
        for module, before, _, _ in self._kept:
            now = vars(module)
            names = [
                n for n in {**before, **now} if n not in ignored and before.get(n, _MISSING) is not now.get(n, _MISSING)
            ]
            found += [f"{type(module).__name__}.{name}" for name in names]
        return found

    def assigned_buffers(self):
        """[(path, new tensor)] of buffers that were assigned; while swapped. Warns of other assigned tensors."""
        for module, attributes, _, _ in self._kept:
            for name, value in vars(module).items():
                if isinstance(value, tessera.Tensor) and attributes.get(name) is not value:
                    import warnings

                    warnings.warn(
                        f"The tensor attribute self.{name} was assigned during export. Such attributes must be "
                        "registered as buffers using the `register_buffer` API.",
                        stacklevel=4,
                    )
        found = []
        for path in self.buffers:
            owner, _, name = path.rpartition(".")
            now = self._root.get_submodule(owner)._buffers.get(name)
            if now is not None and now is not self.stand_ins[path]:
                found.append((path, now))
        return found


def _check(mod, args, kwargs):
    if not isinstance(mod, tessera.nn.Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if isinstance(mod, tessera.jit.ScriptModule):
        raise ValueError("Exporting a ScriptModule is not supported: export the module that it was made of")
    if not isinstance(args, tuple):
        raise _shapes._user_error(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise _shapes._user_error(f"Expecting `kwargs` to be a dict of example keyword inputs, got {type(kwargs)}")
    for leaf in pytree.tree_leaves((args, kwargs or {})):
        if not isinstance(leaf, (tessera.Tensor, *_CONSTANTS)) and not is_symbolic(leaf):
            raise ValueError(
                f"Unsupported input type {type(leaf)}. Export only supports pytree containers of basic types (Tensor, "
                "int, float, ...) as input. Register a dataclass with torch.export.register_dataclass, another "
                "container with torch.utils._pytree.register_pytree_node, a constant with "
                "torch.utils._pytree.register_constant"
            )


def _in_order(mod, args, kwargs):
    """(BoundArguments, the keyword arguments), both in the order in which the arguments were given, except that those
    for **kwargs come last. TypeError if forward cannot be called so.
    """
    signature = inspect.signature(mod.forward)
    bound = signature.bind(*args, **kwargs)
    kinds = {name: p.kind for name, p in signature.parameters.items()}
    named = [n for n in kwargs if kinds.get(n) in (inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                                   inspect.Parameter.KEYWORD_ONLY)]  # fmt: skip
    last = [n for n in bound.arguments if kinds[n] is inspect.Parameter.VAR_KEYWORD]
    first = [n for n in bound.arguments if n not in named and n not in last]
    bound.arguments = {n: bound.arguments[n] for n in (*first, *named, *last)}
    return bound, {n: kwargs[n] for n in (*named, *(n for n in kwargs if n not in named))}


class Export:
    """One export: arguments as of export(), and what makes the trace.

    Args:
        make_mode: function that makes the mode that what stands for tensors is of. make_env: one that makes the
            ShapeEnv, or None. tracer_class: ExportTracer or a subclass.
    """

    def __init__(
        self, mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
        prefer_deferred_runtime_asserts_over_guards=False, make_mode=export_mode, make_env=None,
        tracer_class=ExportTracer, keeps_history=False,
    ):  # fmt: skip
        _check(mod, args, kwargs)
        bound, kwargs = _in_order(mod, args, kwargs or {})
        for path in preserve_module_call_signature:
            mod.get_submodule(path)  # AttributeError if there is none
        self.mod, self.args, self.kwargs = mod, args, kwargs
        self.strict = strict
        self.inputs = Inputs(
            mod, bound, args, kwargs, dynamic_shapes, make_mode, make_env, prefer_deferred_runtime_asserts_over_guards
        )
        self.mode = self.inputs.mode
        self.state = _State(mod, self.mode)
        self.tracer = tracer_class(self.mode, self.state.attributes)
        self.tracer.keeps_history, self.tracer.notes_sources = keeps_history, strict
        self.tracer.notes_annotations |= strict
        self.calls = _Calls(self.tracer, mod, preserve_module_call_signature)

    def run(self):
        """Traces the module; returns the ExportedProgram."""
        if self.strict:
            from tessera._dynamo._export import check

            check(self.mod, self.args, self.kwargs)
        placeholders = self._placeholders()
        with self.state.swapped(), self.tracer.on(self.calls):
            result = self._called_strictly() if self.strict else self._call()
            if self.strict:
                self._check_strictly()
            self._assigned(self.state.assigned_buffers())
            self.inputs.check()
            self._assert()
            output_specs = self._output(result)
        return self._program(placeholders, output_specs)

    def _called_strictly(self):
        """_call(), with the error of a capture for decisions that depend on values."""
        from tessera._dynamo.exc import UserError, UserErrorType
        from tessera.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

        try:
            return self._call()
        except GuardOnDataDependentSymNode as error:
            raise UserError(
                UserErrorType.ANTI_PATTERN, f"Consider annotating your code using torch._check*(). {error}",
                case_name="constrain_as_size_example",
            ) from error  # fmt: skip

    def _call(self):
        args, kwargs = self._given = self.inputs.stand_ins()
        compiler = tessera.compiler
        compiler._exporting = compiler._exporting + 1
        try:
            with open_functions():
                return self.mod(*args, **kwargs)
        finally:
            compiler._exporting = compiler._exporting - 1

    def _check_strictly(self):
        """What a graph cannot repeat, and strict=True does not let pass: changes of Python objects."""
        from tessera._dynamo.exc import Unsupported

        changed = self.state.assigned_attributes()
        if changed:
            raise Unsupported(
                f"Mutating module attribute {changed[0]} during export: a program would not do that when it is called. "
                "Register tensors as buffers, return other values, or export with strict=False"
            )
        leaves, spec = pytree.tree_flatten(self._given)
        if spec != self.inputs.in_spec or any(a is not b for a, b in zip(leaves, self.inputs.leaves)):
            raise Unsupported(
                "forward changes a container among its inputs, which a program would not do when it is called. Return "
                "the new values, or export with strict=False"
            )

    def _placeholders(self):
        """Makes the placeholders of state and inputs: [(InputSpec without constants)]."""
        tracer, state, specs = self.tracer, self.state, []
        for path in state.parameters:
            node = tracer.make_placeholder("p_" + path.replace(".", "_"), state.stand_ins[path])
            specs.append(InputSpec(InputKind.PARAMETER, TensorArgument(node.name), path))
        for path in state.buffers:
            node = tracer.make_placeholder("b_" + path.replace(".", "_"), state.stand_ins[path])
            specs.append(InputSpec(InputKind.BUFFER, TensorArgument(node.name), path, state.persistent[path]))
        for name, value in zip(self.inputs.names, self.inputs.leaves):
            node = tracer.make_placeholder(name, value)
            tracer.first_user_input = tracer.first_user_input or node
            specs.append(InputSpec(InputKind.USER_INPUT, _argument_of(value, node), None))
        return specs

    def _assigned(self, buffers):
        for path, new in buffers:
            old = self.state.stand_ins[path]
            self.tracer.create_node(
                "call_function", tessera.ops.aten.copy_.default,
                (self.tracer.node_of(old), self.tracer.node_of(new)), {},
            ).meta["val"] = old  # fmt: skip

    def _assert(self):
        """Nodes that check what the program said of numbers that it finds itself."""
        for condition, line in self.inputs.constraints.assertions():
            symbols, now = self.tracer.symbols, self.mode.shape_env.replace(condition)
            if isinstance(now, bool):  # what was assumed is used everywhere; the program still has to check it
                now = condition
            if not symbols.gives(now):  # the bodies of operators check what they find themselves
                continue
            with symbols.as_early_as_can_be(now):
                node = symbols.of_expression(now)
                text = f"Runtime assertion failed for expression {condition} on node '{node}' ({line})"
                check = tessera.ops.aten._assert_scalar.default
                self.tracer.create_node("call_function", check, (node, text), {}).meta["val"] = None

    def _output(self, result):
        leaves, self.out_spec = pytree.tree_flatten(result)
        specs, values = [], []
        for leaf in leaves:
            if not isinstance(leaf, (tessera.Tensor, *_CONSTANTS)) and not is_symbolic(leaf):
                raise RuntimeError(
                    f"Found {type(leaf)} in output, which is not a known type. If this type holds tensors, register it "
                    "with torch.utils._pytree.register_pytree_node"
                )
            value = self.tracer.create_arg(leaf)
            specs.append(OutputSpec(OutputKind.USER_OUTPUT, _argument_of(leaf, value), None))
            values.append(value)
        self.tracer.graph.output(tuple(values))
        return specs

    def _program(self, input_specs, output_specs):
        tracer, state = self.tracer, self.state
        found = ((path, tensor) for path, (tensor, _) in tracer.constants.items())
        constants = {path: t.detach() if getattr(t, "requires_grad", False) else t for path, t in found}
        lifted = [
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), path)
            for path, (_, node) in tracer.constants.items()
        ]
        first = len(state.parameters) + len(state.buffers)
        signature = ExportGraphSignature([*input_specs[:first], *lifted, *input_specs[first:]], output_specs)
        held = {p: t for p, t in state.buffers.items() if state.persistent[p]}
        constants.update((p, t) for p, t in state.buffers.items() if not state.persistent[p])
        program = ExportedProgram(
            tracer.root, tracer.graph, signature, {**state.parameters, **held}, self.inputs.ranges(),
            self._module_calls(), (self.args, self.kwargs), constants,
        )  # fmt: skip
        program._guards_code = self.inputs.guards()
        _name_operands(program.graph_module)
        return program

    def _module_calls(self):
        names = self.inputs.forward_arg_names
        top = ModuleCallSignature([], [], self.inputs.in_spec, self.out_spec, names)
        signatures = self.calls.signatures
        paths = [path for path, _ in self.mod.named_modules(remove_duplicate=False) if path]
        repeated = [call for call in signatures if "@" in call]
        return [ModuleCallEntry("", top), *(ModuleCallEntry(p, signatures.get(p)) for p in (*paths, *repeated))]


# Where the functions among an operator's arguments get their operands from: positions of the node's arguments.
_OPERANDS = {"cond": (3,), "map_impl": (1, 2)}


def _name_operands(module):
    """Gives the placeholders of inner graphs the names of what they stand for."""
    for node in module.graph.find_nodes(op="call_function"):
        where = _OPERANDS.get(getattr(node.target, "_name", None)) if not hasattr(node.target, "_schema") else None
        for inner in node.args if where is not None else ():
            if not isinstance(inner, Node) or inner.op != "get_attr":
                continue
            body = getattr(module, inner.target)
            operands = [a for i in where for a in node.args[i]]
            for placeholder, operand in zip(body.graph.find_nodes(op="placeholder"), operands):
                if isinstance(operand, Node):
                    placeholder.name = placeholder.target = body.graph._names.create(operand.name)
            _name_operands(body)
            body.recompile()


def traced(*args, **more):
    """The program of an export; a second time with history, if the module takes gradients itself.

    Args: as of Export.
    """
    try:
        return Export(*args, **more).run()
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
    return Export(*args, **more, keeps_history=True).run()


def _export(
    mod, args, kwargs=None, dynamic_shapes=None, *, strict=True, preserve_module_call_signature=(), pre_dispatch=False,
    prefer_deferred_runtime_asserts_over_guards=False,
):  # fmt: skip
    """As export(), for those who look for it here.

    Args:
        pre_dispatch: of no effect: graphs have composite operators as they are called. Others: as of export().
    """
    return tessera.export.export(
        mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )  # fmt: skip
