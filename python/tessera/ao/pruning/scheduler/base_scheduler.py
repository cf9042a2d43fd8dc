"""BaseScheduler: levels of sparsity that change."""

from tessera.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

from ._steps import Steps, check_kind

__all__ = ["BaseScheduler"]


class BaseScheduler(Steps):
    """Changes "sparsity_level" of a sparsifier's groups at each step. Subclasses say to what in `get_sl()`.

    `base_sl` are the levels at the start, `last_epoch` is the number of steps, which begins at 0.

    Args:
        sparsifier: a prepared BaseSparsifier.
        last_epoch: where to go on; -1 is the start.
        verbose: each change is printed.
    """

    def __init__(self, sparsifier, last_epoch=-1, verbose=False):
        check_kind(sparsifier, BaseSparsifier)
        levels = [group["sparsity_level"] for group in sparsifier.groups]
        self._begin({"sparsifier": sparsifier, "base_sl": levels}, last_epoch, verbose)

    def get_last_sl(self):
        """The levels that the last step has set."""
        return self._last_sl

    def get_sl(self):
        """The levels of all groups for `last_epoch`, in order."""
        raise NotImplementedError(f"{type(self).__name__} has to define get_sl()")

    def print_sl(self, is_verbose, group, sl, epoch=None):
        """Prints the level of a group, if `is_verbose`."""
        if is_verbose:
            start = "Adjusting" if epoch is None else f"Epoch {epoch:5d}: adjusting"
            print(f"{start} sparsity level of group {group} to {sl:.4e}.")

    def __repr__(self):
        return f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"

    def step(self, epoch=None):
        """Sets the next levels; `epoch` is only printed."""
        groups = self.sparsifier.groups
        for i, (group, level) in enumerate(zip(groups, self._next(self.get_sl))):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, i, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in groups]

    def _make_sure_a_list(self, var):
        groups = self.sparsifier.groups
        values = list(var) if isinstance(var, (list, tuple)) else [var for _ in groups]
        if len(values) != len(groups):
            raise ValueError(f"Expected variable of length {len(groups)}, but got {len(values)}")
        return values
