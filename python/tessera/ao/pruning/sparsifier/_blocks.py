"""Masks whose zeros come in blocks."""

import math

import tessera
from tessera.nn.functional import pad  # type: ignore[attr-defined]


def _smallest(scores, count):
    """True at the `count` smallest entries along the last dimension; of equal ones the later are smaller."""
    order = scores.argsort(-1, descending=True, stable=True)[..., scores.shape[-1] - count :]
    return tessera.zeros_like(scores, dtype=tessera.bool).scatter_(-1, order, True)


def zeros_per(zeros, block_shape):
    """Checks the number of zeros in a block; None means all."""
    total = math.prod(block_shape)
    if zeros is not None and zeros > total:
        raise ValueError(
            f"Number of zeros per block cannot be more than the total number of elements in that block, {total}: got "
            f"{zeros}."
        )
    if zeros is not None and zeros < 0:
        raise ValueError(f"Number of zeros per block should be positive, but is {zeros}.")
    return total if zeros is None else zeros


def keep(norms, level, block_shape, zeros, most):
    """The boolean mask of a matrix: True stays.

    The round(level * blocks) blocks of least mean norm lose their `zeros` least elements. Blocks that hang over the
    edges have fewer elements. `most(n)`: how many of n blocks may go while level < 1.
    """
    if norms.dim() != 2 or len(block_shape) != 2:
        raise ValueError(
            f"blocks need a tensor with 2 dimensions and a block shape of 2 numbers, but got the shapes "
            f"{tuple(norms.shape)} and {tuple(block_shape)}"
        )
    (rows, columns), (high, wide) = norms.shape, block_shape
    down, across = -(-rows // high), -(-columns // wide)
    edge = (0, across * wide - columns, 0, down * high - rows)

    def blocks(x, fill):
        x = pad(x, edge, value=fill).reshape(down, high, across, wide)
        return x.transpose(1, 2).reshape(down * across, high * wide)

    count = down * across if level >= 1 else min(max(round(level * down * across), 0), most(down * across))
    mean = blocks(norms, 0.0).sum(-1) / blocks(tessera.ones_like(norms), 0.0).sum(-1)
    gone = _smallest(mean, count).unsqueeze(-1) & _smallest(blocks(norms, math.inf), zeros)
    gone = gone.reshape(down, across, high, wide).transpose(1, 2).reshape(down * high, across * wide)
    return ~gone[:rows, :columns]
