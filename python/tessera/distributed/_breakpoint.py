"""A debugger on one rank, while the others wait."""

import pdb
import sys
from datetime import timedelta

from tessera.distributed._collectives import barrier
from tessera.distributed._groups import _get_default_group, get_rank

_calls = 0


def _debugger():
    """A debugger that reads the terminal, as standard input of children that multiprocessing starts is closed."""
    source = sys.stdin if sys.stdin is not None and sys.stdin.isatty() else open("/dev/tty")
    return pdb.Pdb(stdin=source, stdout=sys.stdout)


def breakpoint(rank=0, skip=0, timeout_s=3600):
    """Stops one rank in a debugger, and all others until it goes on.

    Args:
        rank: the global rank to stop.
        skip: number of calls that do nothing first.
        timeout_s: how long the others wait, in seconds.
    """
    global _calls
    if skip > 0:
        _calls += 1
        if _calls <= skip:
            return
    group = _get_default_group()
    kept = [(one, one._timeout) for one in group._backends.values()]
    group.set_timeout(timedelta(seconds=timeout_s))
    try:
        if get_rank() == rank:
            debugger = _debugger()
            debugger.message(f"\nrank {rank} is stopped here; the others wait. 'up' shows the caller, 'c' goes on.\n")
            debugger.set_trace()
        barrier()
    finally:
        for one, timeout in kept:
            one._set_default_timeout(timeout)
