"""vmap: a function of one element becomes a function of a batch of them."""

import functools
import importlib
import sys

import tessera
from tessera import _C
from tessera.utils import _pytree

_levels = _C._func


def _name(func):
    return getattr(func, "__name__", None) or repr(func)


def _call_text(name, in_dims):
    return f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"


def _flat_in_dims(name, in_dims, args):
    """Leaves of the arguments, the dimension of each (counted from the front, or None), and the arguments' structure.

    Raises: ValueError for structures that differ, non-integers, dimensions that a tensor lacks.
    """
    if not isinstance(in_dims, (int, tuple, list)) or isinstance(in_dims, bool):
        raise ValueError(
            f"{_call_text(name, in_dims)}: expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{_call_text(name, in_dims)}: got no inputs. A function without inputs can't be mapped; give it at least "
            "one tensor."
        )
    leaves, spec = _pytree.tree_flatten(args)
    dims = _pytree._broadcast_to_and_flatten(tuple(in_dims) if isinstance(in_dims, list) else in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{_call_text(name, in_dims)}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {_pytree.tree_structure(in_dims)} but inputs has structure {spec}."
        )
    found = []
    for leaf, dim in zip(leaves, dims):
        if dim is None:
            found.append(None)
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"{_call_text(name, in_dims)}: Got in_dim={dim} for an input but in_dim must be either an integer "
                "dimension or None."
            )
        if not isinstance(leaf, tessera.Tensor):
            raise ValueError(
                f"{_call_text(name, in_dims)}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We "
                "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"{_call_text(name, in_dims)}: Got in_dim={dim} for some input, but that input is a Tensor of "
                f"dimensionality {leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        found.append(dim % leaf.dim())
    return leaves, found, spec


def _batch_size(name, in_dims, leaves, dims):
    sizes = [leaf.size(dim) for leaf, dim in zip(leaves, dims) if dim is not None]
    if not sizes:
        raise ValueError(
            f"{_call_text(name, in_dims)}: at least one input must be mapped over, but in_dims is None for all of them."
        )
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0]


def _flat_out_dims(name, out_dims, outputs, spec):
    if isinstance(out_dims, list):
        out_dims = tuple(out_dims)
    dims = None
    if out_dims is None or isinstance(out_dims, int):
        dims = [out_dims] * len(outputs)
    elif spec.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = [out_dims[0]]
    else:
        dims = _pytree._broadcast_to_and_flatten(out_dims, spec)
    if dims is None or any(not (dim is None or isinstance(dim, int)) for dim in dims):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. It must be an int, None, or a tree of them like the outputs, which have structure {spec}."
        )
    for output, dim in zip(outputs, dims):
        if dim is not None and not isinstance(output, tessera.Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)} as a return. Other "
                "values are returned as they are where out_dims is None."
            )
    return dims


def _unwrapped(name, level, batch_size, output, dim):
    if dim is not None:
        return _levels._remove_batch_dim(output, level, batch_size, dim)
    wrapper = _levels._wrapper(output) if isinstance(output, tessera.Tensor) else None
    if wrapper is not None and wrapper[0] == level:
        raise ValueError(
            f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None: the result differs "
            "across the batch."
        )
    return output


def _run(func, name, out_dims, randomness, batch_size, leaves, dims, spec, kwargs):
    """One level: (flat results, their dimensions, their structure)."""
    level = _levels._push_vmap(batch_size, randomness)
    try:
        inside = [leaf if dim is None else _levels._add_batch_dim(leaf, dim, level) for leaf, dim in zip(leaves, dims)]
        result = func(*_pytree.tree_unflatten(inside, spec), **kwargs)
        if isinstance(result, tessera.Tensor) and isinstance(out_dims, int):
            return [_levels._remove_batch_dim(result, level, batch_size, out_dims)], [out_dims], None
        outputs, out_spec = _pytree.tree_flatten(result)
        flat = _flat_out_dims(name, out_dims, outputs, out_spec)
        return [_unwrapped(name, level, batch_size, o, d) for o, d in zip(outputs, flat)], flat, out_spec
    finally:
        _levels._pop(level)


def _tree(outputs, spec):
    return outputs[0] if spec is None else _pytree.tree_unflatten(outputs, spec)


def _run_chunks(func, name, out_dims, randomness, batch_size, chunk_size, leaves, dims, spec, kwargs):
    pieces = [leaf.split(chunk_size, dim) if dim is not None else None for leaf, dim in zip(leaves, dims)]
    count = -(-batch_size // chunk_size)
    state = tessera.get_rng_state() if randomness == "same" and count > 1 else None
    rows = []
    for k in range(count):
        if state is not None:
            tessera.set_rng_state(state)
        part = [leaf if piece is None else piece[k] for leaf, piece in zip(leaves, pieces)]
        size = min(chunk_size, batch_size - k * chunk_size)
        rows.append(_run(func, name, out_dims, randomness, size, part, dims, spec, kwargs))
    outputs = [
        column[0] if dim is None else tessera.cat(column, dim)
        for column, dim in zip(zip(*(row[0] for row in rows)), rows[0][1])
    ]
    return _tree(outputs, rows[0][2])


def _replaced_steps():
    """The module `_functorch.vmap` if another library has put its own steps of a call there, else None."""
    steps = sys.modules.get("tessera._functorch.vmap")
    return steps if steps is not None and steps._replaced() else None


def _run_steps(steps, func, in_dims, out_dims, randomness, args, kwargs):
    """A call by steps of another library."""
    batch_size, dims, leaves, spec = steps._process_batched_inputs(in_dims, args, func)
    level = _levels._push_vmap(batch_size, randomness)
    try:
        inside = steps._create_batched_inputs(dims, leaves, level, spec)
        return steps._unwrap_batched(func(*inside, **kwargs), out_dims, level, batch_size, func)
    finally:
        _levels._pop(level)


def _symbolic():
    return importlib.import_module("tessera._subclasses._symbolic_vmap")


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that applies `func` along a dimension of its inputs, all elements at once.

    Args:
        func: takes tensors (in trees of tuples, lists, dicts) and returns tensors. It sees one element: its tensors
            lack the mapped dimension.
        in_dims: the dimension to map over: an int for all inputs, or a tree like the inputs with None for what is the
            same for all elements.
        out_dims: where the mapped dimension is in the outputs: an int, or a tree like the outputs; None for an output
            that does not depend on the mapped inputs, or is no tensor.
        randomness: "error": random operators raise; "different": each element draws its own numbers; "same": all
            elements get the same.
        chunk_size: at most so many elements at once. None: all.

    Keyword arguments of the resulting function go to `func` as they are.

    Raises: ValueError for in_dims or out_dims that don't fit, sizes that differ, no mapped input, results that are no
        tensors, chunk_size < 1. RuntimeError from `func` where one result for the whole batch is impossible: item(),
        control flow that depends on data, writing mapped values to a tensor that isn't mapped.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        steps = _replaced_steps()
        if steps is not None and chunk_size is None:
            return _run_steps(steps, func, in_dims, out_dims, randomness, args, kwargs)
        name = _name(func)
        leaves, dims, spec = _flat_in_dims(name, in_dims, args)
        batch_size = _batch_size(name, in_dims, leaves, dims)
        modes = _C._len_torch_dispatch_stack() and _symbolic().symbolic_modes()
        if modes:
            flat = functools.partial(_flat_out_dims, name, out_dims)
            outputs, out_spec = _symbolic().run(modes, func, flat, randomness, batch_size, leaves, dims, spec, kwargs)
            return _tree(outputs, out_spec)
        if chunk_size is not None and chunk_size < batch_size:
            return _run_chunks(func, name, out_dims, randomness, batch_size, chunk_size, leaves, dims, spec, kwargs)
        outputs, _, out_spec = _run(func, name, out_dims, randomness, batch_size, leaves, dims, spec, kwargs)
        return _tree(outputs, out_spec)

    return mapped
