"""Finds the parts of a graph that a backend can take as a whole."""

import operator

from tessera.fx.node import Node
from tessera.fx.passes.tools_common import get_node_target
from tessera.fx.passes.utils.fuser_utils import fuse_by_partitions

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """Nodes that belong together. `nodes`: {Node: None}; `id`: a number."""

    def __init__(self, id=None, nodes=None):
        self.id, self.nodes = id, dict.fromkeys(nodes or ())

    def add_node(self, node):
        """Takes a node in."""
        self.nodes[node] = None

    def remove_node(self, node):
        """Leaves a node out (KeyError for one that is not in)."""
        del self.nodes[node]

    def size(self):
        """The number of nodes."""
        return len(self.nodes)

    def __repr__(self):
        return f"Partition({self.id}, {[n.name for n in self.nodes]})"


def _takes_apart(node):
    return node.op == "call_function" and node.target is operator.getitem and len(node.all_input_nodes) == 1


class _Wholes:
    """Which nodes go together, and what reaches what if each such set were one node. Asked from the last node on."""

    def __init__(self, nodes):
        self.of, self.members, self._place, self._reach = {}, {}, {}, {}
        for node in nodes:
            taken = _takes_apart(node) and node.args and isinstance(node.args[0], Node)
            self.of[node] = self.of[node.args[0]] if taken else node
        for i, node in enumerate(nodes):
            self._place[node] = 1 << i
            self.members.setdefault(self.of[node], []).append(node)
        for whole in reversed(self.members):
            self._reach[whole] = self._seen_from(self._after(whole) - {whole})

    def _after(self, whole):
        return {self.of[user] for n in self.members[whole] for user in n.users}

    def _seen_from(self, wholes):
        """The bits of some sets and of all behind them."""
        bits = 0
        for w in wholes:
            bits |= self._place[w] | self._reach[w]
        return bits

    def join(self, whole, node):
        """Joins a node (with what takes it apart) to a set behind it; False if a way would lead out and back."""
        if any(self._reach[w] & self._place[whole] for w in self._after(node) - {node, whole}):
            return False
        for n in self.members[node]:
            self.of[n] = whole
        self.members[whole] += self.members.pop(node)
        self._reach[whole] |= self._reach[node]
        behind, place = self._seen_from([whole]), self._place[whole]
        for w, bits in self._reach.items():
            if bits & (place | self._place[node]):
                self._reach[w] = bits | behind
        return True


class CapabilityBasedPartitioner:
    """Joins supported nodes into partitions, as large as they can be without a way out of one and back.

    Args:
        graph_module: GraphModule.
        operator_support: OperatorSupportBase.
        allows_single_node_partition: partitions of one computing node are proposed, too.
        non_compute_ops: names of targets (see tools_common.get_node_target) that compute nothing: views, getitem.
        allowed_single_node_partition_ops: names of targets that make a partition alone.
    """

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False, non_compute_ops=None,
                 allowed_single_node_partition_ops=None):  # fmt: skip
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = set(non_compute_ops or ())
        self.allowed_single_node_partition_ops = set(allowed_single_node_partition_ops or ())
        self._modules = dict(graph_module.named_modules())

    def _is_supported(self, node):
        calls = node.op in ("call_function", "call_module", "call_method", "get_attr")
        return calls and self.operator_support.is_node_supported(self._modules, node)

    def _name(self, node):
        return get_node_target(self._modules, node) if node.op.startswith("call_") else node.op

    def propose_partitions(self):
        """List of Partition, the last of the graph first. Nodes that do not use each other are joined, too; a
        `getitem` goes with the node whose result it takes apart, or with none.
        """
        nodes = list(self.graph_module.graph.nodes)
        wholes = _Wholes(nodes)
        found = []
        for node in reversed(nodes):
            if wholes.of[node] is not node or _takes_apart(node) or not self._is_supported(node):
                continue
            joined = next((p for p in found if wholes.join(p, node)), None)
            if joined is None:
                found.append(node)
        kept = [p for p in (Partition(0, sorted(wholes.members[w])) for w in found) if self._is_worth(p)]
        for i, p in enumerate(kept):
            p.id = i
        return kept

    def _is_worth(self, partition):
        computing = [n for n in partition.nodes if self._name(n) not in self.non_compute_ops and n.op != "get_attr"]
        alone = any(self._name(n) in self.allowed_single_node_partition_ops for n in computing)
        return len(computing) > 1 or bool(computing) and (self.allows_single_node_partition or alone)

    def fuse_partitions(self, partitions, prefix="fused_"):
        """The graph module, in which each partition is one call of a submodule."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes nodes that compute nothing out of partitions where they are first or last."""
        for partition in partitions:
            for ends in (lambda n: n.all_input_nodes, lambda n: n.users):
                changed = True
                while changed:
                    edge = [n for n in partition.nodes if self._name(n) in self.non_compute_ops]
                    edge = [n for n in edge if not any(m in partition.nodes for m in ends(n))]
                    changed = bool(edge)
                    for n in edge:
                        partition.remove_node(n)

    def partition_and_fuse(self, prefix="fused_"):
        """propose_partitions() and fuse_partitions()."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
