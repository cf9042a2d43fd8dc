"""`map`: a function of every slice."""

import tessera
from tessera._higher_order_ops._operator import ControlFlow, Flat, without_values
from tessera._higher_order_ops.scan import stacked
from tessera.utils import _pytree as pytree

__all__ = ["map", "map_impl"]


class MapImpl(ControlFlow):
    """`map_impl(f, xs, pos_args)`: `f(*slices, *pos_args)` for the slices of dimension 0, stacked: a tuple."""

    def __init__(self):
        super().__init__("map_impl")

    def run(self, f, xs, pos_args):
        length = xs[0].shape[0]
        if without_values(*xs):
            return stacked((), length, tuple(f(*(x[0] for x in xs), *pos_args)))
        return stacked([tuple(f(*(x[i] for x in xs), *pos_args)) for i in range(length)], length, ())

    def trace(self, mode, f, xs, pos_args):
        from tessera._higher_order_ops import _bodies

        xs, others = list(xs), list(pos_args)
        with _bodies.without(mode):
            slices = [x.new_zeros(x.shape[1:]) for x in xs]
        sample = [*_bodies.samples(mode, *slices), *others]
        (body,), lifted = _bodies.trace_bodies("map", mode, (f,), (sample,))
        module, count = body.module, len(xs)

        def forward(given):
            return _bodies.emit(
                self, mode, ("body_graph",), (module,), lambda g: (g, tuple(given[:count]), tuple(given[count:])),
                lambda: self.run(module, given[:count], given[count:]),
            )  # fmt: skip

        def backward(given, wanted, grads):
            pull = _bodies.pulled_back(module, len(given), wanted)
            rows = len(grads)

            def back(*values):
                slices, outer, rest = values[:count], values[count : count + rows], values[count + rows :]
                return pull(*slices, *rest, *outer)

            found = self(back, (*given[:count], *grads), tuple(given[count:]))
            return [g if i < count else g.sum(0) for i, g in zip(wanted, found)]

        return _bodies.with_gradient(forward, backward, [*xs, *others, *lifted])


map_impl = MapImpl()


def map(f, xs, *args):
    """`f(x, *args)` for each slice x of dimension 0 of xs, stacked. Traced programs keep one call. Differentiable.

    Args:
        f: function of a slice and args; a tensor, or a tree of tensors.
        xs: tensor, or a tree of tensors, of equal size in dimension 0.
        args: what each call gets as it is: tensors, numbers, or trees of them.

    Raises: RuntimeError if xs holds no tensors or other things, or their dimensions 0 differ or are empty.

    >>> from tessera._higher_order_ops import map
    >>> map(lambda x, y: x * y, tessera.arange(3.0), tessera.tensor(2.0))
    tensor([0., 2., 4.])
    """
    leaves, _ = pytree.tree_flatten(xs)
    others, _ = pytree.tree_flatten(args)
    if not leaves or not all(isinstance(leaf, tessera.Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if any(leaf.dim() == 0 for leaf in leaves) or any(leaf.shape[0] != leaves[0].shape[0] for leaf in leaves):
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {[tuple(leaf.shape) for leaf in leaves]}."
        )
    if leaves[0].shape[0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    body = Flat(f, pytree.tree_flatten((xs, *args))[1])
    return pytree.tree_unflatten(list(map_impl(body, tuple(leaves), tuple(others))), body.out)
