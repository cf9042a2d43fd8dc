"""Datasets, samplers and the DataLoader."""

from tessera._lazy import attach as _attach
from tessera.utils.data._utils.worker import get_worker_info
from tessera.utils.data.dataloader import DataLoader, _DatasetKind, default_collate, default_convert
from tessera.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tessera.utils.data.distributed import DistributedSampler
from tessera.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

_PIPES = {
    "DFIterDataPipe": "datapipes.datapipe",
    "DataChunk": "datapipes.datapipe",
    "IterDataPipe": "datapipes.datapipe",
    "MapDataPipe": "datapipes.datapipe",
    "argument_validation": "datapipes._typing",
    "functional_datapipe": "datapipes._decorator",
    "guaranteed_datapipes_determinism": "datapipes._decorator",
    "non_deterministic": "datapipes._decorator",
    "runtime_validation": "datapipes._typing",
    "runtime_validation_disabled": "datapipes._typing",
}
__getattr__, __dir__ = _attach(__name__, _PIPES)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]
