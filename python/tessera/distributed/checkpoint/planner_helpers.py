"""Items of plans, from tensors and from pieces of tensors."""

import tessera
from tessera.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from tessera.distributed.checkpoint.planner import (
    BytesIOWriteData,
    LoadItemType,
    ReadItem,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

__all__ = ["create_read_items_for_chunk_list"]


def _chunks_of(fqn, value):
    """The pieces of a tensor that this process has."""
    if hasattr(value, "__create_chunk_list__"):
        return value.__create_chunk_list__()
    if isinstance(value, tessera.Tensor):
        return [ChunkStorageMetadata(tessera.Size([0] * value.dim()), tessera.Size(value.shape))]
    raise ValueError(f"'{fqn}': the checkpoint has a tensor of that name, but the state dict a {type(value).__name__}")


_create_chunk_list = _chunks_of


def _create_write_items(fqn, value):
    """What a process writes of a value."""
    if hasattr(value, "__create_write_items__"):
        return value.__create_write_items__(fqn, value)
    if hasattr(value, "__create_chunk_list__"):
        return _write_items_of_chunks(fqn, value, value.__create_chunk_list__())
    if isinstance(value, tessera.Tensor):
        (chunk,) = _chunks_of(fqn, value)
        data = TensorWriteData(chunk, TensorProperties.create_from_tensor(value), tessera.Size(value.shape))
        return [WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.TENSOR, tensor_data=data)]
    return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO, bytes_io_data=BytesIOWriteData(0))]


def _write_items_of_chunks(fqn, value, chunks):
    properties, size = TensorProperties.create_from_tensor(value), tessera.Size(value.shape)
    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets),
            WriteItemType.SHARD,
            tensor_data=TensorWriteData(chunk, properties, size),
        )
        for chunk in chunks
        if 0 not in chunk.sizes or 0 in size
    ]


def _overlap(saved, wanted):
    """(offsets in the first, offsets in the second, lengths) of what two pieces share; None if nothing."""
    starts = [max(a, b) for a, b in zip(saved.offsets, wanted.offsets)]
    ends = [min(a + m, b + n) for a, m, b, n in zip(saved.offsets, saved.sizes, wanted.offsets, wanted.sizes)]
    if any(end <= start for start, end in zip(starts, ends)):
        return None
    return (
        tessera.Size([s - a for s, a in zip(starts, saved.offsets)]),
        tessera.Size([s - b for s, b in zip(starts, wanted.offsets)]),
        tessera.Size([end - start for start, end in zip(starts, ends)]),
    )


def create_read_items_for_chunk_list(fqn, checkpoint_md, local_chunks):
    """What has to be read so that pieces of a tensor are filled.

    Args:
        fqn: name of the tensor.
        checkpoint_md: its TensorStorageMetadata.
        local_chunks: the ChunkStorageMetadata of the pieces.

    Returns: list of ReadItem.
    """
    items = []
    for here, wanted in enumerate(local_chunks):
        for there, saved in enumerate(checkpoint_md.chunks):
            shared = _overlap(saved, wanted)
            if shared is not None:
                storage_offsets, dest_offsets, lengths = shared
                items.append(
                    ReadItem(
                        type=LoadItemType.TENSOR,
                        dest_index=MetadataIndex(fqn, wanted.offsets, here),
                        dest_offsets=dest_offsets,
                        storage_index=MetadataIndex(fqn, saved.offsets, there),
                        storage_offsets=storage_offsets,
                        lengths=lengths,
                    )
                )
    return items


def _create_read_items(fqn, metadata, value):
    """What a process reads for a value."""
    if isinstance(metadata, BytesStorageMetadata):
        nothing, index = tessera.Size([0]), MetadataIndex(fqn)
        return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
    return create_read_items_for_chunk_list(fqn, metadata, _chunks_of(fqn, value))
