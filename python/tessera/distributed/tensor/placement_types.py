"""How a tensor lies along one dimension of a mesh. Values: compared and hashed by what they hold."""

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """Base of Shard, Replicate and Partial."""

    def is_shard(self, dim=None):
        """True for a Shard (of that dimension)."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self):
        """True for Replicate."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        """True for Partial (with that reduction)."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


def part_of(length, parts, index):
    """(size, offset) of the piece `index` where `length` is cut as `chunk` does."""
    step = -(-length // parts)
    start = min(step * index, length)
    return min(step, length - start), start


@dataclass(frozen=True, repr=False)
class Shard(Placement):
    """Cut along the tensor's dimension `dim` as `chunk` cuts: the last pieces may be shorter, or empty."""

    dim: int

    def __post_init__(self):
        if not isinstance(self.dim, int):
            raise TypeError(f"Shard needs the number of a dimension, got {type(self.dim).__name__}")

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """(size, offset) of the piece of `rank` where a length is cut in `num_chunks`."""
        return part_of(curr_local_size, num_chunks, rank)

    _local_shard_size_and_offset = local_shard_size_and_offset
    _local_shard_size_on_dim = local_shard_size_and_offset

    def __repr__(self):
        return f"Shard(dim={self.dim})"

    def __str__(self):
        return f"S({self.dim})"


@dataclass(frozen=True, repr=False)
class _StridedShard(Shard):
    """A Shard of what another mesh dimension, to its right, has cut before in `split_factor` pieces: each of those is
    cut.
    """

    split_factor: int = 1

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True, repr=False)
class Replicate(Placement):
    """A full copy in every process."""

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Numbers that are still to be reduced over the processes: "sum", "avg", "product", "max" or "min"."""

    reduce_op: str = "sum"
    LINEAR_REDUCE_OPS = {"sum", "avg"}

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """Norms of parts, of the order `norm_type`; their norm is that of the whole."""

    norm_type: float = 2.0

    def __repr__(self):
        return f"_NormPartial({self.norm_type:g})"
