"""Graphs as pictures, by the package pydot."""

import hashlib

from tessera.fx._names import shown_target
from tessera.fx.graph_module import GraphModule

__all__ = ["FxGraphDrawer"]

_COLOURS = {
    "placeholder": "AliceBlue", "get_attr": "LightGrey", "output": "PowderBlue", "call_module": "LemonChiffon1",
    "call_function": "CadetBlue1", "call_method": "Bisque",
}  # fmt: skip


class FxGraphDrawer:
    """Draws a GraphModule: get_dot_graph() is a pydot.Dot, whose write_svg(path), write_png(path) ... write files.

    Args:
        graph_module: GraphModule.
        name: the picture's name.
        ignore_getattr, ignore_parameters_and_buffers: leave get_attr nodes out; leave tensors' notes out.
        skip_node_names_in_args: arguments without the names of nodes.
        parse_stack_trace: the last line of a node's stack trace is shown.
        dot_graph_shape: the boxes' shape; None: "record".
        normalize_args: arguments by name where the signature is known.

    Errors: RuntimeError without the packages pydot and graphviz.
    """

    def __init__(
        self, graph_module, name, ignore_getattr=False, ignore_parameters_and_buffers=False,
        skip_node_names_in_args=True, parse_stack_trace=False, dot_graph_shape=None, normalize_args=False,
    ):  # fmt: skip
        try:
            import pydot
        except ImportError:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
                "Python package manager."
            ) from None
        self._pydot, self._name = pydot, name
        self._options = dict(
            ignore_getattr=ignore_getattr, quiet=ignore_parameters_and_buffers, skip_names=skip_node_names_in_args,
            trace=parse_stack_trace, shape=dot_graph_shape or "record", normalize=normalize_args,
        )  # fmt: skip
        self._dot_graphs = {name: self._draw(graph_module, name)}
        for inner_name, inner in graph_module.named_children():
            if isinstance(inner, GraphModule):
                self._dot_graphs[f"{name}_{inner_name}"] = self._draw(inner, f"{name}_{inner_name}")

    def get_dot_graph(self, submod_name=None):
        """The pydot.Dot of the module, or of one of its inner GraphModules, by name."""
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self):
        """The pydot.Dot of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name):
        """The pydot.Dot of an inner GraphModule."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self):
        """{name: pydot.Dot}."""
        return self._dot_graphs

    def _draw(self, gm, name):
        picture = self._pydot.Dot(name, rankdir="TB")
        shown = [n for n in gm.graph.nodes if not (self._options["ignore_getattr"] and n.op == "get_attr")]
        for n in shown:
            picture.add_node(
                self._pydot.Node(
                    n.name, label=self._label(gm, n), shape=self._options["shape"], style='"filled,rounded"',
                    fillcolor=self._colour(n), fontcolor="#000000",
                )
            )  # fmt: skip
        for n in shown:
            for used in n.all_input_nodes:
                if used in shown:
                    picture.add_edge(self._pydot.Edge(used.name, n.name))
        return picture

    def _colour(self, n):
        if n.op in ("call_function", "call_method"):
            digest = hashlib.md5(shown_target(n.target).encode(), usedforsecurity=False).digest()
            return "#" + "".join(f"{160 + b % 80:02x}" for b in digest[:3])
        return _COLOURS[n.op]

    def _label(self, gm, n):
        lines = [f"name=%{n.name}", f"op_code={n.op}"]
        if n.op == "call_module":
            lines.append(f"target={n.target} ({type(gm.get_submodule(n.target)).__name__})")
        else:
            lines.append(f"target={shown_target(n.target)}")
        lines += self._arguments(gm, n)
        lines.append(f"num_users={len(n.users)}")
        meta = n.meta.get("tensor_meta")
        if meta is not None and not self._options["quiet"] and hasattr(meta, "shape"):
            lines.append(f"dtype={meta.dtype}")
            lines.append(f"shape={tuple(meta.shape)}")
        if self._options["trace"] and n.stack_trace:
            lines.append(n.stack_trace.strip().split("\n")[-1].strip())
        text = "\\n".join(_escaped(line) for line in lines)
        return "{" + text + "\\n}" if self._options["shape"] == "record" else text

    def _arguments(self, gm, n):
        args, kwargs = n.args, n.kwargs
        if self._options["normalize"]:
            pair = n.normalized_arguments(gm, normalize_to_only_use_kwargs=True)
            args, kwargs = (args, kwargs) if pair is None else pair
        if self._options["skip_names"]:
            from tessera.fx.node import map_arg

            args, kwargs = map_arg(tuple(args), lambda _: "%node"), map_arg(dict(kwargs), lambda _: "%node")
        return [f"{k}={v}" for k, v in (("args", args), ("kwargs", kwargs)) if v]


def _escaped(text):
    for sign in "{}<>|":
        text = text.replace(sign, "\\" + sign)
    return text
