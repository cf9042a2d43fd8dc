"""Steps that share samples out among workers and machines."""

import enum

from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(enum.IntEnum):
    """Groups of shards. Machines share first, then each machine's workers share what is its."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe):
    """Every n-th sample, once `apply_sharding` has said how many there are to share (functional: `sharding_filter`).

    sharding_group_filter: the only group to which this step listens.
    """

    def __init__(self, source_datapipe, sharding_group_filter=None):
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups, self.num_of_instances, self.instance_id = {}, 1, 0

    def is_shardable(self):
        """True: there is something for apply_sharding to do."""
        return True

    def apply_sharding(self, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
        """Keeps the samples of one of so many instances.

        Raises: ValueError for a number beyond them, RuntimeError for the group DEFAULT together with others.
        """
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        if self.sharding_group_filter is not None and sharding_group != self.sharding_group_filter:
            return
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups):
            count, number = self.groups[group]
            self.instance_id += self.num_of_instances * number
            self.num_of_instances *= count

    def __iter__(self):
        for i, sample in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield sample

    def __len__(self):
        whole, rest = divmod(len(self.source_datapipe), self.num_of_instances)
        return whole + (self.instance_id < rest)
