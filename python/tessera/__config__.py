"""How the library was built, and what it runs on, as text for people.

>>> print(tessera.__config__.parallel_info())  # doctest: +ELLIPSIS
threads of operators...
"""

import os

import tessera

__all__ = ["parallel_info", "show"]


def show():
    """Version, compiler, and the instructions that kernels were chosen for on this machine: lines of text."""
    from tessera import _C

    simd = tessera.explain(tessera.neg, tessera.zeros(1))[0].simd
    lines = [
        f"{tessera._display_name} {tessera.__version__} built with:",
        f"  - {_C._build_info()}",
        f"  - SIMD target of this machine: {simd}",
        f"  - CUDA runtime: {tessera.version.cuda or 'not loaded'}",
    ]
    return "\n".join(lines) + "\n"


def _cxx_flags():
    """What C++ was compiled with, a text."""
    from tessera import _C

    return _C._build_info()


def parallel_info():
    """Numbers of threads, and the environment variables that set them: lines of text."""
    lines = [
        f"threads of operators (get_num_threads): {tessera.get_num_threads()}",
        f"threads between operators (get_num_interop_threads): {tessera.get_num_interop_threads()}",
        f"processors of this machine: {os.cpu_count()}",
    ]
    lines += [f"{name}: {os.environ.get(name, '[not set]')}" for name in ("OMP_NUM_THREADS", "TESSERA_SIMD")]
    return "\n".join(lines) + "\n"
