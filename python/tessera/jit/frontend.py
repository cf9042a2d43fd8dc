"""Errors of the compiler's front end."""

from ._errors import FrontendError, NotSupportedError, UnsupportedNodeError  # noqa: F401
