"""`associative_scan`: all prefixes of a sequence under an associative function, in a logarithmic number of steps."""

import tessera
from tessera._higher_order_ops._operator import ControlFlow, Flat, without_values
from tessera._higher_order_ops.scan import moved
from tessera.utils import _pytree as pytree

__all__ = ["associative_scan", "associative_scan_op"]


def _prefixes(combine, leaves):
    """`combine(left, right)` works on tuples of tensors with any number of elements in dimension 0."""
    length = len(leaves[0])
    if length < 2:
        return leaves
    # Neighbours are joined: the prefixes of the pairs are every second one; one more element each gives the others.
    pairs = combine([t[0 : length - 1 : 2] for t in leaves], [t[1:length:2] for t in leaves])
    second = _prefixes(combine, pairs)
    between = [t[: (length - 1) // 2] for t in second]
    if len(between[0]):
        between = combine(between, [t[2:length:2] for t in leaves])
        first = [tessera.cat([t[:1], b]) for t, b in zip(leaves, between)]
    else:
        first = [t[:1] for t in leaves]
    return [_interleaved(a, b) for a, b in zip(first, second)]


def _interleaved(a, b):
    """a[0], b[0], a[1], ...; a has as many as b, or one more."""
    both = tessera.stack([a[: len(b)], b], 1).flatten(0, 1)
    return both if len(a) == len(b) else tessera.cat([both, a[-1:]])


class AssociativeScanOp(ControlFlow):
    """`associative_scan(combine_fn, xs, additional_inputs)`: the prefixes along dimension 0, a tuple.

    `combine_fn(*left, *right, *additional_inputs)` gets slices.
    """

    def __init__(self):
        super().__init__("associative_scan")

    def run(self, combine_fn, xs, additional_inputs=()):
        others = tuple(additional_inputs)
        if without_values(*xs) or xs[0].shape[0] == 0:
            return tuple(tessera.empty_like(x) for x in xs)
        axes = (0,) * (2 * len(xs)) + (None,) * len(others)

        def combine(left, right):
            return tessera.func.vmap(combine_fn, in_dims=axes)(*left, *right, *others)

        return tuple(_prefixes(combine, tuple(xs)))

    def trace(self, mode, combine_fn, xs, additional_inputs=()):
        from tessera._higher_order_ops import _bodies

        xs, others = list(xs), list(additional_inputs)
        with _bodies.without(mode):
            slices = [x.new_zeros(x.shape[1:]) for x in xs]
        sample = [*_bodies.samples(mode, *slices, *slices), *others]
        (body,), lifted = _bodies.trace_bodies("associative_scan", mode, (combine_fn,), (sample,))
        others += lifted
        if tessera.is_grad_enabled() and any(t.requires_grad for t in (*xs, *others) if isinstance(t, tessera.Tensor)):
            return self.run(body.module, xs, others)  # its steps have derivatives
        return _bodies.emit(
            self, mode, ("associative_scan_combine_graph",), (body.module,), lambda g: (g, xs, tuple(others)),
            lambda: self.run(body.module, xs, others),
        )  # fmt: skip


associative_scan_op = AssociativeScanOp()


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """x0, f(x0, x1), f(f(x0, x1), x2) ... along a dimension, for an associative f; with f = add it is cumsum.

    Traced programs keep it as one operator. Differentiable.

    Args:
        combine_fn: function of two elements (trees like xs), of which it makes a third one; it calls pure operators.
        xs: tensor, or a tree of tensors, of equal size in `dim`.
        dim: which dimension is gone along.
        reverse: from its end.
        combine_mode: "pointwise" if combine_fn works on each number by itself, or "generic". Here both work for any.

    Raises: ValueError for another combine_mode, a combine_fn that can't be called or elements of another structure than
        the results'; RuntimeError for leaves that are no tensors, or of differing sizes; IndexError for another dim.

    >>> from tessera._higher_order_ops import associative_scan
    >>> associative_scan(lambda a, b: a * b, tessera.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 2., 6.])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(leaf, tessera.Tensor) for leaf in leaves):
        raise ValueError(f"xs leaves must be a Tensor, but got {leaves}")
    if all(leaf.numel() == 0 for leaf in leaves):
        return xs
    moved_leaves = moved(leaves, dim, reverse)
    body = Flat(lambda a, b: combine_fn(a, b), pytree.tree_flatten((xs, xs))[1])

    def checked(*values):
        made = body(*values)
        if body.out != spec:
            raise ValueError(
                "The pytree of the output of the operator needs to match the pytree of the input: expected "
                f"{spec}, but got {body.out}"
            )
        return made

    result = associative_scan_op(checked, tuple(moved_leaves), ())
    result = [t.flip(0) if reverse else t for t in result]
    return pytree.tree_unflatten([t.movedim(0, dim) if dim else t for t in result], spec)
