"""ExportedProgram.module(): the program as a module that holds its parameters, buffers and constants."""

import tessera
from tessera.export._guards import GuardCode, GuardsFn, InputChecks
from tessera.export.exported_program import _custom
from tessera.export.graph_signature import ConstantArgument, InputKind, OutputKind
from tessera.fx._code import CodeGen, member
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.utils import _pytree as pytree


class ExportCodeGen(CodeGen):
    """The frame of a program's forward: arguments by name, of which the graph sees the leaves.

    Args:
        in_spec: TreeSpec of (args, kwargs). out_spec: TreeSpec of the result. names: of the arguments, or None.
    """

    def __init__(self, in_spec, out_spec, names):
        super().__init__()
        self.in_spec, self.out_spec = in_spec, out_spec
        args, kwargs = in_spec.children()
        self._keywords = list(kwargs.context)
        count = len(args.children())
        known = list(names or ())[:count]
        self._positional = known + [f"arg_{i}" for i in range(len(known), count)]

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        leaves = [text.partition(":")[0].strip() for text in free_vars]
        annotated = ["self", *free_vars] if self._is_flat(leaves) else ["self", *self._positional, *self._keywords]
        line = f"def {self._func_name}({', '.join(annotated)}){maybe_return_annotation}:"
        if not leaves:
            return line
        named = ", ".join(f"{name!r}:{name}" for name in self._keywords)
        given = f"([{', '.join(self._positional)}], {{{named}}})"
        return f"{line}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec({given}, self._in_spec)"

    def _is_flat(self, leaves):
        return leaves == [*self._positional, *self._keywords]

    def generate_output(self, output_args, *, write=repr):
        return f"return pytree.tree_unflatten({write(output_args)}, self._out_spec)"

    def process_inputs(self, *args):
        from tessera.fx import _pytree

        count = len(self._positional)
        given = (list(args[:count]), dict(zip(self._keywords, args[count:])))
        return tuple(_pytree.tree_flatten_spec(given, self.in_spec))

    def process_outputs(self, outputs):
        return pytree.tree_unflatten(list(outputs), self.out_spec)

    def additional_globals(self):
        from tessera.fx import _pytree as fx_pytree

        return [("pytree", pytree), ("fx_pytree", fx_pytree)]


def _equivalent(a, b):
    """Whether two TreeSpecs are one structure; the order of a dict's keys does not matter."""
    if a.is_leaf() or b.is_leaf():
        return a.is_leaf() and b.is_leaf()
    mine, others = a.children(), b.children()
    if a.type is not b.type or len(mine) != len(others):
        return False
    if isinstance(a.type, type) and issubclass(a.type, dict) and isinstance(a.context, list):
        if not (isinstance(b.context, list) and set(a.context) == set(b.context)):
            return False
        by_key = dict(zip(b.context, others))
        return all(_equivalent(child, by_key[key]) for key, child in zip(a.context, mine))
    return a.context == b.context and all(map(_equivalent, mine, others))


def check_structure(in_spec, args, kwargs):
    """ValueError if a call's arguments have another structure than the program's."""
    expected = list(in_spec.children()[1].context)
    if set(expected) != set(kwargs):
        raise ValueError(
            f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {expected}"
        )
    ordered = {name: kwargs[name] for name in expected}
    _, given = pytree.tree_flatten((args, ordered))
    if given != in_spec and not _equivalent(given, in_spec):
        raise ValueError(
            f"Trying to flatten user inputs with exported input tree spec: \n{in_spec}\nbut actually got inputs with "
            f"tree spec of: \n{given}.\nPlease check that the inputs have the same number and type of args and kwargs "
            "as the ones you used when tracing."
        )
    return args, ordered


def _checked(in_spec, args, kwargs, checks):
    args, kwargs = check_structure(in_spec, args, kwargs)
    if checks is not None:
        leaves = pytree.tree_leaves((args, kwargs))
        if not any(isinstance(leaf, tessera.fx.Proxy) for leaf in leaves):
            checks(args, kwargs)
    return args, kwargs


def _refuse(name):
    def refused(self, mode=True):
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return refused


def _assign(root, path, value, persistent=True, parameter=False):
    """Puts a tensor to a path; modules on the way are made."""
    at = root
    *way, last = path.split(".")
    for part in way:
        inner = at._modules.get(part)
        if inner is None:
            inner = tessera.nn.Module()
            at.add_module(part, inner)
        at = inner
    if parameter:
        at.register_parameter(last, value if isinstance(value, tessera.nn.Parameter) else tessera.nn.Parameter(value))
    elif isinstance(value, tessera.Tensor):
        at.register_buffer(last, value, persistent=persistent)
    else:
        setattr(at, last, value)


def _hold_state(program, root):
    """Puts the program's state into a module; returns {placeholder: path}."""
    paths = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.USER_INPUT, InputKind.TOKEN):
            continue
        path, parameter = spec.target, spec.kind is InputKind.PARAMETER
        held = program.state_dict if path in program.state_dict else program.constants
        if path not in held:
            raise RuntimeError(
                f"the program's {spec.kind.name} {path!r} is in neither its state_dict nor its constants"
            )
        _assign(root, path, held[path], spec.persistent is not False and path in program.state_dict, parameter)
        paths[spec.arg.name] = path
    return paths


class _Builder:
    def __init__(self, program, check_guards):
        self.program, self.check = program, check_guards
        self.root, self.graph, self.nodes = tessera.nn.Module(), Graph(), {}

    def build(self):
        program = self.program
        self.paths = _hold_state(program, self.root)
        old = [n for n in program.graph.nodes if n.op == "placeholder"]
        for node in old:
            if node.name not in self.paths:
                self.nodes[node] = self.graph.node_copy(node)
        for node in old:
            if node.name in self.paths:
                self.nodes[node] = self._read(node)
        self._guard()
        for node in program.graph.nodes:
            if node.op not in ("placeholder", "output"):
                self.nodes[node] = self._copy(node)
        self._output(program.graph.output_node())
        return self._module()

    def _read(self, node):
        path = self.paths[node.name]
        made = self.graph.create_node("get_attr", path, name=path.replace(".", "_"))
        made.meta = dict(node.meta)
        return made

    def _copy(self, node):
        if node.op in ("get_attr", "call_module"):
            inner = self.program.graph_module
            for part in node.target.split("."):
                inner = member(inner, part)
            if isinstance(inner, tessera.nn.Module):
                self.root.add_module(node.target, inner)
            else:
                setattr(self.root, node.target, inner)
        return self.graph.node_copy(node, self.nodes.__getitem__)

    def _guard(self):
        if not self.check:
            return
        code = GuardCode(self.program)
        if code._lines:
            self.root.add_module("_guards_fn", GuardsFn(code))
            leaves = tuple(self.nodes[n] for n in self.nodes if n.name not in self.paths)
            self.graph.call_module("_guards_fn", leaves)

    def _output(self, node):
        """The user's outputs; what the program wrote to gets its new values first."""
        signature, values = self.program.graph_signature, []
        by_name = {n.name: made for n, made in self.nodes.items()}
        by_path = {path: by_name[name] for name, path in self.paths.items()}
        written = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
        for spec, arg in zip(signature.output_specs, node.args[0]):
            value = self.nodes[arg] if arg in self.nodes else arg
            if spec.kind in written:
                target = by_name[spec.target] if spec.kind is OutputKind.USER_INPUT_MUTATION else by_path[spec.target]
                self.graph.call_function(tessera.ops.aten.copy_.default, (target, value))
            elif spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
                values.append(value)
        self.graph.output(tuple(values))

    def _module(self):
        signature = self.program.module_call_graph[0].signature
        if signature is None:
            made = GraphModule(self.root, self.graph)
        else:
            names = signature.forward_arg_names
            self.graph.set_codegen(ExportCodeGen(signature.in_spec, signature.out_spec, names))
            made = GraphModule(self.root, self.graph)
            made._in_spec, made._out_spec = signature.in_spec, signature.out_spec
            in_spec = signature.in_spec
            checks = None if self.check else InputChecks(self.program)
            made.register_forward_pre_hook(
                lambda _, args, kwargs: _checked(in_spec, args, kwargs, checks), with_kwargs=True
            )
        made.meta.update(_custom(self.program.graph_module))
        for path in self.paths.values():  # constants that nobody reads are the module's, too
            if not _has(made, path):
                held = self.program.state_dict if path in self.program.state_dict else self.program.constants
                parameter = path in self.program.graph_signature.parameters
                _assign(made, path, held[path], path in self.program.state_dict, parameter)
        made._non_persistent_buffers_set = set(self.root._non_persistent_buffers_set)
        _copy_persistence(self.root, made)
        made.train, made.eval = _refuse("train").__get__(made), _refuse("eval").__get__(made)
        return made


def _copy_persistence(source, to):
    to._non_persistent_buffers_set = set(source._non_persistent_buffers_set)
    for name, inner in source._modules.items():
        if name in to._modules and inner is not None:
            _copy_persistence(inner, to._modules[name])


def _has(module, path):
    at = module
    for part in path.split("."):
        if not hasattr(at, part):
            return False
        at = member(at, part)
    return True


def unlifted(program, check_guards):
    """The program as a GraphModule."""
    return _Builder(program, check_guards).build()


def constant_leaves(program):
    """Names of user inputs that are part of the program."""
    specs = program.graph_signature.input_specs
    return [s.arg.name for s in specs if s.kind is InputKind.USER_INPUT and isinstance(s.arg, ConstantArgument)]
