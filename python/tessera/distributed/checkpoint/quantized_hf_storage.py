"""Weights in files of the safetensors format that are stored in 8 bits, with a scale for each block."""

import tessera
from tessera.distributed.checkpoint import _hf_utils as hf
from tessera.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

__all__ = ["QuantizedHuggingFaceStorageReader"]

_SCALE = "_scale_inv"


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads matrices `NAME` with scales `NAME_scale_inv` as numbers times the scale of their block. Scales are not
    among the names of the checkpoint.

    Args:
        path: the folder.
        thread_count: threads that read, a file each.
        target_dtype: of what is made.
        block_size: rows and columns of a block.
    """

    def __init__(self, path, thread_count=1, target_dtype=tessera.float32, block_size=128):
        super().__init__(path, thread_count)
        self.target_dtype, self.block_size, self._scales = target_dtype, block_size, {}

    def read_metadata(self):
        """Metadata made of the files' headers, without scales."""
        metadata = super().read_metadata()
        pieces = hf.pieces_in(str(self.path))
        scaled = [name for name in pieces if name + _SCALE in pieces]
        self._scales = {name: pieces[name + _SCALE][0] for name in scaled}
        for name in scaled:
            metadata.state_dict_metadata.pop(name + _SCALE)
            metadata.state_dict_metadata[name].properties.dtype = self.target_dtype
        return metadata

    def _numbers(self, name, stream, entry, start):
        numbers = super()._numbers(name, stream, entry, start)
        if name not in self._scales:
            return numbers
        _, scale_entry, path, scale_start = self._scales[name]
        with open(path, "rb") as other:
            scale = hf.read_tensor(other, scale_entry, scale_start).float()
        for dim in range(scale.dim()):
            scale = scale.repeat_interleave(self.block_size, dim).narrow(dim, 0, numbers.shape[dim])
        return (numbers.float() * scale).to(self.target_dtype)
