"""The workers of one machine: functions or programs, with their output in files."""

from tessera.distributed.elastic.multiprocessing.api import *  # noqa: F403
from tessera.distributed.elastic.multiprocessing.api import MultiprocessContext, SubprocessContext
from tessera.distributed.elastic.multiprocessing.api import __all__ as _all
from tessera.distributed.elastic.multiprocessing.errors import ProcessFailure

__all__ = sorted({*_all, "ProcessFailure", "start_processes"} - {"get_std_cm"})


def start_processes(
    name,
    entrypoint,
    args,
    envs,
    logs_specs,
    log_line_prefixes=None,
    start_method="spawn",
    numa_options=None,
    duplicate_stdout_filters=None,
    duplicate_stderr_filters=None,
):
    """Starts workers.

    Args:
        name: to call them in output.
        entrypoint: a function, or the path of a program.
        args: a tuple for each local rank.
        envs: variables for each local rank.
        logs_specs: where output goes.
        log_line_prefixes: what comes before shown lines, by local rank.
        start_method: of functions.
        numa_options: must be None.
        duplicate_stdout_filters: texts; lines with one of them are copied to a file of their own.
        duplicate_stderr_filters: the same for errors.

    Returns: a PContext.
    """
    common = (name, entrypoint, args, envs)
    more = (log_line_prefixes, numa_options, duplicate_stdout_filters, duplicate_stderr_filters)
    if isinstance(entrypoint, str):
        context = SubprocessContext(*common, logs_specs, *more)
    else:
        context = MultiprocessContext(*common, start_method, logs_specs, *more)
    try:
        context.start()
    except BaseException:
        context.close()
        raise
    return context
