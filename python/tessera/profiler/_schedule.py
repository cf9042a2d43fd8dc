"""Which steps of a loop are recorded."""

import enum
import warnings


class ProfilerAction(enum.Enum):
    """What the profiler does in a step: nothing, warming up, recording, recording with the trace ready at its end."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function from a step's number (from 0) to its `ProfilerAction`, for `profile(schedule=...)`.

    Args:
        wait, warmup, active: steps of a cycle that are left out, that warm up, that are recorded; the last of these
            is RECORD_AND_SAVE.
        repeat: how many cycles; 0: without end.
        skip_first: steps before the first cycle.
        skip_first_wait: whether (not 0) the first cycle begins without `wait`.

    Raises: AssertionError for a number that makes no sense.

    >>> from tessera.profiler import schedule
    >>> plan = schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    length = wait + warmup + active

    def plan(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        at = step - skip_first
        if at < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            at += wait
        cycle, place = divmod(at, length)
        if place < wait or 0 < repeat <= cycle:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return plan


def always(_):
    """The plan of a profiler without one: everything is recorded."""
    return ProfilerAction.RECORD
