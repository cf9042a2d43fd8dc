"""Training with different numbers of inputs: ranks that have no more follow the others until all are done."""

import warnings
from abc import ABC, abstractmethod

import tessera
from tessera.distributed import _collectives as collectives

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a rank that has no more inputs does in the others' iterations, and at the end. Both do nothing here."""

    def main_hook(self):
        """Called for every iteration of the others: takes part in the collectives of one."""

    def post_hook(self, is_last_joiner):
        """Called when all ranks are done.

        Args:
            is_last_joiner: whether this rank was among those that had inputs the longest.
        """


class _Settings:
    """What the Join around a Joinable was told."""

    def __init__(self, enable=False, throw_on_early_termination=False, is_first_joinable=False):
        self.enable, self.throw_on_early_termination = enable, throw_on_early_termination
        self.is_first_joinable = is_first_joinable


class Joinable(ABC):
    """Something whose iterations run collectives, as DistributedDataParallel. Subclasses call `super().__init__()`."""

    @abstractmethod
    def __init__(self):
        super().__init__()
        self._join_config = _Settings()

    @abstractmethod
    def join_hook(self, **kwargs):
        """A JoinHook for a Join that was given these arguments."""

    @property
    @abstractmethod
    def join_device(self):
        """The device on which Join counts."""

    @property
    @abstractmethod
    def join_process_group(self):
        """The group of the ranks."""


class Join:
    """A context in which ranks may have different numbers of inputs.

    Args:
        joinables: what runs collectives in an iteration, in that order.
        enable: whether it does anything.
        throw_on_early_termination: whether all ranks raise RuntimeError as soon as one has no more inputs.
        kwargs: for `join_hook` of every joinable.

    Raises: ValueError for an empty list, and for joinables of different groups or devices; TypeError for what is no
        Joinable.
    """

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        if not joinables:
            raise ValueError("Join takes at least one joinable")
        for one in joinables:
            if not isinstance(one, Joinable):
                raise TypeError(f"Join takes objects of classes derived from Joinable, but got {type(one).__name__}")
        self._joinables, self._enable, self._throw = list(joinables), enable, throw_on_early_termination
        self._hooks = [one.join_hook(**kwargs) for one in joinables]
        groups = {one.join_process_group for one in joinables}
        devices = {tessera.device(one.join_device) for one in joinables}
        if len(groups) != 1 or len(devices) != 1:
            raise ValueError("Join takes joinables of one process group and one device")
        self._group, self._device = groups.pop(), devices.pop()
        for place, one in enumerate(joinables):
            one._join_config = _Settings(enable, throw_on_early_termination, place == 0)

    def __enter__(self):
        return self

    def __exit__(self, type, value, traceback):
        if not self._enable or type is not None:
            return
        rounds = 0
        while True:
            if self._still_working() == 0:
                break
            if self._throw:
                self._tell_all_to_stop()
            for hook in self._hooks:
                hook.main_hook()
            rounds += 1
            if rounds == 1000:
                warnings.warn(
                    f"rank {self._group.rank()} has followed the others for 1000 iterations: inputs are very uneven",
                    stacklevel=2,
                )
        for hook in self._hooks:
            hook.post_hook(rounds == 0)

    def _still_working(self):
        """The number of ranks that began an iteration."""
        count = tessera.zeros(1, device=self._device)
        collectives.all_reduce(count, group=self._group)
        return int(count.item())

    def _tell_all_to_stop(self):
        collectives.all_reduce(tessera.ones(1, device=self._device), group=self._group)
        raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs. throw_on_early_termination is set")

    @staticmethod
    def notify_join_context(joinable):
        """Called by a joinable before the collectives of an iteration.

        Returns: the Work of the count, if this is the first joinable of an active Join; else None.
        Raises: RuntimeError if another rank has no more inputs and throw_on_early_termination is set.
        """
        settings = getattr(joinable, "_join_config", None)
        if settings is None:
            raise AssertionError(f"{type(joinable).__name__}.__init__ has to call super().__init__() of Joinable")
        if not settings.is_first_joinable or not settings.enable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = collectives.all_reduce(tessera.ones(1, device=device), group=group, async_op=True)
        if settings.throw_on_early_termination:
            ended = tessera.zeros(1, device=device)
            if _expects_answer(work, group):
                collectives.all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs, and throw_on_early_termination is set"
                )
        return work


def _expects_answer(work, group):
    """Whether some rank is in __exit__, where it says so. All ranks know it from the count."""
    work.wait()
    return int(work.result()[0].item()) < group.size()
