"""A hook that leaves gradients as they are."""

from tessera.futures import Future

__all__ = ["noop_hook"]


def noop_hook(_, bucket):
    """Keeps the local gradients, to see what communication costs. Returns: a Future of them."""
    kept = Future()
    kept.set_result(bucket.buffer())
    return kept
