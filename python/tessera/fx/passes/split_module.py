"""One graph as several modules that call each other."""

import operator

from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule, _copy_attr
from tessera.fx.node import map_arg
from tessera.nn import Module

__all__ = ["Partition", "split_module"]


class Partition:
    """What becomes one submodule.

    `node_names`, `inputs` and `outputs` (names of values that come from and go to others), `dependencies` and
    `dependents` (names of partitions), `graph`, `environment` (nodes of the old graph -> its own).
    """

    def __init__(self, name):
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names = []
        self.inputs, self.outputs = {}, {}
        self.dependencies, self.dependents = {}, {}
        self.graph, self.environment, self.targets = Graph(), {}, {}

    def __repr__(self):
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n "
            f"partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


class _Split:
    def __init__(self, m, callback, qualname_map, keep_order, keep_node_name, keep_input_name, affix):
        self.m, self.callback, self.qualname_map, self.affix = m, callback, qualname_map, affix
        self.keep_order, self.keep_node_name, self.keep_input_name = keep_order, keep_node_name, keep_input_name
        self.partitions, self.of_node = {}, {}
        self.base = Graph()
        self.env, self.attributes = {}, {}

    def run(self):
        nodes = list(self.m.graph.nodes)
        for n in nodes:
            if n.op not in ("placeholder", "get_attr", "output"):
                self._assign(n, self.callback(n))
        for n in nodes:
            self._connect(n)
        for n in nodes:
            self._place(n)
        for name in self._order():
            self._emit(self.partitions[name])
        for n in nodes:
            if n.op == "output":
                value = map_arg(n.args[0], self._in_base)
                self.base.output(value, n.type).meta.update(n.meta)
        return GraphModule(self.attributes, self.base)

    def _assign(self, n, name):
        name = str(name)
        partition = self.partitions.get(name)
        if partition is None:
            partition = self.partitions[name] = Partition(name)
            if self.affix is not None:
                partition.submod_name = f"submod_{self.affix}_{name}"
        partition.node_names.append(n.name)
        self.of_node[n] = partition

    def _connect(self, n):
        """Values that go from one partition to another."""
        user = self.of_node.get(n)
        for used in n.all_input_nodes:
            maker = self.of_node.get(used)
            if maker is user:
                continue
            if maker is not None:
                maker.outputs.setdefault(used.name)
                if user is not None:
                    maker.dependents.setdefault(user.name)
                    user.dependencies.setdefault(maker.name)
            if user is not None:
                user.inputs.setdefault(used.name)

    def _order(self):
        """Names of the partitions, each after those that it depends on."""
        waiting = {name: set(p.dependencies) for name, p in self.partitions.items()}
        order = []
        while waiting:
            ready = next((name for name, needs in waiting.items() if not needs), None)
            if ready is None:
                raise RuntimeError("cycle exists between partitions!")
            del waiting[ready]
            order.append(ready)
            for needs in waiting.values():
                needs.discard(ready)
        if self.keep_order:
            seen = list(dict.fromkeys(p.name for p in self.of_node.values()))
            at = {name: i for i, name in enumerate(seen)}
            if all(at[d] < at[name] for name in seen for d in self.partitions[name].dependencies):
                return seen
        return order

    def _place(self, n):
        """Puts the node into its partition's graph, or into the base graph."""
        if n.op == "placeholder":
            made = self.base.node_copy(n)
            self.env[n] = made
        elif n.op in ("call_function", "call_method", "call_module"):
            partition = self.of_node[n]
            for used in n.all_input_nodes:
                if used not in partition.environment:
                    partition.environment[used] = self._input(partition, used)
            target = n.target if n.op != "call_module" else self._moved(partition, n.target)
            inside = lambda a: partition.environment[a]  # noqa: E731
            made = partition.graph.create_node(
                n.op, target, map_arg(n.args, inside), map_arg(n.kwargs, inside),
                n.name if self.keep_node_name else None, n.type,
            )  # fmt: skip
            made.meta = dict(n.meta)
            partition.environment[n] = made

    def _input(self, partition, used):
        if self.keep_input_name:
            made = partition.graph.placeholder(used.name, used.type)
        else:
            made = partition.graph.placeholder(f"arg_{len(partition.environment)}", used.type)
        made.meta = dict(used.meta)
        return made

    def _moved(self, partition, target):
        """An attribute of the module, as the partition's."""
        at = self.m
        for part in target.split("."):
            if not hasattr(at, part):
                raise AttributeError(f"Operator target {target} not found!")
            at = getattr(at, part)
        path = target.replace(".", "_")
        partition.targets[path] = at
        if self.qualname_map is not None:
            self.qualname_map[f"{partition.submod_name}.{path}"] = target
        return path

    def _emit(self, partition):
        by_name = {n.name: n for n in partition.environment}
        outputs = [by_name[name] for name in partition.outputs]
        inner = [partition.environment[n] for n in outputs]
        partition.graph.output(inner[0] if len(inner) == 1 else tuple(inner))
        inputs = [n for n in partition.environment if partition.environment[n].op == "placeholder"]
        self.attributes[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        call = self.base.call_module(partition.submod_name, tuple(self._in_base(n) for n in inputs))
        if len(outputs) == 1:
            self.env[outputs[0]] = call
        for i, n in enumerate(outputs if len(outputs) > 1 else ()):
            self.env[n] = self.base.call_function(operator.getitem, (call, i))

    def _in_base(self, n):
        if n not in self.env:
            if n.op != "get_attr":
                raise RuntimeError(f"{n} is used before the partition that makes it has run")
            holder = Module()
            _copy_attr(self.m, holder, n.target)
            at = holder
            for part in n.target.split("."):
                at = getattr(at, part)
            self.attributes[n.target] = at
            with self.base.inserting_before(next((x for x in self.base.nodes if x.op != "placeholder"), None)):
                self.env[n] = self.base.create_node("get_attr", n.target, name=n.name)
        return self.env[n]


def split_module(
    m, root_m, split_callback, qualname_map=None, keep_original_order=False, keep_original_node_name=False,
    keep_original_input_name=True, *, partition_affix=None,
):  # fmt: skip
    """Splits a GraphModule into submodules that the returned one calls.

    Args:
        m: GraphModule.
        root_m: Module; not used (the attributes are m's).
        split_callback: function of a node to the number or name of its partition; of calls alone.
        qualname_map: dict that gets "submod_0.path" -> path in m, for moved modules and parameters.
        keep_original_order: partitions in the order of their first nodes where that is possible.
        keep_original_node_name: nodes keep their names in the submodules.
        keep_original_input_name: submodules' arguments are called as the values; else arg_0, arg_1 ...
        partition_affix: text in the submodules' names: submod_{affix}_{name}.

    Returns: GraphModule with submodules submod_{name}. Errors: RuntimeError if partitions need each other in a circle.
    """
    return _Split(
        m, split_callback, qualname_map, keep_original_order, keep_original_node_name, keep_original_input_name,
        partition_affix,
    ).run()  # fmt: skip
