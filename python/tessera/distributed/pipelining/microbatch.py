"""Batches cut into parts, and results put together.

>>> from tessera.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks
>>> args, kwargs = split_args_kwargs_into_chunks((tessera.arange(4),), {"scale": 2}, 2)
>>> [one[0].tolist() for one in args], kwargs
([[0, 1], [2, 3]], [{'scale': 2}, {'scale': 2}])
>>> merge_chunks([one[0] for one in args], TensorChunkSpec(0)).tolist()
[0, 1, 2, 3]
"""

import tessera
from tessera.utils import _pytree

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """Along which dimension a tensor is cut.

    Args:
        split_dim: the dimension.
    """

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims):
        """TensorChunkSpecs of a tuple of dimensions."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        """TensorChunkSpecs of a dictionary of dimensions."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


class _Replicate:
    """In place of a TensorChunkSpec: the tensor goes to all parts."""


def _spec_of(value, spec):
    """What says how a leaf is cut: tensors along dimension 0 unless told otherwise; the rest goes to all parts."""
    if spec is None:
        return TensorChunkSpec(0) if isinstance(value, tessera.Tensor) else None
    return spec if isinstance(spec, TensorChunkSpec) else None


def _cut(value, spec, chunks):
    leaves, tree = _pytree.tree_flatten(value)
    specs = [None] * len(leaves)
    if isinstance(spec, TensorChunkSpec):
        specs = [spec] * len(leaves)
    elif spec is not None:
        specs = _pytree.tree_flatten(spec)[0]
        if len(specs) != len(leaves):
            raise ValueError(f"{len(leaves)} arguments need as many chunk specs, but got {len(specs)}")
    rows = []
    for leaf, one in zip(leaves, specs):
        one = _spec_of(leaf, one)
        if one is None or not isinstance(leaf, tessera.Tensor):
            rows.append([leaf] * chunks)
            continue
        if leaf.shape[one.split_dim] < chunks:
            raise RuntimeError(
                f"a tensor of length {leaf.shape[one.split_dim]} in dimension {one.split_dim} cannot be cut in {chunks}"
            )
        rows.append(list(leaf.tensor_split(chunks, one.split_dim)))
    return [_pytree.tree_unflatten([row[i] for row in rows], tree) for i in range(chunks)]


def split_args_kwargs_into_chunks(args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None):
    """Arguments of a batch as arguments of its parts.

    Args:
        args: a tuple.
        kwargs: a dictionary, or None.
        chunks: number of parts.
        args_chunk_spec: how each is cut; None: tensors along dimension 0.
        kwargs_chunk_spec: the same.

    Returns: a list of tuples and a list of dictionaries. Raises: RuntimeError for a tensor that is too short.
    """
    return _cut(tuple(args), args_chunk_spec, chunks), _cut(dict(kwargs or {}), kwargs_chunk_spec, chunks)


def merge_chunks(chunks, chunk_spec):
    """The result of a batch from those of its parts.

    Args:
        chunks: a list of results, all of one structure.
        chunk_spec: along which dimensions; None: 0. What is no tensor is taken from the first.
    """
    first, tree = _pytree.tree_flatten(chunks[0])
    rows = [_pytree.tree_flatten(chunk)[0] for chunk in chunks]
    if isinstance(chunk_spec, TensorChunkSpec) or chunk_spec is None:
        specs = [chunk_spec] * len(first)
    else:
        specs = _pytree.tree_flatten(chunk_spec)[0]
    merged = []
    for place, leaf in enumerate(first):
        one = _spec_of(leaf, specs[place])
        if one is None or not isinstance(leaf, tessera.Tensor):
            merged.append(leaf)
        else:
            parts = [row[place] for row in rows]
            merged.append(tessera.stack(parts) if leaf.dim() == 0 else tessera.cat(parts, one.split_dim))
    return _pytree.tree_unflatten(merged, tree)
