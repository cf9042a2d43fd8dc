"""Values of all ranks, over a store."""

from datetime import timedelta

__all__ = ["barrier", "get_all", "synchronize"]


def get_all(store, rank, prefix, world_size):
    """The values under `prefix` and every rank, in their order; rank 0 leaves last.

    Args:
        store: the store.
        rank: of this process.
        prefix: of the keys.
        world_size: number of ranks.
    """
    values = store.multi_get([f"{prefix}{one}" for one in range(world_size)])
    barrier(store, world_size, f"{prefix}/finished", getattr(store, "timeout", timedelta(seconds=300)).total_seconds())
    return values if rank >= 0 else []


def synchronize(store, data, rank, world_size, key_prefix, timeout=300):
    """Gives bytes to all ranks, and gets those of all.

    Args:
        store: the store.
        data: this rank's bytes.
        rank: of this process.
        world_size: number of ranks.
        key_prefix: of the keys.
        timeout: seconds.
    """
    kept = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)
    finally:
        store.set_timeout(kept)


def barrier(store, world_size, key_prefix, barrier_timeout=300):
    """Waits until all ranks have come.

    Args:
        store: the store.
        world_size: number of ranks.
        key_prefix: of the keys.
        barrier_timeout: seconds.
    """
    if store.add(f"{key_prefix}/come", 1) == world_size:
        store.set(f"{key_prefix}/all", b"1")
    store.wait([f"{key_prefix}/all"], timedelta(seconds=barrier_timeout))
