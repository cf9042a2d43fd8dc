"""What marks functions that remote calls run."""

import functools

__all__ = ["async_execution"]


def async_execution(fn):
    """Marks a function that returns a Future: the worker answers with its value once that is there, and keeps no thread
    waiting. Under `staticmethod` and `classmethod`, this comes directly around the function.

    Args:
        fn: the function.
    """

    @functools.wraps(fn)
    def marked(*args, **kwargs):
        return fn(*args, **kwargs)

    marked._wrapped_async_rpc_function = fn
    return marked
