"""Pieces of tensors without a mesh: what a DTensor is to a checkpoint, in a process that is not of its mesh."""

import tessera
from tessera.distributed.checkpoint.planner_helpers import _write_items_of_chunks

__all__ = ["Piece"]


class Piece:
    """The piece of a tensor of `shape` that one process has."""

    def __init__(self, local, shape, chunks):
        self.local, self.shape, self.chunks = local, tessera.Size(shape), chunks
        self.dtype, self.layout, self.device = local.dtype, local.layout, local.device
        self.requires_grad = False

    @classmethod
    def of(cls, tensor):
        return cls(tensor._local_tensor.detach(), tensor.shape, tensor.__create_chunk_list__())

    def is_pinned(self):
        return False

    def __create_chunk_list__(self):
        return self.chunks

    def __create_write_items__(self, fqn, _value):
        return _write_items_of_chunks(fqn, self, self.chunks)

    def __get_tensor_shard__(self, _index):
        return self.local
