"""A debugger on one rank, while the others wait."""

import pdb
import sys
from datetime import timedelta

from tessera.distributed._collectives import barrier
from tessera.distributed._groups import _get_default_group, get_rank

_calls = 0


class _RankPdb(pdb.Pdb):
    """A debugger that reads the terminal, also in a child whose standard input is closed."""

    def interaction(self, *args, **kwargs):
        kept = sys.stdin
        try:
            with open("/dev/stdin") as sys.stdin:
                pdb.Pdb.interaction(self, *args, **kwargs)
        finally:
            sys.stdin = kept


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
            debugger = _RankPdb()
            debugger.message(f"\nrank {rank} is stopped here; the others wait. 'up' shows the caller, 'c' goes on.\n")
            debugger.set_trace()
        barrier()
    finally:
        for one, timeout in kept:
            one._set_default_timeout(timeout)
