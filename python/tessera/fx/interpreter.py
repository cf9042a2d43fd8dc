"""Running a graph node by node, and rewriting it by doing so."""

import sys

from tessera.fx import config
from tessera.fx import traceback as fx_traceback
from tessera.fx._code import member
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.fx.node import map_aggregate, map_arg
from tessera.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


def _with_progress(nodes, name):
    """The nodes, while a line on stderr says how many of them have run."""
    count = len(nodes)
    try:
        for i, node in enumerate(nodes):
            what = f" {node.format_node()}\n" if config.verbose_progress else ""
            sys.stderr.write(f"\r{name}: {i + 1}/{count}{what}")
            yield node
    finally:
        sys.stderr.write("\n")


class Interpreter:
    """Runs a GraphModule node by node. Subclasses replace run_node or the method of an op to change what happens.

    Args:
        module: Module that holds what the nodes name.
        garbage_collect_values: values are dropped after their last use.
        graph: the Graph to run; None: module.graph.

    The values so far are in `env`, a dict of nodes.
    """

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env, self.name = {}, "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter = iter(())
        self.user_to_last_uses = self._last_uses() if garbage_collect_values else {}

    def _last_uses(self):
        freed, seen = {}, set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    freed.setdefault(node, []).append(used)
        return freed

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """Runs the graph.

        Args:
            *args: the placeholders' values in order.
            initial_env: dict of nodes whose values are known: they do not run.
            enable_io_processing: trees of arguments and results are those of the traced function.

        Returns: the output node's value.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        nodes = self.graph.nodes
        for node in nodes if config.disable_progress else _with_progress(nodes, self.name):
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                self._explain(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def boxed_run(self, args_list):
        """As run, of a list of values that is emptied, so that they can go as soon as they are used."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def _explain(self, error, node):
        if not self.extra_traceback:
            return
        message = f"While executing {node.format_node()}"
        if node.stack_trace:
            message += f"\nOriginal traceback:\n{node.stack_trace}"
        if isinstance(error, KeyError):
            message = repr(message)
        first = error.args[0] if error.args and isinstance(error.args[0], str) else None
        if first is not None and "While executing" not in first:
            error.args = (f"{first}\n\n{message}", *error.args[1:])

    def run_node(self, n):
        """The value of one node: calls the method of its op with its target and its arguments' values."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        with fx_traceback.set_current_meta(n):
            return getattr(self, n.op)(n.target, args, kwargs)

    # --- one method for each op: (target, args, kwargs) -> value ---

    def placeholder(self, target, args, kwargs):
        """The next argument of run; `*name`: all that are left. RuntimeError if there is none and no default."""
        if target.startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target, args, kwargs):
        """The module's attribute at a path."""
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        """Calls a function."""
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        """Calls the method `target` of args[0]."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target, args, kwargs):
        """Calls the submodule at a path."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        """What the graph returns."""
        return args[0]

    # --- helpers ---

    def fetch_attr(self, target):
        """The module's attribute at a path. Errors: RuntimeError that names the first part that is missing."""
        at, parts = self.module, target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            at = member(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n):
        """(args, kwargs) of a node with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """Nested arguments with values for nodes; n: the node whose arguments they are."""
        try:
            return map_arg(args, self.env.__getitem__)
        except KeyError as missing:
            text = f"Node {n} referenced nonexistent value {missing.args[0]}! Graph.lint() says what else is wrong"
            raise RuntimeError(text) from None


class Transformer(Interpreter):
    """Makes a new GraphModule by running one with proxies: methods of ops return what takes their place.

    Args:
        module: GraphModule.
    """

    def __init__(self, module):
        super().__init__(module)
        from tessera.fx._symbolic_trace import Tracer

        self.new_graph = Graph(tracer_cls=getattr(module.graph, "_tracer_cls", None))
        self.new_graph.set_codegen(module.graph._codegen)
        transformer = self

        class _Appending(Tracer):
            def __init__(self):
                super().__init__()
                self.graph, self.root = transformer.new_graph, transformer.module

            def is_leaf_module(self, m, module_qualified_name):
                return True

        self.tracer = _Appending()

    def placeholder(self, target, args, kwargs):
        """The same placeholder in the new graph."""
        default = (args[0],) if args else ()
        return Proxy(self.new_graph.create_node("placeholder", target, default), self.tracer)

    def get_attr(self, target, args, kwargs):
        """The same attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        """The same call in the new graph."""
        self.fetch_attr(target)  # the error if it is missing
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args, kwargs):
        """The same call in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        """Runs the graph with proxies.

        Returns: GraphModule of the new graph, with the old module's parameters.
        """
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            to_node = lambda a: a.node if isinstance(a, Proxy) else a  # noqa: E731
            output = self.new_graph.output(map_aggregate(result, to_node))
            for old in self.graph.find_nodes(op="output"):
                output.type, output.meta = old.type, dict(old.meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)
