"""A sampler that gives each process of a group its own part of a dataset."""

import math

import tessera
from tessera._lazy import require
from tessera.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every `num_replicas`-th index, beginning with `rank`, of the (shuffled) dataset.

    The list is padded with its own beginning, or cut with `drop_last`, so that all parts have one length. The shuffle
    depends on
    `seed + epoch`; call `set_epoch` before each epoch.

    Raises: ValueError for a rank outside [0, num_replicas), RuntimeError if the two are not given and no process group
        exists.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:
            distributed = require(
                "distributed", "DistributedSampler without num_replicas and rank", "Give both of them."
            )
            if not distributed.is_available():
                raise RuntimeError("Requires distributed package to be available")
            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        if drop_last and len(dataset) % num_replicas != 0:
            self.num_samples = math.ceil((len(dataset) - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(len(dataset) / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self):
        if self.shuffle:
            generator = tessera.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = tessera.randperm(len(self.dataset), generator=generator).tolist()
        else:
            indices = list(range(len(self.dataset)))
        missing = self.total_size - len(indices)
        if missing > 0 and indices:
            indices += (indices * math.ceil(missing / len(indices)))[:missing]
        indices = indices[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Makes the shuffle of the next pass that of `epoch`."""
        self.epoch = epoch
