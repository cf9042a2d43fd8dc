"""Notes that go from nodes to the nodes that are made of them: stack traces and annotations."""

import contextlib
import copy
import enum
import json

from tessera.fx.graph import Graph
from tessera.fx.node import Node

__all__ = [
    "annotate", "annotate_fn", "preserve_node_meta", "has_preserved_node_meta", "set_stack_trace", "set_grad_fn_seq_nr",
    "reset_grad_fn_seq_nr", "format_stack", "set_current_meta", "get_current_meta", "set_current_replay_node",
    "get_current_replay_node", "NodeSource", "NodeSourceAction", "get_graph_provenance_json",
]  # fmt: skip


class _Notes:
    meta = {}
    preserving = False
    replayed = None


class NodeSourceAction(enum.Enum):
    """What a pass did to a node."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """Where a node comes from: the node before a pass, recursively.

    Args:
        node: Node, or None where nothing is known.
        pass_name: the pass's name.
        action: NodeSourceAction or a list of them.
    """

    class NodeInfo:
        """Name, target and graph of a node that may be gone."""

        def __init__(self, name, target, graph_id):
            self.name, self.target, self.graph_id = name, target, graph_id

        def __eq__(self, other):
            return isinstance(other, NodeSource.NodeInfo) and vars(self) == vars(other)

        def __hash__(self):
            return hash((self.name, self.target, self.graph_id))

    def __init__(self, node, pass_name="", action=None):
        self.pass_name = pass_name
        self.action = [] if action is None else list(action) if isinstance(action, list) else [action]
        self.node_info = None
        self.from_node = []
        if node is not None:
            target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
            self.node_info = self.NodeInfo(node.name, target, id(node.graph))
            self.from_node = copy.deepcopy(node.meta.get("from_node", []))

    @property
    def name(self):
        """The node's name."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self):
        """The node's target as text."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self):
        """A number of the node's graph, while it lived."""
        return self.node_info.graph_id if self.node_info else -1

    def _action_text(self):
        return "+".join(a.name for a in self.action) if self.action else "NONE"

    def print_readable(self, indent=0):
        """The history as indented lines."""
        if indent > 9:
            return ""
        parts = dict(name=self.name, pass_name=self.pass_name, action=self._action_text(), graph_id=self.graph_id)
        line = " " * indent * 4 + f"({', '.join(f'{k}={v}' for k, v in parts.items())})\n"
        return line + "".join(source.print_readable(indent + 1) for source in self.from_node)

    def to_dict(self):
        """The history as nested dicts."""
        own = {key: getattr(self, key) for key in ("name", "target", "graph_id", "pass_name")}
        return own | {"action": self._action_text(), "from_node": list(map(NodeSource.to_dict, self.from_node))}

    def __repr__(self):
        return self.print_readable()

    def __eq__(self, other):
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self):
        return hash((self.node_info, self.pass_name, self._action_text(), tuple(self.from_node)))


@contextlib.contextmanager
def _set(name, value):
    old = getattr(_Notes, name)
    setattr(_Notes, name, value)
    try:
        yield value
    finally:
        setattr(_Notes, name, old)


def preserve_node_meta(enable=True):
    """Context manager: nodes that are made get the notes of the node that is being run."""
    return _set("preserving", enable)


def has_preserved_node_meta():
    """Whether preserve_node_meta is on."""
    return _Notes.preserving


@contextlib.contextmanager
def annotate(annotation_dict):
    """Context manager: nodes that are made get these entries in meta["custom"].

    Args:
        annotation_dict: dict; entries of an annotate inside win.
    """
    custom = {**_Notes.meta.get("custom", {}), **annotation_dict}
    with _set("meta", {**_Notes.meta, "custom": custom}), _set("preserving", True):
        yield


def annotate_fn(annotation_dict):
    """Decorator: annotate around every call."""
    import functools

    def decorate(func):
        @functools.wraps(func)
        def call(*args, **kwargs):
            with annotate(annotation_dict):
                return func(*args, **kwargs)

        return call

    return decorate


def set_stack_trace(stack):
    """The lines (a list of strings) that nodes get as their stack_trace from now on, if notes are preserved."""
    if _Notes.preserving and stack:
        _Notes.meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr):
    """Notes that what follows is the backward of the operator of this number."""
    if _Notes.preserving:
        _Notes.meta.setdefault("grad_fn_seq_nr", []).append(seq_nr)
        _Notes.meta["in_grad_fn"] = _Notes.meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr():
    """Ends what set_grad_fn_seq_nr began."""
    if _Notes.preserving and _Notes.meta.get("in_grad_fn"):
        _Notes.meta["in_grad_fn"] -= 1
        _Notes.meta["grad_fn_seq_nr"].pop()


def format_stack():
    """The stack as a list of strings: that of the notes, if notes are preserved, else the program's."""
    import traceback

    if _Notes.preserving:
        return [_Notes.meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node, pass_name=""):
    """Context manager: the notes are those of a node, if notes are preserved."""
    if not _Notes.preserving or not node.meta:
        yield
        return
    meta = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
    meta["from_node"] = [NodeSource(node, pass_name, NodeSourceAction.CREATE)]
    with _set("meta", meta):
        yield


def get_current_meta():
    """The notes that nodes get (a dict)."""
    return _Notes.meta


def set_current_replay_node(node):
    """Context manager: says which node is being run again."""
    return _set("replayed", node)


def get_current_replay_node():
    """The node of set_current_replay_node, or None."""
    return _Notes.replayed


def get_graph_provenance_json(graph):
    """{node name: where it comes from}, of a Graph, as JSON's values."""
    if not isinstance(graph, Graph):
        raise TypeError(f"get_graph_provenance_json: expected a Graph, got {type(graph).__name__}")
    found = {n.name: [s.to_dict() for s in n.meta.get("from_node", [])] for n in graph.nodes if isinstance(n, Node)}
    return json.loads(json.dumps(found))
