"""Jacobians and Hessians: all cotangents, or tangents, of a basis in one vmap."""

import functools

import tessera
from tessera.func._forward import jvp_at
from tessera.func._grad import vjp_at
from tessera.func._vmap import vmap
from tessera.func._wrappers import chosen, require_tensors
from tessera.utils import _pytree


def _basis(tensors):
    """For each tensor a batch of tensors of its shape, as many as all of them have elements: unit vectors."""
    counts = [t.numel() for t in tensors]
    total, rows, before = sum(counts), [], 0
    for tensor, count in zip(tensors, counts):
        unit = tessera.eye(count, dtype=tensor.dtype, device=tensor.device)
        if count < total:
            parts = [unit.new_zeros(before, count), unit, unit.new_zeros(total - before - count, count)]
            unit = tessera.cat(parts)
        rows.append(unit.view(total, *tensor.shape))
        before += count
    return tuple(rows), counts


def _check_chunk_size(chunk_size, function):
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"{function}: `chunk_size` should be greater than 0.")


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that computes the Jacobian of `func` in reverse mode: a vjp for each element of the output.

    Args:
        func: takes and returns trees of tensors; with has_aux, returns the pair of such a tree and anything else.
        argnums: which arguments to differentiate with respect to, an int or a tuple of them.
        has_aux: the result is (Jacobian, aux).
        chunk_size: so many rows at once. None: all.

    The Jacobian is a tree like the output whose leaves are trees like the argument (tuples of them if argnums is a
    tuple); the tensors have the shape output.shape + input.shape.

    Raises: ValueError for chunk_size < 1; RuntimeError as `vjp`.
    """
    _check_chunk_size(chunk_size, "jacrev")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        positions = chosen(args, argnums, "jacrev")
        call = functools.partial(func, **kwargs) if kwargs else func
        result, pull, aux = vjp_at(call, args, has_aux, positions)
        outputs, out_spec = _pytree.tree_flatten(result)
        inputs, in_spec = _pytree.tree_flatten(tuple(args[i] for i in positions))
        basis, counts = _basis(outputs)

        def row(*cotangents):
            return tuple(_pytree.tree_leaves(pull(_pytree.tree_unflatten(cotangents, out_spec))))

        rows = vmap(row, chunk_size=chunk_size)(*basis) if sum(counts) else _no_rows(inputs)
        blocks = [r.split(counts) for r in rows]
        jacobians = []
        for k, output in enumerate(outputs):
            of_inputs = [b[k].reshape((*output.shape, *x.shape)) for b, x in zip(blocks, inputs)]
            tree = _pytree.tree_unflatten(of_inputs, in_spec)
            jacobians.append(tree[0] if isinstance(argnums, int) else tree)
        jacobian = _pytree.tree_unflatten(jacobians, out_spec)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def _no_rows(inputs):
    return tuple(x.new_zeros(0, *x.shape) for x in inputs)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that computes the Jacobian of `func` in forward mode: a jvp for each element of the input.

    Args and result are those of `jacrev`.

    Args:
        randomness: as for `vmap`.
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        positions = chosen(args, argnums, "jacfwd")
        call = functools.partial(func, **kwargs) if kwargs else func
        primals = tuple(args[i] for i in positions)
        inputs, in_spec = _pytree.tree_flatten(primals)
        require_tensors(inputs, "jacfwd: expected all elements of the inputs to be Tensors")
        basis, counts = _basis(inputs)
        structure = []

        def column(*tangents):
            _, derivative, aux = jvp_at(call, args, positions, tangents, has_aux)
            flat, out_spec = _pytree.tree_flatten(derivative)
            kept, aux_spec = _pytree.tree_flatten(aux)
            structure[:] = out_spec, aux_spec, kept
            return tuple(flat), tuple(leaf for leaf in kept if isinstance(leaf, tessera.Tensor))

        if sum(counts):
            columns, of_aux = vmap(column, out_dims=(-1, 0), randomness=randomness)(*basis)
            columns = [c.split(counts, -1) for c in columns]
            of_aux = [leaf[0] for leaf in of_aux]
        else:
            columns, of_aux = column(*(tessera.zeros_like(x) for x in inputs))
            columns = [[y.new_zeros(*y.shape, 0)] * len(inputs) for y in columns]
        out_spec, aux_spec, kept = structure
        of_aux = iter(of_aux)
        aux = _pytree.tree_unflatten(
            [next(of_aux) if isinstance(leaf, tessera.Tensor) else leaf for leaf in kept], aux_spec
        )
        jacobians = []
        for blocks in columns:
            of_inputs = [b.reshape((*b.shape[:-1], *x.shape)) for b, x in zip(blocks, inputs)]
            tree = _pytree.tree_unflatten(of_inputs, in_spec)
            jacobians.append(tree[0] if isinstance(argnums, int) else tree)
        jacobian = _pytree.tree_unflatten(jacobians, out_spec)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def hessian(func, argnums=0):
    """A function that computes the second derivatives of `func`: `jacfwd(jacrev(func, argnums), argnums)`.

    For an output of shape s and inputs of shapes a, b the blocks have the shape s + a + b.
    """
    return jacfwd(jacrev(func, argnums), argnums)
