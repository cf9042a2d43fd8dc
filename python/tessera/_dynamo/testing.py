"""Backends that tests count with."""

from .backends.registry import lookup_backend
from .utils import same

__all__ = ["CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs", "same"]


def _calls(module):
    return sum(node.op.startswith("call_") for node in module.graph.nodes)


class CompileCounter:
    """A backend that runs graphs as they are. frame_count: how many it got; op_count: how many calls are in them."""

    def __init__(self):
        self.frame_count = self.op_count = 0

    def __call__(self, gm, example_inputs):
        self._count(gm, example_inputs)
        return gm.forward

    def _count(self, gm, example_inputs):
        if len([n for n in gm.graph.nodes if n.op == "placeholder"]) != len(example_inputs):
            raise AssertionError("a graph has as many placeholders as there are example inputs")
        self.frame_count += 1
        self.op_count += _calls(gm)

    def clear(self):
        """Counts from zero."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same with another backend behind it. graphs: the GraphModules.

    Args:
        backend: name or callable.
    """

    def __init__(self, backend):
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, gm, example_inputs):
        self._count(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self):
        """Counts from zero, and forgets the graphs."""
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """A backend that runs graphs as they are, and keeps them: graphs."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return lookup_backend("eager")(gm, example_inputs)
