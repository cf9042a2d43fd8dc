"""Replacing what looks like a pattern by something else."""

import copy
import itertools
import dataclasses
from typing import NamedTuple

import tessera
from tessera.fx._symbolic_trace import symbolic_trace
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule, _copy_attr
from tessera.fx.node import Node
from tessera.fx.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]


class Match(NamedTuple):
    """One replaced place: the node that the pattern ended at, and the pattern's nodes -> the graph's."""

    anchor: Node
    nodes_map: dict


@dataclasses.dataclass
class ReplacedPatterns:
    """A Match with the nodes that came instead."""

    anchor: Node
    nodes_map: dict
    replacements: list


def _graph_of(given):
    if isinstance(given, GraphModule):
        return given.graph
    return given if isinstance(given, Graph) else symbolic_trace(given).graph


def replace_pattern(gm, pattern, replacement):
    """Replaces every non-overlapping place of gm's graph that computes what `pattern` does.

    Args:
        gm: GraphModule; changed and recompiled.
        pattern: function, Module or Graph. Its arguments match anything, used or not outside; nodes between must have
            no users outside of the place.
        replacement: function, Module or Graph of as many arguments, in the same order.

    Returns: list of Match.
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm, pattern, replacement=None, match_filters=None, ignore_literals=False, replacement_callback=None,
    node_name_match="",
):  # fmt: skip
    """As replace_pattern, for those matches that all filters want.

    Args:
        match_filters: functions (match, original graph, pattern graph) -> bool.
        ignore_literals: numbers in the pattern match any numbers.
        replacement_callback: function (match, original graph, pattern graph) -> the replacement graph of this match;
            instead of `replacement`.
        node_name_match: only matches whose anchor's name contains this.

    Returns: list of ReplacedPatterns. Errors: AssertionError if both or neither of the replacements are given.
    """
    if (replacement is None) == (replacement_callback is None):
        raise AssertionError("Must provide either replacement or replacement_callback, and not both")
    return _replace(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match)


def _replace(gm, pattern, replacement, filters=None, ignore_literals=False, callback=None, node_name_match=""):
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(
        pattern_graph, match_output=False, match_placeholder=False, remove_overlapping_matches=True,
        ignore_literals=ignore_literals,
    )  # fmt: skip
    original = gm.graph
    matches = [
        m for m in matcher.match(original, node_name_match=node_name_match)
        if all(wants(m, original, pattern_graph) for wants in filters or ())
    ]  # fmt: skip
    common = None if replacement is None else _graph_of(replacement)
    replaced, renamed = [], {}
    for match in matches:
        graph = common if callback is None else callback(match, original, pattern_graph)
        replaced.append(_replace_one(original, graph, match, renamed))
        _bring_constants(gm, graph.owning_module, replaced[-1].replacements)
    gm.recompile()
    for given in (replacement,) if replacement is not None else ():
        if isinstance(given, tessera.nn.Module):
            _bring_attributes(gm, given)
    return replaced


def _replace_one(original, graph, match, renamed):
    arguments = [n for n in graph.nodes if n.op == "placeholder"]
    if len(arguments) != len(match.placeholder_nodes):
        raise AssertionError(
            f"replace_pattern: the pattern has {len(match.placeholder_nodes)} arguments and the replacement "
            f"{len(arguments)}; they must be as many"
        )
    given = [renamed.get(n, n) if isinstance(n, Node) else n for n in match.placeholder_nodes]
    env = dict(zip(arguments, given))
    inside = list(match.nodes_map.values())
    ends = match.returning_nodes
    after = [n for n in given if isinstance(n, Node)]
    first_user = min((u for e in ends for u in e.users), default=None)
    place = first_user if first_user is not None else max(ends).next
    late = max(after, default=None)
    if late is not None and not late < place:
        place = late.next
    with original.inserting_before(place):
        result = original.graph_copy(graph, env)
    made = [env[n] for n in graph.nodes if n in env and n.op not in ("placeholder", "output")]
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != len(ends):
        raise AssertionError(
            f"replace_pattern: the pattern returns {len(ends)} values and the replacement {len(results)}"
        )
    for old, new in zip(ends, results):
        if isinstance(new, Node):
            old.replace_all_uses_with(new)
            renamed[old] = new
    taken_out = {n for p, n in match.nodes_map.items() if isinstance(p, Node) and p.op != "placeholder"}
    for n in sorted((n for n in inside if isinstance(n, Node) and n in taken_out and not n._erased), reverse=True):
        if not n.users:
            original.erase_node(n)
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _bring_constants(gm, source, made):
    """Tensors that a traced replacement has made, under names that the graph's module does not have yet."""
    for n in made:
        if n.op != "get_attr" or not n.target.startswith("_tensor_constant") or not hasattr(source, n.target):
            continue
        value = getattr(source, n.target)
        taken = (f"_tensor_constant{i}" for i in itertools.count())
        names = itertools.chain([n.target], taken)
        n.target = next(name for name in names if not hasattr(gm, name) or getattr(gm, name) is value)
        if not hasattr(gm, n.target):
            gm.register_buffer(n.target, value)


def _bring_attributes(gm, replacement):
    """Modules and parameters that the replacement's nodes name, for a graph that lacks them."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for n in gm.graph.nodes:
        if n.op not in ("call_module", "get_attr") or _reaches(gm, n.target):
            continue
        if not _reaches(replacement, n.target):
            raise RuntimeError(
                f'Attempted to create a "{n.op}" node during subgraph rewriting with target {n.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
        source = copy.deepcopy(replacement) if n.op == "call_module" else replacement
        _copy_attr(source, gm, n.target)


def _reaches(module, path):
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
