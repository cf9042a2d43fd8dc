"""Graphs: a function as a list of nodes, and how one is built and edited."""

import contextlib
import copy
import inspect

import tessera
from tessera.fx import node as _node
from tessera.fx._code import CodeGen, PythonCode, _PyTreeCodeGen, _PyTreeInfo, fresh_namespace, member  # noqa: F401
from tessera.fx._names import INFIX, snake_case
from tessera.fx._names import Namespace as _Namespace
from tessera.fx.node import Argument, Node, Target, map_arg  # noqa: F401

__all__ = ["PythonCode", "CodeGen", "Graph"]

magic_methods = {f.__name__.rstrip("_"): form for f, form in INFIX.items()}


class _NodeList:
    """The nodes of a graph in order; one that is erased while somebody iterates does not disturb."""

    def __init__(self, graph, direction="_next"):
        self._graph, self._direction = graph, direction

    def __len__(self):
        return self._graph._len

    def __iter__(self):
        root, step = self._graph._root, self._direction
        at = getattr(root, step)
        while at is not root:
            if not at._erased:
                yield at
            at = getattr(at, step)

    def __reversed__(self):
        return _NodeList(self._graph, "_prev" if self._direction == "_next" else "_next")


class _Inserting:
    """A graph's place for new nodes, as inserting_before() and inserting_after() set it."""

    def __init__(self, graph, at, after):
        self._graph, self._before = graph, graph._place
        graph._place = at, after

    def __enter__(self):
        pass

    def __exit__(self, *_):
        self._graph._place = self._before


class Graph:
    """A function as a list of nodes, in an order in which they can run.

    Args:
        owning_module: the GraphModule it belongs to, if any.
        tracer_cls: the Tracer class that made it (kept for pickling).
        tracer_extras: what that tracer needs to be made again (a dict).
    """

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node(self, "", "root", "", (), {})
        self._place = self._root, False  # a node, whether nodes are made after it
        self._len, self._numbered = 0, True
        self._names = _Namespace()
        self._owning_module, self._owners = owning_module, 0
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields = {}

    # --- what is in it ---

    @property
    def owning_module(self):
        """The GraphModule whose forward this is, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module):
        self._owning_module = module

    @property
    def nodes(self):
        """The nodes in order: iterable, reversible, with a length."""
        return _NodeList(self)

    def find_nodes(self, *, op, target=None, sort=True):
        """The nodes of an op (and, for calls, of a target).

        Args:
            sort: in the graph's order; it is so at any rate.
        """
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self):
        """The output node."""
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"the graph has no output node at its end, but {last.op} {last.name!r}")
        return last

    def _position_of(self, node):
        if not self._numbered:
            for i, n in enumerate(self.nodes):
                n._position = i
            self._numbered = True
        return node._position

    # --- making nodes ---

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Makes a node at the insertion point.

        Args:
            op, target: see Node.
            args, kwargs: the call's arguments: nodes, numbers, strings ... in tuples, lists, dicts and slices.
            name: the wanted name; it gets a number if it is taken.
            type_expr: annotation.
        """
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(
                f"create_node: expected a tuple and a dict of arguments, got {type(args).__name__} and "
                f"{type(kwargs).__name__}"
            )
        name = self._names.create(name if name is not None else self._target_to_str(target))
        made = Node(self, name, op, target, args, kwargs, type_expr)
        if self._owning_module is not None:
            for hook in getattr(self._owning_module, "_create_node_hooks", None) or ():
                hook(made)
        at, after = self._place
        at.append(made) if after else at.prepend(made)
        self._len += 1
        return made

    def _target_to_str(self, target):
        if callable(target):
            name = getattr(target, "__name__", type(target).__name__)
        else:
            name = target
        if name.startswith("__") and name.endswith("__") and len(name) > 4:
            name = name[2:-2]
        return snake_case(name.replace(".", "_"))

    def placeholder(self, name, type_expr=None, default_value=inspect.Signature.empty):
        """An argument of the function. Its default is None if none is given and the graph is called without."""
        has_default = default_value is not inspect.Signature.empty
        return self.create_node("placeholder", name, (default_value,) if has_default else (), None, None, type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """A parameter, buffer or other attribute of the module, by its path. Warns if the owner lacks it."""
        if self._owning_module is not None and not _has_attr(self._owning_module, qualified_name):
            import warnings

            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """A call of a submodule, by its path. Warns if the owner lacks it."""
        if self._owning_module is not None and not _has_attr(self._owning_module, module_name):
            import warnings

            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """A call of the method of args[0] that has this name."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result, type_expr=None):
        """The end: what the function returns (nodes in tuples, lists, dicts)."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def inserting_before(self, n=None):
        """From the call on, nodes are made before n (None: at the graph's beginning, the last one first). As a context
        manager: until its block ends.
        """
        self._check_mine(n)
        return _Inserting(self, self._root if n is None else n, n is None)

    def inserting_after(self, n=None):
        """From the call on, nodes are made directly after n, the last one first (None: at the graph's end). As a
        context manager: until its block ends.
        """
        self._check_mine(n)
        return _Inserting(self, self._root if n is None else n, n is not None)

    def _check_mine(self, n):
        if n is not None and n.graph is not self:
            raise AssertionError("Node to insert before or after is not in graph.")

    def node_copy(self, node, arg_transform=lambda x: x):
        """Makes a node as `node` is, of another graph; arg_transform maps that graph's nodes to this one's."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("arg_transform must return nodes and values, not change the containers of arguments")
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies all nodes of g to the insertion point.

        Args:
            g: another Graph.
            val_map: dict of g's nodes to this graph's; filled. What it has at first is not copied.
            return_output_node: return (value, g's output node).

        Returns: what g's output node returned, in this graph's nodes; None if g has no output.
        """
        output = None
        mine = val_map.__getitem__
        for node in g.nodes:
            if node.op == "output":
                output = output or node
            elif node not in val_map:
                val_map[node] = self.node_copy(node, mine)
        value = map_arg(output.args[0], mine) if output is not None else None
        return (value, output) if return_output_node and output is not None else value

    def __deepcopy__(self, memo=None):
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made._codegen = copy.deepcopy(self._codegen, memo)
        moved = {}
        memo[id(self)] = made
        result = made.graph_copy(self, moved, return_output_node=True)
        if result is not None:
            value, old = result
            output = made.create_node("output", "output", (value,), {}, old.name, old.type)
            output.meta = copy.copy(old.meta)
            moved[old] = output
        memo.update((id(old), new) for old, new in moved.items())
        return made

    # --- changing it ---

    def erase_node(self, to_erase):
        """Takes a node out. Errors: RuntimeError if it has users, or belongs to another graph."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        at, after = self._place
        if at is to_erase:
            self._place = (at._prev, True) if after else (at._next, False)
        to_erase._unlink()
        to_erase._erased = True  # its own links stay, so that a walk that stands on it goes on
        self._len -= 1
        to_erase._assign((), {})

    def eliminate_dead_code(self, is_impure_node=None):
        """Takes out nodes whose value nobody uses and that do nothing else.

        Args:
            is_impure_node: function of a Node, instead of Node.is_impure.

        Returns: whether anything changed.
        """
        self.lint()
        impure = is_impure_node or (lambda n: n.is_impure())
        changed = False
        for n in reversed(self.nodes):
            if not n.users and not impure(n):
                self.erase_node(n)
                changed = True
        for inner in self._owning_module.children() if self._owning_module is not None else ():
            if isinstance(inner, tessera.fx.GraphModule):
                changed |= inner.graph.eliminate_dead_code(is_impure_node)
        return changed

    def lint(self):
        """Checks that nodes belong here, names are unique, values are made before they are used, and targets exist.

        Errors: RuntimeError, ValueError that name the node.
        """
        names, made = set(), set()
        for n in self.nodes:
            if n.op not in _node.OPS or n.op == "root":
                raise RuntimeError(f"Node {n} had unknown opcode {n.op}!")
            if n.graph is not self:
                raise RuntimeError(f"Node '{n}' does not belong to this Graph!")
            for used in n.all_input_nodes:
                self._lint_argument(n, used, made)
            if n.name in names:
                raise RuntimeError(f"Node redefined name {n.name}!")
            names.add(n.name)
            made.add(n)
            self._lint_target(n)

    def _lint_argument(self, n, used, made):
        if used.graph is not self:
            raise RuntimeError(
                f"Argument '{used}' of Node '{n}' does not belong to this Graph, but was used as an argument! If you "
                "are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap "
                "values"
            )
        if used not in made:
            raise RuntimeError(
                f"Argument '{used}' of Node '{n}' was used before it has been defined! Please check that Nodes in the "
                "graph are topologically ordered"
            )

    def _lint_target(self, n):
        if n.op == "call_function" and not callable(n.target):
            raise ValueError(
                f"Node {n} target {n.target} has type {type(n.target).__name__} but a Callable is expected"
            )
        if n.op in ("call_module", "call_method", "get_attr", "placeholder", "output") and not isinstance(
            n.target, str
        ):
            raise ValueError(f"Node {n} target {n.target} has type {type(n.target).__name__} but a str is expected")
        if self._owning_module is None or n.op not in ("get_attr", "call_module"):
            return
        at = self._owning_module
        for part in n.target.split("."):
            if not hasattr(at, part):
                raise RuntimeError(
                    f"Node {n} target {n.target} references nonexistent attribute {part} of {type(at).__name__}"
                )
            at = member(at, part)
        if n.op == "call_module" and not isinstance(at, tessera.nn.Module):
            raise RuntimeError(f"Node {n} target {n.target} does not reference an nn.Module")

    # --- text ---

    def set_codegen(self, codegen):
        """The CodeGen that writes the function's frame."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Registers a change of the function's text.

        Args:
            make_transformer: function of the present transformer (None at first) to the new one, which maps the list
                of the body's lines to another.

        Returns: a context manager that takes it off at its end.
        """
        old = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(old)

        @contextlib.contextmanager
        def scope():
            try:
                yield
            finally:
                self._codegen._body_transformer = old

        return scope()

    def process_inputs(self, *args):
        """The placeholders' values, from what the function is called with."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """What the function returns, from the output node's value."""
        return self._codegen.process_outputs(out)

    def python_code(
        self,
        root_module,
        *,
        verbose=False,
        include_stride=False,
        include_device=False,
        colored=False,
        expanded_def=False,
        record_func=False,
        additional_meta=None,
    ):
        """The function as Python text.

        Args:
            root_module: what the text calls the module; "self".
            verbose: lines that say where nodes come from.
            include_stride, include_device, colored, expanded_def, record_func, additional_meta: more of `verbose`'s
                notes; False or None. Errors: NotImplementedError for others.

        Returns: PythonCode.
        """
        asked = dict(
            include_stride=include_stride, include_device=include_device, colored=colored, expanded_def=expanded_def,
            record_func=record_func, additional_meta=additional_meta,
        )  # fmt: skip
        for name, value in asked.items():
            if value:
                raise NotImplementedError(f"python_code: {name}={value!r} is not supported; leave it out")
        if root_module != "self":
            raise ValueError(f"python_code: expected root_module='self', got {root_module!r}")
        nodes = list(self.nodes)
        return self._codegen._gen_python_code(nodes, fresh_namespace(nodes), verbose=verbose)

    def print_tabular(self):
        """Prints the nodes as a table. Needs the package `tabulate` (ImportError)."""
        columns = ("op", "name", "target", "args", "kwargs")
        table = [tuple(getattr(n, c) for c in columns) for n in self.nodes]
        try:
            import tabulate
        except ImportError as error:
            error.msg = "print_tabular() needs the package tabulate, which is not there: `pip install tabulate`"
            raise
        print(tabulate.tabulate(table, headers=("opcode", *columns[1:])))

    def __str__(self):
        arguments, returned = [], []
        lines = [n.format_node(None, returned) for n in self.nodes]
        return "\n    ".join([f"graph({', '.join(arguments)}):", *(line for line in lines if line)])

    # A graph pickles as the list of its nodes.

    def __getstate__(self):
        order = {n: i for i, n in enumerate(self.nodes)}
        number = lambda n: _Reference(order[n])  # noqa: E731
        rows = [
            (n.op, n.target, map_arg(n.args, number), map_arg(n.kwargs, number), n.name, n.type, n.meta)
            for n in self.nodes
        ]
        return {"rows": rows, "codegen": self._codegen, "tracer": (self._tracer_cls, self._tracer_extras)}

    def __setstate__(self, state):
        self.__init__(None, *state["tracer"])
        self._codegen = state["codegen"]
        made = []
        for op, target, args, kwargs, name, kind, meta in state["rows"]:
            back = lambda a: made[a.index] if isinstance(a, _Reference) else a  # noqa: E731
            args, kwargs = _node.map_aggregate(args, back), _node.map_aggregate(kwargs, back)
            made.append(self.create_node(op, target, args, dict(kwargs), name, kind))
            made[-1].meta = meta


class _Reference:
    def __init__(self, index):
        self.index = index


def _has_attr(module, path):
    at = module
    for part in path.split("."):
        if not hasattr(at, part):
            return False
        at = getattr(at, part)
    return True
