"""LambdaSL: levels times a function of the step."""

from ._steps import warn_outside
from .base_scheduler import BaseScheduler

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """Level = level at the start * sl_lambda(last_epoch).

    Args:
        sl_lambda: a function of the step, or a list with one for each group.
    """

    def __init__(self, sparsifier, sl_lambda, last_epoch=-1, verbose=False):
        groups = getattr(sparsifier, "groups", ())
        self.sl_lambdas = list(sl_lambda) if isinstance(sl_lambda, (list, tuple)) else [sl_lambda] * len(groups)
        if len(self.sl_lambdas) != len(groups):
            raise ValueError(f"Expected {len(groups)} sl_lambdas, but got {len(self.sl_lambdas)}")
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self):
        """The levels of all groups for `last_epoch`."""
        warn_outside(self)
        return [base * function(self.last_epoch) for base, function in zip(self.base_sl, self.sl_lambdas)]
