"""Checkpoints of many processes: each writes and reads its pieces; what some processes have saved loads in others.

>>> import tempfile
>>> import tessera
>>> import tessera.distributed.checkpoint as dcp
>>> folder = tempfile.mkdtemp()
>>> metadata = dcp.save({"w": tessera.ones(2), "step": 3}, checkpoint_id=folder, no_dist=True)
>>> state = {"w": tessera.zeros(2), "step": 0}
>>> dcp.load(state, checkpoint_id=folder, no_dist=True)
>>> state
{'w': tensor([1., 1.]), 'step': 3}
"""

from tessera._lazy import attach as _attach
from tessera.distributed.checkpoint.api import CheckpointException
from tessera.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from tessera.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from tessera.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from tessera.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from tessera.distributed.checkpoint.optimizer import load_sharded_optimizer_state_dict
from tessera.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from tessera.distributed.checkpoint.quantized_hf_storage import QuantizedHuggingFaceStorageReader
from tessera.distributed.checkpoint.state_dict_loader import load, load_state_dict
from tessera.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from tessera.distributed.checkpoint.storage import StorageReader, StorageWriter

__getattr__, __dir__ = _attach(__name__)
