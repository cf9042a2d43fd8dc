"""Errors of programs' formats."""

import enum

__all__ = ["ExportErrorType", "ExportError", "InternalError"]


class ExportErrorType(enum.Enum):
    """Kinds of ExportError."""

    INVALID_INPUT_TYPE = 1
    INVALID_OUTPUT_TYPE = 2
    VIOLATION_OF_SPEC = 3
    NOT_SUPPORTED = 4
    MISSING_PROPERTY = 5
    UNINITIALIZED = 6


class ExportError(Exception):
    """A program that cannot be exported as it is.

    Args:
        error_code: ExportErrorType. message: text.
    """

    def __init__(self, error_code, message):
        super().__init__(f"[{error_code}]: {message}")


class InternalError(Exception):
    """A pass or a backend met a graph that it did not expect.

    Args:
        message: text.
    """

    def __init__(self, message):
        super().__init__(message)
