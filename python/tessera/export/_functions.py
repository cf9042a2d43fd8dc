"""Which function of the program a node of an exported program comes from."""

import functools
import operator

import tessera
from tessera.overrides import TorchFunctionMode

# Methods that are called by Python's operators, as a rule.
_OPERATORS = {
    "__getitem__": operator.getitem, "__setitem__": operator.setitem, "div": operator.truediv,
    **{name: getattr(operator, name) for name in "add sub mul matmul pow neg eq ne lt le gt ge".split()},
}  # fmt: skip


class CalledFunctions(TorchFunctionMode):
    """Notes the function that the program has called: `torch_fn`, (its name and number, its kind and name)."""

    def __init__(self):
        super().__init__()
        self.function = self.torch_fn = None
        self._counts, self._sources = {}, {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        count = self._counts[func] = self._counts.get(func, 0) + 1
        name = getattr(func, "__name__", str(func))
        self.function, self.torch_fn = func, (f"{name}_{count}", f"{type(func).__name__}.{name}")
        return func(*args) if kwargs is None else func(*args, **kwargs)

    def source(self, module_stack):
        """`source_fn_stack` of a node: the layer that the call is in, or else the function or the method's name."""
        _, kind = next(reversed(module_stack.values()), ("", ""))
        layer = _layer(kind)
        func = self.function if layer is None else layer
        name = getattr(self.function, "__name__", "")
        if layer is None and type(func).__name__ in ("method_descriptor", "wrapper_descriptor"):
            func = _OPERATORS.get(name, name)
        key = (layer, self.torch_fn, tuple(module_stack))
        if key not in self._sources:
            number = self._counts[name] = self._counts.get(name, -1) + 1
            self._sources[key] = f"{name}_{number}" if number else name
        return [(self._sources[key], func)]


@functools.cache
def _layer(kind):
    """The class of a layer of this package by its name; None for containers and for modules of programs."""
    head, _, path = kind.partition(".nn.modules.")
    if head not in ("torch", "tessera") or path.startswith("container."):
        return None
    module, _, name = path.partition(".")
    return getattr(getattr(tessera.nn.modules, module, None), name, None)
