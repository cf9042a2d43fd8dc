"""`cond`: one of two functions."""

import warnings

import tessera
from tessera import _C
from tessera._higher_order_ops._operator import (
    ControlFlow,
    Flat,
    UnsupportedAliasMutationException,  # noqa: F401 - where programs look for it
    is_symbol,
    metadata_differs,
    without_numbers,
    without_values,
)
from tessera.utils import _pytree as pytree

__all__ = ["cond", "cond_op"]


class CondOp(ControlFlow):
    """`cond(pred, true_fn, false_fn, operands)`: a tuple."""

    def __init__(self):
        super().__init__("cond")

    def run(self, pred, true_fn, false_fn, operands):
        operands = tuple(operands)
        if _is_open(pred):
            results = tuple(true_fn(*operands)), tuple(false_fn(*operands))
            _check_alike(*results)
            return results[0]
        if isinstance(pred, tessera.Tensor) and _C._func._levels() and _C._func._is_batched(pred):
            return _chosen(pred, tuple(true_fn(*operands)), tuple(false_fn(*operands)))
        return tuple((true_fn if bool(pred) else false_fn)(*operands))

    def trace(self, mode, pred, true_fn, false_fn, operands):
        from tessera._higher_order_ops import _bodies

        operands = list(operands)
        bodies, lifted = _bodies.trace_bodies("cond", mode, (true_fn, false_fn), (operands, operands))
        first, second = (b.module for b in bodies)
        results = _results(first)
        _check_alike(results, _results(second))

        def compute(given):
            if _is_open(pred):  # what the bodies read of tensors is open, too: they have run once
                return tuple(v.detach().clone() if isinstance(v, tessera.Tensor) else v for v in results)
            return self.run(pred, first, second, given)

        def forward(given):
            return _bodies.emit(
                self, mode, ("true_graph", "false_graph"), (first, second),
                lambda t, f: (pred, t, f, tuple(given)), lambda: compute(given),
            )  # fmt: skip

        def backward(given, wanted, grads):
            both = [_bodies.pulled_back(body, len(given), wanted) for body in (first, second)]
            return self(pred, *both, (*given, *grads))

        return _bodies.with_gradient(forward, backward, [*operands, *lifted])


cond_op = CondOp()


def _is_open(pred):
    """Whether a predicate is not known while tracing."""
    return isinstance(pred, tessera.SymBool) or without_values(pred)


def _results(module):
    output = next(n for n in reversed(module.graph.nodes) if n.op == "output")
    return [n.meta["val"] if hasattr(n, "meta") and "val" in n.meta else n for n in output.args[0]]


def _check_alike(first, second):
    different = metadata_differs(first, second)
    if different:
        raise RuntimeError(
            "torch.cond: expected true_fn and false_fn to return as many tensors with the same metadata, but "
            f"their results {different}"
        )


def _chosen(pred, first, second):
    """In each element of a batch what its predicate says."""
    _check_alike(first, second)
    return tuple(tessera.where(pred.reshape(()), a, b) for a, b in zip(first, second))


def cond(pred, true_fn, false_fn, operands=()):
    """`true_fn(*operands)` if `pred`, else `false_fn(*operands)`. Traced programs (make_fx, export) keep both.

    Both functions return the same structure of tensors, with the same shapes and dtypes: tracing checks it, as it does
    that they write to no operand. Differentiable. Inside of vmap a `pred` with a batch makes both run.

    Args:
        pred: a bool (which is decided when traced), a symbolic one, or a tensor with one element.
        operands: a tuple or list of tensors, or of tuples, lists and dicts of them.

    Raises: RuntimeError for another `pred`, functions that can't be called, operands in no tuple or that are no
        tensors, and what tracing finds.

    >>> x = tessera.tensor([1.0, 2.0])
    >>> tessera.cond(x.sum() > 2, lambda x: x * 2, lambda x: x - 1, (x,))
    tensor([2., 4.])
    """
    _check(pred, true_fn, false_fn, operands)
    relevant = without_numbers(pytree.tree_leaves((pred, operands)))
    if tessera.overrides.has_torch_function(relevant):
        return tessera.overrides.handle_torch_function(cond, relevant, pred, true_fn, false_fn, operands)
    if isinstance(pred, (bool, int)):
        if _C._len_torch_dispatch_stack():
            warnings.warn(
                f"torch.cond: pred is the Python value {pred!r}, which is decided now; make it a tensor of one bool to "
                "keep both branches",
                UserWarning,
                stacklevel=2,
            )
        return (true_fn if pred else false_fn)(*operands)
    leaves, spec = pytree.tree_flatten(tuple(operands))
    branches = Flat(true_fn, spec), Flat(false_fn, spec)
    result = cond_op(pred, *branches, tuple(leaves))
    specs = [b.out for b in branches if b.out is not None]
    if len(specs) == 2 and specs[0] != specs[1]:
        raise RuntimeError(
            f"torch.cond: expected true_fn and false_fn to return the same structure, but got {specs[0]} and {specs[1]}"
        )
    return pytree.tree_unflatten(list(result), specs[0])


def _check(pred, true_fn, false_fn, operands):
    if not isinstance(pred, (bool, int, tessera.Tensor)) and not is_symbol(pred, "SymBool", "SymInt"):
        if not tessera.overrides.has_torch_function((pred,)):
            raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, tessera.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(
        isinstance(leaf, tessera.Tensor) or is_symbol(leaf, "SymInt") or tessera.overrides.has_torch_function((leaf,))
        for leaf in pytree.tree_leaves(operands)
    ):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, but "
            f"got {operands}."
        )
