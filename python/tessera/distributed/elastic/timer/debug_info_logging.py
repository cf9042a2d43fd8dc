"""Says in the log which timers ended."""

import logging

__all__ = ["log_debug_info_for_expired_timers"]

logger = logging.getLogger(__name__)


def log_debug_info_for_expired_timers(run_id, expired_timers):
    """Writes the timers that ended, by process, into the log.

    Args:
        run_id: the job's name.
        expired_timers: process to texts.
    """
    if expired_timers:
        logger.info("timers of the job %s ended: %s", run_id, expired_timers)
