"""Hooks that average: as it is, or in half precision on the way."""

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed._groups import _group_or_default_group

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _averaged(process_group, tensor):
    """A future of the average of a tensor of all, in place."""
    group = _group_or_default_group(process_group)
    tensor.div_(group.size())
    work = collectives.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group, bucket):
    """Averages a bucket over a group (None: the default one), as without a hook. Returns: a Future of the tensor."""
    return _averaged(process_group, bucket.buffer())


def _back_to(buffer):
    """A callback that brings the value of a future into a buffer."""

    def restore(done):
        value = done.value()
        buffer.copy_(value[0] if isinstance(value, (list, tuple)) else value)
        return buffer

    return restore


def _compressed(process_group, bucket, dtype):
    buffer = bucket.buffer()
    return _averaged(process_group, buffer.to(dtype, copy=True)).then(_back_to(buffer))


def fp16_compress_hook(process_group, bucket):
    """Averages a bucket in float16. Returns: a Future of the tensor in its own dtype."""
    return _compressed(process_group, bucket, tessera.float16)


def bf16_compress_hook(process_group, bucket):
    """Averages a bucket in bfloat16. Returns: a Future of the tensor in its own dtype."""
    return _compressed(process_group, bucket, tessera.bfloat16)


def _in_dtype(hook, dtype):
    def wrapped(state, bucket):
        full = bucket.buffer()
        bucket.set_buffer(full.to(dtype))
        return hook(state, bucket).then(_back_to(full))

    wrapped.__name__ = f"{dtype}_{getattr(hook, '__name__', 'hook')}"
    return wrapped


def fp16_compress_wrapper(hook):
    """A hook that gives another one its bucket in float16, and brings the result back to the bucket's dtype."""
    return _in_dtype(hook, tessera.float16)


def bf16_compress_wrapper(hook):
    """A hook that gives another one its bucket in bfloat16, and brings the result back to the bucket's dtype."""
    return _in_dtype(hook, tessera.bfloat16)
