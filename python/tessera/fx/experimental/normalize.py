"""Calls with the arguments that their documented signatures name, in the signatures' order."""

import tessera
from tessera.fx.interpreter import Transformer
from tessera.fx.node import map_aggregate

__all__ = ["NormalizeArgs"]


class NormalizeArgs(Transformer):
    """`NormalizeArgs(module).transform()`: a GraphModule whose calls name their arguments, defaults written out.

    Args:
        module: GraphModule.
        normalize_to_only_use_kwargs: all arguments by name; otherwise those without defaults go by position.

    Calls stay as they are where the signature is not known, or where several fit. `node_map`: {new node: the old one}.
    """

    def __init__(self, module, normalize_to_only_use_kwargs=True):
        super().__init__(module)
        self.node_map = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n):
        """One node of the module, in the new graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op in ("call_function", "call_module") and getattr(n.target, "__module__", None) != "_operator":
            types = map_aggregate(n.args, self._type_of), map_aggregate(n.kwargs, self._type_of)
            pair = n.normalized_arguments(self.module, *types, self.normalize_to_only_use_kwargs)
            if pair is not None:
                args, kwargs = (self.map_nodes_to_values(part, n) for part in pair)
        with tessera.fx.traceback.set_current_meta(n):
            made = getattr(self, n.op)(n.target, args, kwargs)
        if n.op != "output":
            self.node_map[made] = n
            made.node.meta = dict(n.meta)
            made.node.type = n.type
        return made

    @staticmethod
    def _type_of(value):
        return (value.type or tessera.Tensor) if isinstance(value, tessera.fx.Node) else type(value)
