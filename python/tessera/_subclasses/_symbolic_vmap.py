"""vmap where sizes are symbols: C++ batches operators by numbers, so the function is traced on one element first, and
what its operators call for the whole batch is found at several sizes, as for composite operators.
"""

import contextlib
import operator
import types

import tessera
from tessera import SymBool, SymFloat, SymInt, Tensor, _C
from tessera._higher_order_ops._bodies import _BodyTracer, samples, without
from tessera._subclasses._lifting import lifted
from tessera.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, get_proxy_mode
from tessera.fx.node import Node
from tessera.utils import _pytree

_SYMBOLIC = (SymInt, SymFloat, SymBool)


def symbolic_modes():
    """(the mode that writes the trace under way, or None; the mode of the fake tensors), if that has symbols."""
    stack = [_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack())]
    fakes = [m for m in stack if getattr(m, "shape_env", None) is not None]
    if not fakes or _C._func._levels() or not fakes[-1].shape_env.var_to_range:
        return None
    tracing = get_proxy_mode()
    return (tracing if stack[-1] is tracing else None, fakes[-1]) if stack[-1] in (tracing, fakes[-1]) else None


def sizes_known(function, args):
    """Makes numbers, which are guarded, of the sizes of what a transform gets and its function closes over: inside of
    the other transforms tensors have plain sizes.
    """
    if not _C._len_torch_dispatch_stack() or symbolic_modes() is None:
        return
    cells = getattr(function, "__closure__", None) or ()
    held = [c.cell_contents for c in cells if c != _EMPTY]
    for leaf in _pytree.tree_leaves((args, held)):
        if isinstance(leaf, Tensor):
            for size in leaf.shape:
                int(size)


_EMPTY = types.CellType()


class _Batched:
    """An operator for all elements of a batch, as a function of the batch's size and its arguments.

    Args:
        target: operator. dims: {place among the flat arguments: the dimension that is mapped}.
    """

    def __init__(self, target, dims, randomness):
        self.target, self.dims, self.randomness = target, dims, randomness
        self.found = []  # which of the results differ from element to element

    def __repr__(self):
        return f"vmap of {self.target}"

    def __call__(self, count, *args, **kwargs):
        func = _C._func
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        level = func._push_vmap(count, self.randomness)
        try:
            for i, dim in self.dims.items():
                leaves[i] = func._add_batch_dim(leaves[i], dim, level)
            args, kwargs = _pytree.tree_unflatten(leaves, spec)
            outputs, spec = _pytree.tree_flatten(self.target(*args, **kwargs))
            wrappers = [func._wrapper(o) if isinstance(o, Tensor) else None for o in outputs]
            self.found = [w is not None and w[0] == level for w in wrappers]
            outputs = [
                func._remove_batch_dim(o, level, count, 0) if mapped else o for o, mapped in zip(outputs, self.found)
            ]
            return _pytree.tree_unflatten(outputs, spec)
        finally:
            func._pop(level)


class _Replay:
    """Runs the operators of a trace of one element on the batch. Values are (value, the mapped dimension or None)."""

    def __init__(self, fake_mode, count, randomness):
        self._mode, self._count, self._randomness = fake_mode, count, randomness
        self.values = {}

    def run(self, node):
        """The value of a node."""
        symbolic = node.meta.get("val")
        if isinstance(symbolic, _SYMBOLIC):
            return symbolic, None
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        leaves, spec = _pytree.tree_flatten((node.args, node.kwargs))
        known = [self.values[leaf] if isinstance(leaf, Node) else (leaf, None) for leaf in leaves]
        dims = {i: dim for i, (_, dim) in enumerate(known) if dim is not None}
        args, kwargs = _pytree.tree_unflatten([value for value, _ in known], spec)
        if not dims and tessera.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            return self._noted(node.target(*args, **kwargs), None)
        op = _Batched(node.target, dims, self._randomness)
        result = lifted(self._mode, op, (self._count, *args), dict(kwargs))
        return self._noted(result, op.found)

    @staticmethod
    def _noted(result, mapped):
        if isinstance(result, (tuple, list)):
            return [(r, 0 if mapped and mapped[i] else None) for i, r in enumerate(result)]
        return result, 0 if mapped and mapped[0] else None


def run(modes, func, flat_out_dims, randomness, count, leaves, dims, spec, kwargs):
    """As vmap's run of one level: (flat results, their structure).

    Args:
        modes: of symbolic_modes(). flat_out_dims: function of results and their structure, which gives a dimension (or
            None) for each.
    """
    tracing, fake_mode = modes
    tracer = _BodyTracer()
    replay = _Replay(fake_mode, count, randomness)
    inside = list(leaves)
    for i, (leaf, dim) in enumerate(zip(leaves, dims)):
        if isinstance(leaf, Tensor):
            with without(tracing) if tracing is not None else contextlib.nullcontext():
                element = leaf if dim is None else leaf.select(dim, 0)
            (inside[i],) = samples(tracing, element) if tracing is not None else (element.detach().clone(),)
            replay.values[tracer.placeholder(inside[i], f"arg{i}_1").node] = (leaf, dim)
    if tracing is None:
        around = ProxyTorchDispatchMode(tracer)
    else:
        around = contextlib.ExitStack()
        around.enter_context(without(tracing))
        around.enter_context(tracing.nested(tracer))
    with around:
        result = func(*_pytree.tree_unflatten(inside, spec), **kwargs)
        outputs, out_spec = _pytree.tree_flatten(result)
        wanted = flat_out_dims(outputs, out_spec)
        nodes = [tracer.create_arg(o) for o in outputs]
    lifted_values = iter(tracer.taken)
    for node in tracer.graph.nodes:
        if node.op == "placeholder":
            if node not in replay.values:
                replay.values[node] = (next(lifted_values), None)
        else:
            replay.values[node] = replay.run(node)
    return [_placed(*replay.values[node], dim, count) for node, dim in zip(nodes, wanted)], out_spec


def _placed(value, dim, wanted, count):
    """A result with the mapped dimension where it is wanted."""
    if wanted is None:
        if dim is not None:
            raise ValueError("vmap can not return a BatchedTensor when out_dim is None: the result differs across the "
                             "batch.")  # fmt: skip
        return value
    if dim is None:
        return value.unsqueeze(wanted).expand(
            *[count if i == wanted % (value.dim() + 1) else -1 for i in range(value.dim() + 1)]
        )
    return value.movedim(dim, wanted) if dim != wanted else value
