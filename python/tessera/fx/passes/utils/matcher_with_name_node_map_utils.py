"""Patterns that name nodes: they return (result, {name: node})."""

from tessera.fx.graph_module import GraphModule
from tessera.fx.node import Node
from tessera.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap", "InternalMatch"]


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """As SubgraphMatcher, for a pattern whose result is (value or tuple of values, dict of names to nodes).

    Args:
        pattern_gm: GraphModule of the pattern. The others: as of SubgraphMatcher.

    Each match has `name_node_map`: the pattern's names -> the graph's nodes.
    """

    def __init__(
        self, pattern_gm, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
        ignore_literals=False,
    ):  # fmt: skip
        if not isinstance(pattern_gm, GraphModule):
            raise AssertionError(f"expected a GraphModule as the pattern, got {type(pattern_gm).__name__}")
        import copy

        pattern_gm = copy.deepcopy(pattern_gm)
        output = pattern_gm.graph.output_node()
        *results, names = output.args[0]
        if not isinstance(names, dict):
            raise AssertionError("the pattern must return (result, {name: node}): its last value is no dict")
        flat = results[0] if len(results) == 1 else tuple(results)
        output.args = (flat,)
        self.name_node_map = {name: node for name, node in names.items() if isinstance(node, Node)}
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph, node_name_match=""):
        """As of SubgraphMatcher."""
        matches = super().match(graph, node_name_match)
        for m in matches:
            m.name_node_map = {name: m.nodes_map[n] for name, n in self.name_node_map.items()}
        return matches
