"""What a pass looks like."""

import abc
from collections import namedtuple

__all__ = ["PassResult", "PassBase"]

PassResult = namedtuple("PassResult", ["graph_module", "modified"])
PassResult.__doc__ = "What a pass returns: the GraphModule, and whether it was changed."


class PassBase(abc.ABC):
    """A pass: calling it runs requires, call and ensures."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Does the work; returns PassResult or None."""

    def requires(self, graph_module):  # noqa: B027
        """Raises if the pass cannot run on the module."""

    def ensures(self, graph_module):  # noqa: B027
        """Raises if the module is not what the pass promises."""
