"""Errors of several processes."""

import traceback

__all__ = ["CheckpointException"]


def _wrap_exception(error):
    return error, traceback.extract_tb(error.__traceback__)


def _is_wrapped_exception(value):
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], BaseException)


class CheckpointException(BaseException):
    """A checkpoint could not be saved or loaded; raised in every process.

    Args:
        msg: what was tried.
        failures: {rank: (exception, its stack)} of the processes that failed.
    """

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        """{rank: (exception, its stack)}."""
        return self._failures

    def __str__(self):
        text = f"CheckpointException ranks:{self._failures.keys()} in {self.args[0]}\n"
        for rank, (error, stack) in sorted(self._failures.items()):
            text += f"Traceback (most recent call last): (RANK {rank})\n"
            text += "".join(traceback.format_list(stack) if stack else ())
            text += "".join(traceback.format_exception_only(type(error), value=error))
        return text
