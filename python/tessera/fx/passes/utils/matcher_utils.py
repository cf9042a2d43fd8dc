"""Finding the places of a graph that look like a pattern."""

import copy
import dataclasses

import tessera
from tessera.fx.graph import Graph
from tessera.fx.node import Node
from tessera.fx.passes.utils.fuser_utils import validate_partition

__all__ = ["SubgraphMatcher", "InternalMatch"]


@dataclasses.dataclass
class InternalMatch:
    """One place: `anchors` are the pattern's ends, `nodes_map` goes from the pattern's nodes to the graph's,
    `placeholder_nodes` are the values that go in, in the order of the pattern's arguments, `returning_nodes` those that
    come out, `name_node_map` the nodes by names that the pattern gives."""

    anchors: list
    nodes_map: dict = dataclasses.field(default_factory=dict)
    placeholder_nodes: list = dataclasses.field(default_factory=list)
    returning_nodes: list = dataclasses.field(default_factory=list)
    name_node_map: dict = dataclasses.field(default_factory=dict)
    other_kwargs: dict = dataclasses.field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(
            list(self.anchors), dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes),
            dict(self.name_node_map), dict(self.other_kwargs),
        )  # fmt: skip


class SubgraphMatcher:
    """Looks for a pattern.

    Args:
        pattern: Graph. It must return something that a node of it makes.
        match_output: the pattern's output must be the graph's.
        match_placeholder: the pattern's arguments must be the graph's arguments; else they match anything.
        remove_overlapping_matches: of places that share nodes keep the first.
        ignore_literals: numbers of the pattern match any.
    """

    def __init__(
        self, pattern, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
        ignore_literals=False,
    ):  # fmt: skip
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if not isinstance(pattern, Graph) or not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for n in pattern.nodes:
            if n.op not in ("placeholder", "output") and not n.users:
                raise AssertionError(f"SubgraphMatcher cannot be initialized with a pattern with dead code: {n}")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = list(output.all_input_nodes)
        if match_output:
            self.pattern_anchors = [output]
        else:
            self.pattern_anchors = [n for n in self.pattern_returning_nodes if len(n.users) == 1]

    def match(self, graph, node_name_match=""):
        """The places, as a list of InternalMatch, the last ones of the graph first looked at.

        Args:
            graph: Graph. node_name_match: only places whose first anchor's name contains this.
        """
        choices = [
            [n for n in graph.nodes if self._same_kind(anchor, n) and node_name_match in n.name]
            for anchor in self.pattern_anchors
        ]
        matches = []
        self._extend(choices, 0, InternalMatch(list(self.pattern_anchors)), matches)
        complete = []
        for match in matches:
            match.placeholder_nodes = [match.nodes_map.get(p) for p in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[p] for p in self.pattern_returning_nodes]
            match.anchors = [match.nodes_map[p] for p in self.pattern_anchors]
            if self._is_contained(match.nodes_map):
                complete.append(match)
        return self._without_overlaps(complete) if self.remove_overlapping_matches else complete

    def _extend(self, choices, index, match, found):
        if index == len(choices):
            found.append(match)
            return
        for node in choices[index]:
            tried = copy.copy(match)
            if self._match_nodes(self.pattern_anchors[index], node, tried):
                self._extend(choices, index + 1, tried, found)

    def _same_kind(self, pattern_node, node):
        if not self.match_placeholder and pattern_node.op == "placeholder":
            return True
        if pattern_node.op != node.op:
            return False
        if pattern_node.op in ("placeholder", "output"):
            return True
        if pattern_node.op == "get_attr":
            return self._same_attribute(pattern_node, node)
        if pattern_node.op == "call_module":
            return self._same_module(pattern_node, node)
        return pattern_node.target == node.target

    def _same_attribute(self, pattern_node, node):
        mine, theirs = _value_of(pattern_node), _value_of(node)
        if mine is None and theirs is None:
            return pattern_node.target == node.target
        if isinstance(mine, tessera.Tensor):
            return isinstance(theirs, tessera.Tensor)
        return type(mine) is type(theirs)

    def _same_module(self, pattern_node, node):
        mine, theirs = _value_of(pattern_node), _value_of(node)
        return pattern_node.target == node.target if mine is None or theirs is None else type(mine) is type(theirs)

    def _match_nodes(self, pattern_node, node, match):
        """Goes from a node of the pattern towards its arguments, as far as both agree."""
        if pattern_node in match.nodes_map:
            return match.nodes_map[pattern_node] is node
        if node in match.nodes_map.values() and pattern_node.op != "placeholder":
            return False
        if not self._same_kind(pattern_node, node):
            return False
        match.nodes_map[pattern_node] = node
        if pattern_node.op == "placeholder":
            return True
        mine, theirs = _by_name(pattern_node), _by_name(node)
        if mine is None or theirs is None or mine.keys() != theirs.keys():
            mine = {**dict(enumerate(pattern_node.args)), **pattern_node.kwargs}
            theirs = {**dict(enumerate(node.args)), **node.kwargs}
        return mine.keys() == theirs.keys() and all(self._match_values(mine[k], theirs[k], match) for k in mine)

    def _match_values(self, mine, theirs, match):
        if isinstance(mine, Node):
            if isinstance(theirs, Node):
                return self._match_nodes(mine, theirs, match)
            return mine.op == "placeholder" and not self.match_placeholder and self._literal(mine, theirs, match)
        if isinstance(theirs, Node):
            return False
        if isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
            return len(mine) == len(theirs) and all(self._match_values(a, b, match) for a, b in zip(mine, theirs))
        if isinstance(mine, dict) and isinstance(theirs, dict):
            return mine.keys() == theirs.keys() and all(self._match_values(mine[k], theirs[k], match) for k in mine)
        return self.ignore_literals or (type(mine) is type(theirs) and mine == theirs)

    @staticmethod
    def _literal(pattern_node, value, match):
        if pattern_node in match.nodes_map:
            return match.nodes_map[pattern_node] == value
        match.nodes_map[pattern_node] = value
        return True

    def _is_contained(self, nodes_map):
        """Whether nothing outside uses a value from within the place, apart from what the pattern returns, and no
        value that goes in needs one that comes out."""
        inside = {n for n in nodes_map.values() if isinstance(n, Node)}
        for pattern_node, node in nodes_map.items():
            if pattern_node.op == "placeholder" or pattern_node in self.pattern_returning_nodes:
                continue
            if isinstance(node, Node) and any(user not in inside for user in node.users):
                return False
        within = [n for p, n in nodes_map.items() if p.op not in ("placeholder", "output")]
        return validate_partition(within)

    def _without_overlaps(self, matches):
        kept, taken = [], set()
        for match in matches:
            mine = {
                n for p, n in match.nodes_map.items() if isinstance(n, Node) and p.op not in ("placeholder", "output")
            }
            if not mine & taken:
                kept.append(match)
                taken |= mine
        return kept


def _value_of(node):
    """What a get_attr or call_module node's path leads to; None if its graph has no owner."""
    at = node.graph.owning_module
    for part in node.target.split(".") if at is not None else ():
        at = getattr(at, part, None)
    return at


def _by_name(node):
    """A call's arguments by name, where the operator has one signature."""
    from tessera._ops import OpOverload

    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    pair = node.normalized_arguments(None, normalize_to_only_use_kwargs=True)
    return None if pair is None else {**dict(enumerate(pair.args)), **pair.kwargs}
