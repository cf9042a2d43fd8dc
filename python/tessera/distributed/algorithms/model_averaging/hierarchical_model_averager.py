"""Averages over small groups often, and over large ones rarely."""

import logging

from tessera.distributed._groups import _group_or_default_group, new_subgroups
from tessera.distributed.algorithms.model_averaging import averagers, utils

logger = logging.getLogger(__name__)


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages over groups of different sizes with different periods; where several are due, over the largest.

    Args:
        period_group_size_dict: (an ordered dictionary) period to size of the group, both rising; the last size is
            that of `process_group`.
        warmup_steps: steps without any average.
        process_group: None: the default group.

    Raises: ValueError for a dictionary that is empty or not rising, for a last size that is not the group's, and for a
        negative warm-up.
    """

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("HierarchicalModelAverager needs period_group_size_dict, which must not be empty")
        self._periods, sizes = list(period_group_size_dict), list(period_group_size_dict.values())
        if self._periods[0] < 1 or sorted(set(self._periods)) != self._periods or sorted(set(sizes)) != sizes:
            raise ValueError(f"periods and sizes of groups have to rise, but got {dict(period_group_size_dict)}")
        whole = _group_or_default_group(process_group)
        if sizes[-1] != whole.size():
            raise ValueError(f"the last group has to be the whole of {whole.size()} processes, but got {sizes[-1]}")
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps is not negative, but got {warmup_steps}")
        self.warmup_steps, self.period_process_group_dict = warmup_steps, {}
        for period, size in zip(self._periods, sizes):
            group = whole if size == whole.size() else new_subgroups(group_size=size, group=whole)[0]
            self.period_process_group_dict[period] = group
        logger.info("models are averaged by groups of %s with periods %s", sizes, self._periods)

    def _find_process_group(self):
        """The largest group that is due, or None."""
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params):
        """Averages parameters, or an optimizer's groups, over the group that is due, if one is."""
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
