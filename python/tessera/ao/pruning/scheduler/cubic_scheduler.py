"""CubicSL: levels that rise fast at first and slowly at the end."""

from ._steps import warn_outside
from .base_scheduler import BaseScheduler

__all__ = ["CubicSL"]


class CubicSL(BaseScheduler):
    """From init_sl at step init_t to the configured level at step init_t + delta_t * total_t, along a cubic curve.

    Each argument may be a list with a value for each group.

    Args:
        init_sl: the level at first.
        init_t: the step where the rise begins.
        delta_t: steps between two points of the curve.
        total_t: points of the curve.
        initially_zero: the level is 0 before init_t, not init_sl.
    """

    def __init__(self, sparsifier, init_sl=0.0, init_t=0, delta_t=10, total_t=100, initially_zero=False,
                 last_epoch=-1, verbose=False):  # fmt: skip
        given = dict(
            init_sl=init_sl, init_t=init_t, delta_t=delta_t, total_t=total_t, initially_zero=initially_zero,
        )  # fmt: skip
        self.sparsifier = sparsifier
        vars(self).update((name, self._make_sure_a_list(value)) for name, value in given.items())
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(s_0, s_f, t, t_0, dt, n, initially_zero=False):
        """The level at step t: s_f + (s_0 - s_f) * (1 - (t - t_0) / (n * dt))**3, kept between s_0 and s_f."""
        if initially_zero and t < t_0:
            return 0
        left = 1 - (t - t_0) / (n * dt)
        return max(s_0, min(s_f, s_f + (s_0 - s_f) * left**3))

    def get_sl(self):
        """The levels of all groups for `last_epoch`."""
        warn_outside(self)
        each = zip(self.init_sl, self.base_sl, self.init_t, self.delta_t, self.total_t, self.initially_zero)
        return [
            self.sparsity_compute_fn(first, last, self.last_epoch, start, gap, points, zero)
            for first, last, start, gap, points, zero in each
        ]
