"""Checkpoints in files of the safetensors format."""

from tessera._lazy import require

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageWriter:
    """Writes a checkpoint to `path`. Raises: NotImplementedError, so far."""

    def __init__(self, path, **options):
        require("distributed.checkpoint.filesystem", "HuggingFaceStorageWriter()").open_for(self, path, **options)


class HuggingFaceStorageReader:
    """Reads a checkpoint from `path`. Raises: NotImplementedError, so far."""

    def __init__(self, path, **options):
        require("distributed.checkpoint.filesystem", "HuggingFaceStorageReader()").open_for(self, path, **options)
