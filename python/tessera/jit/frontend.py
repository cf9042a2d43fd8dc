"""Errors of the compiler's front end."""

from ._errors import FrontendError, FrontendTypeError, NotSupportedError, UnsupportedNodeError  # noqa: F401
