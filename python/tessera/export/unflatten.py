"""Programs as modules with the hierarchy that the exported module had."""

import abc
import copy
import enum
import operator

import tessera
from tessera.export._unlift import check_structure
from tessera.export.graph_signature import ConstantArgument, InputKind, OutputKind
from tessera.fx import _pytree as fx_pytree
from tessera.fx.graph import Graph
from tessera.fx.interpreter import Interpreter
from tessera.fx.node import Node, map_arg
from tessera.utils import _pytree as pytree

__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]


class _AttrKind(enum.Enum):
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    MODULE = "module"


def _owner(root, path, make=None):
    """(module, last name) of a path; modules that are missing on the way are made."""
    at, (*way, last) = root, path.split(".")
    for part in way:
        inner = at._modules.get(part)
        if inner is None:
            inner = (make or tessera.nn.Module)()
            at.add_module(part, inner)
        at = inner
    return at, last


def _assign_attr(from_obj, to_module, target, attr_kind, persistent=True):
    """Puts a value to a path of a module.

    Args:
        from_obj: Parameter, tensor, module or another object. target: path. attr_kind: _AttrKind.
        persistent: of a buffer.
    """
    owner, name = _owner(to_module, target)
    for module in getattr(owner, "_call_modules", None) or (owner,):
        if attr_kind is _AttrKind.PARAMETER:
            module.register_parameter(name, from_obj)
        elif attr_kind is _AttrKind.BUFFER:
            module.register_buffer(name, from_obj, persistent=persistent)
        elif attr_kind is _AttrKind.MODULE:
            module.add_module(name, from_obj)
        else:
            if isinstance(from_obj, (tessera.nn.Module, tessera.nn.Parameter)):
                raise AssertionError(f"_assign_attr: {type(from_obj).__name__} {target} is no constant")
            setattr(module, name, from_obj)


class InterpreterModule(tessera.nn.Module):
    """A module that runs a graph node by node, so that errors and debuggers show the nodes.

    Args:
        graph: Graph. ty: name of the class of the module that it was, if known.
    """

    def __init__(self, graph, ty=None):
        super().__init__()
        self.graph = graph
        self._ty = ty
        graph.owning_module = self
        self.signature = None  # ModuleCallSignature, where the calling convention is kept

    def forward(self, *args, **kwargs):
        """Runs the graph on its placeholders' values; with a kept signature on the arguments of that."""
        if self.signature is None:
            names = [n.target for n in self.graph.nodes if n.op == "placeholder"]
            args = (*args, *(kwargs.pop(name) for name in names[len(args) :] if name in kwargs))
            if kwargs or len(args) != len(names):
                raise TypeError(f"expected the arguments {', '.join(names)}, got {len(args)} and {sorted(kwargs)}")
            return self._run(args)
        args, kwargs = check_structure(self.signature.in_spec, args, kwargs)
        leaves = fx_pytree.tree_flatten_spec((args, kwargs), self.signature.in_spec)
        return pytree.tree_unflatten(list(self._run(leaves)), self.signature.out_spec)

    def _run(self, leaves):
        return Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)

    def finalize(self):
        """Notes the names of the arguments; after the graph was edited."""
        self.arg_names = [n.target for n in self.graph.nodes if n.op == "placeholder"]

    def type_name(self):
        """Name of the class of the module that it was, or None."""
        return self._ty

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The graph as the text of a class, with its submodules.

        Args:
            print_output: print it, too. include_stride, include_device, colored: False.

        Returns: the text.
        """
        return _readable(self, "InterpreterModule", print_output, include_stride, include_device, colored)


def _printable(module):
    """(name, module) of those with graphs among a module's children, or below children that have none."""
    for name, child in module._modules.items():
        if hasattr(child, "print_readable"):
            yield name, child
        elif child is not None:
            yield from _printable(child)


def _readable(module, name, print_output, include_stride, include_device, colored):
    code = module.graph.python_code(
        "self", verbose=True, include_stride=include_stride, include_device=include_device, colored=colored
    ).src
    settings = (False, include_stride, include_device, colored)
    inner = [
        _readable(m, n, *settings) if isinstance(m, InterpreterModule) else m.print_readable(*settings)
        for n, m in _printable(module)
    ]
    body = "\n".join([code.strip("\n").rstrip(), *("\n" + text for text in inner)])
    text = f"class {name}(torch.nn.Module):\n" + "".join(
        "    " + line + "\n" if line.strip() else "\n" for line in body.split("\n")
    )
    if print_output:
        print(text)
    return text


class InterpreterModuleDispatcher(tessera.nn.Module):
    """A module that was called several times in different ways: each call runs the next of its graphs, and after the
    last the first again.

    Args:
        attrs: dict of attributes that all of them have. call_modules: list of InterpreterModule.
    """

    def __init__(self, attrs, call_modules):
        super().__init__()
        if not call_modules:
            raise AssertionError("InterpreterModuleDispatcher: expected at least one module")
        for name, value in attrs.items():
            setattr(self, name, value)
        self.__dict__["_call_modules"] = list(call_modules)  # no submodules: they have this one's parameters
        self._num_calls = 0

    def forward(self, *args, **kwargs):
        """Runs the graph whose turn it is."""
        turn, self._num_calls = self._num_calls, (self._num_calls + 1) % len(self._call_modules)
        return self._call_modules[turn](*args, **kwargs)

    def call_modules(self):
        """The list of InterpreterModule."""
        return self._call_modules

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The graphs as the texts of classes. Args: as of InterpreterModule.print_readable. Returns: the text."""
        parts = [m.print_readable(False, include_stride, include_device, colored) for m in self._call_modules]
        if print_output:
            print("\n".join(parts))
        return "\n".join(parts)


class FlatArgsAdapter(abc.ABC):
    """Fits inputs of another structure to a program. Subclass it and give unflatten() an instance."""

    @abc.abstractmethod
    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        """The leaves as the program wants them.

        Args:
            target_spec: TreeSpec that the program wants. input_spec: TreeSpec of what was given.
            input_args: list of the leaves given. metadata: dict or None. obj: the UnflattenedModule.

        Returns: list of leaves.
        """

    def get_flat_arg_paths(self):
        """Names of leaves, for adapters that need them: a list, empty by default."""
        return []


class UnflattenedModule(tessera.nn.Module):
    """A program as a module with the hierarchy of the exported one; what unflatten() returns.

    Args:
        export_module: ExportedProgram. flat_args_adapter: FlatArgsAdapter for inputs of other structures.
    """

    def __init__(self, export_module, flat_args_adapter=None):
        super().__init__()
        if export_module.graph_signature.backward_signature is not None:
            raise ValueError("Unflattening on JointExportModule NYI")
        self.module_call_graph = copy.deepcopy(export_module.module_call_graph)
        self.flat_args_adapter = flat_args_adapter
        self.adapted = False
        self.meta = dict(export_module.graph_module.meta)
        self.graph_signature = copy.deepcopy(export_module.graph_signature)
        _Hierarchy(export_module, self).build()
        self.input_placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        self.check_input_constraints = True
        from tessera.export._guards import GuardCode

        self._check = GuardCode(export_module).compile()

    def process_forward_inputs(self, *args, **kwargs):
        """The leaves of a call's arguments, adapted if they have another structure. ValueError without an adapter."""
        spec = self.module_call_graph[0].signature.in_spec
        try:
            args, kwargs = check_structure(spec, args, kwargs)
        except ValueError as error:
            if self.flat_args_adapter is None:
                raise TypeError(
                    f"There is no flat args adapter specified. Are you sure you are calling this with the right "
                    f"arguments? {error}"
                ) from None
            leaves, given = pytree.tree_flatten((args, kwargs))
            leaves = list(self.flat_args_adapter.adapt(spec, given, leaves, metadata=self.meta, obj=self))
            if len(leaves) != spec.num_leaves:
                raise TypeError(
                    f"Flat args adaption failed, number of args mismatch: {len(leaves)} vs {spec.num_leaves}"
                )
            self.check_input_constraints, self.adapted = False, True
            return leaves
        return fx_pytree.tree_flatten_spec((args, kwargs), spec)

    def forward(self, *args, **kwargs):
        """Runs the program."""
        leaves = self.process_forward_inputs(*args, **kwargs)
        if self.check_input_constraints:
            self._check(*leaves)
        result = Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)
        return pytree.tree_unflatten(list(result), self.module_call_graph[0].signature.out_spec)

    def finalize(self):
        """Checks the graph; after it was edited."""
        self.graph.lint()

    def type_name(self):
        """Name of the class of the exported module, or None."""
        return self._type_name

    def print_readable(self, print_output=True, include_stride=False, include_device=False, colored=False):
        """The graphs as the texts of classes. Args: as of InterpreterModule.print_readable. Returns: the text."""
        return _readable(self, "UnflattenedModule", print_output, include_stride, include_device, colored)

    def train(self, mode=True):
        """NotImplementedError: a program is as it was exported."""
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self):
        """NotImplementedError: a program is as it was exported."""
        raise NotImplementedError("Calling eval() is not supported yet.")


class _Frame:
    """The graph of one call of a module, while it is filled from the flat graph."""

    def __init__(self, hierarchy, call, path, parent):
        self.hierarchy, self.call, self.path, self.parent = hierarchy, call, path, parent
        # Whether the inputs are given, those of the program or of a kept signature: what else comes from outside is
        # computed again.
        self.closed = parent is None
        self.graph, self.values, self.inputs = Graph(), {}, []
        self.last_placeholder = None

    def value_of(self, node):
        """This graph's node for a node of the flat one: its own, a parameter's, or an input."""
        if node not in self.values:
            node = self.hierarchy.state_of(node)
        if node not in self.values:
            path = self.hierarchy.path_within(node, "" if self.parent is None else self.path + ".")
            if path is not None:
                relative = path[len(self.path) + 1 :] if self.parent is not None else path
                first = self._first()
                with _nothing if first is None else self.graph.inserting_before(first):
                    made = self.graph.create_node("get_attr", relative, name=relative.replace(".", "_"))
            elif self.closed and _is_pure(node):
                made = self.graph.node_copy(node, self.value_of)
            else:
                made = self._placeholder(node)
            made.meta = dict(node.meta)
            self.values[node] = made
        return self.values[node]

    def _first(self):
        """The first node that is no placeholder, before which values from outside come."""
        return next((n for n in self.graph.nodes if n.op not in ("placeholder", "get_attr")), None)

    def _placeholder(self, node):
        before = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
        with self.graph.inserting_before(before) if before is not None else _nothing:
            made = self.graph.placeholder(node.name)
        made.target = made.name
        self.inputs.append(node)
        return made

    def take(self, arg):
        """Makes an input of a kept signature one of the graph's, whether or not the graph needs it."""
        made = self.graph.placeholder(arg.name)
        made.target = made.name
        node = None if isinstance(arg, ConstantArgument) else self.hierarchy.by_name.get(arg.name)
        if node is not None:
            made.meta = dict(node.meta)
            self.values.setdefault(node, made)

    def add(self, node):
        """Takes over a node of the flat graph."""
        if node.op == "get_attr":
            setattr(self.hierarchy.modules_of_graphs(self), node.target, self.hierarchy.inner(node.target))
        self.values[node] = self.graph.node_copy(node, self.value_of)


class _Nothing:
    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None


_nothing = _Nothing()


class _Hierarchy:
    """Cuts a flat graph into those of the modules that its nodes come from."""

    def __init__(self, program, root):
        self.program, self.root = program, root
        signature = program.graph_signature
        paths = {s.arg.name: s for s in signature.input_specs if s.kind not in (InputKind.USER_INPUT, InputKind.TOKEN)}
        placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        self.specs = paths
        self.state = {n: paths[n.name].target for n in placeholders if n.name in paths}
        self.user = [n for n in placeholders if n.name not in paths]
        self.nodes = [n for n in program.graph.nodes if n.op not in ("placeholder", "output")]
        self.output = program.graph.output_node()
        self.by_name = {n.name: n for n in program.graph.nodes}
        self.position = {n: i for i, n in enumerate(program.graph.nodes)}
        self.kept = {e.fqn: e.signature for e in program.module_call_graph if e.fqn and e.signature is not None}
        self.calls = {}  # path -> how many calls of its module there were
        self.made = {}  # path -> list of InterpreterModule, one a call
        self._inner = {}

    def path_within(self, node, prefix):
        """Where a parameter, buffer or constant is below a prefix, under any of its names; None if it is not there."""
        path, state = self.state.get(node), self.program.state_dict
        if path is None or path.startswith(prefix):
            return path
        value = state.get(path)
        return next((p for p, t in state.items() if value is not None and t is value and p.startswith(prefix)), None)

    def inner(self, target):
        return getattr(self.program.graph_module, target)

    def modules_of_graphs(self, frame):
        return self._inner.setdefault(frame, tessera.nn.Module())

    # --- the walk ---

    def build(self):
        top = _Frame(self, "", "", None)
        for node in self.user:
            top.values[node] = top.graph.placeholder(node.name)
            top.values[node].meta = dict(node.meta)
        self._fill(top, 0, len(self.nodes), 1)
        self._finish(top)
        self.root.__dict__["graph"] = top.graph
        top.graph.owning_module = self.root
        for name, module in self._inner.get(top, tessera.nn.Module())._modules.items():
            self.root.add_module(name, module)
        self._place_modules()
        self._place_state()
        stacks = [n.meta.get("nn_module_stack") for n in self.nodes]
        first = next((s for s in stacks if s), None)
        self.root._type_name = next(iter(first.values()))[1] if first else None

    def _stack(self, node):
        """[(call, path)] of the modules that a node is in, the root first."""
        stack = node.meta.get("nn_module_stack") or {}
        return [(key, value[0]) for key, value in stack.items()] or [("L__self__", "")]

    def _fill(self, frame, start, end, depth):
        at = start
        while at < end:
            stack = self._stack(self.nodes[at])
            if len(stack) <= depth:
                frame.add(self.nodes[at])
                at += 1
                continue
            key, stop = stack[depth], at
            while stop < end and self._stack(self.nodes[stop])[depth : depth + 1] == [key]:
                stop += 1
            self._call(frame, key, at, stop, depth)
            at = stop

    def _call(self, frame, key, start, stop, depth):
        call, path = key[0].removeprefix("L__self__"), key[1]
        child = _Frame(self, call, path, frame)
        signature = self.kept.get(call) if self._is_whole(key, start, stop, depth) else None
        if signature is not None:
            for arg in signature.inputs:
                child.take(arg)
            child.closed = True
        self._fill(child, start, stop, depth + 1)
        if signature is not None:
            self._call_kept(frame, child, path, signature)
        else:
            self._call_plain(frame, child, path, start, stop)

    def _is_whole(self, key, start, stop, depth):
        """Whether all nodes of a call are in this run, so that its signature can be kept."""
        others = (n for i, n in enumerate(self.nodes) if not start <= i < stop)
        return all(self._stack(n)[depth : depth + 1] != [key] for n in others)

    def _results(self, start, stop):
        """The nodes of a run that others use. State that was written into is read from where it is."""
        inside = set(self.nodes[start:stop])
        used = [n for n in self.nodes[start:stop] if any(user not in inside for user in n.users)]
        return [n for n in used if self.state_of(n) is n]

    def state_of(self, node):
        """The state whose new value a node is that writes into it; for other nodes the node."""
        at = node
        while _writes_first(at):
            at = at.args[0]
        return at if at in self.state else node

    def _call_plain(self, frame, child, path, start, stop):
        results = self._results(start, stop)
        values = [child.values[n] for n in results]
        child.graph.output(values[0] if len(values) == 1 else tuple(values))
        target = self._register(frame, child, path, None)
        made = frame.graph.call_module(target, tuple(frame.value_of(n) for n in child.inputs))
        if len(results) == 1:
            made.meta = dict(results[0].meta)
            frame.values[results[0]] = made
        else:
            made.meta["val"] = tuple(n.meta.get("val") for n in results)
            for i, node in enumerate(results):
                frame.values[node] = frame.graph.call_function(operator.getitem, (made, i))
                frame.values[node].meta = dict(node.meta)

    def _call_kept(self, frame, child, path, signature):
        graph = frame.graph

        def of(frame):
            known = lambda a: frame.value_of(self.by_name[a.name]) if a.name in self.by_name else None  # noqa: E731
            return lambda a: a.value if isinstance(a, ConstantArgument) else known(a)

        leaves = list(map(of(frame), signature.inputs))
        child.graph.output(tuple(map(of(child), signature.outputs)))
        target = self._register(frame, child, path, signature)
        args, kwargs = self._nested(graph, leaves, signature.in_spec, frame)
        made = graph.call_module(target, args, kwargs)
        flat = graph.call_function(fx_pytree.tree_flatten_spec, (made, self._spec(frame, signature.out_spec)))
        for i, arg in enumerate(signature.outputs):
            if not isinstance(arg, ConstantArgument) and arg.name in self.by_name:
                item = graph.call_function(operator.getitem, (flat, i))
                item.meta = dict(self.by_name[arg.name].meta)
                frame.values[self.by_name[arg.name]] = item

    def _nested(self, graph, leaves, spec, frame):
        """(args, kwargs) of a call, from the nodes of their leaves."""
        tree = graph.call_function(pytree.tree_unflatten, (leaves, self._spec(frame, spec)))
        positional, keywords = spec.children()
        first, second = (graph.call_function(operator.getitem, (tree, i)) for i in (0, 1))
        args = tuple(graph.call_function(operator.getitem, (first, i)) for i in range(len(positional.children())))
        return args, {name: graph.call_function(operator.getitem, (second, name)) for name in keywords.context}

    def _spec(self, frame, spec):
        holder = self.modules_of_graphs(frame) if frame.parent is not None else self.root
        number = next(i for i in range(10**6) if not hasattr(holder, f"_spec_{i}"))
        holder.__dict__[f"_spec_{number}"] = spec
        return frame.graph.create_node("get_attr", f"_spec_{number}")

    def _register(self, frame, child, path, signature):
        """Makes the module of a call; returns its path from the frame's module."""
        kind = None
        module = InterpreterModule(child.graph, kind)
        module.signature = signature
        for name, value in vars(self._inner.get(child, tessera.nn.Module())).items():
            if name.startswith("_spec_"):
                module.__dict__[name] = value
        for name, inner in self._inner.get(child, tessera.nn.Module())._modules.items():
            module.add_module(name, inner)
        path = self._distinct(path, module)
        if frame.parent is None:
            return path
        if path.startswith(frame.path + "."):
            return path[len(frame.path) + 1 :]
        shared = "_shared_" + path.replace(".", "_")
        self.shared.append((frame.path, shared, path))
        return shared

    def _distinct(self, path, module):
        """Notes a call's module; returns the path at which it will be: `path`, or `path@n` for call n if its graph
        differs from those of the calls before. Modules with kept signatures keep their path.
        """
        made, number = self.made.setdefault(path, []), self.calls.get(path, 0)
        self.calls[path] = number + 1
        if any(call.partition("@")[0] == path for call in self.kept):
            made.append(module)
            return path
        same = next((other for other in made if _same_graph(other, module)), None)
        if same is None:
            same = module
            module.__dict__["_suffix"] = f"@{number}" if number else ""
            made.append(module)
        return path + same._suffix

    shared = property(lambda self: self.__dict__.setdefault("_shared", []))

    def _finish(self, top):
        """The root's output, and what the program writes to."""
        values = []
        by_path = {path: node for node, path in self.state.items()}
        written = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
        for spec, arg in zip(self.program.graph_signature.output_specs, self.output.args[0]):
            value = map_arg(arg, top.value_of)
            if spec.kind in written:
                target = self.by_name.get(spec.target) if spec.kind is OutputKind.USER_INPUT_MUTATION else None
                target = by_path[spec.target] if target is None else target
                top.graph.call_function(tessera.ops.aten.copy_.default, (top.value_of(target), value))
            else:
                values.append(value)
        top.graph.output(tuple(values))

    # --- the modules ---

    def _place_modules(self):
        for path in sorted(self.made, key=lambda p: p.count(".")):
            calls = self.made[path]
            owner, name = _owner(self.root, path)
            modules = [calls[0]]
            if any(not _same_graph(calls[0], other) for other in calls[1:]):
                if any(call.signature for call in calls):
                    modules = [InterpreterModuleDispatcher({}, calls)]
                else:
                    modules = calls
                    modules[0].__dict__["_call_modules"] = calls
            for holder in {*(getattr(owner, "_call_modules", None) or ()), owner}:
                for module in modules:
                    holder.add_module(name + module.__dict__.get("_suffix", ""), module)
        for owner_path, name, path in self.shared:
            owner = self.root.get_submodule(owner_path)
            for holder in getattr(owner, "_call_modules", None) or (owner,):
                holder.add_module(name, self.root.get_submodule(path))
        for entry in self.program.module_call_graph:
            if entry.fqn and "@" not in entry.fqn:
                owner, name = _owner(self.root, entry.fqn)
                if name not in owner._modules:
                    owner.add_module(name, self._same_module(entry.fqn) or tessera.nn.Module())
        order = {e.fqn: i for i, e in enumerate(self.program.module_call_graph)}
        for path, module in [*self.root.named_modules()]:
            prefix = path + "." if path else ""
            place = lambda item, prefix=prefix: order.get(prefix + item[0].partition("@")[0], len(order))  # noqa: E731
            ordered = sorted(module._modules.items(), key=place)
            module._modules.clear()
            module._modules.update(ordered)

    def _same_module(self, path):
        """The module of a graph that has the state of another one without: one module under two names."""
        state = self._held(path)
        same = (p for p in self.made if state and self._held(p) == state)
        return next(map(self.root.get_submodule, same), None)

    def _held(self, path):
        prefix = path + "."
        return {p[len(prefix) :]: id(t) for p, t in self.program.state_dict.items() if p.startswith(prefix)}

    def _place_state(self):
        program, copies = self.program, {}
        for spec in self.specs.values():
            held = program.state_dict if spec.target in program.state_dict else program.constants
            value = held[spec.target]
            if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                value = copies.setdefault(id(value), _copy_of(value))
            owner, name = _owner(self.root, spec.target)
            for module in (owner, *(getattr(owner, "_call_modules", None) or ())):
                if spec.kind is InputKind.PARAMETER:
                    module.register_parameter(name, value)
                elif isinstance(value, tessera.Tensor):
                    module.register_buffer(name, value, persistent=bool(spec.persistent))
                else:
                    setattr(module, name, value)


def _writes_first(node):
    """Whether a node writes into its first argument and gives that back."""
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    if schema is None or not schema.arguments or not node.args or not isinstance(node.args[0], Node):
        return False
    first = schema.arguments[0].alias_info
    return first is not None and first.is_write and len(schema.returns) == 1


def _is_pure(node):
    """Whether a node can be computed again elsewhere."""
    return node.op == "call_function" and not node.is_impure()


def _copy_of(tensor):
    made = tensor.detach().clone()
    is_parameter = isinstance(tensor, tessera.nn.Parameter)
    return tessera.nn.Parameter(made, tensor.requires_grad) if is_parameter else made


def _shape_of(module):
    """A graph in a form that can be compared: nodes by their position."""
    position = {n: i for i, n in enumerate(module.graph.nodes)}
    number = lambda n: ("node", position[n])  # noqa: E731
    return [(n.op, n.target if n.op != "placeholder" else "", map_arg(n.args, number), map_arg(n.kwargs, number))
            for n in module.graph.nodes]  # fmt: skip


def _same_graph(a, b):
    if a.signature is not None or b.signature is not None:
        if a.signature is None or b.signature is None:
            return False
        if (a.signature.in_spec, a.signature.out_spec) != (b.signature.in_spec, b.signature.out_spec):
            return False
    return _shape_of(a) == _shape_of(b) and a._modules.keys() == b._modules.keys()


def unflatten(module, flat_args_adapter=None):
    """A program as a module that has submodules where the exported module had them.

    Submodules take and return what flows between their nodes, which need not be the arguments and results that the
    exported ones had; those named in preserve_module_call_signature of export() keep their calling convention, and can
    be replaced by other modules.

    Args:
        module: ExportedProgram.
        flat_args_adapter: FlatArgsAdapter for inputs of other structures.

    Returns: UnflattenedModule, with parameters and buffers of its own: copies of the program's.
    """
    if not isinstance(module, tessera.export.ExportedProgram):
        raise TypeError(f"unflatten: expected an ExportedProgram, got {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)
