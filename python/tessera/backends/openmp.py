"""OpenMP: this library has a thread pool of its own, which honours OMP_NUM_THREADS."""


def is_available():
    """True if the kernels are parallel through OpenMP."""
    return False
