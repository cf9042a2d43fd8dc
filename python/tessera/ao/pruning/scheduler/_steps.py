"""What schedulers of all kinds share: steps are counted, in the right order."""

import functools
import warnings


def _count(sparsifier):
    step = getattr(sparsifier.step, "uncounted", sparsifier.step)

    @functools.wraps(step)
    def counted(*args, **kwargs):
        sparsifier._step_count += 1
        return step(*args, **kwargs)

    counted.uncounted = step
    sparsifier.step, sparsifier._step_count = counted, 0


class Steps:
    """A scheduler of the sparsifier in the attribute `_whose`; `_flag` is the attribute that is True inside a step."""

    _whose, _flag = "sparsifier", "_get_sl_called_within_step"

    def _begin(self, start, last_epoch, verbose):
        vars(self).update(start)
        vars(self).update({"last_epoch": last_epoch, "_step_count": 0, "verbose": verbose, self._flag: False})
        _count(getattr(self, self._whose))
        self.step()

    def _next(self, compute):
        """Goes on by one step; what `compute` gives for it."""
        sparsifier = getattr(self, self._whose)
        if self._step_count == 1 and not sparsifier._step_count:
            warnings.warn(
                f"Detected call of `scheduler.step()` before `{self._whose}.step()`. You have to make sure you run the "
                f"{self._whose}.step() BEFORE any calls to the scheduler.step().",
                UserWarning,
                stacklevel=3,
            )
        self._step_count += 1
        self.last_epoch += 1
        sparsifier.enable_mask_update = True
        setattr(self, self._flag, True)
        try:
            return compute()
        finally:
            setattr(self, self._flag, False)

    def state_dict(self):
        """All attributes but the sparsifier."""
        return {key: value for key, value in vars(self).items() if key != self._whose}

    def load_state_dict(self, state_dict):
        """Takes the attributes of another scheduler over."""
        vars(self).update(state_dict)


def check_kind(sparsifier, kind):
    """TypeError if this is no such sparsifier."""
    if not isinstance(sparsifier, kind):
        raise TypeError(f"{type(sparsifier).__name__} is not an instance of torch.ao.pruning.{kind.__name__}")


def warn_outside(scheduler):
    """Warns where a program computes levels itself."""
    if not scheduler._get_sl_called_within_step:
        text = "To get the last sparsity level computed by the scheduler, please use `get_last_sl()`."
        warnings.warn(text, stacklevel=3)
