"""Which function of the program a node of an exported program comes from; Python's functions that programs call."""

import builtins
import contextlib
import functools
import math
import operator
import os
import sys

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


def _extreme(plain, of_numbers, of_tensors):
    """Python's max or min, which a program may ask of symbolic numbers and of tensors of one element."""

    def run(*args, **kwargs):
        given = args if len(args) != 1 or kwargs else tuple(args[0])
        if kwargs or not _has_symbols(given) or _is_ours(sys._getframe(1)):
            return plain(*(args if len(args) != 1 or kwargs else (given,)), **kwargs)
        tensors = any(isinstance(a, tessera.Tensor) for a in given)
        if tensors:
            given = [a if isinstance(a, tessera.Tensor) else tessera.full((), a) for a in given]
        return functools.reduce(of_tensors if tensors else of_numbers, given)

    return run


def _has_symbols(values):
    kinds = (tessera.SymInt, tessera.SymFloat, tessera.Tensor)
    return any(isinstance(v, kinds) for v in values) and all(isinstance(v, (*kinds, int, float)) for v in values)


def _is_ours(frame):
    """Whether a frame is of this package."""
    return frame.f_code.co_filename.startswith(_PACKAGE)


def _pow(a, b):
    if _has_symbols((a, b)) and not _is_ours(sys._getframe(1)):
        return tessera.sym_float(a) ** tessera.sym_float(b)
    return _PLAIN["pow"](a, b)


_PACKAGE = os.path.dirname(tessera.__file__) + os.sep
_PLAIN = {"max": max, "min": min, "pow": math.pow}
_OPEN = {
    (builtins, "max"): _extreme(max, tessera.sym_max, tessera.maximum),
    (builtins, "min"): _extreme(min, tessera.sym_min, tessera.minimum), (math, "pow"): _pow,
}  # fmt: skip


@contextlib.contextmanager
def open_functions():
    """Context manager: the program's max(), min() and math.pow() of symbolic numbers give such."""
    for (module, name), function in _OPEN.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for module, name in _OPEN:
            setattr(module, name, _PLAIN[name])


@functools.cache
def _layer(kind):
    """The class of a layer of this package by its name; None for containers and for modules of programs."""
    head, _, path = kind.partition(".nn.modules.")
    if head not in ("torch", "tessera") or path.startswith("container."):
        return None
    module, _, name = path.partition(".")
    return getattr(getattr(tessera.nn.modules, module, None), name, None)
