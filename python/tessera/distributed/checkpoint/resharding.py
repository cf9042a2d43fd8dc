"""What pieces of tensors share."""

from tessera.distributed.checkpoint.planner_helpers import _overlap

__all__ = []


def _check_shard_metadata_pair_overlap(shard1, shard2):
    """True if two ChunkStorageMetadata have elements in common."""
    return _overlap(shard1, shard2) is not None


def _shards_get_overlap_region_wrt_saved_tensor(saved_shard, current_shard):
    """For each dimension (number of it, first index in the one, first index in the other, length) of what two pieces
    share.
    """
    shared = _overlap(saved_shard, current_shard)
    return [] if shared is None else [(dim, *places) for dim, places in enumerate(zip(*shared))]
