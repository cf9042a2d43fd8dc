"""`scan`: a function along a dimension, which carries a state."""

import tessera
from tessera._higher_order_ops._operator import ControlFlow, Flat, metadata_differs, without_values
from tessera.utils import _pytree as pytree

__all__ = ["scan", "scan_op"]


def stacked(rows, length, forms):
    """Rows of results as tensors with a dimension 0 of that length; of no rows, tensors of the forms' shapes."""
    if rows:
        return tuple(tessera.stack(parts) for parts in zip(*rows))
    return tuple(t.new_empty((length, *t.shape)) for t in forms)


class ScanOp(ControlFlow):
    """`scan(combine_fn, init, xs, additional_inputs)`: what is carried last, and the results stacked in dimension 0.

    `combine_fn(*carried, *slices of xs, *additional_inputs)` returns what is carried next, then its results.
    """

    def __init__(self):
        super().__init__("scan")

    def run(self, combine_fn, init, xs, additional_inputs=()):
        carried, length = tuple(init), xs[0].shape[0]
        if without_values(*init, *xs) or length == 0:  # what the results look like, from slices of zeros
            slices = [x.new_zeros(x.shape[1:]) for x in xs]
            step = self._step(combine_fn, carried, slices, additional_inputs)
            return (carried if length == 0 else step[: len(init)]) + stacked((), length, step[len(init) :])
        rows = []
        for i in range(length):
            step = self._step(combine_fn, carried, [x[i] for x in xs], additional_inputs)
            carried = step[: len(init)]
            rows.append(step[len(init) :])
        return carried + stacked(rows, length, ())

    @staticmethod
    def _step(combine_fn, carried, slices, additional):
        made = tuple(combine_fn(*carried, *slices, *additional))
        different = metadata_differs(carried, made[: len(carried)])
        if different:
            raise RuntimeError(
                "scan: expected combine_fn to return a carry with the metadata of the one given, but init and the "
                f"carry that it returned {different}"
            )
        return made

    def trace(self, mode, combine_fn, init, xs, additional_inputs=()):
        from tessera._higher_order_ops import _bodies

        init, xs, additional = list(init), list(xs), list(additional_inputs)
        with _bodies.without(mode):
            slices = [x.new_zeros(x.shape[1:]) for x in xs]
        sample = [*_bodies.samples(mode, *init, *slices), *additional]
        carries, count = len(init), len(init) + len(xs)

        def checked(*values):
            return self._step(combine_fn, values[:carries], values[carries:count], values[count:])

        (body,), lifted = _bodies.trace_bodies("scan", mode, (checked,), (sample,))
        step, given = body.module, [*init, *xs, *additional, *lifted]

        def parts(values):
            return values[:carries], values[carries:count], tuple(values[count:])

        def forward(values):
            return _bodies.emit(
                self, mode, ("scan_combine_graph",), (step,), lambda g: (g, *parts(values)),
                lambda: self.run(step, *parts(values)),
            )  # fmt: skip

        def backward(values, wanted, grads):
            return _backward(self, _bodies, step, parts(values), wanted, grads)

        return _bodies.with_gradient(forward, backward, given)


def _backward(op, _bodies, step, parts, wanted, grads):
    """Goes forward once more to see what each step carried, then backward; gradients of additional inputs are
    summed."""
    init, xs, additional = parts
    carries, count = len(init), len(init) + len(xs)
    values = [*init, *xs, *additional]
    floating = [i for i, v in enumerate(values) if isinstance(v, tessera.Tensor) and _bodies.has_gradient(v)]
    own = [i for i in floating if i < carries]
    sliced = [i for i in floating if carries <= i < count]
    others = [i for i in floating if i >= count]
    pull = _bodies.pulled_back(step, len(values), floating)

    def watched(*given):
        return (*step(*given)[:carries], *(t.clone() for t in given[:carries]))

    carried_in = op(watched, init, xs, additional)[carries:]

    def back(*given):
        sums, rest = given[: len(own) + len(others)], given[len(own) + len(others) :]
        at_step, rest = rest[:count], rest[count:]
        row_grads, more = rest[: len(grads) - carries], rest[len(grads) - carries :]
        flowing = iter(sums[: len(own)])
        outer = [next(flowing) if i in own else None for i in range(carries)]
        found = dict(zip(floating, pull(*at_step, *more, *outer, *row_grads)))
        added = [s + found[i] for s, i in zip(sums[len(own) :], others)]
        return (*(found[i] for i in own), *added, *(found[i] for i in sliced))

    start = [grads[i] for i in own] + [tessera.zeros_like(values[i]) for i in others]
    rows = [t.flip(0) for t in (*carried_in, *xs, *(g for g in grads[carries:]))]
    made = op(back, start, rows, additional)
    found = dict(zip([*own, *others], made))
    found.update(zip(sliced, (t.flip(0) for t in made[len(start) :])))
    return [found[i] for i in wanted]


scan_op = ScanOp()


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """Calls `carry, y = combine_fn(carry, x)` for each slice x of xs; returns the last carry and the results stacked.

    Traced programs keep one step. Differentiable.

    Args:
        combine_fn: function of the carry and a slice. The carry that it returns has the structure, shapes and dtypes of
            `init`.
        init: tensor, or a tree of tensors: the first carry.
        xs: tensor, or a tree of tensors, of equal size in `dim`.
        dim: which dimension is gone along; it comes first in the results.
        reverse: from the last slice to the first; results stand at their slices' places.

    Raises: RuntimeError for a combine_fn that can't be called, an `init` or `xs` that holds no tensors or other things,
        an empty dimension, and a carry that changes its form.

    >>> from tessera._higher_order_ops import scan
    >>> scan(lambda c, x: (c + x, c * x), tessera.zeros(()), tessera.arange(4.0))
    (tensor(6.), tensor([0., 0., 2., 9.]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    starts, form = pytree.tree_flatten(init)
    leaves, slices = pytree.tree_flatten(xs)
    if not starts:
        raise RuntimeError("scan() operator requires init leaves.")
    for what, found in (("init", starts), ("xs", leaves)):
        for leaf in found:
            if not isinstance(leaf, tessera.Tensor):
                raise RuntimeError(f"All {what} leaves must be a Tensor but got {leaf}")
    if not leaves:
        return init, []
    leaves = moved(leaves, dim, reverse)
    both = Flat(lambda carry, x: _pair(combine_fn(carry, x), form), pytree.tree_flatten((init, xs))[1])
    result = scan_op(both, starts, leaves, ())
    carry = pytree.tree_unflatten(list(result[: len(starts)]), form)
    rows = [t.flip(0) for t in result[len(starts) :]] if reverse else list(result[len(starts) :])
    return carry, pytree.tree_unflatten(rows, both.out.children_specs[1])


def moved(leaves, dim, reverse):
    """The leaves with `dim` in front, from its end if reverse. Raises: RuntimeError unless all have as many slices."""
    sizes = [leaf.shape[dim] for leaf in leaves]
    if sizes[0] == 0 or any(size != sizes[0] for size in sizes):
        raise RuntimeError(f"expected xs to have slices in dimension {dim}, as many in each, but got the sizes {sizes}")
    leaves = [leaf.movedim(dim, 0) if dim else leaf for leaf in leaves]
    return [leaf.flip(0) for leaf in leaves] if reverse else leaves


def _pair(made, form):
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise RuntimeError(f"scan: combine_fn must return a pair (carry, result), but got {type(made)}")
    if pytree.tree_flatten(made[0])[1] != form:
        raise RuntimeError(
            "scan: expected combine_fn to return a carry of the structure of init, but got "
            f"{pytree.tree_flatten(made[0])[1]} instead of {form}"
        )
    return tuple(made)
