"""Masks that functions of indices give, and which blocks of them are empty, partly or wholly kept."""

import tessera
from tessera._lazy import require

_DEFAULT_SPARSE_BLOCK_SIZE = 128

_TENSORS = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "q_num_blocks",
    "q_indices",
    "full_q_num_blocks",
    "full_q_indices",
)


def noop_mask(batch, head, token_q, token_kv):
    """The mask function that keeps everything."""
    return batch.new_ones((), dtype=tessera.bool)


def over_indices(function, sizes, device, *scores):
    """`function(*scores, batch, head, query, key)` for all indices: a tensor of `sizes`; scores are indexed as well."""
    for position in (3, 2, 1, 0):
        in_dims = [0] * len(scores) + [0 if i == position else None for i in range(4)]
        function = tessera.vmap(function, in_dims=tuple(in_dims))
    return function(*scores, *(tessera.arange(size, device=device) for size in sizes))


def _combined(name, mask_mods, start, combine):
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"{name}() expects functions (batch, head, query, key), but got {mask_mods}")

    def mask(b, h, q_idx, kv_idx):
        result = b.new_full((), start, dtype=tessera.bool)
        for mask_mod in mask_mods:
            result = combine(result, mask_mod(b, h, q_idx, kv_idx))
        return result

    return mask


def and_masks(*mask_mods):
    """A mask function that keeps what all of `mask_mods` keep. RuntimeError for what is not callable."""
    return _combined("and_masks", mask_mods, True, lambda a, b: a & b)


def or_masks(*mask_mods):
    """A mask function that keeps what any of `mask_mods` keeps. RuntimeError for what is not callable."""
    return _combined("or_masks", mask_mods, False, lambda a, b: a | b)


def _parameter_count(function):
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)


def _default_device(device):
    return device or tessera.accelerator.current_accelerator(check_available=True) or "cpu"


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The boolean mask (B, H, Q_LEN, KV_LEN), True where attention is allowed.

    Args:
        mod_fn: a mask function (batch, head, query, key) -> bool tensor, or a score function (score, batch, head,
            query, key) -> score, which keeps what it does not send to -inf.
        B, H: numbers of batches and heads; None counts as 1, for a mask that does not depend on them.
        device: where; by default the accelerator, or the CPU.
    """
    sizes, device = (B or 1, H or 1, Q_LEN, KV_LEN), _default_device(device)
    if _parameter_count(mod_fn) == 5:
        scores = over_indices(mod_fn, sizes, device, tessera.zeros(sizes, device=device))
        return ~tessera.isneginf(scores)
    return over_indices(mod_fn, sizes, device).to(tessera.bool)


def _ordered(dense):
    """(counts, indices) of a boolean tensor's rows: the columns that are True first, each part in rising order."""
    order = dense.to(tessera.int8).argsort(dim=-1, descending=True, stable=True)
    return dense.sum(-1, dtype=tessera.int32), order.to(tessera.int32)


def _dense(counts, indices):
    """The boolean tensor (..., rows, columns) that `_ordered` was given."""
    columns = indices.shape[-1]
    used = tessera.arange(columns, device=indices.device) < counts.unsqueeze(-1)
    places = tessera.where(used, indices, columns).to(tessera.int64)
    result = tessera.zeros(*indices.shape[:-1], columns + 1, dtype=tessera.bool, device=indices.device)
    return result.scatter_(-1, places, True)[..., :columns]


def _block_sizes(block_size):
    sizes = (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)
    if len(sizes) != 2 or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"BLOCK_SIZE is a positive int, or two of them for queries and keys, but got {block_size!r}")
    return sizes


def _count_of_blocks(length, block):
    return -(-length // block)


def _of_slice(*indices):
    raise RuntimeError(
        "the mask function of a block mask that was sliced does not know the place of the slice: set "
        "block_mask.mask_mod to one that does"
    )


def _check_blocks(indices, full_counts, full_indices):
    if indices.dim() < 2:
        raise RuntimeError(f"BlockMask must have at least 2 dimensions, but kv_indices has {indices.dim()}")
    if (full_counts is None) != (full_indices is None):
        raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")


class BlockMask:
    """Which blocks of the scores (B, H, Q_LEN, KV_LEN) attention needs, and the mask function inside of blocks.

    Indexing with up to three indices (batch, head, block of queries) gives the mask of that part, with all dimensions;
    its `mask_mod` has to be set.

    Args:
        seq_lengths: (Q_LEN, KV_LEN).
        kv_num_blocks: (B, H, rows) int32, for each row of blocks the number of those in which `mask_mod` decides.
        kv_indices: (B, H, rows, columns) int32, these blocks first.
        full_kv_num_blocks, full_kv_indices: the same for blocks that are kept as a whole; None for none.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same by columns; None where not needed.
        BLOCK_SIZE: (rows, columns) of a block.
        mask_mod: the mask function.
    """

    def __init__(
        self,
        seq_lengths,
        kv_num_blocks,
        kv_indices,
        full_kv_num_blocks,
        full_kv_indices,
        q_num_blocks,
        q_indices,
        full_q_num_blocks,
        full_q_indices,
        BLOCK_SIZE,
        mask_mod,
    ):
        _check_blocks(kv_indices, full_kv_num_blocks, full_kv_indices)
        self.seq_lengths = tuple(seq_lengths)
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = _block_sizes(BLOCK_SIZE), mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks,
        kv_indices,
        full_kv_num_blocks=None,
        full_kv_indices=None,
        BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod=None,
        seq_lengths=None,
        compute_q_blocks=True,
    ):
        """A block mask from its rows; the columns' tensors are computed from them.

        Args: as for the class. seq_lengths: by default what the blocks cover. mask_mod: by default all is kept.
            compute_q_blocks: False leaves the columns' tensors out.

        Raises: RuntimeError for indices of fewer than two dimensions, AssertionError for one of the full blocks'
            tensors without the other.
        """
        _check_blocks(kv_indices, full_kv_num_blocks, full_kv_indices)
        block = _block_sizes(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = tuple(count * size for count, size in zip(kv_indices.shape[-2:], block))
        columns = [None] * 4
        if compute_q_blocks:
            columns[:2] = _ordered(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None:
                columns[2:] = _ordered(_dense(full_kv_num_blocks, full_kv_indices).mT)
        rows = kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices
        return cls(seq_lengths, *rows, *columns, block, mask_mod or noop_mask)

    @classmethod
    def _of_blocks(cls, partial, full, block, mask_mod, seq_lengths, with_columns=True):
        """From boolean tensors (B, H, rows, columns); `full` may be None."""
        of_full = (None, None) if full is None else _ordered(full)
        return cls.from_kv_blocks(*_ordered(partial), *of_full, block, mask_mod, seq_lengths, with_columns)

    def _blocks(self):
        """(partial, full) boolean tensors (B, H, rows, columns); full may be None."""
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        return partial, None if self.full_kv_indices is None else _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def _mask(self, batch, heads):
        """The boolean mask (batch or 1, heads or 1, Q_LEN, KV_LEN): whole blocks, and of others what mask_mod keeps."""
        partial, full = (None if b is None else self._to_elements(b) for b in self._blocks())
        if self.mask_mod is not noop_mask:
            kept = over_indices(self.mask_mod, (batch, heads, *self.seq_lengths), partial.device)
            partial = partial & kept.to(tessera.bool)
        return partial if full is None else partial | full

    def _to_elements(self, blocks):
        for dim, size in zip((-2, -1), self.BLOCK_SIZE):
            blocks = blocks.repeat_interleave(size, dim)
        queries, keys = self.seq_lengths
        return blocks[..., :queries, :keys]

    def as_tuple(self, flatten=True):
        """The arguments of the class, in order; with `flatten` pairs are two entries."""
        tensors = [getattr(self, name) for name in _TENSORS]
        if flatten:
            return (*self.seq_lengths, *tensors, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *tensors, self.BLOCK_SIZE, self.mask_mod)

    @property
    def shape(self):
        """(B, H, Q_LEN, KV_LEN)"""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self):
        """The number of scores that the mask is for."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    def sparsity(self):
        """The percentage of blocks that are empty."""
        blocks = self.to_dense()
        return 100.0 * (1.0 - int(blocks.sum()) / blocks.numel())

    def to_dense(self):
        """(B, H, rows, columns) int32: 1 for each block that is not empty."""
        partial, full = self._blocks()
        return (partial if full is None else partial | full).to(tessera.int32)

    def to(self, device):
        """The block mask with its tensors on `device`; what the mask function captures stays where it is."""
        moved = (None if t is None else t.to(device) for t in (getattr(self, name) for name in _TENSORS))
        return type(self)(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if len(index) > 3:
            raise IndexError(
                f"a block mask is indexed by batch, head and block of queries, but got {len(index)} indices"
            )
        keep = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        partial, full = (None if b is None else b[keep] for b in self._blocks())
        queries, keys = self.seq_lengths
        if len(index) == 3:
            rows, size = tessera.arange(self.kv_indices.shape[-2]), self.BLOCK_SIZE[0]
            queries = sum(min(size, queries - size * row) for row in rows[keep[2]].tolist())
        with_columns = self.q_indices is not None
        return self._of_blocks(partial, full, self.BLOCK_SIZE, _of_slice, (queries, keys), with_columns)

    def _adjust(self, new_q_len, new_kv_len):
        """The mask for the first `new_q_len` queries and `new_kv_len` keys. ValueError for more than there are."""
        lengths = (new_q_len, new_kv_len)
        if any(new > old for new, old in zip(lengths, self.seq_lengths)):
            raise ValueError(f"a block mask for {self.seq_lengths} can be cut, but not extended to {lengths}")
        rows, columns = map(_count_of_blocks, lengths, self.BLOCK_SIZE)
        partial, full = (None if b is None else b[..., :rows, :columns] for b in self._blocks())
        with_columns = self.q_indices is not None
        return self._of_blocks(partial, full, self.BLOCK_SIZE, self.mask_mod, lengths, with_columns)

    def __repr__(self):
        lines = [
            f"{name}={None if tensor is None else tensor.shape},"
            for name, tensor in ((name, getattr(self, name)) for name in _TENSORS)
        ]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE},", f"shape={self.shape},", f"sparsity={self.sparsity():.2f}%,"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + "\n    ".join(lines) + "\n)"

    def __str__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,\n{self.to_string()}\n)"

    def to_string(self, grid_size=(20, 20), limit=4):
        """A picture of each (batch, head): blocks that are computed, and empty ones; half of a shade where both are
        joined.

        Args:
            grid_size: rows and columns (or one number for both) that a picture may have: more blocks than that are
                joined; -1 for any number.
            limit: number of pictures.
        """
        sizes = (grid_size, grid_size) if isinstance(grid_size, int) else tuple(grid_size)
        partial, full = self._blocks()
        anything = everything = partial if full is None else partial | full
        for dim, size in zip((-2, -1), sizes):
            anything, everything = _joined(anything, dim, size, False), _joined(everything, dim, size, True)
        pictures = []
        for place in _places(partial.shape[:-2])[:limit]:
            rows = zip(anything[place].tolist(), everything[place].tolist())
            lines = ["".join("██" if f else "░░" if a else "  " for a, f in zip(*row)) for row in rows]
            pictures.append("\n".join([str(place), *lines]))
        if len(_places(partial.shape[:-2])) > limit:
            pictures.append("...\nTo see more, call to_string(limit=N) or index the mask by batch and head.")
        return "\n\n".join(pictures)


def _places(sizes):
    import itertools

    return list(itertools.product(*map(range, sizes)))


def _joined(blocks, dim, size, with_all):
    """Runs of blocks along `dim` as one each, so that there are at most `size`."""
    length = blocks.shape[dim]
    if size < 0 or length <= size:
        return blocks
    step = _count_of_blocks(length, size)
    parts = blocks.split(step, dim)
    return tessera.stack([part.all(dim) if with_all else part.any(dim) for part in parts], dim)


def create_block_mask(
    mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False
):
    """The block mask of a mask function.

    Args:
        mask_mod: (batch, head, query, key) -> bool tensor, all of them scalars.
        B, H: numbers of batches and heads; None for a mask that does not depend on them.
        Q_LEN, KV_LEN: numbers of queries and keys; the last block of each may be shorter.
        device: where; by default the accelerator, or the CPU.
        BLOCK_SIZE: of blocks, or of their rows and columns.
        _compile: compile the making of the mask.

    Raises: ValueError for a block size that is no positive number or pair of them.
    """
    block = _block_sizes(BLOCK_SIZE)
    make = require("compile", "create_block_mask(_compile=True)")(create_mask) if _compile else create_mask
    mask = make(mask_mod, B, H, Q_LEN, KV_LEN, device)
    counts = tessera.nn.functional.pad(mask, (0, -KV_LEN % block[1], 0, -Q_LEN % block[0]))
    rows, columns = (counts.shape[dim] // size for dim, size in zip((-2, -1), block))
    counts = counts.view(*mask.shape[:2], rows, block[0], columns, block[1]).sum((-3, -1))
    full = counts == block[0] * block[1]
    return BlockMask._of_blocks((counts > 0) & ~full, full, block, mask_mod, (Q_LEN, KV_LEN))
