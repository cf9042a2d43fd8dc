"""Tells NVIDIA's profilers which part of a program to record."""

import contextlib

from tessera.cuda import check_error, cudart

__all__ = ["profile", "start", "stop"]


def start():
    """Recording begins. Raises: RuntimeError without a device."""
    check_error(cudart().cudaProfilerStart())


def stop():
    """Recording ends. Raises: RuntimeError without a device."""
    check_error(cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile():
    """Context manager: a block is recorded."""
    start()
    try:
        yield
    finally:
        stop()
