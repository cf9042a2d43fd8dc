"""What the operators of this folder share: how a call finds the layer that it is for."""

import sys

import tessera
from tessera import _C
from tessera._ops import HigherOrderOperator
from tessera.utils import _pytree as pytree


class UnsupportedAliasMutationException(RuntimeError):
    """A function of an operator writes to what it is given, where that cannot be repeated."""


class ControlFlow(HigherOrderOperator):
    """An operator of functions of flat tensors, which return tuples of them.

    Subclasses have `run(*args)`, the call itself, and `trace(mode, *args)`, which makes a node of it. Rules of py_impl
    for other modes go first. Raises: RuntimeError if a function writes to what it is given while a layer rewrites it.
    """

    def __call__(self, /, *args, **kwargs):
        leaves = without_numbers(pytree.tree_leaves((args, kwargs)))
        if tessera.overrides.has_torch_function(leaves):
            return tessera.overrides.handle_torch_function(self, leaves, *args, **kwargs)
        if any(_C._func._is_functional_tensor(leaf) for leaf in leaves):
            return self._functional(*args, **kwargs)
        count = _C._len_torch_dispatch_stack()
        mode = _C._get_dispatch_stack_at(count - 1) if count else None
        if mode is not None and self._rule_of(type(mode)) is not None:
            return self.dispatch(leaves, *args, **kwargs)
        if getattr(mode, "tracer", None) is not None:
            return self.trace(mode, *args, **kwargs)
        return self.run(*args, **kwargs)

    def _functional(self, *args):
        """The call below functional tensors: on what they hold, with functions that are made functional, too."""
        func = _C._func
        was = func._include_functional(False, False)

        def outside(leaf):
            if func._is_functional_tensor(leaf):
                return func._from_functional_tensor(leaf)
            return _functional_body(self.name(), leaf, was) if callable(leaf) and not _is_tensor(leaf) else leaf

        try:
            result = self(*pytree.tree_map(outside, args))
        finally:
            func._include_functional(was, False)
        return pytree.tree_map_only(_C.TensorBase, func._to_functional_tensor, result)


def is_symbol(x, *kinds):
    """True for a number that is known while a program runs: of "SymInt", "SymBool" ..."""
    return isinstance(x, tuple(c for c in (getattr(tessera, kind, None) for kind in kinds) if c is not None))


def _is_tensor(x):
    return isinstance(x, _C.TensorBase)


def _functional_body(name, function, included):
    """The function on functional tensors; `included`: and those that it makes of none are functional."""
    func = _C._func

    def body(*operands):
        inside = [func._to_functional_tensor(x) if _is_tensor(x) else x for x in operands]
        was = func._include_functional(included, False)
        try:
            result = function(*inside)
        finally:
            func._include_functional(was, False)
        result = pytree.tree_map(
            lambda x: func._from_functional_tensor(x) if func._is_functional_tensor(x) else x, result
        )
        for i, x in enumerate(inside):
            if _is_tensor(x) and func._functional_state(x)[0]:
                raise UnsupportedAliasMutationException(
                    f"{name}: a function writes to its operand {i}, which is not supported: it might be modifying the "
                    "input! Return the new tensor instead"
                )
        return result

    return body


class Flat:
    """A function of trees as one of their leaves, which returns a tuple of leaves.

    `out` is the form of what it returned last.
    """

    def __init__(self, function, spec):
        self.function, self.spec, self.out = function, spec, None

    def __call__(self, *leaves):
        result = self.function(*pytree.tree_unflatten(list(leaves), self.spec))
        found, self.out = pytree.tree_flatten(result)
        return tuple(found)


def without_numbers(leaves):
    """The leaves that are no symbolic numbers: operators take these as they are, and nobody overrides them."""
    return [leaf for leaf in leaves if not isinstance(leaf, (tessera.SymInt, tessera.SymFloat, tessera.SymBool))]


def without_values(*tensors):
    """True if one of them says nothing of its numbers: a meta or a fake tensor."""
    fake = sys.modules.get("tessera._subclasses.fake_tensor")
    return any(
        _is_tensor(t) and (t.device.type == "meta" or (fake is not None and isinstance(t, fake.FakeTensor)))
        for t in tensors
    )


def metadata_differs(first, second):
    """What two flat results differ in, in words, or None."""
    if len(first) != len(second):
        return f"have {len(first)} and {len(second)} elements"
    for i, (a, b) in enumerate(zip(first, second)):
        if _is_tensor(a) != _is_tensor(b):
            return f"have {type(a).__name__} and {type(b).__name__} as element {i}"
        if not _is_tensor(a):
            continue
        for what in ("shape", "dtype", "device"):
            if getattr(a, what) != getattr(b, what):
                return f"differ in the {what} of element {i}: {getattr(a, what)} and {getattr(b, what)}"
    return None
