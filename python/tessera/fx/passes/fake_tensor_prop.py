"""What is known of the values of a graph's nodes, without computing them."""

import tessera
from tessera._subclasses.fake_tensor import FakeTensorMode
from tessera.fx.interpreter import Interpreter
from tessera.utils import _pytree as pytree

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors; node.meta["val"] of each node is its value.

    Args:
        module: GraphModule; its parameters and buffers need not be fake.
        mode: FakeTensorMode; None: a new one.
    """

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode
        self._held = {}  # id of a tensor of the module -> (it, which stays alive, its fake one)

    def _fake(self, value):
        if not isinstance(value, tessera.Tensor) or tessera._C._fake_mode_of(value) is not None:
            return value
        if id(value) not in self._held:
            self._held[id(value)] = (value, self._mode.from_tensor(value))
        return self._held[id(value)][1]

    def get_attr(self, target, args, kwargs):
        """The module's attribute, as a fake tensor."""
        return pytree.tree_map(self._fake, super().get_attr(target, args, kwargs))

    def call_module(self, target, args, kwargs):
        """Calls a submodule with fake parameters and buffers."""
        module = self.fetch_attr(target)
        held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        fakes = {name: self._fake(value) for name, value in held.items()}
        return tessera.func.functional_call(module, fakes, args, kwargs)

    def run_node(self, n):
        """As of Interpreter; notes the value."""
        value = super().run_node(n)
        n.meta["val"] = value
        return value

    def propagate(self, *args):
        """Runs the graph on fake tensors like these arguments. Returns: the result."""
        return self.propagate_dont_convert_inputs(*pytree.tree_map(self._fake, args))

    def propagate_dont_convert_inputs(self, *args):
        """As propagate, of arguments that are fake."""
        with self._mode:
            return super().run(*args)
