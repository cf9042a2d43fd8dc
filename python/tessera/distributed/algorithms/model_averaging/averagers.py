"""When to average models that are trained apart."""

import warnings
from abc import ABC, abstractmethod

from tessera.distributed._groups import _group_or_default_group
from tessera.distributed.algorithms.model_averaging import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """What averages parameters now and then. `step` counts its calls.

    Args:
        process_group: over which; None: the default group.
    """

    def __init__(self, process_group=None):
        self.process_group, self.step = _group_or_default_group(process_group), 0

    @abstractmethod
    def average_parameters(self, params):
        """Averages parameters if it is time, and counts the call."""


class PeriodicModelAverager(ModelAverager):
    """Averages every `period` steps, from step `warmup_steps` on.

    Args:
        period: steps between two averages.
        warmup_steps: steps without any.
        process_group: None: the default group.

    Raises: ValueError for a period below 1 or a negative warm-up.
    """

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(f"warmup_steps is not negative, but got {warmup_steps}")
        if period < 1:
            raise ValueError(f"period is at least 1, but got {period}")
        if period == 1:
            warnings.warn("models are averaged at every step; DistributedDataParallel alone is faster", stacklevel=2)
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params):
        """Averages parameters, or an optimizer's groups, if it is time. Those without a gradient stay as they are."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
