"""BaseDataScheduler: a number of each data group that changes."""

from tessera.ao.pruning._experimental.data_sparsifier.base_data_sparsifier import BaseDataSparsifier
from tessera.ao.pruning.scheduler._steps import Steps, check_kind

__all__ = ["BaseDataScheduler"]


class BaseDataScheduler(Steps):
    """Changes one entry of a data sparsifier's configs at each step. Subclasses say to what in `get_schedule_param()`.

    `base_param` is {name: value at the start}, `last_epoch` the number of steps, which begins at 0.

    Args:
        data_sparsifier: a BaseDataSparsifier that has its data.
        schedule_param: the key of the configs, such as "sparsity_level".
        last_epoch: where to go on; -1 is the start.
        verbose: each change is printed.
    """

    _whose, _flag = "data_sparsifier", "_get_sp_called_within_step"

    def __init__(self, data_sparsifier, schedule_param, last_epoch=-1, verbose=False):
        check_kind(data_sparsifier, BaseDataSparsifier)
        self.data_sparsifier, self.schedule_param = data_sparsifier, schedule_param
        self._begin({"base_param": self._current()}, last_epoch, verbose)

    def _current(self):
        return {name: config.get(self.schedule_param) for name, config in self.data_sparsifier.data_groups.items()}

    def get_schedule_param(self):
        """{name: value for `last_epoch`}."""
        raise NotImplementedError(f"{type(self).__name__} has to define get_schedule_param()")

    def __repr__(self):
        start = f"{type(self).__name__} (\nData Sparsifier {self.data_sparsifier}\n"
        return f"{start}    {self.schedule_param}: {self.base_param}\n)"

    def get_last_param(self):
        """{name: value that the last step has set}."""
        return self._last_param

    def step(self):
        """Sets the next values."""
        key = self.schedule_param
        for name, value in self._next(self.get_schedule_param).items():
            self.data_sparsifier.data_groups[name][key] = value
            if self.verbose:
                print("Adjusting", key, "for group", name, "to", value)
        self._last_param = self._current()
